"""Flask views beside Locust's web UI: JSON, downloads, static files, and the tabs' entry point.

Locust's own page stays as it is. ``register`` adds five native extended tabs, download links, a blueprint under the
UI's own prefix, and one script tag to the index page; every fault on our side leaves Locust's response untouched.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from importlib import resources
from typing import TYPE_CHECKING, Any

from locust_realism.web.exports import rows_parquet, sessions_csv, summary_csv
from locust_realism.web.findings import generator_findings
from locust_realism.web.pages import page_headers, report_headers
from locust_realism.web.provider import Provider, checked_window

if TYPE_CHECKING:
    from flask import Blueprint, Response

logger = logging.getLogger(__name__)

BLUEPRINT = "locust_realism"
ROOT = "realism"
"""All of our routes are below <prefix>/realism/."""
ENTRY = "realism.js"
TABS = (
    ("realism-launches", "Launches"),
    ("realism-percentiles", "Percentiles"),
    ("realism-population", "Population"),
    ("realism-generator", "Generator"),
    ("realism-capacity", "Capacity"),
)
DOWNLOADS = (
    ("percentiles.csv", "Download exact percentiles CSV"),
    ("launches.csv", "Download launches CSV"),
    ("groups.csv", "Download CoV by number of users CSV"),
    ("sessions.csv", "Download sessions CSV"),
    ("run.parquet", "Download every request as Parquet"),
    ("report.html", "Download launch and percentile report"),
)
_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
}


def register(web_ui: Any, provider: Provider) -> None:
    """Add the tabs, the downloads and the JSON routes to a Locust ``WebUI``; a second call on it does nothing.

    Call it from an ``init`` listener, before the first request: Flask takes no blueprint after that.
    """
    app = web_ui.app
    if BLUEPRINT in app.blueprints:
        return
    host = app.blueprints.get("locust")
    prefix = (getattr(host, "url_prefix", None) or "").rstrip("/")
    app.register_blueprint(build_blueprint(web_ui, provider), url_prefix=f"{prefix}/{ROOT}")
    arguments = web_ui.template_args
    arguments["extended_tabs"] = [
        *(arguments.get("extended_tabs") or []),
        *({"key": key, "title": title} for key, title in TABS),
    ]
    arguments["extended_csv_files"] = [
        *(arguments.get("extended_csv_files") or []),
        *({"href": f"./{ROOT}/download/{name}", "title": title} for name, title in DOWNLOADS),
    ]
    app.after_request(add_entry)


def add_entry(response: Response) -> Response:
    """Put our script tag into Locust's index page; whatever goes wrong, the response is returned as it came."""
    try:
        from flask import request

        if request.endpoint != "locust.index" or response.status_code != 200 or response.mimetype != "text/html":
            return response
        page = response.get_data(as_text=True)
        head, body_end, tail = page.rpartition("</body>")
        if body_end:
            tag = f'<script type="module" src="./{ROOT}/static/{ENTRY}"></script>\n  '
            response.set_data(head + tag + body_end + tail)
    except Exception:  # Locust's page matters more than our tabs
        logger.exception("The tabs of locust_realism could not be added to the page")
    return response


def build_blueprint(web_ui: Any, provider: Provider) -> Blueprint:
    """The blueprint with every route, each behind the UI's login where there is one."""
    from flask import Blueprint

    blueprint = Blueprint(BLUEPRINT, __name__)

    def route(rule: str, view: Callable[..., Response]) -> None:
        name = rule.strip("/").replace("/", "_").replace(".", "_").replace("<", "").replace(">", "").replace(":", "_")
        guarded = web_ui.auth_required_if_enabled(_answering_errors(view))
        blueprint.add_url_rule(rule, name, guarded, methods=["GET"])

    for rule, document in {
        "/api/status": provider.status,
        "/api/population": provider.population,
        "/api/generator": lambda: _with_findings(provider.generator()),
    }.items():
        route(rule, _json_view(document))
    route("/api/summary", lambda: _json(provider.summary(_asked_window())))
    route("/download/<name>", lambda name: _download(name, provider))
    route("/report", lambda: _report(provider))
    files = static_files()
    route("/static/<path:name>", lambda name: _static(files, name))
    route("/help", lambda: _static(files, "help.html"))
    return blueprint


