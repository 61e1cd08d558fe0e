"""Law of populations in real Locust processes: arrivals, number in session, and the counts of Locust."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from locust_realism.workload.distributions import exponential, lognormal
from locust_realism.workload.rates.shapes import SineRate
from locust_realism.workload.users.concurrency import expected_users
from tests.e2e.population_law import (
    Times,
    as_the_machine_allows,
    assert_locust_counts_the_users,
    assert_nobody_was_cut_short,
    index_of_dispersion,
    moments_of_n,
    results,
    settings,
    times_of,
    unlike_poisson,
    wait_for_idle,
)
from tests.support import free_port, run_locust, started_locust, two_workers

pytestmark = [pytest.mark.e2e, pytest.mark.timed, pytest.mark.alone]
LOCUSTFILE = Path(__file__).with_name("population_locustfile.py")
RATE, MEAN, WARM_UP, RUN_S = 450, 0.5, 1.0, 25
Parts = list[dict[str, Any]]
SETTLED = (2.0, 22.0)
CLOSED = 3
ATTEMPTS = 3
"""Runs of a test on a machine that is too busy for exact starts."""
MODES = ("local", "processes", "workers")
NOT_EACH_TIME = [mode if mode == "processes" else pytest.param(mode, marks=pytest.mark.nightly) for mode in MODES]


def run(mode: str, out: Path, **values: object) -> tuple[Parts, str]:
    """Run the locustfile in one process, with two forked workers, or with two that are started separately."""
    out.mkdir()
    env = settings(out, rate=RATE, mean=MEAN, warm_up=WARM_UP, **values)
    leading = ("-f", LOCUSTFILE, "--headless", "-u", CLOSED, "-t", f"{RUN_S}s", "--only-summary", "--realism-seed", 17,
               "--csv", out / "run", "--csv-full-history")  # fmt: skip
    if mode != "workers":
        done = run_locust(*leading, *(two_workers() if mode == "processes" else ()), cwd=out, timeout=90, env=env)
        assert done.returncode == 0, done.stdout
        log = done.stdout
    else:
        port = free_port()
        master = ("--master", "--master-bind-host", "127.0.0.1", "--master-bind-port", port, "--expect-workers", 2)
        with started_locust(*leading, *master, cwd=out, env=env, log=out / "log") as first, ExitStack() as stack:
            worker = ("-f", LOCUSTFILE, "--worker", "--master-port", port)
            workers = [stack.enter_context(started_locust(*worker, cwd=out, env=env)) for _ in range(2)]
            assert first.wait(90) == 0
            assert [process.wait(20) for process in workers] == [0, 0]
        log = (out / "log").read_text()
    parts = results(out)
    members = 1 if mode == "local" else 2
    assert [part["index"] for part in parts] == list(range(members))
    assert {part["plans"][-1][1] for part in parts} == {members}
    assert_nobody_was_cut_short(parts)
    assert_locust_counts_the_users(parts, out / "run_stats_history.csv", CLOSED, SETTLED)
    return parts, log


def run_as_poisson(mode: str, out: Path, scale: Callable[[Times], Times], **values: object) -> tuple[Parts, str]:
    """Run the locustfile; assert that ten thousand arrivals are Poisson where ``scale`` makes their rate constant.

    A busy machine delays starts: wait until it is idle and run again, then fail. The failure has the same checks of
    starts that a bare gevent.sleep of these processes would have timed.
    """
    for attempt in range(ATTEMPTS):
        parts, log = run(mode, out / str(attempt), **values)
        origin = min(part["origin"] for part in parts)
        started, _, planned = np.concatenate([np.stack(times_of(part, origin)) for part in parts], axis=1)
        arrived = planned > WARM_UP
        assert arrived.sum() > 10_000
        assert stats.kstest(np.diff(np.sort(scale(planned[arrived]))) * RATE, "expon").pvalue > 0.001
        allowed = np.concatenate([as_the_machine_allows(part, origin) for part in parts])
        found = unlike_poisson(scale(started[arrived]))
        busy = unlike_poisson(scale(allowed[allowed > WARM_UP]))
        if not found:
            return parts, log
        wait_for_idle()
    pytest.fail(
        f"not Poisson in {ATTEMPTS} runs: {'; '.join(found)}; timed by a bare gevent.sleep: {busy or 'Poisson'}"
    )


@pytest.mark.parametrize("mode", NOT_EACH_TIME)
def test_ten_thousand_arrivals_are_poisson_and_so_is_the_number_in_session(mode: str, tmp_path: Path) -> None:
    parts, log = run_as_poisson(mode, tmp_path, lambda times: times)
    assert f"{RATE * MEAN:.4g} users on average" in log
    mean, variance = moments_of_n(
        parts, lambda t: (np.full(len(t), RATE * MEAN), np.full(len(t), RATE * MEAN)), exponential(MEAN), SETTLED
    )
    assert abs(mean) < 3
    assert abs(variance) < 3
    fixed = {**parts[0], "sessions": [[s, s + 30] + [0] * 3 for s in np.full(225, parts[0]["origin"])]}
    law = moments_of_n([fixed], lambda t: (t * 0 + 225, t * 0 + 225), exponential(MEAN), SETTLED)
    assert law[1] < -3, "negative control: a fixed pool has the mean, and no variance"


@pytest.mark.nightly
@pytest.mark.parametrize("mode", MODES)
def test_a_sine_profile_has_the_law_of_the_mt_g_infinity_queue(mode: str, tmp_path: Path) -> None:
    profile, stay = SineRate(0.2 * RATE, 1.8 * RATE, period=8), lognormal(MEAN, cov=1.2)

    def scale(times: Times) -> Times:
        return profile.cumulative(np.maximum(times, 0)) / RATE

    parts, _ = run_as_poisson(mode, tmp_path, scale, model="sine", period=8)
    origin = min(part["origin"] for part in parts)
    starts = np.sort(np.concatenate([times_of(part, origin)[0] for part in parts]))
    assert unlike_poisson(starts[starts > WARM_UP]), "negative control: without rescaling they are not Poisson"

    def law(t: Any, lag: bool = True) -> Any:
        coarse = np.arange(0, RUN_S, 0.1)
        curve = expected_users(profile, stay, coarse, warm_up=WARM_UP) if lag else profile.rate(coarse) * MEAN
        return np.interp(t, coarse, curve), np.interp(t, coarse, curve)

    mean, variance = moments_of_n(parts, law, stay, SETTLED)
    assert abs(mean) < 3
    assert abs(variance) < 3
    without_lag = moments_of_n(parts, lambda t: law(t, lag=False), stay, SETTLED)
    assert without_lag[1] > 3, "negative control: the rate times the mean session is not the curve"


@pytest.mark.nightly
@pytest.mark.parametrize("mode", MODES)
def test_a_finite_population_has_the_law_of_a_finite_source(mode: str, tmp_path: Path) -> None:
    parts, _ = run(mode, tmp_path / "run", model="finite", away=MEAN / 3)
    # three of four are in session; whether one is has the autocorrelation exp(-t/S - t/A), as of sessions of S/4
    relaxation, expected = exponential(MEAN / 4), RATE * MEAN
    mean, variance = moments_of_n(parts, lambda t: (t * 0 + expected, t * 0 + expected / 4), relaxation, SETTLED)
    assert abs(mean) < 3
    assert abs(variance) < 3
    as_poisson = moments_of_n(parts, lambda t: (t * 0 + expected, t * 0 + expected), relaxation, SETTLED)
    assert as_poisson[1] < -3, "negative control: with people who can be in only once, N varies less than Poisson"


def test_the_checks_find_arrivals_that_are_not_poisson() -> None:
    even = np.linspace(0, 20, 9000)
    assert len(unlike_poisson(even)) == 4
    rng = np.random.default_rng(3)
    poisson = np.cumsum(rng.exponential(1 / RATE, 10_000))
    assert unlike_poisson(poisson) == []
    assert unlike_poisson(np.ceil(poisson / 0.02) * 0.02), "starts in lumps every 20 ms"
    assert not index_of_dispersion(np.repeat(poisson[:5000] * 2, 2), 0.1)[1], "two at a time"
