"""Verdict: every check in every colour, root causes before consequences, and simulated runs of known kinds."""

import math
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from verdict_support import BOUNDS, CHANGES, SCALE, SOUND, SOUND_GAPS, SOUND_USERS, gaps

from locust_realism.analysis.document import AMBER, GREEN, NO_DATA, RED
from locust_realism.analysis.settings import AnalysisSettings, VerdictBounds, WorkloadModel, grade, parse_bounds
from locust_realism.analysis.summary import summarize
from locust_realism.analysis.verdict import readings
from locust_realism.analysis.verdict.causes import CAUSES, root_causes
from locust_realism.analysis.verdict.checks import CHECKS, Finding
from locust_realism.analysis.verdict.dispersion import Stalls
from locust_realism.analysis.verdict.evidence import Facts, collect, worker_rows
from locust_realism.analysis.verdict.judge import judge
from locust_realism.analysis.verdict.users import UserTimes
from locust_realism.recording.launches import LaunchLog
from support import BENCHMARKS, ROOT, loaded

CHECK = {number: check for number, _, check in CHECKS}
calibration = loaded(BENCHMARKS / "calibrate_verdict.py")


def users(**changes):
    return replace(SOUND, users=replace(SOUND_USERS, **changes))


def scales(**changes):
    return replace(SOUND, dispersion=[SCALE | changes])


def steady(key, change, error=0.004, **more):
    changes = CHANGES | {key: {"change": change, "standard_error": error, "segments": 10}}
    return replace(SOUND, steady={"enough": True, "changes": changes, "mser5_share": 0.01, **more})


def health(**values):
    return replace(SOUND, facts=replace(SOUND.facts, health=values))


def group_rows(*covs):
    return replace(SOUND, groups=[{"users": k, "n": 10**6, "cov": c} for k, c in zip((1, 10, 100), covs, strict=True)])


def offsets(sd, cov=1.0):
    rows = [row | {"cov": cov} for row in SOUND.workers]
    return replace(SOUND, facts=replace(SOUND.facts, clock_offset_sd_us=sd), workers=rows)


