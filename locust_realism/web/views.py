"""Flask views beside Locust's web UI: JSON, downloads, static files, and the tabs' entry point.

Locust's own page stays as it is. ``register`` adds five native extended tabs, download links, a blueprint under the
UI's own prefix, and one script tag to the index page. Every fault on our side leaves Locust's response untouched.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from flask import Blueprint, Flask, Response, request

from locust_realism.analysis import document as doc
from locust_realism.common.json import to_json_safe
from locust_realism.common.validation import refusal
from locust_realism.recording.launches import LaunchLog
from locust_realism.report.csv_tables import launches_parquet, sessions_csv, summary_csv
from locust_realism.report.html import content_policy
from locust_realism.web.findings import generator_findings

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Provider(Protocol):
    """Source of the views' figures; no method may block the event loop for more than a few milliseconds.

    ``runtime.figures.provider`` implements it for a running test. The views turn NaN and infinity into null, and any
    exception of a method into a status 500 with a JSON ``error``.
    """

    def status(self) -> doc.StatusDocument:
        """Return the state of the run and of the recorder."""
        ...

    def summary(self, window: str | None) -> doc.LiveSummary | doc.PendingSummary:
        """Return the latest figures of a window at once, while newer ones are computed off the event loop.

        ``window`` has passed :func:`checked_window`.
        """
        ...

    def population(self) -> doc.PopulationDocument:
        """Return users over time against the expected curve."""
        ...

    def generator(self) -> doc.GeneratorDocument:
        """Return the health of the load generator, without ``findings``."""
        ...

    def export_rows(self) -> LaunchLog:
        """Return every row recorded in this run."""
        ...

    def export_sessions(self) -> Sequence[Mapping[str, object]]:
        """Return a mapping for each session, all with the same keys in the same order; empty if none has ended."""
        ...

    def report_html(self) -> str:
        """Return the offline report of this run as one HTML page."""
        ...

    def offload(self, function: Callable[[], T]) -> T:
        """Return the result of a pure function, computed off the event loop (a native thread under gevent)."""
        ...


class WebUI(Protocol):
    """Part of Locust's web UI that the views use."""

    app: Flask | None
    template_args: dict[str, Any]

    @property
    def auth_required_if_enabled(self) -> Callable[[Callable[..., Response]], Callable[..., Response]]:
        """Decorator that demands a login where there is one."""
        ...


@dataclass(frozen=True)
class Download:
    """File of Locust's tab Download Data: its title, its content type and the function that makes it."""

    title: str
    content_type: str
    body: Callable[[Provider, str | None], str | bytes]


CSV, HTML = "text/csv; charset=utf-8", "text/html; charset=utf-8"
_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": HTML,
    ".json": "application/json",
}


def _summary_download(table: str, title: str) -> Download:
    return Download(title, CSV, lambda provider, window: summary_csv(table, to_json_safe(provider.summary(window))))


def _parquet(provider: Provider, _: str | None) -> bytes:
    log = provider.export_rows()
    return provider.offload(lambda: launches_parquet(log))


BLUEPRINT = "locust_realism"
ROOT = "realism"
"""First part of all our routes, below the prefix of Locust's UI."""
ENTRY = "realism.js"
TABS = ("Launches", "Percentiles", "Population", "Generator", "Capacity")
DOWNLOADS = {
    "percentiles.csv": _summary_download("percentiles", "Download exact percentiles CSV"),
    "launches.csv": _summary_download("launches", "Download launches CSV"),
    "groups.csv": _summary_download("groups", "Download CoV by number of users CSV"),
    "sessions.csv": Download("Download sessions CSV", CSV, lambda p, _: sessions_csv(p.export_sessions())),
    "run.parquet": Download("Download every request as Parquet", "application/vnd.apache.parquet", _parquet),
    "report.html": Download("Download launch and percentile report", HTML, lambda p, _: p.report_html()),
}

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'"
)
_INLINE_SCRIPT = re.compile(r"<script[^>]*>(.*?)</script>", re.DOTALL | re.IGNORECASE)

WINDOW_WORDS = ("run", "reset", "minute")
_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\.\.(\d{1,9}(?:\.\d{1,6})?)")


def headers(policy: str = PAGE_POLICY) -> dict[str, str]:
    """Return the security headers of a response: its policy, no framing elsewhere, no caching of data."""
    return {
        "Content-Security-Policy": f"{policy}; frame-ancestors 'self'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
    }


def checked_window(text: str | None) -> str | None:
    """Return the window of a request for the provider: None, a word of ``WINDOW_WORDS``, or ``"FROM..TO"``.

    ``run`` (or nothing) is the whole run with its warm-up cut as configured, ``reset`` since the last Reset Stats,
    ``minute`` the last 60 s, and ``12..72.5`` a span in seconds since the start of the run. Raises ValueError for
    anything else.

    >>> checked_window("12..72.5"), checked_window(""), checked_window("minute")
    ('12..72.5', None, 'minute')
    >>> checked_window("72..12")
    Traceback (most recent call last):
    ValueError: window must be one of run, reset, minute or FROM..TO in seconds with FROM < TO, not '72..12'
    """
    if not text:
        return None
    span = _SPAN.fullmatch(text)
    if text in WINDOW_WORDS or (span and float(span[1]) < float(span[2])):
        return text
    raise refusal("window", f"one of {', '.join(WINDOW_WORDS)} or FROM..TO in seconds with FROM < TO", text[:80])


