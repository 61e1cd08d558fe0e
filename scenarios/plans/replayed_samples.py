"""Drawn samples of a long test, reported to Locust as requests, to compare its recording and its table with them.

    locust -f scenarios/plans/replayed_samples.py --headless -t 10m --replay-samples 100000

After "How to Achieve Better Accuracy in Latency Percentiles in JMeter Dashboard" (DZone): 3,421,980 samples at 5,706
per second. Most are short, and one in ten is slow with a long tail. Towards the end more are slow, as in that test,
whose last three pieces of 20,000 became slower one after the other. The replay sends nothing. Launch times are those
of a test of ten minutes, whatever the replay takes; Locust ends after the last sample.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import gevent
import numpy as np
from locust import User, task
from locust.exception import StopUser
from numpy.typing import NDArray

from locust_realism import install, lognormal
from locust_realism.kit import NOT_NEGATIVE, POSITIVE, Option, bounded, scenario_options

logger = logging.getLogger(__name__)

Floats = NDArray[np.float64]

BLOCK = 2_000
MOST = lognormal(0.016, cov=1.0)
SLOW = lognormal(0.85, cov=2.5)
SLOW_SHARE = 0.1
"""Response times in seconds, with p90, p95 and p99 near the article's 70, 321 and 2,009 ms."""
GIVE_UP = 30.0
"""Longest response time in seconds: a time-out."""

OPTIONS = (
    Option("--replay-samples", 3_421_980, "Number of samples.", type=bounded(int, least=1), in_ui=False),
    Option("--replay-rate", 5706.3, "Samples per second.", type=POSITIVE, in_ui=False),
    Option(
        "--replay-worse-from",
        1.0,
        "Share of the samples from which on more are slow, 5 %% of all in addition at the end; 1: a steady test.",
        type=NOT_NEGATIVE,
        in_ui=False,
    ),
)


def samples(n: int, rate: float, worse_from: float, seed: int) -> Iterator[tuple[Floats, Floats]]:
    """Yield blocks of launch times in seconds from the start, and of response times in seconds."""
    rng = np.random.default_rng(seed)
    now = 0.0
    for start in range(0, n, BLOCK):
        size = min(BLOCK, n - start)
        gaps = rng.exponential(1 / rate, size)
        launches = now + np.cumsum(gaps)
        now = float(launches[-1])
        along = (start + np.arange(size)) / n
        worse = np.clip((along - worse_from) / (1 - worse_from), 0, 1) if worse_from < 1 else np.zeros(size)
        slow = rng.random(size) < SLOW_SHARE + 0.05 * worse
        yield launches, np.minimum(np.where(slow, SLOW.sample(rng, size), MOST.sample(rng, size)), GIVE_UP)


class Replayer(User):
    """Reports all samples, then ends the run."""

    @task
    def replay(self) -> None:
        options = self.environment.parsed_options
        assert options is not None
        assert self.environment.runner is not None
        fire, began = self.environment.events.request.fire, time.time()
        seed = options.realism_seed or 0
        for launches, responses in samples(
            options.replay_samples, options.replay_rate, options.replay_worse_from, seed
        ):
            for launch, response in zip(launches.tolist(), responses.tolist(), strict=True):
                fire(
                    request_type="GET",
                    name="sample",
                    start_time=began + launch,
                    response_time=1e3 * response,
                    response_length=0,
                    exception=None,
                    context={},
                )
            gevent.sleep(0)
        logger.info("All samples are reported.")
        gevent.spawn(self.environment.runner.quit)
        raise StopUser


install()
scenario_options("Replayed samples", OPTIONS)
