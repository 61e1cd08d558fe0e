"""Sessions and health in columns, and the number of users at each launch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locust_realism.recording.columns import pack_table, read_table
from locust_realism.recording.health import MASTER, HealthLog
from locust_realism.recording.launches import MISSING, LaunchLog
from locust_realism.recording.sessions import SessionLog, with_users

SPANS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=20)


@settings(max_examples=200, deadline=None)
@given(SPANS, st.lists(st.integers(0, 50), max_size=5), st.lists(st.integers(-5, 80), max_size=20))
def test_running_users_have_a_session_at_the_instant(
    spans: list[tuple[int, int]], still_open: list[int], times: list[int]
) -> None:
    starts = [start for start, _ in spans]
    ends = [start + length for start, length in spans]
    log = SessionLog.build(starts, ends)
    expected = [
        sum(start <= t < end for start, end in zip(starts, ends, strict=True)) + sum(start <= t for start in still_open)
        for t in times
    ]
    assert log.running_at(times, still_open).tolist() == expected


def test_launches_get_the_users_of_the_whole_test() -> None:
    launches = LaunchLog.build([5, 15, 25, 35], 1, worker=[0, 1, 0, 1])
    sessions = SessionLog.build([0, 10], [30, 20], worker=[0, 1])
    assert with_users(launches, sessions).users.tolist() == [1, 2, 1, 0]
    assert with_users(launches, sessions, [12]).users.tolist() == [1, 3, 2, 1]
    assert with_users(launches, SessionLog.empty()).users.tolist() == [MISSING] * 4


def some_sessions() -> SessionLog:
    return SessionLog.build(
        [1, 2, 3],
        [4, 5, 6],
        planned_us=[0, MISSING, 2],
        tasks=[7, 8, 9],
        slot=[0, 1, 0],
        worker=2,
        user_class=["Buyer", "Reader", "Buyer"],
        ending=["ran out", "killed", "stopped"],
    )


def test_sessions_come_back_from_a_file() -> None:
    import pyarrow as pa

    log = some_sessions()
    back = SessionLog.from_table(read_table(pa.BufferReader(pack_table(log.to_table()))))
    assert back.rows() == log.rows()
    joined = SessionLog.concat([log, back, SessionLog.empty()])
    assert joined.rows() == log.rows() * 2
    assert joined.take(joined.slot == 1).rows() == [log.rows()[1]] * 2


def test_export_rows_are_plain() -> None:
    assert some_sessions().rows()[1] == {
        "user_class": "Reader",
        "worker": 2,
        "slot": 1,
        "start": 2e-6,
        "end": 5e-6,
        "duration_s": 3e-6,
        "planned_start": None,
        "tasks": 8,
        "ending": "killed",
    }


def test_unknown_column_and_unequal_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown column\(s\) \['age'\]"):
        SessionLog.build([1], [2], age=3)
    with pytest.raises(ValueError, match="slot has 2 rows, expected 1"):
        SessionLog(*(np.zeros(2 if name == "slot" else 1, dtype) for name, dtype in SessionLog.DTYPES.items()))
    with pytest.raises(ValueError, match="cpu has 1 rows, expected 2"):
        HealthLog(*(np.zeros(1 if name == "cpu" else 2, dtype) for name, dtype in HealthLog.DTYPES.items()))


def test_health_comes_back_and_the_worst_is_a_worker() -> None:
    import pyarrow as pa

    seconds = [(k, 0, 5, 1000, 900, 800, 0.5, 0.6) for k in range(100)]
    busy = [(k, 1, 5, 1000, 90_000, 70_000, 0.97, 0.6) for k in range(100)]
    master = [(k, MASTER, 0, 1000, 900_000, 900_000, 1.0, 0.6) for k in range(100)]
    log = HealthLog.concat([HealthLog.of(rows) for rows in (seconds, busy, master, [])])
    back = HealthLog.from_table(read_table(pa.BufferReader(pack_table(log.to_table()))))
    assert back.cpu.tolist() == log.cpu.tolist()
    assert back.worker.dtype == np.int32
    worst = back.worst()
    assert (worst["cpu_max"], worst["loop_lag_p99_ms"]) == (0.97, 70.0)
    assert (worst["machine_cpu"], worst["generator_cpu"]) == (0.6, pytest.approx(0.5 + 0.97))
    assert HealthLog.of([]).worst() == {}
    assert log.between(40, None).time_us.min() == 40
    assert len(log.between(None, None)) == len(log)
    assert len(log.between(10, 19)) == 30


def test_row_counts_with_the_time_that_it_covers() -> None:
    """Five rows of a second and one of 5 s, in which the process stood still: half of the time, not a sixth."""
    ends_s = [second for minute in range(0, 60, 10) for second in (*(minute + k for k in range(1, 6)), minute + 10)]
    rows = [
        (s * 1_000_000, 0, 5, 9, 9, 9, 0.2 * (s % 10 > 0), 0.4 * (s % 10 > 0), *[np.nan] * 5, float(s % 10 == 0))
        for s in ends_s
    ]
    for each in (rows, rows[::-1]):
        worst = HealthLog.of(each).worst()
        assert worst["stopped"] == pytest.approx(0.5)
        assert (worst["generator_cpu"], worst["machine_cpu"]) == (pytest.approx(0.1), pytest.approx(0.2))
    even = HealthLog.of([(k * 1_000_000, *row[1:]) for k, row in enumerate(rows)])
    assert even.worst()["stopped"] == pytest.approx(1 / 6), "rows of equal length"


def test_single_bad_second_is_no_slow_generator() -> None:
    def worst(bad: int, seconds: int = 60) -> float:
        rows = [(k, 0, 5, 1000, 900_000, 300_000 if k < bad else 2000, 0.1, 0.1) for k in range(seconds)]
        return HealthLog.of(rows).worst()["loop_lag_p99_ms"]

    assert worst(2) == 2.0
    assert worst(6) == 300.0
    assert worst(1, 12) == 2.0, "a twentieth of a short run is less than a second"
    assert worst(2, 12) == 300.0


def test_single_pause_does_not_make_the_timer_late() -> None:
    """A minute with a pause of 1 s: the timer was 0.3 ms late, and no mean of 17 ms; negative control: most seconds."""

    def wake(late: int) -> float:
        timer = [(200.0, 300.0, 0.0)] * (60 - late) + [(900_000.0, 1_000_000.0, 0.0)] * late
        rows = [(k * 1_000_000, 0, 5, 9, 9, 9, 0.1, 0.1, *[np.nan] * 6, *each) for k, each in enumerate(timer)]
        return HealthLog.of(rows).worst()["wake_p90_ms"]

    assert wake(1) == 0.3
    assert wake(40) == 1000.0


def test_resolution_of_the_timer_is_that_of_the_coarsest_worker() -> None:
    """Older files have none; a master launches nothing."""
    rows = [(k, w, 5, 9, 9, 9, 0.1, 0.1, *[np.nan] * 6, 1.0, 2.0, 1000.0 * w) for k in range(3) for w in (0, 1)]
    master = [(k, MASTER, 5, 9, 9, 9, 0.1, 0.1, *[np.nan] * 6, 1.0, 2.0, 5000.0) for k in range(3)]
    log = HealthLog.of(rows + master)
    assert log.worst()["grain_us"] == 1000.0
    assert log.take(log.worker == 0).worst()["grain_us"] == 0.0
    older = HealthLog.from_table(log.to_table().drop_columns(["grain_us"]))
    assert "grain_us" not in older.worst()
