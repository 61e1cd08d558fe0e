"""A comparison of runs as one HTML page that opens offline, drawn as a report is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from locust_realism.report.assets import report_script
from locust_realism.report.comparison import render_comparison
from locust_realism.report.html import offline_page


def render_compare_page(found: Mapping[str, Any], *, force: bool = False) -> str:
    """The page for a document of ``locust-realism compare``; names of runs and requests in it are data, not markup."""
    title = "Comparison of " + ", ".join(str(run["name"]) for run in found["runs"])
    text = render_comparison(found, color=False, width=110, force=force)
    return offline_page(title, {**found, "title": title, "force": force}, text, report_script("compare.js"))