OPEN = replace(SOUND.facts, model=WorkloadModel(kind="open"))
COLOURS = [
    (1, gaps(cov=1.049), GREEN),
    (1, gaps(cov=1.07), AMBER),
    (1, gaps(cov=1.17), RED),
    (1, gaps(cov=0.93), AMBER),
    (1, gaps(cov=0.5), RED),
    (1, gaps(cov=1.07, n=950), GREEN),
    (1, gaps(cov=1.0, n=300), NO_DATA),
    (1, gaps(cov=3.0, n=300), RED),
    (1, gaps(cov=3.0, n=50), NO_DATA),
    (1, replace(SOUND, population=4.0, gaps=replace(SOUND_GAPS, cov=math.sqrt(1.5))), GREEN),
    (2, gaps(longest_share=0.049), GREEN),
    (2, gaps(longest_share=0.07), AMBER),
    (2, gaps(longest_share=0.4), RED),
    (2, gaps(longest_share=0.4, n=1999), NO_DATA),
    (3, gaps(short_share=1.19), GREEN),
    (3, gaps(short_share=1.3), AMBER),
    (3, gaps(short_share=2.0), RED),
    (3, gaps(short_share=0.5), AMBER),
    (3, gaps(short_share=1.3, n=200), NO_DATA),
    (3, gaps(short_share=1.3, n=800), GREEN),
    (3, gaps(short_share=0.99, n=200), NO_DATA),
    (3, gaps(short_share=1.01, n=342), NO_DATA),
    (3, gaps(short_share=0.99, n=343), GREEN),
    (3, gaps(short_share=0.2, n=200), AMBER),
    (4, replace(SOUND, lateness_p99_s=0.05), AMBER),
    (4, replace(SOUND, lateness_p99_s=0.2), RED),
    (4, replace(gaps(short_share=2.0), lateness_p99_s=0.05), RED),
    (4, health(loop_lag_p99_ms=70), AMBER),
    (4, health(cpu_max=0.97), RED),
    (4, replace(health(), lateness_p99_s=math.nan), NO_DATA),
    (5, users(response_share=0.029), GREEN),
    (5, users(response_share=0.05), AMBER),
    (5, users(response_share=0.2), RED),
    (5, replace(SOUND, server_stalls=Stalls(9, 0.3, 1.5)), AMBER),
    (5, replace(SOUND, server_stalls=Stalls(9, 0.06, 1.5)), GREEN),
    (5, replace(SOUND, retries=0.029), GREEN),
    (5, replace(SOUND, retries=0.05), AMBER),
    (5, replace(SOUND, retries=0.2, facts=OPEN), RED),
    (5, replace(users(response_share=0.2), facts=OPEN), NO_DATA),
    (5, replace(SOUND, users=UserTimes()), NO_DATA),
    (6, scales(idc=1.2), GREEN),
    (6, scales(idc=1.4), AMBER),
    (6, scales(idc=2.0), RED),
    (6, scales(idc=0.7, model=0.9), GREEN),
    (6, scales(idc=0.3, model=0.9), RED),
    (6, scales(idc=0.3), AMBER),
    (6, replace(scales(idc=0.3), facts=OPEN), RED),
    (6, scales(idc=1.9, independent_windows=20.0), GREEN),
    (6, scales(idc=9.0, independent_windows=10.0), NO_DATA),
    (6, replace(gaps(n=20), dispersion=[SCALE | {"idc": 9.0}]), NO_DATA),
    (6, scales(idc=9.0, window_s=20.0), NO_DATA),
    (7, group_rows(0.6, 0.97, 1.0), GREEN),
    (7, group_rows(0.6, 0.8, 0.97), AMBER),
    (7, group_rows(0.6, 0.7, 0.8), RED),
    (7, replace(SOUND, users=UserTimes()), NO_DATA),
    (7, users(users=1), NO_DATA),
    (7, replace(SOUND, groups=[{"users": 100, "n": 99, "cov": 1.0}]), NO_DATA),
    (7, replace(SOUND, groups=[{"users": 100, "n": 999, "cov": 1.0}]), NO_DATA),
    (8, users(think_mean=1.03), AMBER),
    (8, users(think_mean=0.9), RED),
    (8, users(think_mean=1.03, think_se=0.015), GREEN),
    (8, users(user_cov=0.2), AMBER),
    (8, users(think_mean=1.03, think_se=0.05), NO_DATA),
    (8, replace(users(user_cov=math.nan), facts=replace(SOUND.facts, model=WorkloadModel(kind="closed"))), NO_DATA),
    (8, replace(SOUND, facts=OPEN), NO_DATA),
    (9, gaps(correlations=(0.07,)), AMBER),
    (9, gaps(correlations=(-0.3,)), RED),
    (9, gaps(distance=0.03), AMBER),
    (9, gaps(distance=0.2), RED),
    (9, replace(SOUND, tick_us=5000), AMBER),
    (9, gaps(correlations=()), NO_DATA),
    (10, replace(SOUND, starts_cov=1.4), RED),
    (10, replace(SOUND, starts_cov=1.4, starts=399), NO_DATA),
    (10, replace(SOUND, starts_cov=1.4, facts=OPEN), NO_DATA),
    (11, steady("p50", 0.07), AMBER),
    (11, steady("p95", -0.2), RED),
    (11, steady("rate", 0.2), RED),
    (11, steady("p95", 0.2, error=0.1), NO_DATA),
    (11, steady("p95", 0.04), GREEN),
    (11, steady("mean", 0.2, mser5_share=0.7), AMBER),
    (11, steady("mean", 0.001, mser5_share=0.7), GREEN),
    (11, replace(SOUND, steady={"enough": False, "changes": {}}), NO_DATA),
    (12, offsets(1500.0), AMBER),
    (12, offsets(15_000.0), AMBER),
    (12, offsets(15_000.0, cov=2.0), RED),
    (12, offsets(None), NO_DATA),
    (12, replace(offsets(None), workers=SOUND.workers[:1]), GREEN),
]


@pytest.mark.parametrize(("number", "evidence", "status"), COLOURS)
def test_each_check_turns_its_colours_at_its_bounds(number, evidence, status):
    finding = CHECK[number](evidence, BOUNDS)
    assert finding.status == status, finding.seen
    assert finding.seen.endswith(".")
    assert "nan" not in finding.seen
    row = next(row for row in judge(evidence, BOUNDS)["checks"] if row["id"] == number)
    assert (row["value"], row["bound"]) == (finding.value, finding.bound)
    assert bool(row["meaning"]) == (status in (AMBER, RED))


