"""The summary of a log: one JSON document from which the console, the tabs, the report and the command line are drawn.

The analysis of a live test, of a finished file and of a merged distributed run is this function on the same type. The
document is described, key by key, in docs/json.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from locust_realism.analysis.capacity import capacity_section
from locust_realism.analysis.charts import chart_data
from locust_realism.analysis.evidence import Evidence, Facts, collect
from locust_realism.analysis.intervals import group_table, in_launch_order, interval_row, launch_table
from locust_realism.analysis.jsonable import to_json_safe
from locust_realism.analysis.names import name_verdicts
from locust_realism.analysis.percentiles import percentiles
from locust_realism.analysis.planned_stages import planned_stages
from locust_realism.analysis.responses import bytes_table, known_responses, response_table
from locust_realism.analysis.settings import AnalysisSettings
from locust_realism.analysis.stages import stage_table
from locust_realism.analysis.steady_state import warm_up_rows
from locust_realism.analysis.verdict import judge
from locust_realism.analysis.window import held_rows, steady_rows, window_document, with_held, with_untrimmed
from locust_realism.recording.launches import LaunchLog

SCHEMA_VERSION = 1

Document = dict[str, Any]


def summarize(
    log: LaunchLog,
    *,
    settings: AnalysisSettings | None = None,
    window: tuple[int, int] | None = None,
    run_start_us: int | None = None,
    facts: Facts | None = None,
    stages: Sequence[Mapping[str, Any]] = (),
    source: Mapping[str, Any] | None = None,
) -> Document:
    """Everything that is known about a run, as a JSON-able document without NaN or infinity.

    - ``window`` (start, end) in epoch microseconds, both included, in place of the settings' cuts
    - ``run_start_us`` start of the run in epoch microseconds, zero of ``_s`` times; by default the first launch
    - ``facts`` what is known beside the launches: the workload's model, planned rates, health, clocks
    - ``stages`` the plan's stages, start_s, end_s and what was held (users, rate, think_time_s), where they are not
      those that the facts and the log show
    - ``source`` what the caller knows of where the log comes from; copied into the ``source`` key

    >>> log = LaunchLog.build([0, 1000, 3000, 6000], [700, 900, 800, 650], names="home")
    >>> document = summarize(log)
    >>> document["launches"][-1]["cov"], document["response_times"][0]["p50_ms"]
    (0.5, 0.7)
    """
    settings = settings or AnalysisSettings()
    ordered = in_launch_order(log)
    facts = _placed(facts or Facts(), ordered, run_start_us)
    origin = facts.run_start_us or 0
    rows = steady_rows(
        ordered,
        settings,
        run_start_us=run_start_us,
        window=window,
        warm_up_rows=warm_up_rows,
    )
    part = ordered.take(rows)
    groups = group_table(part, settings)
    judged = part.take(held_rows(part, facts.held_us))
    known_groups = groups if settings.group_sizes is None and len(judged) == len(part) else None
    evidence = collect(judged, settings, facts, known_groups)
    document: Document = {
        "schema_version": SCHEMA_VERSION,
        "source": _source(log, source),
        "window": with_held(window_document(ordered, rows, settings, run_start_us), judged, facts.held_us),
        "rule": settings.percentile_rule,
        "launches": launch_table(part, settings),
        "response_times": response_table(part, settings),
        "bytes": bytes_table(part, settings),
        "groups": groups,
        "dispersion": evidence.dispersion,
        "pattern": _pattern(evidence),
        "workers": evidence.workers,
        "steady_state": evidence.steady,
        "stages": stage_table(part, settings, stages or planned_stages(part, facts, origin), origin),
        "capacity": capacity_section(
            part,
            rule=settings.percentile_rule,
            think_s=facts.model.think_time_s,
            health={"lateness_p99_ms": 1e3 * evidence.lateness_p99_s, **facts.health},
        ),
        "verdict": judge(evidence, settings.bounds),
        "names": name_verdicts(judged, evidence, settings),
    }
    if window is None and len(part) < len(ordered):
        document["window"] = with_untrimmed(document["window"], _untrimmed(ordered, settings))
    if settings.charts:
        document["charts"] = chart_data(part, origin_us=run_start_us, planned=facts.planned_profile)
    safe: Document = to_json_safe(document)
    return safe


def _placed(facts: Facts, ordered: LaunchLog, run_start_us: int | None) -> Facts:
    """The facts with the start of the run: the plan's time is counted from there, not from the end of the warm-up."""
    if run_start_us is None:
        run_start_us = facts.run_start_us
    if run_start_us is None and len(ordered):
        run_start_us = int(ordered.launch_us[0])
    return replace(facts, run_start_us=run_start_us)


def _pattern(evidence: Evidence) -> Document:
    gaps, users = evidence.gaps, evidence.users
    return {
        "raw_cov": gaps.raw_cov,
        "cov": gaps.cov,
        "cov_kind": gaps.kind,
        "clock_tick_us": evidence.tick_us,
        "requests_per_task": evidence.per_task,
        "autocorrelation": gaps.correlations,
        "distance": gaps.distance,
        "short_gaps": gaps.short_share,
        "longest_gap_s": gaps.longest_s,
        "longest_gap_at_s": gaps.longest_at_s,
        "longest_share": gaps.longest_share,
        "closed": evidence.closed,
        "users": users.users,
        "mean_concurrent_users": evidence.population,
        "response_share": users.response_share,
        "think_mean_s": users.think_mean,
        "round_trip_s": users.round_trip,
        "user_cov": users.user_cov,
        "lateness_p50_ms": evidence.lateness_p50_s * 1e3,
        "lateness_p99_ms": evidence.lateness_p99_s * 1e3,
    }


def _untrimmed(log: LaunchLog, settings: AnalysisSettings) -> Document:
    """The same figures of every launch, so that what the cut changed can be seen."""
    row = interval_row(log.launch_us, rule=settings.percentile_rule)
    found = (percentiles(known_responses(log.response_us), (0.5, 0.95, 0.99), settings.percentile_rule) / 1e3).tolist()
    keys = ("response_p50_ms", "response_p95_ms", "response_p99_ms")
    return {key: row[key] for key in ("n", "rate", "cov")} | dict(zip(keys, found, strict=True))


def _source(log: LaunchLog, given: Mapping[str, Any] | None) -> Document:
    return {
        "rows": len(log),
        "names": len({label.name for label in log.labels}),
        "workers": int(log.worker.max(initial=-1)) + 1,
        "failures": int(log.failed.sum()),
        **(given or {}),
    }
