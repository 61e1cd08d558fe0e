"""One monotonic axis: steps of the wall clock are detected and taken out of launch times."""

from __future__ import annotations

import numpy as np
import pytest

from locust_realism.runtime.coordination.clock import Clock


class TwoClocks:
    """Wall clock and monotonic clock that a test moves; each reading of the monotonic one takes a microsecond."""

    def __init__(self) -> None:
        self.elapsed, self.step = 0.0, 0.0

    def wall(self) -> float:
        return 1_700_000_000.0 + self.elapsed + self.step

    def mono(self) -> float:
        self.elapsed += 1e-6
        return 5000.0 + self.elapsed


def launches(clock: Clock, *rows: tuple[float, float, float]) -> list[float]:
    start, ended, response = (np.array(column) for column in zip(*rows, strict=True))
    return clock.launches(start, ended, response)[0].tolist()


def test_axis_is_the_epoch_when_no_clock_is_set() -> None:
    clocks = TwoClocks()
    clock = Clock(clocks.wall, clocks.mono)
    clocks.elapsed += 12.5
    assert clock.now_us() == pytest.approx((1_700_000_000 + clocks.elapsed) * 1e6, abs=10)


@pytest.mark.parametrize("seconds", [-3600.0, -0.02, 0.02, 3600.0])
def test_a_step_is_detected_once_and_taken_out_of_launch_times(seconds: float) -> None:
    clocks = TwoClocks()
    clock = Clock(clocks.wall, clocks.mono)
    assert clock.check() is None
    clocks.elapsed += 10
    before = (clocks.wall(), clocks.mono() + 0.3, 0.3)  # launched before the step, reported before it
    straddles = (clocks.wall(), clocks.mono() + 1.2, 1.2)  # launched before, reported after
    clocks.elapsed += 1
    clocks.step = seconds
    after = (clocks.wall(), clocks.mono() + 0.3, 0.3)
    true = [5010.0, 5010.0, 5011.0]
    step = clock.check()
    assert step is not None
    assert step.seconds == pytest.approx(seconds, abs=1e-4)
    assert clock.check() is None
    found = launches(clock, before, straddles, after)
    assert found == pytest.approx([1_700_000_000 + t - 5000 for t in true], abs=2e-3)


def test_slewing_is_no_step() -> None:
    """NTP slews by at most 500 ppm: half a millisecond in the second between two checks."""
    clocks = TwoClocks()
    clock = Clock(clocks.wall, clocks.mono)
    clocks.elapsed, clocks.step = clocks.elapsed + 1, 0.0005
    assert clock.check() is None


def test_without_start_time_the_launch_is_report_less_response() -> None:
    clocks = TwoClocks()
    clock = Clock(clocks.wall, clocks.mono)
    assert launches(clock, (np.nan, 5007.5, 0.5), (np.nan, 5007.5, np.nan)) == pytest.approx(
        [1_700_000_007.0, 1_700_000_007.5], abs=1e-5
    )


@pytest.mark.parametrize("nonsense", [0.0, 5007.0, 1.7e12, np.inf, -np.inf])
def test_a_start_time_that_is_not_wall_time_is_replaced_and_reported(nonsense: float) -> None:
    """A client's mistake (perf_counter, milliseconds, zero) must not put a launch into another century."""
    clocks = TwoClocks()
    clock = Clock(clocks.wall, clocks.mono)
    found, bad = clock.launches(np.array([nonsense]), np.array([5007.5]), np.array([0.5]))
    assert bad.tolist() == [True]
    assert found.tolist() == pytest.approx([1_700_000_007.0], abs=1e-5)


def test_anchor_ignores_a_pause_between_the_two_readings() -> None:
    class Paused(TwoClocks):
        reads = 0

        def wall(self) -> float:
            self.reads += 1
            now = super().wall()
            if self.reads != 3:
                self.elapsed += 0.05  # the process is preempted right after reading the wall clock
            return now

    clocks = Paused()
    assert Clock(clocks.wall, clocks.mono).anchor == pytest.approx(1_700_000_000 - 5000, abs=1e-4)