def register(web_ui: WebUI, provider: Provider) -> None:
    """Add the tabs, the downloads and the JSON routes to a Locust ``WebUI``; a second call on it does nothing.

    Call it from an ``init`` listener, before the first request: later, Flask takes no blueprint.
    """
    app = web_ui.app
    if app is None or BLUEPRINT in app.blueprints:
        return
    host = app.blueprints.get("locust")
    prefix = (getattr(host, "url_prefix", None) or "").rstrip("/")
    app.register_blueprint(build_blueprint(web_ui, provider), url_prefix=f"{prefix}/{ROOT}")
    tabs = [{"key": f"realism-{title.lower()}", "title": title} for title in TABS]
    links = [{"href": f"./{ROOT}/download/{name}", "title": each.title} for name, each in DOWNLOADS.items()]
    for key, ours in (("extended_tabs", tabs), ("extended_csv_files", links)):
        web_ui.template_args[key] = [*(web_ui.template_args.get(key) or []), *ours]
    app.after_request(add_entry)


def add_entry(response: Response) -> Response:
    """Put our script tag into Locust's index page; return the response unchanged on any fault."""
    try:
        if request.endpoint != "locust.index" or response.status_code != 200 or response.mimetype != "text/html":
            return response
        page = response.get_data(as_text=True)
        head, body_end, tail = page.rpartition("</body>")
        if body_end:
            tag = f'<script type="module" src="./{ROOT}/static/{ENTRY}"></script>\n  '
            response.set_data(head + tag + body_end + tail)
    except Exception:  # Locust's page matters more than our tabs
        logger.exception("locust_realism: Locust's page stays without our tabs")
    return response


def build_blueprint(web_ui: WebUI, provider: Provider) -> Blueprint:
    """Return the blueprint of every route, each behind the UI's login where there is one."""
    blueprint = Blueprint(BLUEPRINT, __name__)
    files = static_files()

    def generator() -> Response:
        document = provider.generator()
        return _json({**document, "findings": generator_findings(document)})

    routes: dict[str, Callable[..., Response]] = {
        "/api/status": lambda: _json(provider.status()),
        "/api/summary": lambda: _json(provider.summary(checked_window(request.args.get("window")))),
        "/api/population": lambda: _json(provider.population()),
        "/api/generator": generator,
        "/download/<name>": lambda name: _download(name, provider),
        "/report": lambda: _report(provider.report_html()),
        "/static/<path:name>": lambda name: _static(files, name),
        "/help": lambda: _static(files, "help.html"),
    }
    for rule, view in routes.items():
        guarded = web_ui.auth_required_if_enabled(_with_json_errors(view))
        blueprint.add_url_rule(rule, re.sub(r"\W+", "_", rule).strip("_"), guarded, methods=["GET"])
    return blueprint


def _report(page: str) -> Response:
    return Response(page, 200, headers(content_policy(_INLINE_SCRIPT.findall(page))), content_type=HTML)


def _with_json_errors(view: Callable[..., Response]) -> Callable[..., Response]:
    """Return the view with a JSON ``error`` for its exceptions: 400 for a ValueError, a logged 500 for any other."""

    def answer(**arguments: str) -> Response:
        try:
            return view(**arguments)
        except ValueError as error:
            return _json({"error": str(error)}, 400)
        except Exception as error:  # the page shows it; Locust goes on
            logger.exception("locust_realism: a view failed")
            return _json({"error": f"{type(error).__name__}: {error}"[:300]}, 500)

    return answer


def _json(document: Mapping[str, object], status: int = 200) -> Response:
    try:
        text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError):
        # Most documents are plain already; a copy of one with 200 long names would block the loop for 35 ms.
        text = json.dumps(to_json_safe(document), allow_nan=False, separators=(",", ":"))
    return Response(text, status, headers(), content_type="application/json")


def _download(name: str, provider: Provider) -> Response:
    download = DOWNLOADS.get(name)
    if download is None:
        return _json({"error": "no such download"}, 404)
    disposition = {"Content-Disposition": f'attachment; filename="locust_realism_{name}"'}
    body = download.body(provider, checked_window(request.args.get("window")))
    return Response(body, 200, headers() | disposition, content_type=download.content_type)


def static_files() -> dict[str, tuple[bytes, str]]:
    """Return every file of the package's static folder by its relative name, with its content type.

    Views find names of requests in this table: no path of a request reaches the file system.
    """
    folder = Path(__file__).with_name("static")
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), _TYPES.get(path.suffix, "text/plain; charset=utf-8"))
        for path in folder.rglob("*")
        if path.is_file()
    }


def _static(files: dict[str, tuple[bytes, str]], name: str) -> Response:
    if name not in files:
        return _json({"error": "no such file"}, 404)
    content, kind = files[name]
    response = Response(content, 200, headers() | {"Cache-Control": "no-cache"}, content_type=kind)
    response.add_etag()
    response.make_conditional(request)
    return response
