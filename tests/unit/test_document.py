"""Declared types of the documents: docs/json.md names each key, and real documents have them and no others."""

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from document_support import declared_paths, documented_tables, faults
from hypothesis import given, settings
from hypothesis import strategies as st

from locust_realism.analysis import document as declared
from locust_realism.analysis.capacity.capacity import capacity
from locust_realism.analysis.compare.comparison import compare
from locust_realism.analysis.compare.groups import Side
from locust_realism.analysis.document import Capacity, GeneratorDocument, Summary
from locust_realism.analysis.settings import AnalysisSettings, WorkloadModel
from locust_realism.analysis.summary import summarize
from locust_realism.analysis.verdict.evidence import Facts
from locust_realism.common.json import to_json_safe
from locust_realism.recording.health import MASTER, HealthLog
from locust_realism.recording.launches import LaunchLog
from locust_realism.runtime.figures.generator_view import health_document
from locust_realism.web.findings import generator_findings
from locust_realism.workload.rates.shapes import SineRate

ROOTS: dict[str, Any] = {
    "api/summary": declared.PendingSummary,
    "api/status": declared.StatusDocument,
    "api/population": declared.PopulationDocument,
    "api/generator": declared.GeneratorDocument,
    "compare": declared.Comparison,
}


def every_key() -> Iterator[tuple[str, str]]:
    for path, key in declared_paths(Summary):
        yield path or "summary", key
    for route, kind in ROOTS.items():
        for path, key in declared_paths(kind):
            yield f"{route}: {path}" if path else route, key


def test_the_page_names_every_declared_key_and_no_other():
    tables, keys = documented_tables(), set(every_key())
    named = {path for paths in tables for path in paths}
    assert named == {path for path, _ in keys}, "paths of the headings and of the types"
    for paths, documented in tables.items():
        assert documented == {key for path, key in keys if path in paths}, f"keys of {', '.join(paths)}"


def test_a_live_summary_has_the_keys_of_the_summary_and_of_the_route():
    live = set(declared_paths(declared.LiveSummary))
    assert live == {*declared_paths(Summary), *declared_paths(declared.PendingSummary)}


@pytest.mark.parametrize("kind", [kind for kind in vars(declared).values() if hasattr(kind, "__required_keys__")])
def test_every_type_has_a_docstring(kind):
    assert kind.__doc__.endswith(".")


def launches(n: int, **columns: object) -> LaunchLog:
    rng = np.random.default_rng(1)
    return LaunchLog.build(
        np.cumsum(rng.exponential(10_000, n)).astype(int),
        columns.pop("response_us", rng.lognormal(9, 1, n).astype(int)),
        names=rng.choice(["home", "buy"], n).tolist(),
        methods="GET",
        failed=rng.uniform(size=n) < 0.02,
        slot=rng.integers(0, 20, n),
        worker=rng.integers(0, 2, n),
        **{"users": 40, **columns},
    )


PLAN = SineRate(min_rate=80, max_rate=120, period=50)
LEVELS = np.repeat([5, 10, 20, 40, 60], 4000)
CASES: dict[str, tuple[LaunchLog, dict[str, Any]]] = {
    "empty": (LaunchLog.empty(), {}),
    "one launch without an answer": (LaunchLog.build([5], [-1]), {}),
    "four at once": (LaunchLog.build([0, 0, 0, 0], 1, users=[1, 2, 3, 4], slot=0), {}),
    "plain": (launches(3000), {"source": {"files": ["a.csv"]}}),
    "no launch in the window": (launches(300), {"window": (10**12, 10**13)}),
    "no answer known": (launches(3000, response_us=-1), {}),
    "cut": (launches(50_000), {"settings": AnalysisSettings(skip_s=5, charts=False)}),
    "not held yet": (launches(300), {"facts": Facts(held_us=(None, None))}),
    "held for a part": (launches(3000), {"facts": Facts(held_us=(10_000_000, None), health={"cpu_max": 0.99})}),
    "levels of a closed pool": (
        launches(20_000, users=LEVELS),
        {"facts": Facts(model=WorkloadModel(kind="closed", think_time_s=0.1), planned_profile=PLAN)},
    ),
    "arrivals and paced launches": (
        launches(20_000, planned_us=np.arange(20_000) * 10_000, users=LEVELS),
        {
            "facts": Facts(
                model=WorkloadModel(kind="open", poisson_arrivals=True, session_s=2.0),
                arrival_profile=PLAN,
                user_starts_us=np.arange(500) * 200_000,
                clock_offset_sd_us=5000.0,
            )
        },
    ),
    "toolkit": (launches(3000), {"settings": AnalysisSettings.toolkit(group_sizes=(1, 5))}),
}


@pytest.mark.parametrize("case", CASES)
def test_summaries_have_the_declared_keys_and_types(case):
    log, given_ = CASES[case]
    assert faults(summarize(log, **given_), Summary) == []


@given(st.lists(st.tuples(st.integers(0, 10**7), st.integers(-1, 10**6), st.integers(-1, 3)), max_size=60))
@settings(deadline=None, max_examples=60)
def test_every_log_gives_the_declared_keys_and_types(rows):
    launched, response, slot = zip(*rows, strict=True) if rows else ((), (), ())
    log = LaunchLog.build(launched, response, names="x", slot=slot, users=slot, planned_us=launched)
    summary = summarize(log)
    assert faults(summary, Summary) == []
    json.dumps(summary, allow_nan=False)


def test_capacity_with_targets_has_the_declared_keys_and_types():
    found = capacity(launches(20_000, users=LEVELS), targets=["p95 < 9ms", "failures < 1%", "mean < 1us"])
    assert found["targets"]
    assert found["knee"]
    assert faults(to_json_safe(found), Capacity) == []


def test_the_generators_document_has_the_declared_keys_and_types():
    health = HealthLog.of([(1_000_000 * i, w, 3, 1 << 20, 900, 800, 0.99, 0.5) for i in range(9) for w in (0, MASTER)])
    names = {0: ("w1", "running"), MASTER: ("master", "running")}
    document = {**health_document(health, launches(300, planned_us=0), names), "target": None}
    document["findings"] = generator_findings(document)
    assert document["findings"]
    assert faults(to_json_safe(document), GeneratorDocument) == []


def test_a_comparison_has_the_declared_keys_and_types():
    logs = [launches(4000, users=np.repeat([10, 20], 2000)) for _ in range(3)]
    sides = [Side("A", (logs[0],)), Side("B", tuple(logs[1:]), (summarize(logs[1]), summarize(LaunchLog.empty())))]
    document = compare(sides)
    assert document["agreement"]
    assert document["levels"]
    assert faults(to_json_safe(document), declared.Comparison) == []


def test_a_fault_is_found():
    assert faults({"n": 1, "start_s": math.nan, "end_s": 1}, declared.Newest)
    assert faults({"n": 1, "start_s": "x", "more": 2}, declared.Newest) == [
        "document.more is not declared in Newest",
        "document.end_s is missing",
        "document.start_s is 'x', expected <class 'float'>",
    ]
