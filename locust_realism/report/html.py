"""Report of a run as one HTML page that opens offline, and as a section of the page that Locust writes itself.

The renderer of the tabs (web/static, joined into one script by :mod:`locust_realism.report.assets`) draws the page, so
that report and tabs show the same. All data is one JSON document in a script element that the browser does not run.
Names of requests are hostile until proved otherwise: no part of the data becomes part of the page's markup.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Mapping

from locust_realism.analysis.document import Bundle
from locust_realism.common.json import to_json_safe
from locust_realism.report.assets import charts_script, report_script, report_style
from locust_realism.report.console import render_summary
from locust_realism.report.terminal import Screen, clean

START, END = "<!-- locust_realism report -->", "<!-- end of locust_realism report -->"
PLAIN = Screen(110)
"""Screen of the text that stands where scripts do not run."""
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_BOOT = """\
(() => {
  const root = document.getElementById("lr-report");
  const data = JSON.parse(document.getElementById("lr-data").textContent);
  try { window.renderReport(root, data); }
  catch (error) { root.textContent = "The report could not be drawn: " + error; throw error; }
})();
"""


def embedded_json(data: object) -> str:
    r"""Return JSON that is safe inside a script element: it contains neither an end tag nor a comment.

    ``<``, ``>``, ``&``, U+2028 and U+2029 are written as escapes, which a JSON parser decodes. NaN and infinity become
    null.

    >>> embedded_json({"name": "</script><!--", "p99": float("nan")})
    '{"name":"\\u003c/script\\u003e\\u003c!--","p99":null}'
    """
    text = json.dumps(to_json_safe(data), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    # A request name can hold lone surrogates, which UTF-8 cannot encode.
    text = re.sub("[\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", text)
    return re.sub("[<>&\u2028\u2029]", lambda match: _ESCAPES[match[0]], text)


def content_policy(scripts: Iterable[str]) -> str:
    """Return the Content-Security-Policy of an offline page: only these inline scripts run, nothing loads or is sent.

    ECharts sets styles on its elements, hence 'unsafe-inline' for styles.

    >>> content_policy([]).startswith("default-src 'none'; script-src 'none'; ")
    True
    """
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def render_report(document: Bundle) -> str:
    """Return the report as one self-contained HTML page of about 1 MB.

    The page's own policy forbids it to load anything.

    >>> from locust_realism import LaunchLog, summarize
    >>> summary = summarize(LaunchLog.build([0, 1000, 3000], 900))
    >>> page = render_report({"title": "<b>Run 7</b>", "summary": summary})
    >>> page.startswith("<!doctype html>"), "<b>Run 7" in page, "<title>&lt;b&gt;Run 7" in page
    (True, False, True)
    """
    title = document.get("title") or "Load test report"
    text = render_summary(document["summary"], PLAIN, height=1000)
    return offline_page(title, document, text, report_script())


def offline_page(title: str, data: Mapping[str, object], text: str, renderer: str) -> str:
    """Return a self-contained page that a renderer (:func:`.assets.report_script`) draws from ``data``.

    ``text`` stands where scripts do not run: in a mail client, or in a page converted to text.
    """
    scripts = [charts_script(), renderer, _BOOT]
    return f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{content_policy(scripts)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{html.escape(clean(title))}</title>
</head>
<body style="margin: 0">
{_section(data, text, scripts)}
</body>
</html>
"""


def add_section(page: str, document: Bundle) -> str:
    """Return the page of Locust's ``--html`` with our report as its last section; a second call replaces the first's.

    Raises ValueError if the page has no end of body: then Locust did not write it.
    """
    at = page.find(START)
    if at >= 0:
        page = page[:at] + page[page.index(END) + len(END) :].lstrip("\n")
    end = page.lower().rfind("</body>")
    if end < 0:
        raise ValueError("the page has no </body>, expected the report that Locust wrote with --html")
    text = render_summary(document["summary"], PLAIN, height=1000)
    section = _section(document, text, [charts_script(), report_script(), _BOOT])
    return f"{page[:end]}{START}\n{section}\n{END}\n{page[end:]}"


def _section(data: Mapping[str, object], text: str, scripts: list[str]) -> str:
    code = "\n".join(f"<script>{script}</script>" for script in scripts)
    return (
        f"<style>{report_style()}</style>\n"
        f'<div id="lr-report"><noscript><pre>{html.escape(text)}</pre></noscript></div>\n'
        f'<script type="application/json" id="lr-data">{embedded_json(data)}</script>\n{code}'
    )