def test_not_enough_data_never_stands_beside_a_value_or_a_bound():
    """All checks on all evidence of the table; every other status has a bound, and an effect beyond it is not green."""
    for _, evidence, _ in COLOURS:
        for row in judge(evidence, BOUNDS)["checks"]:
            known = row["status"] != NO_DATA
            assert known or (row["value"], row["meaning"]) == (None, ""), row
            assert (row["bound"] is not None) == known, row
            if isinstance(row["bound"], float) and row["value"] is not None and row["id"] not in (2, 8, 11):
                assert (row["value"] > row["bound"]) <= (row["status"] != GREEN), row


def test_a_group_of_users_is_judged_by_the_tolerance_that_its_sentence_names():
    """Chance widens 0.05 to 0.095 for 1,000 gaps; a quarter of the users is the most that may be needed."""
    rows = [{"users": k, "n": 50 * k, "cov": cov} for k, cov in ((1, 0.5), (5, 0.7), (10, 0.8), (20, 0.934))]
    few = replace(SOUND, groups=rows, users=replace(SOUND_USERS, users=20))
    found = CHECK[7](few, BOUNDS)
    assert (found.status, found.value, found.bound) == (AMBER, 20, 5)
    assert found.seen == (
        "The CoV of the launches of 20 of 20 users together is 0.93, within 1.00 +- 0.09; that of the next "
        "smaller group is not. At most 25% of the users (5) may be needed."
    )
    more = [row | {"n": 100 * row["n"]} for row in rows]
    red = CHECK[7](replace(few, groups=more), BOUNDS)
    assert (red.status, red.value) == (AMBER, None)
    assert red.seen == "The CoV of the launches of all 20 users together is 0.93, off 1.00 by more than 0.05."
    sound = CHECK[7](replace(few, groups=[row | {"cov": 1.0} for row in rows]), BOUNDS)
    assert (sound.status, sound.value) == (GREEN, 1)
    assert sound.seen == (
        "The CoV of the launches of 20 of 20 users together is 1.00, within 1.00 +- 0.09; that of each smaller group "
        "is within its own tolerance."
    )


def test_groups_without_data_name_the_reason():
    unknown, one = replace(SOUND, users=UserTimes()), users(users=1)
    few = replace(SOUND, groups=[{"users": 100, "n": 99, "cov": 1.0}])
    assert "does not record which user" in CHECK[7](unknown, BOUNDS).seen
    assert CHECK[7](one, BOUNDS).seen == "One user has no groups."
    assert CHECK[7](few, BOUNDS).seen == "Only 99 gaps between launches; it takes 100."


def test_a_warm_up_names_the_mean_that_shows_it():
    """The figure of check 11 is the one that decides, and so is its meaning."""
    found = CHECK[11](steady("mean", 0.2, mser5_share=0.7), BOUNDS)
    assert (found.value, found.meaning) == (0.2, readings.UNSTEADY)
    assert found.seen.startswith("The mean response time of the second half differs by +20.0%")
    assert CHECK[11](steady("rate", 0.2), BOUNDS).meaning == readings.DRIFTING


@pytest.mark.parametrize("number", range(1, 13))
def test_each_check_is_green_on_sound_evidence(number):
    finding = CHECK[number](SOUND, BOUNDS)
    assert finding.status == GREEN, finding.seen


def test_the_table_of_colours_covers_every_check_and_no_data():
    seen = {number: {status for n, _, status in COLOURS if n == number} for number in range(1, 13)}
    assert all(seen[number] & {AMBER, RED} for number in seen)
    assert all(NO_DATA in seen[number] for number in seen)


def test_bounds_are_settings():
    check = CHECKS[0][2]
    assert check(gaps(cov=1.07), VerdictBounds(cov_amber=0.08)).status == GREEN
    assert check(gaps(cov=1.07), VerdictBounds(cov_amber=0.01, cov_red=0.02)).status == RED


def test_too_little_data_is_never_green():
    assert grade(0.0, 0.05, 0.1, 0.2) == NO_DATA
    assert grade(math.nan, 0.05, 0.1) == NO_DATA


def test_sound_evidence_is_green_in_words_too():
    verdict = judge(SOUND, BOUNDS)
    assert (verdict["overall"], verdict["causes"]) == (GREEN, [])
    assert verdict["sentence"] == "The launches came like those of independent users."
    assert [check["id"] for check in verdict["checks"]] == list(range(1, 13))


