"""Clock offsets from exchanged messages, under busy event loops, shifts and drifts; and launches mapped by them."""

from __future__ import annotations

import numpy as np
import pytest

from locust_realism.recording.launches import MISSING, LaunchLog
from locust_realism.recording.offsets import SHARED, ClockLine, OffsetEstimator, Probe, on_master_clock


def probes(
    shift_us: float, drift: float, seconds: int = 300, per_second: int = 2, seed: int = 5, busy_us: float = 3000
) -> OffsetEstimator:
    """Return messages between a worker with a wrong clock and a master; each way takes 20 µs, mostly much longer."""
    rng = np.random.default_rng(seed)
    estimator = OffsetEstimator()
    for k in range(seconds * per_second):
        true = k * 1_000_000 / per_second

        def worker(at: float) -> int:
            return round(at - shift_us - drift * at)

        there, inside, back = 20 + rng.exponential(busy_us), rng.exponential(50), 20 + rng.exponential(busy_us)
        estimator.add(
            Probe(
                worker(true),
                round(true + there),
                round(true + there + inside),
                worker(true + there + inside + back),
            )
        )
    return estimator


@pytest.mark.parametrize("shift_us", [-2_000_000.0, -300.0, 0.0, 40.0, 3_600_000_000.0])
@pytest.mark.parametrize("drift", [0.0, 30e-6, -100e-6])
def test_offset_is_within_its_uncertainty(shift_us: float, drift: float) -> None:
    line = probes(shift_us, drift).line()
    middle = 150_000_000
    at = round(middle - shift_us - drift * middle)
    truth = shift_us + drift * middle
    found = float(line.offset_at(np.array([at]))[0])
    assert abs(found - truth) < 4 * line.sd_us
    assert line.sd_us < 500, "the best of 32 must be far better than the 3 ms that a message takes on average"
    assert line.drift == pytest.approx(drift, abs=4 * line.sd_us / 80e6)


def test_one_probe_alone_would_be_off_by_milliseconds() -> None:
    """Negative control: without the best of 32 the scatter is that of the busy loop."""
    rng = np.random.default_rng(5)
    there, back = rng.exponential(3000, 1000), rng.exponential(3000, 1000)
    assert np.std((there - back) / 2) > 1500


def test_error_is_at_most_half_the_travel_time() -> None:
    rng = np.random.default_rng(9)
    for _ in range(200):
        there, back, offset = rng.exponential(1000), rng.exponential(10), rng.normal(0, 1e6)
        probe = Probe(0, round(there + offset), round(there + offset), round(there + back))
        assert abs(probe.offset_us - offset) <= probe.error_us + 1


def test_probes_that_run_backwards_are_left_out() -> None:
    estimator = OffsetEstimator()
    estimator.add(Probe(100, 50, 60, 90))
    estimator.add(Probe(100, 60, 50, 190))
    assert estimator.line() == ClockLine()
    assert not ClockLine().matters


def test_a_few_probes_give_an_offset_without_drift() -> None:
    line = probes(5000.0, 0.0, seconds=5).line()
    assert line.drift == 0.0
    assert line.matters
    assert abs(line.offset_us - 5000) < 4 * line.sd_us


def test_launches_are_mapped_only_if_the_clocks_differ() -> None:
    log = LaunchLog.build([1000, 2000, 3000], 5, planned_us=[900, MISSING, 2900], worker=[0, 1, 2])
    wrong = ClockLine(at_us=0, offset_us=500.0, drift=0.1, sd_us=10.0, probes=64)
    unsure = ClockLine(at_us=0, offset_us=500.0, drift=0.0, sd_us=400.0, probes=64)
    mapped = on_master_clock(log, {0: wrong, 1: wrong, 2: unsure})
    assert mapped.launch_us.tolist() == [1600, 2700, 3000]
    assert mapped.planned_us.tolist() == [1500, MISSING, 2900]
    assert mapped.response_us.tolist() == log.response_us.tolist()
    assert on_master_clock(log, {0: SHARED, 1: ClockLine()}) is log


def test_mapping_restores_bunches_shared_by_workers() -> None:
    """A shift of 40 ms turns ten requests of one millisecond on two workers into two bunches of five."""
    rng = np.random.default_rng(2)
    true = np.repeat(np.arange(200) * 100_000, 10) + rng.integers(0, 1000, 2000)
    worker = np.tile([0, 1], 1000)
    shifted = np.where(worker == 1, true - 40_000, true)
    log = LaunchLog.build(shifted, 5, worker=worker)

    def cov(launches: np.ndarray) -> float:
        gaps = np.diff(np.sort(launches))
        return float(gaps.std(ddof=1) / gaps.mean())

    line = probes(40_000.0, 0.0).line()
    mapped = on_master_clock(log, {1: line})
    assert cov(log.launch_us) < 0.8 * cov(true)
    assert cov(mapped.launch_us) == pytest.approx(cov(true), rel=0.02)
