"""The report of a run as one HTML page that opens offline, and as a section of the page that Locust writes itself.

The page is drawn by the renderer of the tabs (web/static, joined into one script by :mod:`.assets`), so that the report
shows what the tabs showed. All data is one JSON document in a script element that the browser does not run; names of
requests are hostile until proved otherwise, so nothing of it is ever part of the page's markup.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from typing import Any

from locust_realism.analysis.jsonable import to_json_safe
from locust_realism.report.assets import charts_script, report_script, report_style
from locust_realism.report.console import render_summary
from locust_realism.report.text import clean

START, END = "<!-- locust_realism report -->", "<!-- end of locust_realism report -->"
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_BOOT = """\
(() => {
  const root = document.getElementById("lr-report");
  const data = JSON.parse(document.getElementById("lr-data").textContent);
  try { window.renderReport(root, data); }
  catch (error) { root.textContent = "The report could not be drawn: " + error; throw error; }
})();
"""


def embedded_json(data: Any) -> str:
    r"""JSON that is safe inside a script element: neither an end tag nor a comment can come out of it.

    ``<``, ``>``, ``&`` and the line separators that are no line ends in JSON are written as escapes, which a JSON
    parser turns back; NaN and infinity become null.

    >>> embedded_json({"name": "</script><!--", "p99": float("nan")})
    '{"name":"\\u003c/script\\u003e\\u003c!--","p99":null}'
    """
    text = json.dumps(to_json_safe(data), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    # Lone surrogates, which a request name can hold, cannot be written as UTF-8.
    text = re.sub("[\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", text)
    return re.sub("[<>&\u2028\u2029]", lambda match: _ESCAPES[match[0]], text)


def render_report(document: Mapping[str, Any]) -> str:
    """The report as one self-contained HTML page of about 1 MB.

    ``document`` is a summary, or a mapping with ``summary`` and, where known, ``population``, ``generator``,
    ``status``, ``title`` (a string) and ``facts`` (pairs of words). The page loads nothing: its policy forbids it.

    >>> page = render_report({"title": "<b>Run 7</b>", "summary": {"launches": [], "verdict": {"checks": []}}})
    >>> page.startswith("<!doctype html>"), "<b>Run 7" in page, "<title>&lt;b&gt;Run 7" in page
    (True, False, True)
    """
    data = bundle(document)
    # Without scripts (a mail client, a page converted to text) the figures are still there, as plain text.
    text = render_summary(data.get("summary") or {}, color=False, width=110, height=1000)
    return offline_page(str(data.get("title") or "Load test report"), data, text, report_script())


def offline_page(title: str, data: Mapping[str, Any], text: str, renderer: str) -> str:
    """A self-contained page that a renderer (:func:`.assets.report_script`) draws from ``data``.

    ``text`` is what is shown where scripts do not run.
    """
    scripts = [charts_script(), renderer, _BOOT]
    policy = (
        f"default-src 'none'; script-src {' '.join(map(_hash, scripts))}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<link rel="icon" href="data:,">',
            f"<title>{html.escape(clean(title))}</title>",
            "</head>",
            '<body style="margin: 0">',
            _section(data, text, scripts),
            "</body>",
            "</html>",
            "",
        ]
    )


def add_section(page: str, document: Mapping[str, Any]) -> str:
    """The page that Locust's ``--html`` wrote with our report as a last section; a second call replaces the first's.

    Raises ValueError where the page has no end of body: it is not a page of Locust's then.
    """
    at = page.find(START)
    if at >= 0:
        page = page[:at] + page[page.index(END) + len(END) :].lstrip("\n")
    end = page.lower().rfind("</body>")
    if end < 0:
        raise ValueError("the page has no </body>, expected the report that Locust wrote with --html")
    data = bundle(document)
    text = render_summary(data.get("summary") or {}, color=False, width=110, height=1000)
    section = _section(data, text, [charts_script(), report_script(), _BOOT])
    return f"{page[:end]}{START}\n{section}\n{END}\n{page[end:]}"


def bundle(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the renderer takes, from a summary or from a mapping that has one as ``summary``."""
    return dict(document) if "summary" in document else {"summary": dict(document)}


def _section(data: Mapping[str, Any], text: str, scripts: list[str]) -> str:
    code = "\n".join(f"<script>{script}</script>" for script in scripts)
    return (
        f"<style>{report_style()}</style>\n"
        f'<div id="lr-report"><noscript><pre>{html.escape(text)}</pre></noscript></div>\n'
        f'<script type="application/json" id="lr-data">{embedded_json(data)}</script>\n{code}'
    )


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