def _asked_window() -> str | None:
    from flask import request

    return checked_window(request.args.get("window"))


def _with_findings(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "findings": generator_findings(document)}


def _json_view(document: Callable[[], dict[str, Any]]) -> Callable[[], Response]:
    return lambda: _json(document())


def _answering_errors(view: Callable[..., Response]) -> Callable[..., Response]:
    """A view whose ValueError is a 400 and any other exception a logged 500, both with a JSON ``error``."""

    def answer(**arguments: Any) -> Response:
        try:
            return view(**arguments)
        except ValueError as error:
            return _json({"error": str(error)}, 400)
        except Exception as error:  # the page shows it; Locust goes on
            logger.exception("A view of locust_realism failed")
            return _json({"error": f"{type(error).__name__}: {error}"[:300]}, 500)

    return answer


def finite(value: Any) -> Any:
    """A JSON-able copy in which NaN and infinity are None, numpy scalars plain numbers and keys text.

    >>> finite({"a": [1.5, float("nan")], "b": (float("inf"), "x")})
    {'a': [1.5, None], 'b': [None, 'x']}
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if hasattr(value, "tolist"):
        return finite(value.tolist())
    number = float(value)
    return number if math.isfinite(number) else None


def _json(document: dict[str, Any], status: int = 200) -> Response:
    from flask import Response

    try:
        text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError):
        # Most documents are plain already, and a copy of one with 200 long names would hold up the loop for 35 ms.
        text = json.dumps(finite(document), allow_nan=False, separators=(",", ":"))
    return Response(text, status, page_headers(), content_type="application/json")


def _download(name: str, provider: Provider) -> Response:
    from flask import Response

    if name not in dict(DOWNLOADS):
        return _json({"error": "no such download"}, 404)
    stem, _, ending = name.partition(".")
    body: str | bytes
    if name == "run.parquet":
        log = provider.export_rows()
        body, kind = provider.offload(lambda: rows_parquet(log)), "application/vnd.apache.parquet"
    elif name == "report.html":
        body, kind = provider.report_html(), _TYPES[".html"]
    elif name == "sessions.csv":
        body, kind = sessions_csv(provider.export_sessions()), "text/csv; charset=utf-8"
    else:
        body, kind = summary_csv(stem, finite(provider.summary(_asked_window()))), "text/csv; charset=utf-8"
    headers = {**page_headers(), "Content-Disposition": f'attachment; filename="locust_realism_{stem}.{ending}"'}
    return Response(body, 200, headers, content_type=kind)


def _report(provider: Provider) -> Response:
    from flask import Response

    page = provider.report_html()
    return Response(page, 200, report_headers(page), content_type=_TYPES[".html"])


def static_files() -> dict[str, tuple[bytes, str]]:
    """Every file of the package's static folder by its relative name, with its content type.

    Requests look names up in this table: no path from a request ever reaches the file system.
    """
    files: dict[str, tuple[bytes, str]] = {}

    def collect(folder: Any, above: str) -> None:
        for entry in folder.iterdir():
            if entry.is_dir():
                collect(entry, f"{above}{entry.name}/")
            else:
                kind = _TYPES.get("." + entry.name.rpartition(".")[2], "text/plain; charset=utf-8")
                files[above + entry.name] = (entry.read_bytes(), kind)

    collect(resources.files("locust_realism").joinpath("web", "static"), "")
    return files


def _static(files: dict[str, tuple[bytes, str]], name: str) -> Response:
    from flask import Response, request

    if name not in files:
        return _json({"error": "no such file"}, 404)
    content, kind = files[name]
    response = Response(content, 200, page_headers(), content_type=kind)
    response.add_etag()
    response.headers["Cache-Control"] = "no-cache"
    response.make_conditional(request)
    return response
