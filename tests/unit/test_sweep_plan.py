"""Plans: what is in one, what is wrong with one, and which runs in which order come out of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from locust_realism.experiments.located import PlanError, read_seconds
from locust_realism.experiments.plan import Plan
from locust_realism.experiments.plan_reading import plan_of_options, read_plan
from locust_realism.experiments.plan_text import plan_facts

PLANS = sorted((Path(__file__).parents[2] / "scenarios" / "plans").glob("*.yaml"))
GOOD = """\
title: A plan
scenario: site.py
users: [10, 20]
think_time: [500ms, 2s]
seeds: [1, 2]
repetitions: 3
steady: 1min
options: {deep: true, shallow: false, width: 3}
variants:
  plain:
  stalls:
    options: {width: 4, target-options: "--stall 1.5/5"}
    users: 5
full:
  users: 200
  steady: 20min
"""


@pytest.fixture
def write(tmp_path: Path) -> Any:
    (tmp_path / "site.py").write_text("# a locustfile\n")

    def write(text: str) -> Path:
        path = tmp_path / "plan.yaml"
        path.write_text(text)
        return path

    return write


def test_a_plan_is_read_with_variants_that_change_what_they_say_only(write: Any) -> None:
    plan = read_plan(write(GOOD))
    plain, stalls = plan.variants
    assert (plan.name, plan.title, plan.steady_s, plan.warm_up_s) == ("plan", "A plan", 60.0, 5.0)
    assert plain.think_times == stalls.think_times == (0.5, 2.0)
    assert (plain.users, stalls.users) == ((10, 20), (5,))
    assert dict(stalls.options) == {
        "--deep": True, "--shallow": False, "--width": 4, "--target-options": "--stall 1.5/5",
    }  # fmt: skip


def test_full_takes_the_articles_own_length_and_options_win_over_both(write: Any) -> None:
    path = write(GOOD.replace("    users: 5\n", "    users: 5\n    steady: 30s\n"))
    assert {cell.users for cell in read_plan(path, full=True).cells()} == {200, 5}
    changes = {"steady": "7s", "users": [3], "options": {"width": 9, "new": "a"}}
    changed = read_plan(path, full=True, changes=changes)
    assert {cell.users for cell in changed.cells()} == {3}, "a variant's own number too: --users 3 tries a plan out"
    assert {changed.run_time_s(cell) for cell in changed.cells()} == {5.0 + 7.0 + 1.0}
    assert ("Each run", "5 s warm-up, 7 s analysed") in plan_facts(changed, [])
    assert ("Each run", "5 s warm-up, 30 to 60 s analysed") in plan_facts(read_plan(path), [])
    plain, stalls = (dict(variant.options) for variant in changed.variants)
    assert plain == {"--deep": True, "--shallow": False, "--width": 9, "--new": "a"}
    assert stalls == {**plain, "--target-options": "--stall 1.5/5"}


def test_every_cell_runs_once_a_repetition_in_random_order_that_the_seed_decides(write: Any) -> None:
    plan = read_plan(write(GOOD))
    cells = plan.cells()
    assert len(cells) == len({cell.key for cell in cells}) == 3 * 2 * 2 * 3
    for repetition in range(3):
        block = cells[12 * repetition : 12 * repetition + 12]
        assert {cell.repetition for cell in block} == {repetition}
        assert len({(cell.variant.name, cell.users, cell.think_time_s, cell.seed) for cell in block}) == 12
    places = [
        [(cell.variant.name, cell.users, cell.think_time_s, cell.seed) for cell in cells[a : a + 12]] for a in (0, 12)
    ]
    assert places[0] != places[1] != sorted(places[1])
    assert [cell.key for cell in read_plan(write(GOOD)).cells()] == [cell.key for cell in cells]
    other = [cell.key for cell in read_plan(write(GOOD), changes={"order_seed": 2}).cells()]
    assert other != [cell.key for cell in cells]
    assert sorted(other) == sorted(cell.key for cell in cells)


def test_the_order_is_uniform_over_places(write: Any) -> None:
    """Each cell comes first equally often: 400 orders of 4 cells, 100 expected, within 5 standard errors (8.7)."""
    path = write("scenario: site.py\nusers: [1, 2, 3, 4]\nwarm_up: 1s\nsteady: 1s\n")
    first = Counter(read_plan(path, changes={"order_seed": seed}).cells()[0].users for seed in range(400))
    assert all(abs(count - 100) < 5 * (400 * 0.25 * 0.75) ** 0.5 for count in first.values())
    assert len(first) == 4


def test_no_two_runs_share_their_waits(write: Any) -> None:
    cells = [cell for cell in read_plan(write(GOOD)).cells() if (cell.users, cell.think_time_s) == (10, 0.5)]
    assert len({cell.run_seed for cell in cells}) == len(cells) == 6
    assert {cell.run_seed for cell in cells if not cell.repetition} == {1, 2}


def test_what_is_measured_decides_the_key_and_what_is_shown_does_not(write: Any, tmp_path: Path) -> None:
    def keys(text: str) -> set[str]:
        return {cell.key for cell in read_plan(write(text)).cells()}

    before = keys(GOOD)
    assert keys(GOOD.replace("A plan", "Another title")) == before
    assert keys(GOOD + "report: {groups: true}\n") == before
    assert not keys(GOOD.replace("1min", "2min")) & before
    assert not keys(GOOD.replace("width: 3", "width: 2")).isdisjoint(before), "stalls has a width of its own"
    (tmp_path / "site.py").write_text("# another locustfile\n")
    assert not keys(GOOD) & before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("users: [10, 20]", "users: [10, 0]"), "3: users[1] is 0, expected a whole number from 1 on"),
        (("users: [10, 20]", "users: [10, 10]"), "3: users[1] is 10, expected a value that is not there already"),
        (("users: [10, 20]", "users: []"), "3: users is [], expected at least one value"),
        (("users: [10, 20]", "users: many"), "3: users is 'many', expected a whole number from 1 on"),
        (("500ms", "-1"), "4: think_time[0] is -1, expected a time from 0 on"),
        (("500ms", "soon"), "4: think_time[0] is 'soon', expected a time such as 500ms, 90s, 2m or 1h30m"),
        (("steady: 1min", "steady: 0"), "7: steady is 0, expected a time greater than 0"),
        (("steady: 1min", "stedy: 1min"), "7: stedy is no key of a plan, expected 'steady'"),
        (("scenario: site.py", "scenario: cite.py"), "2: scenario is 'cite.py', expected a locustfile"),
        (("repetitions: 3", "repetitions: 1.5"), "6: repetitions is 1.5, expected a whole number from 1 on"),
        (("    users: 5", "    uzers: 5"), "13: variants.stalls.uzers is no key of a plan, expected 'users'"),
        (("    users: 5", "    server: {command: run}"), "13: variants.stalls.server.command is 'run', expected {"),
        (("width: 4", "width: [4]"), "12: variants.stalls.options.width is [4], expected a number, a text"),
        (("full:", "report: {targets: [p59 < 3ms]}\nfull:"), "14: report.targets[0] is 'p59 < 3ms', expected"),
        (("full:", "report: {x: size}\nfull:"), "14: report.x is 'size', expected one of users, think_time"),
        (("full:", "users: 3\nfull:"), "14: users is given twice"),
        (("seeds: [1, 2]", "seeds: [1, 2"), "this is no YAML"),
    ],
)  # fmt: skip
def test_an_error_names_file_line_key_value_and_bound(write: Any, change: tuple[str, str], said: str) -> None:
    assert change[0] in GOOD
    with pytest.raises(PlanError) as error:
        read_plan(write(GOOD.replace(*change, 1)))
    assert (f"plan.yaml:{said}" if said[0].isdigit() else said) in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"), [("", "is empty"), ("- 1", "expected keys with values"), ("users: 3", "scenario is missing")]
)
def test_what_is_no_plan_is_refused(write: Any, text: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        read_plan(write(text))


def test_a_wrong_option_is_named_as_an_option() -> None:
    with pytest.raises(PlanError, match="option --users: users\\[0\\] is 0, expected a whole number from 1 on"):
        plan_of_options({"scenario": __file__, "users": [0]})


def test_a_host_cannot_be_given_where_the_plan_starts_its_servers(write: Any) -> None:
    brings = "    users: 5\n    server: {command: 'serve {port}'}\n"
    path = write(GOOD.replace("    users: 5\n", brings))
    with pytest.raises(PlanError, match="option --host: host is 'http://shop.example', expected no host beside a serv"):
        read_plan(path, changes={"host": "http://shop.example"})
    assert read_plan(path).variants[1].server is not None


def test_full_of_a_plan_without_it_is_refused(write: Any) -> None:
    with pytest.raises(PlanError, match="full is missing"):
        read_plan(write(GOOD[: GOOD.index("full:")]), full=True)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5ms", 0.005), ("90", 90.0), ("1h30m", 5400.0), ("2min", 120.0), ("1.5s", 1.5), ("1h 5s", 3605.0)],
)
def test_times_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert read_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "5 apples", "5s5", "--5s", "1e3s"])
def test_what_is_no_time_is_none(text: str) -> None:
    assert read_seconds(text) is None


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
@pytest.mark.parametrize("full", [False, True], ids=["short", "full"])
def test_the_plans_that_come_along_can_be_run(path: Path, full: bool) -> None:
    """Both lengths are whole, and the short one is planned to take less than three minutes."""
    plan: Plan = read_plan(path, full=full)
    assert plan.title
    assert plan.article
    assert plan.claim
    assert plan.caution
    seconds = sum(plan.run_time_s(cell) + 4 for cell in plan.cells())
    assert full or seconds <= 185


def test_the_plan_in_the_documents_can_be_run(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "experiments.md").read_text()
    text = page.split("```yaml\n")[1].split("```")[0]
    (tmp_path / "shop.py").write_text("")
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "shop.yaml").write_text(text)
    plan = read_plan(tmp_path / "plans" / "shop.yaml")
    assert len(plan.cells()) == 2 * 3 * 2 * 3
    assert plan.report.targets == ("p95 < 400ms",)
