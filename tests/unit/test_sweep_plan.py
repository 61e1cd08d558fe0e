"""Plans: keys, errors with their places, and the runs in their order."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from locust_realism.sweep.design import Plan, plan_facts
from locust_realism.sweep.plan_file import PlanError, plan_of_options, read_plan

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


def test_a_variant_changes_the_keys_that_it_has_and_no_others(write: Any) -> None:
    plan = read_plan(write(GOOD))
    plain, stalls = plan.variants
    assert (plan.name, plan.title, plan.warm_up_s) == ("plan", "A plan", 5.0)
    assert plain.steady_s == stalls.steady_s == 60.0
    assert plain.think_times == stalls.think_times == (0.5, 2.0)
    assert (plain.users, stalls.users) == ((10, 20), (5,))
    assert dict(stalls.options) == {
        "--deep": True, "--shallow": False, "--width": 4, "--target-options": "--stall 1.5/5",
    }  # fmt: skip


def test_full_takes_the_length_of_the_article_and_options_override_both(write: Any) -> None:
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


def test_every_cell_runs_once_a_repetition_in_the_random_order_of_the_seed(write: Any) -> None:
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


def test_the_key_depends_on_measured_settings_and_not_on_shown_ones(write: Any, tmp_path: Path) -> None:
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
        (("500ms", "soon"), "4: think_time[0] is 'soon', expected a time span such as 500ms, 90, 90s, 2m or 1h30m"),
        (("steady: 1min", "steady: 0"), "7: steady is 0, expected a time greater than 0"),
        (("steady: 1min", "stedy: 1min"), "7: stedy is no key of a plan, expected 'steady'"),
        (("scenario: site.py", "scenario: cite.py"), "2: scenario is 'cite.py', expected a locustfile"),
        (("repetitions: 3", "repetitions: 1.5"), "6: repetitions is 1.5, expected a whole number from 1 on"),
        (("    users: 5", "    uzers: 5"), "13: variants.stalls.uzers is no key of a plan, expected 'users'"),
        (("    users: 5", "    server: {command: run}"), "13: variants.stalls.server.command is 'run', expected {"),
        (("    users: 5", "    server: {command: 'run \"{port}'}"), "the words of a command (No closing quotation)"),
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
def test_a_document_that_is_no_plan_is_refused(write: Any, text: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        read_plan(write(text))


LAUGHS = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 10)}]\n" for before, name in pairwise("abcdefghij")
)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (LAUGHS, r"the plan has more than 10,000 values or 20 levels, aliases unfolded"),
        ("users: &u [1, *u]", r"1: the plan has more than 10,000 values or 20 levels, aliases unfolded"),
        ("users: " + "[" * 5000, r"1: this is nested deeper than 20 levels"),
        (
            "title: a\nusers: !!python/name:os.system 3",
            r"2: users is '3' of type .*python/name:os.system, expected a text",
        ),
        ("title: 2020-01-01", r"1: title is '2020-01-01' of type timestamp, expected a text \(in quotes\)"),
        ("users: !!int many", r"1: users is 'many' of type int, expected a text"),
        ("options: {a: 1, b: 2, a: 3}", r"1: a is given twice"),
        ("title: a\n? [b]\n: c", r"2: a key of the plan is no text"),
        ("title: a\nusers: *none", r"2: this is no YAML: found undefined alias 'none'"),
        ("title: a\nusers: 3\x00", r"2: this is no YAML"),
        ("title: a\n---\nusers: 3", r"this is no YAML"),
        ("title: a\n<<: {users: 3}", r"2: << is no key of a plan"),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else "",
)
def test_hostile_yaml_is_refused_in_one_line_with_its_place(write: Any, text: str, line: str) -> None:
    """Aliases that unfold to gigabytes, tags, dates, repeated keys and deep nesting cost no memory and no traceback."""
    tracemalloc.start()
    try:
        with pytest.raises(PlanError, match=r"plan\.yaml:.*" + line) as error:
            read_plan(write(text))
        assert tracemalloc.get_traced_memory()[1] < 30e6
    finally:
        tracemalloc.stop()
    assert "\n" not in str(error.value)


def test_a_plan_may_repeat_values_by_alias(write: Any) -> None:
    plan = read_plan(write("scenario: site.py\nvariants:\n  a: &a {users: [1, 2]}\n  b: *a\n"))
    assert [variant.users for variant in plan.variants] == [(1, 2), (1, 2)]


def test_yes_and_no_are_true_and_false(write: Any) -> None:
    plan = read_plan(write("scenario: site.py\nusers: 1\noptions: {deep: yes, shallow: off}\n"))
    assert dict(plan.variants[0].options) == {"--deep": True, "--shallow": False}


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


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
@pytest.mark.parametrize("full", [False, True], ids=["short", "full"])
def test_every_ready_plan_is_valid(path: Path, full: bool) -> None:
    """Both lengths are complete, and the short one takes less than three minutes."""
    plan: Plan = read_plan(path, full=full)
    assert plan.title
    assert plan.article
    assert plan.claim
    assert plan.caution
    seconds = sum(plan.run_time_s(cell) + 4 for cell in plan.cells())
    assert full or seconds <= 185


def test_the_plan_in_the_documents_is_valid(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "experiments.md").read_text()
    text = page.split("```yaml\n")[1].split("```")[0]
    (tmp_path / "shop.py").write_text("")
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "shop.yaml").write_text(text)
    plan = read_plan(tmp_path / "plans" / "shop.yaml")
    assert len(plan.cells()) == 2 * 3 * 2 * 3
    assert plan.report.targets == ("p95 < 400ms",)