def test_the_worst_check_with_enough_data_decides():
    assert judge(gaps(distance=0.03), BOUNDS)["overall"] == AMBER
    assert judge(replace(SOUND, steady={"enough": False, "changes": {}}), BOUNDS)["overall"] == GREEN
    assert judge(replace(gaps(cov=1.0, n=300), lateness_p99_s=1.0), BOUNDS)["overall"] == NO_DATA


def test_feedback_of_the_server_is_apart_from_the_generators_validity():
    verdict = judge(users(response_share=0.2), BOUNDS)
    assert (verdict["overall"], verdict["generator"], verdict["feedback"]) == (RED, GREEN, RED)
    assert verdict["causes"][0]["distortion"] == "closed loop feedback"
    assert verdict["sentence"].startswith("The test is not sound: a server that paces its users")
    assert verdict["sentence"].endswith("came like those of independent users.")


@given(st.lists(st.sampled_from([GREEN, AMBER, RED, NO_DATA]), min_size=12, max_size=12), st.floats(0.1, 5))
def test_every_bad_check_belongs_to_exactly_one_cause(statuses, cov):
    findings = {i + 1: Finding(status, 0.5, None, "Seen.", "Meant.") for i, status in enumerate(statuses)}
    rows = root_causes(gaps(cov=cov), findings, BOUNDS)
    named = [number for row in rows for number in (row["check"], *row["consequences"])]
    assert sorted(named) == [number for number, finding in findings.items() if finding.bad]


def test_the_causes_name_bradys_three_distortions():
    assert {cause.distortion for cause in CAUSES if cause.distortion} == {
        "heavy workload",
        "think time method used",
        "closed loop feedback",
    }


@pytest.mark.parametrize("case", calibration.CASES, ids=lambda case: case.simulate.__name__)
def test_simulated_runs_get_the_right_cause_first(case):
    """Two runs of each kind; docs/verdict.md has the table of all 1,000."""
    for seed in range(2):
        verdict = calibration.judge(case.simulate(np.random.default_rng(seed), 10_000))
        if case.cause is None:
            assert verdict["overall"] in (GREEN, AMBER), verdict["sentence"]
        else:
            assert verdict["causes"][0]["name"] == case.cause
            assert case.cause in verdict["sentence"]
            assert verdict["overall"] in (AMBER, RED)


def test_consequences_stand_under_the_cause():
    verdict = _verdict(calibration.constant_think)
    first = verdict["causes"][0]
    assert (first["check"], first["distortion"]) == (8, "think time method used")
    assert set(first["consequences"]) >= {1, 3, 6}
    rows = verdict["checks"]
    assert rows[0]["id"] == 8
    assert {row["id"] for row in rows if row["follows_from"] == 8} == set(first["consequences"])


def _verdict(simulate, launches=10_000, seed=1, **settings):
    log, facts = simulate(np.random.default_rng(seed), launches)
    document = summarize(
        log, settings=AnalysisSettings(charts=False, **settings), run_start_us=calibration.EPOCH_US, facts=facts
    )
    return document["verdict"]


def test_without_its_plan_a_varying_rate_is_red():
    """Negative control of the rescaling: the same launches without their plan are not green."""
    log, facts = calibration.planned_sine(np.random.default_rng(1), 10_000)
    settings = AnalysisSettings(charts=False)
    with_plan = summarize(log, settings=settings, run_start_us=calibration.EPOCH_US, facts=facts)
    without = summarize(log, settings=settings, run_start_us=calibration.EPOCH_US)
    assert with_plan["verdict"]["overall"] == GREEN
    assert without["verdict"]["overall"] == RED
    assert with_plan["pattern"]["cov_kind"] == "planned"
    assert with_plan["pattern"]["raw_cov"] > 1.2


def test_offsets_of_independent_workers_do_no_harm_but_are_not_certified():
    rng = np.random.default_rng(3)
    log, facts = calibration.poisson(rng, 10_000)
    worker = rng.integers(0, 4, len(log))
    shifted = replace(log, worker=worker.astype(np.int32), launch_us=log.launch_us + worker * 30_000)
    shifted = replace(shifted, planned_us=np.full(len(log), -1))
    facts = replace(facts, clock_offset_sd_us=30_000.0)
    verdict = summarize(shifted, settings=AnalysisSettings(charts=False), facts=facts)["verdict"]
    assert verdict["overall"] == AMBER
    assert verdict["causes"][0]["name"] == "clock offsets between workers"


