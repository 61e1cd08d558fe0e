"""Judged part of a run and the scale of its short gaps: fixed pools, short runs, real timers and planned launches."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from locust_realism.analysis.document import AMBER, GREEN, NO_DATA, RED
from locust_realism.analysis.settings import AnalysisSettings, VerdictBounds, WorkloadModel
from locust_realism.analysis.summary import describe_workload, summarize
from locust_realism.analysis.verdict.checks import CHECKS
from locust_realism.analysis.verdict.dispersion import STAY_SHARES
from locust_realism.analysis.verdict.evidence import Facts, collect, launch_cpu_s
from locust_realism.analysis.verdict.users import begun_within
from locust_realism.analysis.window import settled, settling_s
from locust_realism.recording.launches import MISSING, LaunchLog
from locust_realism.workload.distributions import lognormal
from locust_realism.workload.rates.shapes import PiecewiseLinearRate

SETTINGS = AnalysisSettings(charts=False)
CHECK = {number: check for number, _, check in CHECKS}
FINE = {"wake_p90_ms": 0.35}


def ramp(seed: int, rate_of_users: float, *, span: float = 120.0, uniform: bool = False) -> tuple[LaunchLog, Facts]:
    """Return 100 users with a mean wait of 1 s who start in lumps, ``rate_of_users`` each second."""
    rng = np.random.default_rng(seed)
    each = int(2 * span) + 60
    think = rng.uniform(0, 2, (100, each)) if uniform else rng.exponential(1.0, (100, each))
    spawn = np.arange(100) // rate_of_users + 1e-4 * (np.arange(100) % rate_of_users)
    start = spawn[:, None] + np.concatenate((np.zeros((100, 1)), np.cumsum(think[:, 1:] + 0.005, axis=1)), axis=1)
    user, step = np.nonzero(start < span)
    order = np.argsort(start[user, step], kind="stable")
    user, step = user[order], step[order]
    launches = np.rint(start[user, step] * 1e6).astype(int)
    think_us = np.where(step > 0, np.rint(think[user, step] * 1e6), MISSING).astype(int)
    log = LaunchLog.build(
        launches, 5000, slot=user, users=np.searchsorted(spawn, launches / 1e6), task=user * each + step,
        think_us=think_us,
    )  # fmt: skip
    model = WorkloadModel(kind="closed", users=100, think_time_s=1.0)
    full = round(spawn[-1] * 1e6) + 1
    return log, Facts(model=model, health=FINE, held_us=(full, round(span * 1e6)), run_start_us=0)


@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("rate_of_users", [1, 10, 50, 100])
def test_the_ramp_costs_no_red_whatever_its_rate(rate_of_users: float, uniform: bool) -> None:
    for seed in range(3):
        log, facts = ramp(seed, rate_of_users, span=120.0 + 100 / rate_of_users, uniform=uniform)
        if uniform:
            facts = replace(facts, model=replace(facts.model, think_time_cov=1 / math.sqrt(3)))
        verdict = summarize(log, settings=SETTINGS, facts=facts)["verdict"]
        assert verdict["overall"] in (GREEN, AMBER), verdict["sentence"]


def test_the_second_lump_of_users_is_the_spawners_doing() -> None:
    """Negative control: judged from full spawn on, first tasks included, -r 50 is red."""
    log, facts = ramp(1, 50, span=20.0)
    at_once = replace(facts, model=WorkloadModel())
    unmarked = replace(log, task=np.full(len(log), MISSING), think_us=np.full(len(log), MISSING))
    held = (1_000_000, 20_000_000)
    assert summarize(unmarked, settings=SETTINGS, facts=replace(at_once, held_us=held))["verdict"]["overall"] == RED
    assert summarize(log, settings=SETTINGS, facts=replace(facts, held_us=held))["verdict"]["overall"] != RED


def test_judging_begins_three_mean_waits_after_full_spawn() -> None:
    log, facts = ramp(2, 50)
    begin, end = facts.held_us or (0, 0)
    assert settling_s(log, facts.model, facts.held_us) == 3.0
    assert settled(facts.held_us, 3.0) == (begin + 3_000_000, end)
    window = summarize(log, settings=SETTINGS, facts=facts)["window"]
    assert window["judged"] == int(((log.launch_us >= begin + 3_000_000) & (log.launch_us <= end)).sum())
    assert window["judged_sentence"] == (
        "The verdict covers the time from 4.0 s to the stop request at 120.0 s. "
        "It begins 3 mean waits after full spawn at 1.0 s."
    )
    # Without a model the recorded pauses count, and without those the estimated ones.
    closed = WorkloadModel(kind="closed")
    assert settling_s(log, closed, facts.held_us) == pytest.approx(3.0, rel=0.05)
    unmarked = replace(log, task=np.full(len(log), MISSING), think_us=np.full(len(log), MISSING))
    assert settling_s(unmarked, closed, facts.held_us) == pytest.approx(3.0, rel=0.05)
    assert settling_s(log, WorkloadModel(kind="open"), facts.held_us) == 0


def test_judging_begins_when_users_of_the_last_spawn_step_have_begun() -> None:
    """They begin within a second of full spawn, which is longer than three short waits."""
    log, facts = ramp(2, 50)
    short = replace(facts, model=replace(facts.model, think_time_s=0.1))
    assert settling_s(log, short.model, facts.held_us) == 1.0
    assert (
        "It begins 1 s after full spawn at 1.0 s."
        in summarize(log, settings=SETTINGS, facts=short)["window"]["sentence"]
    )


def test_a_worker_that_is_gone_before_the_judged_part_leaves_the_others_in_it() -> None:
    """Task numbers are those of a worker: worker 1 ends before, and the tasks of worker 0 count all the same."""
    launches = np.arange(2000) * 10_000
    worker = np.where((np.arange(2000) < 1000) & (np.arange(2000) % 2 == 1), 1, 0)
    log = LaunchLog.build(launches, 1000, slot=0, worker=worker, task=np.arange(2000))
    assert len(begun_within(log, slice(1000, 2000))) == 1000
    carried = LaunchLog.build([0, 1, 2, 3], 1, slot=0, worker=[0, 0, 0, 1], task=[0, 0, 5, 0])
    assert begun_within(carried, slice(1, 4)).launch_us.tolist() == [2, 3]


def test_the_halves_follow_the_plan_beside_requests_outside_tasks() -> None:
    """A planned ramp is steady, with a request of on_start in it too; negative control: without the plan it is not."""
    profile = PiecewiseLinearRate([(0, 50), (90, 150)])
    rng = np.random.default_rng(5)
    launches = np.asarray(profile.inverse(np.cumsum(rng.exponential(1.0, 9000)))) * 1e6
    task = np.arange(len(launches))
    task[100] = MISSING
    log = LaunchLog.build(launches.astype(np.int64), 2000, slot=0, task=task, planned_us=launches.astype(np.int64))
    facts = Facts(model=WorkloadModel(kind="open"), planned_profile=profile, run_start_us=0)
    known, unknown = (
        CHECK[11](collect(log, SETTINGS, one), VerdictBounds()).status
        for one in (facts, replace(facts, planned_profile=None))
    )
    assert (known, unknown) == (GREEN, RED)


@pytest.mark.parametrize(("span", "longer"), [(8.0, 4.0), (3.0, 10.0)])
def test_a_run_that_is_too_short_says_how_much_longer(span: float, longer: float) -> None:
    """100 launches a second: 900 gaps take 9 s after the 4 s of start and settling."""
    log, facts = ramp(3, 50, span=span)
    window = summarize(log, settings=SETTINGS, facts=facts)["window"]
    words = window["judged_sentence"].split("Run the test at least ")[1].split(" longer")[0]
    assert float(words.split()[0]) == pytest.approx(longer, abs=2.0)
    log, facts = ramp(3, 50, span=20.0)
    assert "Run the test" not in summarize(log, settings=SETTINGS, facts=facts)["window"]["judged_sentence"]


def test_the_sentence_says_that_tasks_are_inferred() -> None:
    log, facts = ramp(4, 50)
    unmarked = replace(log, task=np.full(len(log), MISSING), think_us=np.full(len(log), MISSING))
    note = "Pauses of the users separate their tasks, since the log does not mark them."
    assert note in summarize(unmarked, settings=SETTINGS, facts=facts)["window"]["judged_sentence"]
    assert note in summarize(unmarked, settings=SETTINGS)["window"]["judged_sentence"]
    assert note not in summarize(log, settings=SETTINGS, facts=facts)["window"]["judged_sentence"]
    nobody = replace(unmarked, slot=np.full(len(log), MISSING))
    assert "judged_sentence" not in summarize(nobody, settings=SETTINGS)["window"]


def paced(rate: float, seed: int, *, wake_ms: float = 0.35, launch_ms: float = 0.15, n: int = 10_000) -> LaunchLog:
    """Return planned Poisson launches of one process whose timer is up to ``wake_ms`` late."""
    rng = np.random.default_rng(seed)
    due = np.cumsum(rng.exponential(1 / rate, n))
    late = rng.uniform(0.1e-3, 1e-3 * wake_ms, n)
    at, free = np.empty(n), 0.0
    for k in range(n):
        at[k] = free if due[k] < free else due[k] + late[k]
        free = at[k] + 1e-3 * launch_ms
    planned, launches = (np.rint(times * 1e6).astype(int) for times in (due, at))
    return LaunchLog.build(launches, 500, planned_us=planned, slot=np.arange(n) % 20, task=np.arange(n), users=20)


@pytest.mark.parametrize("rate", [100.0, 400.0])
def test_planned_launches_by_a_real_timer_are_sound(rate: float) -> None:
    facts = Facts(model=WorkloadModel(kind="open"), health={**FINE, "cpu_max": 0.2})
    for seed in range(5):
        log = paced(rate, seed)
        verdict = summarize(log, settings=SETTINGS, facts=facts)["verdict"]
        assert verdict["overall"] == GREEN, verdict["sentence"]
        # The negative control: at a tenth of the mean gap, the process cannot launch like independent users.
        if rate == 400:
            plain = collect(log, SETTINGS, replace(facts, health={"wake_p90_ms": 0.01}))
            assert CHECK[3](plain, VerdictBounds()).status in (AMBER, RED)


def test_short_gaps_have_the_scale_of_the_process() -> None:
    """What is due while the timer is late leaves one launch after the other."""
    log = paced(400.0, 1)
    model = WorkloadModel(kind="open")
    few = collect(log, SETTINGS, Facts(model=model, health={"wake_p90_ms": 0.1, "cpu_max": 0.04}))
    assert few.short_gap_s == pytest.approx(0.1 / 400, rel=0.05), "a tenth of the mean gap"
    assert few.short_gap_measurable
    woken = collect(log, SETTINGS, Facts(model=model, health={"wake_p90_ms": 0.6}))
    assert woken.short_gap_s == pytest.approx(0.6e-3)
    busy = Facts(model=model, health={"wake_p90_ms": 0.1, "cpu_max": 0.3})
    assert launch_cpu_s(log, busy) == pytest.approx(0.3 / 400, rel=0.05)
    assert collect(log, SETTINGS, busy).short_gap_s == pytest.approx(0.1e-3 + launch_cpu_s(log, busy))
    blocked = replace(busy, health={**busy.health, "blocked": 0.25})
    assert launch_cpu_s(log, blocked) == pytest.approx(0.05 / 400, rel=0.05), "code that blocks is no launch"
    coarse = collect(log, SETTINGS, Facts(model=model, health={"wake_p90_ms": 1.5}))
    assert not coarse.short_gap_measurable
    assert CHECK[3](coarse, VerdictBounds()).status == NO_DATA


@pytest.mark.parametrize(
    ("marked", "health", "grain"),
    [
        (True, {"wake_p90_ms": 0.3, "grain_us": 0.0}, 1),
        (True, {"wake_p90_ms": 4.0, "grain_us": 0.0}, 1),
        (True, {"wake_p90_ms": 0.95, "grain_us": 1000.0}, 1000),
        (True, {"grain_us": 0.0}, 1),
        (True, {"wake_p90_ms": 4.0}, 1),
        (True, {"wake_p90_ms": math.nan}, 1000),
        (True, {}, 1000),
        (False, {"wake_p90_ms": 0.3, "grain_us": 0.0}, 1000),
    ],
)
def test_our_own_recordings_have_the_grain_of_clock_and_timer(
    marked: bool, health: dict[str, float], grain: int
) -> None:
    """A late timer is what the verdict judges: only the resolution of a timer is smoothed, and files of others."""
    log = paced(100.0, 2, n=500)
    log = log if marked else replace(log, task=np.full(len(log), MISSING))
    assert collect(log, SETTINGS, Facts(health=health)).grain_us == grain


def test_timers_resolution_is_part_of_the_floor() -> None:
    """Waits that a timer rounds to 1 ms end together, however late their median is."""
    log = paced(100.0, 2, n=500)
    assert collect(log, SETTINGS, Facts(health={"wake_p90_ms": 0.3, "grain_us": 1000.0})).launch_floor_s == 1e-3
    assert collect(log, SETTINGS, Facts(health={"wake_p90_ms": 0.3, "grain_us": 0.0})).launch_floor_s == 0.3e-3


def merged(workers: int, rate: float, seed: int, *, wake_ms: float = 0.35, launch_ms: float = 0.15) -> LaunchLog:
    """Return the launches of several workers, ``rate`` each, at the times at which all of them launch."""
    each = 10_000 // workers
    logs = [paced(rate, 100 * seed + k, wake_ms=wake_ms, launch_ms=launch_ms, n=each) for k in range(workers)]
    log = LaunchLog.concat([replace(one, worker=np.full(each, k, dtype=np.int32)) for k, one in enumerate(logs)])
    log = log.take(log.launch_us < 0.9e6 * each / rate)
    return log.take(np.argsort(log.launch_us, kind="stable"))


@pytest.mark.parametrize(
    ("workers", "rate", "wake_ms", "launch_ms"),
    [(2, 200, 0.35, 0.15), (4, 100, 0.35, 0.5), (10, 100, 1, 0.05), (50, 50, 0.35, 1)],
)
def test_launches_of_two_workers_do_not_delay_each_other(
    workers: int, rate: float, wake_ms: float, launch_ms: float
) -> None:
    """One process has a floor of up to 3.4 mean gaps of all; those are the gaps of independent users all the same."""
    facts = Facts(
        model=WorkloadModel(kind="open"), health={"wake_p90_ms": 0.93 * wake_ms, "cpu_max": 1e-3 * rate * launch_ms}
    )
    for seed in range(3):
        log = merged(workers, rate, seed, wake_ms=wake_ms, launch_ms=launch_ms)
        evidence = collect(log, SETTINGS, facts)
        assert evidence.short_gap_measurable
        assert CHECK[3](evidence, VerdictBounds()).status == GREEN
        assert CHECK[9](evidence, VerdictBounds()).status == GREEN


def test_floor_is_that_of_neighbours_of_the_same_worker() -> None:
    """Ten equal workers: a tenth of the CPU time and sqrt(1/10) of the lateness, by the shares of the launches."""
    log = merged(10, 100.0, 1)
    late = Facts(model=WorkloadModel(kind="open"), health={"wake_p90_ms": 1.0})
    busy = replace(late, health={"cpu_max": 0.1})
    assert collect(log, SETTINGS, late).launch_floor_s == pytest.approx(1e-3 / math.sqrt(10), rel=0.01)
    assert collect(log, SETTINGS, busy).launch_floor_s == pytest.approx(launch_cpu_s(log, busy) / 10, rel=0.01)
    # Negative control: if all came from one worker, nobody could measure gaps that short.
    log = replace(log, task=np.arange(len(log)))
    one = replace(log, worker=np.zeros_like(log.worker))
    assert not collect(one, SETTINGS, late).short_gap_measurable
    # A worker with nearly all launches has nearly its own floor.
    most = replace(log, worker=np.where(np.arange(len(log)) % 20 == 0, 1, 0).astype(np.int32))
    assert collect(most, SETTINGS, late).launch_floor_s == pytest.approx(1e-3 * math.sqrt(0.95**2 + 0.05**2), rel=0.01)


def test_lateness_of_ten_workers_is_no_batch_of_users_but_pairs_are() -> None:
    """Negative controls: at a tenth of the mean gap the lateness shows as batches; real pairs do at the floor, too."""
    facts = Facts(model=WorkloadModel(kind="open"), health={"wake_p90_ms": 0.93, "cpu_max": 0.005})
    log = merged(10, 100.0, 2, wake_ms=1.0, launch_ms=0.05)
    plain = replace(facts, health={"wake_p90_ms": 0.01, "cpu_max": 0.005})
    assert CHECK[3](collect(log, SETTINGS, plain), VerdictBounds()).status in (AMBER, RED)
    pairs = replace(log, launch_us=np.sort(np.repeat(log.launch_us[::2], 2)[: len(log)] + np.arange(len(log)) % 2 * 20))
    assert CHECK[3](collect(pairs, SETTINGS, facts), VerdictBounds()).status == RED


def test_bunches_below_a_millisecond_show_in_our_own_recordings() -> None:
    """Negative control of the grain: pairs 0.2 ms apart are bunches at 100/s, unless a grain hides them."""
    rng = np.random.default_rng(6)
    first = np.cumsum(rng.exponential(20_000, 5000))
    launches = np.sort(np.concatenate((first, first + 200))).astype(int)
    log = LaunchLog.build(launches, 500, slot=np.arange(10_000) % 50, task=np.arange(10_000), users=50)
    facts = Facts(model=WorkloadModel(kind="open"), health={"wake_p90_ms": 0.1})
    assert CHECK[3](collect(log, SETTINGS, facts), VerdictBounds()).status == RED


def test_few_short_gaps_are_no_finding_where_the_process_cannot_make_them() -> None:
    """At 100/s a tenth of the mean gap is 1 ms; a process that takes 0.6 ms a launch makes few gaps below it."""
    facts = Facts(model=WorkloadModel(kind="open"), health={"wake_p90_ms": 0.1, "cpu_max": 0.05})
    evidence = collect(paced(100.0, 4), SETTINGS, facts)
    assert evidence.short_gap_s == pytest.approx(1e-3, rel=0.05)
    assert evidence.launch_floor_s == pytest.approx(0.6e-3, rel=0.05)
    few = replace(evidence, gaps=replace(evidence.gaps, short_share=0.5))
    assert CHECK[3](few, VerdictBounds()).status == GREEN
    assert CHECK[3](replace(few, launch_floor_s=0.0), VerdictBounds()).status == AMBER, "the negative control"


def test_rules_for_fixed_pools_leave_planned_launches_alone() -> None:
    rng = np.random.default_rng(7)
    log = paced(100.0, 3)
    few = replace(log, slot=rng.integers(0, 4, len(log)).astype(np.int32), users=np.full(len(log), 4, dtype=np.int32))
    opened = collect(few, SETTINGS, Facts(model=WorkloadModel(kind="open"), health=FINE))
    assert CHECK[7](opened, VerdictBounds()).status == NO_DATA
    closed = collect(few, SETTINGS, Facts(model=WorkloadModel(kind="closed", users=4), health=FINE))
    assert CHECK[7](closed, VerdictBounds()).status != NO_DATA


def test_half_milliseconds_are_no_unsteady_run() -> None:
    """The median grows from 0.5 to 0.6 ms, then from 50 to 60 ms, which matters."""
    rng = np.random.default_rng(8)
    launches = np.cumsum(rng.exponential(10_000, 10_000)).astype(int)
    level = np.where(np.arange(10_000) < 5000, 500.0, 600.0)
    for factor, status in ((1, GREEN), (100, RED)):
        log = LaunchLog.build(launches, rng.normal(factor * level, 20.0 * factor).astype(int))
        evidence = collect(log, SETTINGS, Facts())
        assert CHECK[11](evidence, VerdictBounds()).status == status
    small = VerdictBounds(min_difference_ms=0.01)
    log = LaunchLog.build(launches, rng.normal(level, 20.0).astype(int))
    assert CHECK[11](collect(log, SETTINGS, Facts()), small).status == RED, "the bound decides"


def test_the_stays_of_a_population_survive_their_recording() -> None:
    law = lognormal(30.0, cov=2)
    model = WorkloadModel(
        kind="open", poisson_arrivals=True, session_s=30.0, session_quantiles_s=tuple(law.ppf(STAY_SHARES).tolist())
    )
    written = json.loads(json.dumps(describe_workload(Facts(model=model), 5)))
    assert WorkloadModel(**written["model"]) == model
    for wrong in ([3.0, 2.0], [-1.0], ["x"], [math.inf]):
        with pytest.raises((TypeError, ValueError), match="session_quantiles_s must be"):
            WorkloadModel(session_quantiles_s=wrong)  # type: ignore[arg-type]


def small_pool(seed: int, users: int = 8, n: int = 12_000) -> tuple[LaunchLog, Facts]:
    """Return the launches of a small fixed pool with uniform think times, long after its start."""
    rng = np.random.default_rng([31, seed])
    times = np.cumsum(rng.uniform(0, 2, (users, 2 * n // users)), axis=1)
    user, step = np.nonzero((times > 50) & (times < 50 + n / users))
    order = np.argsort(times[user, step], kind="stable")
    launches = np.rint(times[user[order], step[order]] * 1e6).astype(int)
    return LaunchLog.build(launches, 1000, slot=user[order]), Facts(WorkloadModel(kind="closed", think_time_s=1.0))


def test_few_users_explain_the_dependence_of_their_gaps() -> None:
    """Check 9 leaves it to check 7; negative controls: without the law of few, and pairs of equal gaps."""
    for seed in range(5):
        log, facts = small_pool(seed)
        found = collect(log, SETTINGS, facts)
        assert found.few_correlation == pytest.approx(found.gaps.correlations[0], abs=4 / math.sqrt(len(log)))
        assert CHECK[9](found, VerdictBounds()).status == GREEN
        alone = replace(found, few_correlation=0.0, few_distance=0.0)
        assert CHECK[9](alone, VerdictBounds()).status in (AMBER, RED)
    gaps = np.diff(log.launch_us)
    gaps[1::2] = gaps[::2][: len(gaps[1::2])]
    paired = replace(log, launch_us=np.cumsum(np.insert(gaps, 0, 0)))
    assert CHECK[9](collect(paired, SETTINGS, facts), VerdictBounds()).status == RED
