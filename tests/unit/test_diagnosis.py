"""Causes of lateness in counts and files: shares, bounds, several workers, and hostile files."""

import json
import math

import numpy as np
import pyarrow as pa
import pytest

from locust_realism.analysis.summary import describe_workload, recorded_facts
from locust_realism.analysis.verdict.evidence import Facts
from locust_realism.recording.columns import pack_table, unpack_table
from locust_realism.recording.diagnosis import (
    MAX_ENTRIES,
    MAX_KEPT,
    MAX_NAME,
    MAX_PAUSES,
    Diagnosis,
    Tally,
    read_diagnosis,
    worst_of,
)
from locust_realism.recording.health import MASTER, SHARES, TIMER, HealthLog
from locust_realism.recording.spool import write_info


def causes(**given):
    empty = {
        "beats": 0,
        "blocked": 0.0,
        "sampled": 0.0,
        "places": [],
        "looks": 0,
        "own": 0.0,
        "others": [],
        "pauses": [],
    }
    return {**empty, **given}


def test_shares_are_of_all_heartbeats_and_those_without_a_sample_follow_the_others():
    """40 of 100 blocked, at 20 of which the watchdog looked: 15 in f is 30 % of the time."""
    tally = Tally()
    for _ in range(2):
        tally.add(
            causes(
                beats=50, blocked=20.0, sampled=10.0, places=[("f", 7.5)], looks=1, own=0.3, others=[("ffmpeg", 1.5)]
            )
        )
    tally.add(causes(looks=1))
    assert tally.diagnosis().blockers == (("f", pytest.approx(0.3)),)
    assert tally.diagnosis().others == (("ffmpeg", 1.0),)
    assert tally.diagnosis().own_cores == pytest.approx(0.2)
    assert Tally().diagnosis() == Diagnosis()


def test_counts_stay_bounded_and_keep_the_largest():
    tally = Tally()
    for k in range(500):
        tally.add(causes(beats=1, blocked=1.0, sampled=1.0, places=[(f"f{k}", 0.5), ("g", 0.5)], pauses=[(k, 1.0 + k)]))
    assert len(tally.places) <= MAX_KEPT
    found = tally.diagnosis()
    assert len(found.blockers) == MAX_ENTRIES
    assert found.blockers[0] == ("g", 0.5)
    assert found.pauses == tuple((k, 1.0 + k) for k in range(500 - MAX_PAUSES, 500))


def test_clock_of_a_worker_is_moved_to_the_masters():
    tally = Tally()
    tally.add(causes(pauses=[(1_000_000, 0.5)]), shift_us=-400_000.0)
    assert tally.diagnosis().pauses == ((600_000, 0.5),)


def test_worst_worker_counts_and_a_pause_of_two_is_one():
    a = Diagnosis((("f", 0.4), ("g", 0.1)), (("ffmpeg", 1.0),), ((10_000_000, 0.5), (40_000_000, 0.3)), 4.0)
    b = Diagnosis((("g", 0.2),), (("chrome", 2.0), ("x", 0.1)), ((10_200_000, 0.5),), 0.5)
    assert worst_of([a, b]) == Diagnosis(
        (("f", 0.4), ("g", 0.2)), (("chrome", 2.0), ("x", 0.1)), ((10_000_000, 0.7), (40_000_000, 0.3)), 0.5
    ), "cores of one machine"
    assert worst_of([]) == Diagnosis()


def test_diagnosis_comes_back_through_the_file(tmp_path):
    found = Diagnosis((("locustfile.py:3 in f", 0.4),), (("ffmpeg", 1.5),), ((12_500_000, 0.3),), 0.25)
    path = tmp_path / "run"
    path.mkdir()
    workload = describe_workload(Facts(), 10_000_000)
    write_info(path, {"held_us": [None, None], "workload": workload, "diagnosis": found.document()})
    facts = recorded_facts([path])
    assert (facts.blockers, facts.others, facts.pauses) == (found.blockers, found.others, ((2.5, 0.3),))
    assert facts.own_cores == 0.25