def jtl_with_a_pause(rng, n):
    """Poisson launches of 200/s with one pause of 5 s, in whole milliseconds."""
    log, _ = calibration.poisson(rng, n, 200.0)
    late = np.where(np.arange(n) >= n // 2, 5_000_000, 0)
    launches = (log.launch_us + late) // 1000 * 1000
    return replace(log, launch_us=launches, planned_us=np.full(n, -1)), Facts(model=WorkloadModel(kind="open"))


def remote_constant_think(rng, n):
    """100 users with a constant think time on four workers whose clocks are off by 2 ms."""
    log, facts = calibration.constant_think(rng, n)
    worker = (log.slot % 4).astype(np.int32)
    seen = log.launch_us + np.rint(rng.normal(0, 2000, 4)).astype(np.int64)[worker]
    log = replace(log, worker=worker, launch_us=seen).take(np.argsort(seen, kind="stable"))
    return log, replace(facts, clock_offset_sd_us=2000.0)


@pytest.mark.parametrize(
    ("simulate", "first", "last"),
    [
        (jtl_with_a_pause, "a single pause", "a coarse clock"),
        (remote_constant_think, "users that move in step", "clock offsets between workers"),
    ],
)
def test_what_a_clock_hides_is_not_what_it_shows(simulate, first, last):
    """The clock is the last, amber cause, without consequences."""
    causes = _verdict(simulate)["causes"]
    assert (causes[0]["name"], causes[0]["status"]) == (first, RED)
    assert (causes[-1]["name"], causes[-1]["status"], causes[-1]["consequences"]) == (last, AMBER, [])


def test_the_bunches_of_each_worker_are_measured_on_its_own_clock():
    launches = np.concatenate([k * 100_000 + np.arange(10) * 100 for k in range(200)])
    (row,) = worker_rows(LaunchLog.build(launches + np.arange(2000) % 2, 1), 1)
    assert row["bunch_ms"] == pytest.approx(0.9, abs=0.01)
    even = worker_rows(LaunchLog.build(np.arange(2000) * 1001, 1, worker=3), 1)
    assert (even[0]["worker"], even[0]["bunch_ms"]) == (3, None)


@pytest.mark.parametrize("rows", [0, 1, 2, 3])
def test_hardly_any_launches_are_not_enough_data(rows):
    log = LaunchLog.build(np.arange(rows) * 1000, 1, slot=0, users=1, planned_us=np.arange(rows) * 1000)
    verdict = judge(collect(log, AnalysisSettings(), Facts()), BOUNDS)
    assert verdict["overall"] == NO_DATA
    assert "not enough data" in verdict["sentence"]


def test_launches_at_the_same_instant_are_not_enough_data():
    verdict = judge(collect(LaunchLog.build([5] * 5000, 1, slot=0), AnalysisSettings(), Facts()), BOUNDS)
    assert verdict["overall"] == NO_DATA


def test_the_plans_time_starts_with_the_run_not_after_the_warm_up():
    log, facts = calibration.planned_sine(np.random.default_rng(2), 20_000)
    settings = AnalysisSettings(charts=False, skip_s=7.0)
    for start in (calibration.EPOCH_US, None):
        known = replace(facts, run_start_us=calibration.EPOCH_US)
        document = summarize(log, settings=settings, run_start_us=start, facts=known)
        assert abs(document["pattern"]["cov"] - 1) < 4 / math.sqrt(document["window"]["n"])
    wrong = summarize(log, settings=settings, run_start_us=calibration.EPOCH_US + 7_000_000, facts=facts)
    assert abs(wrong["pattern"]["cov"] - 1) > 0.1, "the negative control"


def test_starts_of_users_outside_the_analysed_part_do_not_count():
    log, facts = calibration.population(np.random.default_rng(2), 20_000)
    early = np.concatenate((np.repeat(facts.user_starts_us[0] - 5_000_000, 300), facts.user_starts_us))
    found = collect(log, AnalysisSettings(), replace(facts, user_starts_us=early))
    assert found.starts <= len(facts.user_starts_us)
    assert abs(found.starts_cov - 1) < 4 / math.sqrt(found.starts)


def test_checks_causes_and_calibrated_kinds_are_in_the_documents():
    text = (ROOT / "docs" / "verdict.md").read_text(encoding="utf-8")
    for number, name, _ in CHECKS:
        assert f"| {number} | {name}" in text
    assert {cause.name for cause in CAUSES if cause.name not in text} == set()
    for case in calibration.CASES:
        assert f"| {case.simulate.__doc__.strip().rstrip('.')} |" in text, "run benchmarks/calibrate_verdict.py again"


def test_every_bound_is_documented_with_its_default_and_can_be_set():
    text = (ROOT / "docs" / "verdict.md").read_text(encoding="utf-8")
    for item in fields(VerdictBounds):
        assert f"`{item.name}` {item.default:g}" in text
        larger = item.default * 100 if item.name.endswith("_red") else item.default
        assert getattr(parse_bounds(f"{item.name}={larger}"), item.name) == larger


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cov=1", "'cov' is not a bound of the verdict"),
        ("cov_red=x", "cov_red='x' is not a number"),
        ("cov_red", "cov_red='' is not a number"),
        ("cov_red=0.01", "cov_red must be >= 0.05, the bound cov_amber, not 0.01"),
    ],
)
def test_a_wrong_bound_is_named(text, message):
    with pytest.raises(ValueError, match=message):
        parse_bounds(text)


