"""The summary of a log: one JSON document from which the console, the tabs, the report and the command line are drawn.

The analysis of a live test, of a finished file and of a merged distributed run is this function on the same type. The
document is described, key by key, in docs/json.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from locust_realism.analysis.charts import chart_data
from locust_realism.analysis.intervals import group_table, in_launch_order, launch_table
from locust_realism.analysis.jsonable import to_json_safe
from locust_realism.analysis.responses import bytes_table, response_table
from locust_realism.analysis.settings import AnalysisSettings
from locust_realism.analysis.window import steady_rows, window_document
from locust_realism.recording.launches import LaunchLog

SCHEMA_VERSION = 1

Document = dict[str, Any]


def summarize(
    log: LaunchLog,
    *,
    settings: AnalysisSettings | None = None,
    window: tuple[int, int] | None = None,
    run_start_us: int | None = None,
    source: Mapping[str, Any] | None = None,
) -> Document:
    """Everything that is known about a run, as a JSON-able document without NaN or infinity.

    - ``window`` (start, end) in epoch microseconds, both included, in place of the settings' cuts
    - ``run_start_us`` start of the run in epoch microseconds, zero of ``_s`` times; by default the first launch
    - ``source`` what the caller knows of where the log comes from; copied into the ``source`` key

    >>> log = LaunchLog.build([0, 1000, 3000, 6000], [700, 900, 800, 650], names="home")
    >>> document = summarize(log)
    >>> document["launches"][-1]["cov"], document["response_times"][0]["p50_ms"]
    (0.5, 0.7)
    """
    settings = settings or AnalysisSettings()
    ordered = in_launch_order(log)
    rows = steady_rows(ordered, settings, run_start_us=run_start_us, window=window)
    part = ordered.take(rows)
    document: Document = {
        "schema_version": SCHEMA_VERSION,
        "source": _source(log, source),
        "window": window_document(ordered, rows, settings, run_start_us),
        "rule": settings.percentile_rule,
        "launches": launch_table(part, settings),
        "response_times": response_table(part, settings),
        "bytes": bytes_table(part, settings),
        "groups": group_table(part, settings),
        "dispersion": None,
        "stages": [],
        "capacity": None,
        "verdict": {"overall": "not enough data", "sentence": "", "checks": []},
    }
    if settings.charts:
        document["charts"] = chart_data(part, origin_us=run_start_us)
    safe: Document = to_json_safe(document)
    return safe


def _source(log: LaunchLog, given: Mapping[str, Any] | None) -> Document:
    return {
        "rows": len(log),
        "names": len({label.name for label in log.labels}),
        "workers": int(log.worker.max(initial=-1)) + 1,
        "failures": int(log.failed.sum()),
        **(given or {}),
    }
