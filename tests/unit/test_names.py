"""The verdict on single names: a fault of one does not colour the others."""

from __future__ import annotations

import numpy as np
import pytest

from locust_realism.analysis.settings import AnalysisSettings, VerdictBounds
from locust_realism.analysis.summary import summarize
from locust_realism.analysis.verdict.evidence import Facts
from locust_realism.recording.launches import LaunchLog
from locust_realism.workload.rates.shapes import SineRate

N = 20_000


def log_of(**launches: np.ndarray) -> LaunchLog:
    """Return a log of the launches, in seconds, of each name."""
    times = np.concatenate(list(launches.values()))
    names = np.repeat(list(launches), [len(each) for each in launches.values()])
    order = np.argsort(times, kind="stable")
    return LaunchLog.build(np.rint(times[order] * 1e6).astype(np.int64), 1000, names=names[order].tolist())


def poisson(rate: float, n: int = N, seed: int = 1) -> np.ndarray:
    return np.cumsum(np.random.default_rng(seed).exponential(1 / rate, n))


def statuses(log: LaunchLog, facts: Facts | None = None, **changes: object) -> dict[str, str]:
    document = summarize(log, facts=facts, settings=AnalysisSettings(charts=False, **changes))  # type: ignore[arg-type]
    return {row["label"]: row["status"] for row in document["names"]}


def test_each_name_has_its_colour_in_the_order_of_the_table() -> None:
    rng = np.random.default_rng(2)
    document = summarize(
        log_of(
            home=poisson(100),
            even=np.arange(N) / 100 + rng.uniform(0, 0.001, N),
            bunched=np.repeat(poisson(10, N // 10, seed=3), 10) + np.tile(np.arange(10) * 0.002, N // 10),
            rare=poisson(0.2, 50, seed=4),
            some=poisson(1, 200, seed=5),
        ),
        settings=AnalysisSettings(charts=False),
    )
    found = {row["label"]: row for row in document["names"]}
    assert {name: row["status"] for name, row in found.items()} == {
        "bunched": "red",
        "even": "red",
        "home": "green",
        "rare": "not enough data",  # fewer than min_gaps
        "some": "not enough data",  # three standard errors of 200 gaps are 0.21, more than where red begins
    }
    assert found["bunched"]["cov"] > 2 > 1 > 0.2 > found["even"]["cov"]
    assert abs(found["home"]["cov"] - 1) < 4 / np.sqrt(N)
    launches = document["launches"][:-1]
    assert [(row["label"], row["method"], row["n"]) for row in launches] == [
        (row["label"], row["method"], row["n"]) for row in document["names"]
    ]


def test_the_bounds_are_the_settings() -> None:
    log = log_of(home=np.cumsum(np.random.default_rng(6).gamma(2, 1, N)))  # CoV 0.71
    assert statuses(log) == {"home": "red"}
    assert statuses(log, bounds=VerdictBounds(cov_amber=0.2, cov_red=0.4)) == {"home": "amber"}
    assert statuses(log, bounds=VerdictBounds(cov_amber=0.4, cov_red=0.4)) == {"home": "green"}


def test_planned_rate_is_no_bunching_of_a_name() -> None:
    """A sine of relative amplitude 0.8 in 20 s: too fast for windows of 200 gaps at 8 a second."""
    rate = SineRate(min_rate=1.6, max_rate=14.4, period=20)
    u = np.cumsum(np.random.default_rng(7).exponential(1, N))
    log = log_of(home=np.asarray(rate.inverse(u)))
    assert statuses(log) == {"home": "red"}
    assert statuses(log, Facts(planned_profile=rate, run_start_us=0)) == {"home": "green"}


def test_coarse_clock_is_no_bunching_of_a_name() -> None:
    """1,000 launches a second in whole milliseconds have a CoV of 1.08 as recorded."""
    log = log_of(home=np.floor(poisson(1000) * 1000) / 1000)
    document = summarize(log)
    assert document["launches"][0]["cov"] > 1.05
    assert document["names"][0]["status"] == "green"


def test_repeated_name_counts_once_a_task() -> None:
    """Four images of one name after a page come from independent users, unless the tasks are bunched."""

    def tasks(starts: np.ndarray) -> LaunchLog:
        launches = starts[:, None] + np.array([0, 0.021, 0.042, 0.063])
        user = np.repeat(np.arange(len(starts)) % 100, 4)
        order = np.argsort(launches.ravel(), kind="stable")
        return LaunchLog.build(
            np.rint(launches.ravel()[order] * 1e6).astype(np.int64),
            20_000,
            names=np.tile(["page", "image", "image", "image"], len(starts))[order].tolist(),
            slot=user[order],
        )

    document = summarize(tasks(poisson(20, 10_000)))
    assert {row["label"]: row["cov"] for row in document["launches"]}["image"] > 1.3
    assert {row["label"]: (row["n"], row["status"]) for row in document["names"]} == {
        "page": (9_999, "green"),
        "image": (9_999, "green"),
    }
    bunched = np.sort(np.repeat(poisson(2, 1_000), 10) + np.tile(np.arange(10) * 0.003, 1_000))
    assert statuses(tasks(bunched)) == {"page": "red", "image": "red"}


@pytest.mark.parametrize("held", [(None, None), (10**12, None)])
def test_names_have_no_verdict_during_the_ramp(held: tuple[int | None, int | None]) -> None:
    assert statuses(log_of(home=poisson(100)), Facts(held_us=held)) == {}


def test_false_reds_are_rarer_than_one_name_in_a_hundred() -> None:
    """300 names of 1,000 independent launches each: three standard errors are exceeded once in about 400."""
    names = {f"name {i}": poisson(0.5, 1000, seed=100 + i) for i in range(300)}
    found = list(statuses(log_of(**names)).values())
    assert found.count("red") <= 3
    assert found.count("green") >= 290