def timer_wakes(due_us, rng, grain_us=1000):
    """Return launch times of an event loop with millisecond timers: launches due by a wake-up leave with it."""
    launches, now, first = np.empty_like(due_us), 0.0, 0
    while first < len(due_us):
        wake = now + math.ceil(max(due_us[first] - now, 0) / grain_us) * grain_us + rng.uniform(0, 60)
        last = int(np.searchsorted(due_us, wake, side="right"))
        launches[first:last] = wake + 40 * np.arange(last - first)
        now, first = launches[last - 1] + 30, last
    return launches


@pytest.mark.parametrize("rate", [100, 300, 1000])
def test_the_grain_of_the_timers_is_no_bunching(rate):
    rng = np.random.default_rng(4)
    launches = timer_wakes(np.cumsum(rng.exponential(1e6 / rate, 20_000)), rng)
    log = LaunchLog.build(np.rint(launches).astype(int), 1000, names="x")
    facts = Facts(model=WorkloadModel(kind="open"))
    with_grain = summarize(log, settings=AnalysisSettings(charts=False), facts=facts)["verdict"]
    without = summarize(log, settings=AnalysisSettings(charts=False, grain_s=0), facts=facts)["verdict"]
    assert with_grain["overall"] == GREEN, with_grain["sentence"]
    assert without["overall"] in (AMBER, RED), "the negative control"


def test_check_4_shows_the_figure_that_decides():
    late = health(loop_lag_p99_ms=250.0, cpu_max=0.05)
    finding = CHECK[4](late, BOUNDS)
    assert (finding.status, finding.value, finding.bound) == (RED, 250.0, 50.0)
    busy = CHECK[4](health(loop_lag_p99_ms=1.0, cpu_max=0.97), BOUNDS)
    assert (busy.status, busy.value, busy.bound) == (RED, 0.97, 0.8)
    sound = CHECK[4](SOUND, BOUNDS)
    assert (sound.status, sound.value, sound.bound) == (GREEN, 2.0, 20.0)


@pytest.mark.parametrize(("population", "high"), [(1.06, 1.70), (100.0, 1.01)])
def test_a_varying_population_may_raise_the_cov_but_need_not(population, high):
    """Users of one task leave no trace in the gaps; users that stay for many gaps make the rate vary."""
    found = CHECK[1](replace(gaps(cov=1.0), population=population), BOUNDS)
    assert found.status == GREEN
    assert found.bound == pytest.approx([0.95, high + 0.05], abs=0.01)
    assert CHECK[1](replace(gaps(cov=0.8), population=population), BOUNDS).status == RED
    assert CHECK[1](replace(gaps(cov=high + 0.2), population=population), BOUNDS).status == RED


def test_groups_of_a_varying_population_may_have_its_cov():
    rows = [{"users": k, "n": 5000, "cov": 1.14} for k in (1, 5, 20)]
    varying = replace(SOUND, groups=rows, population=8.0)  # sqrt(1 + 2 / 8) = 1.12
    assert CHECK[7](varying, BOUNDS).status == GREEN
    assert CHECK[7](replace(varying, population=1e9), BOUNDS).status == RED
    assert CHECK[7](replace(varying, groups=[row | {"cov": 0.8} for row in rows]), BOUNDS).status == RED
