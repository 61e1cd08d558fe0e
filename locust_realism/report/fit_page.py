"""What was fitted to a log as one HTML page that opens offline: the plots and the tables, drawn as in a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from locust_realism.report.assets import report_script
from locust_realism.report.fit_table import call_of, render_fit
from locust_realism.report.html import offline_page


def render_fit_page(document: Mapping[str, Any], *, title: str = "Users in a server's log") -> str:
    """The page for a document of ``analysis.log_fit``; the names in it are data, never part of the markup."""
    thinking = document["think_times"]
    families = [{**each, "call": call_of(each["distribution"])} for each in thinking["families"]]
    data = {**document, "think_times": {**thinking, "families": families}, "title": title}
    return offline_page(title, data, render_fit(document, color=False, width=110, names=200), report_script("fit.js"))