HOSTILE = [
    None,
    5,
    [],
    {"blockers": 7, "others": {"a": 1}, "pauses": "x"},
    {"blockers": [["f", "much"], ["f"], [1, 0.5], ["f", math.inf], ["f", -0.1], ["f", 1.5], ["f", True], "ab"]},
    {"own_cores": "many"},
    {"own_cores": -1},
    {"others": [["f", 1e9], ["f", math.nan], [["f"], 1]]},
    {"pauses": [[1.5, 0.3], [-5, 0.3], [1 << 60, 0.3], [5, -1], [5, None], [True, 0.3]]},
]


@pytest.mark.parametrize("entry", HOSTILE)
def test_entry_that_does_not_fit_is_left_out(entry):
    assert read_diagnosis(json.loads(json.dumps(entry))) == Diagnosis()


def test_hostile_names_are_cut_and_on_one_line():
    names = [["\x1b[31mred\nline", 0.5], ["a" * 5000, 0.25], *([f"f{k}", 0.1] for k in range(500))]
    found = read_diagnosis({"blockers": names, "others": names}).blockers
    assert len(found) == MAX_ENTRIES
    assert found[0] == ("?[31mred?line", 0.5)
    assert len(found[1][0]) == MAX_NAME


# Columns of the kernel's figures --------------------------------------------------------------------------------------


def test_older_files_have_no_figures_of_the_kernel():
    """Columns that a file lacks are NaN and no keys of the worst worker; the others stay required."""
    log = HealthLog.of([(1, 0, 3, 9, 900, 800, 0.25, 0.5, 0.3)])
    assert log.worst()["run_wait"] == 0.3
    old = log.to_table().select(list(HealthLog.DTYPES)[:8])
    assert HealthLog.from_table(old).worst() == HealthLog.of([(1, 0, 3, 9, 900, 800, 0.25, 0.5)]).worst()
    assert not set(SHARES) & set(HealthLog.from_table(old).worst())
    with pytest.raises(ValueError, match="cpu"):
        HealthLog.from_table(log.to_table().drop_columns(["cpu"]))


def test_figure_of_another_process_that_is_none_is_unknown():
    """A worker's block may hold any floats."""
    log = HealthLog.of([(k, 0, 3, 9, 9, 9, 0.1, 0.5, *row) for k, row in enumerate([[2.0] * 6, [-1.0] * 6, [0.5] * 6])])
    back = HealthLog.from_table(unpack_table(pack_table(log.to_table()), max_bytes=1 << 20))
    assert back.blocked[2] == 0.5
    assert all(math.isnan(value) for name in SHARES for value in getattr(back, name)[:2])
    hostile = [(k, 0, 3, 9, 9, 9, 0.1, 0.5, *[0.5] * 6, *[us] * 3) for k, us in enumerate([-1.0, math.inf, 1e300, 4.0])]
    timer = HealthLog.from_table(HealthLog.of(hostile).to_table())
    for name in TIMER:
        assert np.isnan(getattr(timer, name)).tolist() == [True, True, True, False]
    texts = log.to_table().set_column(8, "run_wait", pa.array(["a", "b", "c"]))
    with pytest.raises(ValueError, match="run_wait"):
        HealthLog.from_table(texts)


def test_worst_is_the_highest_mean_of_a_worker_and_cores_add_up():
    rows = [
        (k, w, 3, 9, 9, 9, 0.2 + 0.1 * w, 0.5, 0.1 * (w + 1), *[math.nan] * 5, 200.0, 400.0)
        for k in range(9)
        for w in (0, 1)
    ]
    master = [(k, MASTER, 3, 9, 9, 9, 0.9, 0.5, 0.9) for k in range(9)]
    worst = HealthLog.of(rows + master).worst()
    assert worst["run_wait"] == pytest.approx(0.2)
    assert worst["generator_cpu"] == pytest.approx(0.5)
    assert worst["wake_p90_ms"] == pytest.approx(0.4)
    assert "steal" not in worst
