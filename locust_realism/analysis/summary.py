"""Summary of a log: the one JSON document behind the console, the tabs, the report and the command line.

A running test, a finished file and a merged distributed run are analysed by this function on one type. docs/json.md
describes the document key by key. The workload that a recording saves beside its launches lets its summary equal the
live one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from locust_realism.analysis.capacity.capacity import MIN_LEVEL_S, capacity_section
from locust_realism.analysis.capacity.levels import level_rows, split_levels
from locust_realism.analysis.charts import chart_data
from locust_realism.analysis.document import Pattern, Source, SourceDetails, StallsRow, Summary
from locust_realism.analysis.percentiles import four_percentiles, percentiles
from locust_realism.analysis.settings import AnalysisSettings, WorkloadModel
from locust_realism.analysis.stats.intervals import group_table, in_launch_order, interval_row, launch_table
from locust_realism.analysis.stats.responses import bytes_table, known_responses, response_table
from locust_realism.analysis.verdict.dispersion import Stalls
from locust_realism.analysis.verdict.evidence import Evidence, Facts, collect
from locust_realism.analysis.verdict.judge import judge, name_verdicts
from locust_realism.analysis.verdict.stages import planned_stages, stage_table
from locust_realism.analysis.verdict.users import begun_within
from locust_realism.analysis.window import (
    held_rows,
    settled,
    settling_s,
    steady_rows,
    window_document,
    with_held,
    with_untrimmed,
)
from locust_realism.common.json import to_json_safe
from locust_realism.recording.launches import LaunchLog
from locust_realism.recording.reading import diagnosis_of, held_us, read_health, read_info, read_sessions
from locust_realism.workload.rates.profile import RateProfile
from locust_realism.workload.rates.shapes import rate_profile_from_dict

SCHEMA_VERSION = 1


def summarize(
    log: LaunchLog,
    *,
    settings: AnalysisSettings | None = None,
    window: tuple[int, int] | None = None,
    run_start_us: int | None = None,
    facts: Facts | None = None,
    source: SourceDetails | None = None,
) -> Summary:
    """Return every figure of a run as a JSON-able document without NaN or infinity.

    - ``window`` (start, end) in epoch microseconds, both included, in place of the settings' cuts
    - ``run_start_us`` start of the run in epoch microseconds, zero of ``_s`` times; by default the first launch
    - ``facts`` beside the launches: intended workload, planned rates, health, clocks; of the health by
      ``seconds`` that of the judged launches' time counts
    - ``source`` origin of the log, added to the ``source`` key

    >>> log = LaunchLog.build([0, 1000, 3000, 6000], [700, 900, 800, 650], names="home")
    >>> document = summarize(log)
    >>> document["launches"][-1]["cov"], document["response_times"][0]["p50_ms"]
    (0.5, 0.7)
    """
    settings = settings or AnalysisSettings()
    ordered = in_launch_order(log)
    facts = facts or Facts()
    # The first launch is the last resort as the zero of the plan's time.
    starts = (run_start_us, facts.run_start_us, *ordered.launch_us[:1].tolist())
    facts = replace(facts, run_start_us=next((start for start in starts if start is not None), None))
    origin = facts.run_start_us or 0
    rows = steady_rows(ordered, settings, run_start_us=run_start_us, window=window)
    part = ordered.take(rows)
    groups = group_table(part, settings)
    settling = settling_s(part, facts.model, facts.held_us)
    held = settled(facts.held_us, settling)
    rows_held, rows_left = held_rows(ordered, held), held_rows(part, held)
    judged = begun_within(part, rows_left)
    facts = _of_judged(facts, judged, whole=len(ordered.launch_us[rows_held]) == len(part.launch_us[rows_left]))
    known_groups = groups if settings.group_sizes is None and len(judged) == len(part) else None
    evidence = collect(judged, settings, facts, known_groups)
    levels = split_levels(part, min_seconds=MIN_LEVEL_S)
    level_table = level_rows(part, levels, settings.percentile_rule)
    health = {"lateness_p99_ms": 1e3 * evidence.lateness_p99_s, **facts.health}
    document: Summary = {
        "schema_version": SCHEMA_VERSION,
        "source": _source(log, source),
        "window": with_held(
            window_document(ordered, rows, settings, run_start_us),
            judged,
            facts.held_us,
            settling=settling,
            note=evidence.judged_note,
            missing_s=_missing_s(part, evidence, settling, settings),
        ),
        "rule": settings.percentile_rule,
        "launches": launch_table(part, settings),
        "response_times": response_table(part, settings),
        "bytes": bytes_table(part, settings),
        "groups": groups,
        "dispersion": evidence.dispersion,
        "pattern": _pattern(evidence),
        "workers": evidence.workers,
        "steady_state": evidence.steady,
        "stages": [*stage_table(part, settings, planned_stages(part, facts, origin), origin), *level_table],
        "capacity": capacity_section(
            part, levels, level_table, think_s=facts.model.think_time_s, health=health, bounds=settings.bounds
        ),
        "verdict": judge(evidence, settings.bounds),
        "names": name_verdicts(judged, evidence, settings),
    }
    if window is None and len(part) < len(ordered):
        rule = settings.percentile_rule
        times = four_percentiles(percentiles(known_responses(ordered.response_us), rule=rule))
        document["window"] = with_untrimmed(document["window"], interval_row(ordered.launch_us, rule=rule), times)
    if settings.charts:
        document["charts"] = chart_data(part, origin_us=run_start_us, planned=facts.planned_profile)
    safe: Summary = to_json_safe(document)
    return safe


def _of_judged(facts: Facts, judged: LaunchLog, *, whole: bool) -> Facts:
    """Return the facts of the judged launches: health and pauses of their time.

    Missed launches have no times: they count where the ``whole`` run from full spawn to the stop request is judged.
    """
    facts = facts if whole else replace(facts, missed_launches=0)
    if not len(judged):
        return facts
    return facts.between(int(judged.launch_us[0]), int(judged.launch_us[-1]))


def _missing_s(part: LaunchLog, evidence: Evidence, settling: float, settings: AnalysisSettings) -> float:
    """Return the seconds by which the run is too short for check 1, 0 if it is long enough or nothing was launched."""
    bounds, held, gaps = settings.bounds, evidence.facts.held_us, evidence.gaps
    needed = math.ceil((bounds.standard_errors / bounds.cov_red) ** 2)
    if held is None or held[0] is None or gaps.n >= needed:
        return 0.0
    since = part.take(held_rows(part, held))
    rate = gaps.rate if gaps.n >= bounds.min_gaps else interval_row(since.launch_us)["rate"] or 0.0
    if not rate > 0:
        return 0.0
    unsettled = settling - float(since.launch_us[-1] - held[0]) / 1e6
    return max(unsettled, 0.0) + (needed - gaps.n) / rate


def _pattern(evidence: Evidence) -> Pattern:
    gaps, users = evidence.gaps, evidence.users
    return {
        "raw_cov": gaps.raw_cov, "cov": gaps.cov, "cov_kind": gaps.kind, "distance": gaps.distance,
        "clock_tick_us": evidence.tick_us, "requests_per_task": evidence.per_task,
        "autocorrelation": list(gaps.correlations), "short_gaps": gaps.short_share,
        "short_gap_s": evidence.short_gap_s, "stalls": _stalls(evidence.stalls),
        "server_stalls": _stalls(evidence.server_stalls), "retry_share": evidence.retries,
        "period_s": evidence.period_s,
        "longest_gap_s": gaps.longest_s, "longest_gap_at_s": gaps.longest_at_s, "longest_share": gaps.longest_share,
        "closed": evidence.closed, "users": users.users, "mean_concurrent_users": evidence.population,
        "response_share": users.response_share, "think_mean_s": users.think_mean,
        "round_trip_s": users.round_trip, "user_cov": users.user_cov,
        "lateness_p50_ms": evidence.lateness_p50_s * 1e3, "lateness_p99_ms": evidence.lateness_p99_s * 1e3,
    }  # fmt: skip


def _stalls(found: Stalls | None) -> StallsRow | None:
    if found is None:
        return None
    return {
        "number": found.number, "mean_s": found.mean_s, "period_s": found.period_s, "regular": found.regular
    }  # fmt: skip


def _source(log: LaunchLog, details: SourceDetails | None) -> Source:
    return {
        "rows": len(log),
        "names": len({label.name for label in log.labels}),
        "workers": int(log.worker.max(initial=-1)) + 1,
        "failures": int(log.failed.sum()),
        **(details or {}),
    }


def describe_workload(facts: Facts, run_start_us: int) -> dict[str, object]:
    """Return the workload for ``run.json``, JSON-able; :func:`recorded_facts` reads it.

    >>> describe_workload(Facts(model=WorkloadModel(kind="open")), 5)["planned_profile"] is None
    True
    """

    profiles = {"planned_profile": facts.planned_profile, "arrival_profile": facts.arrival_profile}
    return {
        "model": asdict(facts.model),
        **{key: each.to_dict() if isinstance(each, RateProfile) else None for key, each in profiles.items()},
        "run_start_us": run_start_us,
        "missed_launches": facts.missed_launches,
    }


def recorded_facts(paths: Sequence[Path]) -> Facts:
    """Return the facts of the first recording of a whole run among the paths; empty without one.

    Missing or unreadable facts are left out.
    """
    for path in paths:
        if path.is_dir() and (held := held_us(path)) is not None:
            info = read_info(path)
            offset = info.get("clock_offset_sd_us")
            facts = Facts(
                held_us=held,
                user_starts_us=read_sessions(path).start_us,
                clock_offset_sd_us=float(offset) if isinstance(offset, int | float) else None,
            )
            measured = facts.measured(read_health(path).between(*held))
            return _with_workload(measured, info.get("workload")).diagnosed(diagnosis_of(path))
    return Facts()


def _with_workload(facts: Facts, workload: object) -> Facts:
    if not isinstance(workload, dict):
        return facts
    try:
        launches, arrivals = workload["planned_profile"], workload.get("arrival_profile")
        return replace(
            facts,
            model=WorkloadModel(**workload["model"]),
            planned_profile=None if launches is None else rate_profile_from_dict(launches),
            arrival_profile=None if arrivals is None else rate_profile_from_dict(arrivals),
            run_start_us=int(workload["run_start_us"]),
            missed_launches=int(workload.get("missed_launches", 0)),
        )
    except (AttributeError, KeyError, TypeError, ValueError):  # another version's file, or a damaged one
        return facts
