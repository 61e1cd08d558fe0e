"""A Locust page over a recorded log, for browser tests of exact figures: tabs_site.py PORT [OPTION ...].

Options: ``login`` (sign in by opening /enter), ``base`` (everything below /load), ``picker`` (the class picker),
``many`` (200 hostile names of 300 characters), ``live`` (rows appear as time passes), ``ready`` (no test was started).
"""

import sys

from gevent import monkey

monkey.patch_all()

import math  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[1]))

from flask import redirect, session  # noqa: E402
from flask_login import UserMixin, login_user  # noqa: E402
from locust import User, constant, events, task  # noqa: E402
from locust.env import Environment  # noqa: E402
from web_support import LogProvider, poisson_log  # noqa: E402

from locust_realism.report.html import render_report  # noqa: E402
from locust_realism.web.views import register  # noqa: E402

PORT, OPTIONS = int(sys.argv[1]), set(sys.argv[2:])
sys.argv = sys.argv[:1]
TIMES = [5.0 + 10 * i for i in range(30)]
EXPECTED = [40 * (1 - math.exp(-t / 60)) for t in TIMES]
POPULATION: dict[str, Any] = {
    "model": {"name": "Population", "text": "sessions of 60 s on average"},
    "series": {
        "t_s": TIMES,
        "users": [round(value) for value in EXPECTED],
        "expected": EXPECTED,
        "low": [max(0.0, value - 2 * value**0.5) for value in EXPECTED],
        "high": [value + 2 * value**0.5 for value in EXPECTED],
        "arrivals": [0.7] * 30,
        "departures": [value / 60 for value in EXPECTED],
        "planned_rate": [50.0] * 30,
    },
    "sessions": {
        "n": 180, "mean_s": 58.2, "sdev_s": 57.0, "cov": 0.98, "p50_s": 40.0, "p90_s": 130.0, "p95_s": 170.0,
        "p99_s": 240.0, "min_s": 0.2, "max_s": 260.0,
        "edges_s": [0, 60, 120, 180, 240, 300], "counts": [115, 40, 15, 7, 3],
    },
    "balked": 2, "late": 3, "cut_short": 0,
    "profile": {"t_s": [300.0, 3900.0, 7500.0], "rate": [0.7, 1.4, 0.9], "now_s": 300.0, "unit": "arrivals / s"},
}  # fmt: skip
WORKERS = [
    {
        "id": f"host_{i}", "state": "running", "users": 10, "cpu": (0.42, 0.93)[i], "memory_bytes": 91_000_000 + i,
        "lag_p99_ms": (2.5, 64.0)[i], "lateness_p50_ms": 0.6, "lateness_p95_ms": 1.9, "lateness_p99_ms": 4.4,
        "rows": 1500 + i, "lost": 0, "clock_offset_ms": 0.12 * i, "clock_uncertainty_ms": 0.02,
        **({} if i else {"run_wait": 0.031}),
    }
    for i in range(2)
]  # fmt: skip
GENERATOR: dict[str, Any] = {
    "workers": WORKERS,
    "target": None,
    "series": {
        "t_s": TIMES,
        "workers": [{"id": w["id"], "cpu": [w["cpu"]] * 30, "lag_p99_ms": [w["lag_p99_ms"]] * 30} for w in WORKERS],
    },
}


class Visitor(User):
    """User without work: the figures come from the log."""

    wait_time = constant(1)

    @task
    def nothing(self) -> None:
        """Do nothing."""


class Person(UserMixin):
    """Visitor who has opened /enter."""

    id = "someone"


@events.init_command_line_parser.add_listener
def _options(parser: Any) -> None:
    parser.add_argument("--realism-seed", default="7", help="Seed of every think time (the same seed repeats a run).")
    parser.add_argument("--realism-warmup", default="0", help="Leave out the first part of the run.")
    parser.add_argument("--think-time", default="1", help="Mean think time in seconds")


def main() -> None:
    """Serve until killed."""
    environment = Environment(user_classes=[Visitor], events=events, available_user_classes={"Visitor": Visitor})
    runner = environment.create_local_runner()
    base = "/load" if "base" in OPTIONS else None
    web_ui: Any = environment.create_web_ui(
        "127.0.0.1",
        PORT,
        web_base_path=base,
        web_login="login" in OPTIONS,
        userclass_picker_is_active="picker" in OPTIONS,
        delayed_start=True,
    )
    log = poisson_log(names=200, rate=200.0) if "many" in OPTIONS else poisson_log()
    provider = LogProvider(log, live="live" in OPTIONS, state=lambda: str(runner.state))
    provider.population_document, provider.generator_document = POPULATION, GENERATOR
    provider.report = render_report
    register(web_ui, provider)
    if "login" in OPTIONS:
        web_ui.app.secret_key = "secret"
        web_ui.login_manager.user_loader(lambda _: Person())

        @web_ui.app.route("/enter")
        def enter() -> Any:
            login_user(Person())
            return redirect("/")

        @web_ui.app.route("/leave")
        def leave() -> Any:
            session.clear()
            return "left"

    web_ui.start()
    if "ready" not in OPTIONS:
        runner.start(2, 2)
    web_ui.greenlet.join()


main()
