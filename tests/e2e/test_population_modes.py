"""Populations under Locust's own flags and in its page: class picker, autostart, edits, tags, and whom it counts."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.e2e.page import two_workers_with_page
from tests.e2e.population_law import assert_nobody_was_cut_short, led, results, settings
from tests.support import eventually, free_port, run_locust, two_workers

pytestmark = pytest.mark.e2e
LOCUSTFILE = Path(__file__).with_name("population_locustfile.py")


def test_the_page_picks_classes_edits_the_others_and_counts_everybody(tmp_path: Path) -> None:
    env = settings(tmp_path, rate=100, mean=60, warm_up=1)
    with two_workers_with_page("-f", LOCUSTFILE, "--class-picker", cwd=tmp_path, env=env) as (_, page):

        def counted(total: int) -> bool:
            """Return True if the page shows this many users, or one less, in all and by worker."""
            state = page.state()
            by_worker = sum(worker["user_count"] for worker in state["workers"])
            return state["state"] == "running" and {state["user_count"], by_worker} <= {total, total - 1}

        page.start(user_count=3, user_classes="Closed")
        eventually(lambda: counted(3))
        page.stop()
        assert results(tmp_path) == [], "the class with a population was not picked"

        both = {"user_classes": ["Closed", "Visitor"], "population_start": "empty", "population_max_users": 40}
        page.start(user_count=3, **both)
        eventually(lambda: counted(43), because="sessions of a minute, and 100 who want to come in each second")
        page.start(user_count=8, **both)
        eventually(lambda: counted(48), because="five more of the class without a population")
        page.start(user_count=2, **both)
        eventually(lambda: counted(42), because="and six less")
        page.start(user_count=2, **{**both, "population_max_users": 60})
        eventually(lambda: counted(62))
        page.stop()
        eventually(lambda: len(results(tmp_path)) == 2)
    assert_nobody_was_cut_short(results(tmp_path))
    assert sum(part["arrivals"] for part in results(tmp_path)) < 120, "nobody was replaced at an edit"
    assert led(tmp_path)["balked"] > 100, "those who were turned away are counted"


def test_autostart_with_a_page_a_run_time_a_stop_timeout_and_our_flags(tmp_path: Path) -> None:
    # --autoquit within --stop-timeout after the stop leaves Locust's workers behind, whatever users they have
    done = run_locust(
        "-f", LOCUSTFILE, "--autostart", "--autoquit", 3, "-t", "5s", "--stop-timeout", 1, "-u", 2, "--only-summary",
        "--web-host", "127.0.0.1", "--web-port", free_port(), *two_workers(), "--tags", "look",
        "--population-scale", 0.5, "--population-session-duration", "2s", "--realism-warmup", "1s",
        cwd=tmp_path, timeout=60, env=settings(tmp_path, rate=100, mean=1, warm_up=3),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "100 users on average" in done.stdout
    assert "50 arrivals/s, sessions of 2 s" in done.stdout
    parts = results(tmp_path)
    assert [part["index"] for part in parts] == [0, 1]
    assert_nobody_was_cut_short(parts)
    assert 50 < sum(part["entered"] for part in parts) < 150, "who is in at the start: Poisson with mean 100"
    assert {session[3] for part in parts for session in part["sessions"]} <= {"ran out", "stopped"}, "none in a task"


def test_people_and_the_seed_are_flags(tmp_path: Path) -> None:
    runs = []
    for name, seed in (("one", 7), ("again", 7), ("other", 8)):
        (tmp_path / name).mkdir()
        done = run_locust(
            "-f", LOCUSTFILE, "--headless", "-t", "4s", "--only-summary", "--population-people", 40,
            "--realism-seed", seed,
            cwd=tmp_path, timeout=60, env=settings(tmp_path / name, rate=100, mean=1, warm_up=1, model="finite"),
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        assert "10 of 40 people in session on average" in done.stdout
        (part,) = results(tmp_path / name)
        assert_nobody_was_cut_short([part])
        runs.append(sorted(session[2] - part["origin"] for session in part["sessions"])[:4])
    assert runs[1] == pytest.approx(runs[0], abs=1e-3), "the same seed repeats who comes when"
    assert runs[2] != pytest.approx(runs[0], abs=1e-3)


@pytest.mark.parametrize("model", ["finite", "tasks"])
def test_the_other_models_run_in_one_process(tmp_path: Path, model: str) -> None:
    done = run_locust(
        "-f", LOCUSTFILE, "--headless", "-t", "8s", "--only-summary", "--tags", "look",
        cwd=tmp_path, timeout=60, env=settings(tmp_path, rate=50, mean=1, model=model),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    (part,) = results(tmp_path)
    assert_nobody_was_cut_short([part])
    ended = [s for s in part["sessions"] if s[3] == "ran out"]
    starts = [s[0] for s in part["sessions"]]
    expected = 50 * (max(starts) - min(starts))  # how long it ran depends on how busy the machine is
    assert expected > 150
    assert abs(part["arrivals"] - expected) < 5 * math.sqrt(400) + 50 * (model == "finite")  # who is in at the start
    if model == "tasks":
        assert {s[4] for s in ended} == {1}


def test_fast_users_without_a_host_end_the_run_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "locustfile.py").write_text(
        "from locust import FastHttpUser, task\n"
        "from locust_realism.runtime.population.model import open_arrivals\n"
        "from locust_realism.workload.rates.shapes import ConstantRate\n"
        "class Visitor(FastHttpUser):\n"
        "    population = open_arrivals(ConstantRate(50))\n"
        "    @task\n"
        "    def look(self):\n"
        "        self.client.get('/')\n"
    )
    done = run_locust("--headless", "-t", "20s", "--only-summary", cwd=tmp_path, timeout=60)
    assert done.returncode == 1
    assert "Visitor cannot be created" in done.stdout
    assert "base host" in done.stdout
