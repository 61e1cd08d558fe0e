"""Causes of the verdict: each named first with its remedy, their precedence, and remedies that contradict no figure."""

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from verdict_support import BOUNDS, CHANGES, SCALE, SOUND, SOUND_GAPS, SOUND_USERS

from locust_realism.analysis.document import AMBER, GREEN, NO_DATA, RED
from locust_realism.analysis.settings import WorkloadModel
from locust_realism.analysis.verdict.causes import CAUSES, MEASURED, Case, root_causes, worst_status
from locust_realism.analysis.verdict.checks import Finding
from locust_realism.analysis.verdict.evidence import Stalls
from locust_realism.analysis.verdict.judge import PATTERN_CHECKS, headline, judge

IDLE = {
    "cpu_max": 0.06, "loop_lag_p99_ms": 2.0, "machine_cpu": 0.3, "generator_cpu": 0.06, "run_wait": 0.01, "steal": 0.0,
    "throttled": 0.0, "pressure": 0.02, "blocked": 0.01, "stopped": 0.0, "wake_p90_ms": 0.3,
}  # fmt: skip
BUNCHED = replace(SOUND_GAPS, cov=1.3, short_share=2.0, cov_without_longest=1.25)
WAVES = [SCALE | {"idc": 3.0}]


FACTS = ("blockers", "others", "pauses", "missed_launches", "model", "clock_offset_sd_us")


def run(health=None, *, gaps=BUNCHED, users=SOUND_USERS, **more):
    """Return evidence with figures of the generator's health over the idle ones; launches are bunched by default."""
    facts = {key: more.pop(key) for key in FACTS if key in more}
    known = replace(SOUND.facts, health=IDLE | (health or {}), **facts)
    return replace(SOUND, gaps=gaps, users=users, facts=known, **more)


def halves(figure, change):
    """Return the comparison of two halves of a run of which this figure differs by this share."""
    changed = {figure: {"change": change, "standard_error": 0.004, "segments": 10}}
    return {"enough": True, "changes": CHANGES | changed, "mser5_share": 0.01}


def even(**more):
    return run(gaps=replace(SOUND_GAPS, cov=0.5, short_share=0.1), **more)


def spaced(share):
    """Return evidence of a generator that needs this share of the mean gap for a launch."""
    return run(gaps=replace(SOUND_GAPS, cov=0.85, short_share=0.6), launch_floor_s=share / SOUND_GAPS.rate)


def step(**more):
    return run(users=replace(SOUND_USERS, user_cov=0.1), period_s=1.0, **more)


PAUSE = replace(SOUND_GAPS, cov=1.5, longest_share=0.4, longest_s=4.0, cov_without_longest=0.97)
LATE = {"gaps": SOUND_GAPS, "lateness_p99_s": 1.0, "missed_launches": 50}
OTHERS = {"others": [("ffmpeg", 1.4), ("chrome", 0.3)]}
PLACE = {"blockers": [("locustfile.py:12 in hash_password", 0.4)]}
STALLS = Stalls(12, 0.3, 3.0, regular=True)
WAITING = replace(SOUND_USERS, response_share=0.2)
USERS = "bunches that the users make themselves"
OWN_WORK = "an event loop full of Locust's own work"
CLOCKS = ("clock offsets between workers", "a coarse clock")
FIRST = [
    # cause, evidence, words of its evidence and remedy, and evidence just inside the bound with its cause
    ("a CPU limit of the container", run({"throttled": 0.06}), "6.0%", "Raise the CPU limit",
     run({"throttled": 0.049})),
    ("a hypervisor that takes CPU time", run({"steal": 0.12}), "12%", "CPUs are its own", run({"steal": 0.049})),
    ("a process stopped from outside", run({"stopped": 0.1}, pauses=[(3.0, 0.3), (6.0, 0.5)]),
     "lasted 500 ms, at 6.0 s", "SIGSTOP", run({"stopped": 0.019})),
    ("code that blocks the event loop", run({"blocked": 0.5}, **PLACE), "locustfile.py:12 in hash_password 40%",
     "Move that code out", run({"blocked": 0.09}, blockers=[("a.py:1 in f", 0.09)])),
    (OWN_WORK, run({"blocked": 0.5}), "No code of the tasks did it: it is Locust's own work",
     "Add workers (--processes), or lower the load", run({"blocked": 0.09})),
    (OWN_WORK, run({"blocked": 0.5}, blockers=[("a.py:1 in f", 0.02)]), "little of it (a.py:1 in f 2.0%)",
     "Add workers (--processes), or lower the load", run({"blocked": 0.09})),
    ("code that blocks the event loop", run({"blocked": 0.5, "cpu_max": 0.97}, **PLACE), "97%", "Or: Add workers (",
     run({"blocked": 0.09})),
    ("a process of the generator at its limit", run({"cpu_max": 0.97}), "97% of a core", "Add workers (--processes)",
     run({"cpu_max": 0.79})),
    ("a process of the generator at its limit", run({"cpu_max": 0.97, "machine_cpu": 0.98}, **OTHERS), "97% of a core",
     "on another machine, since this one is full", run({"cpu_max": 0.79})),
    ("a machine busy with other programs", run({"run_wait": 0.2}, **OTHERS), "ffmpeg 1.4, chrome 0.3", "Move ffmpeg",
     run({"run_wait": 0.09}, **OTHERS)),
    ("a machine busy with other programs", run({"machine_cpu": 0.97}), "97% busy", "Move the other programs",
     run({"machine_cpu": 0.89})),
    ("a machine full of the generator's own processes", run({"machine_cpu": 0.97, "generator_cpu": 1.8}), "1.8 cores",
     "more machines", run({"machine_cpu": 0.89, "generator_cpu": 1.8})),
    ("a single pause", run(gaps=PAUSE, pauses=[(41.0, 2.9)]), "4 s, at 40.0 s", "Analyse the run without it",
     run(gaps=replace(PAUSE, cov_without_longest=1.2))),
    ("too few users for the planned launches", run(**LATE), "50 planned launches found no", "Start more users", None),
    ("too few users for the planned launches", run(**LATE | {"missed_launches": 0, "lateness_p50_s": 0.5}),
     "at least 1 s after", "more users", None),
    ("retries of failed requests", run(gaps=SOUND_GAPS, retries=0.2), "20.0% of the launches", "before they try again",
     None),
    ("a server that stalls", run(users=WAITING, gaps=SOUND_GAPS, server_stalls=STALLS),
     "no answer for 300 ms on average, 12 times", "garbage collection", None),
    ("users that move in step", step(), "period of 1 s", "one by one at random", run(period_s=1.0)),
    ("repeated pauses of the test", run(stalls=STALLS), "about every 3 s. The event loop was on time", "at this rhythm",
     run(stalls=Stalls(2, 0.3, 3.0))),
    ("a server that paces its users", run(users=WAITING, gaps=SOUND_GAPS), "20.0% of their", "open arrivals", None),
    (USERS, run(period_s=5.0), "at most 2.0 ms late. The launches repeat with a period of 5 s", "in the tasks", None),
    ("launches in batches", run({"loop_lag_p99_ms": 45.0, "blocked": 0.06}), "at most 45.0 ms late", "Lower the load",
     run()),
    ("a generator that spaces its launches", spaced(0.6), "60% of the mean gap", "Add workers", spaced(0.29)),
    ("launches that are too even", even(), "CoV of the times between launches is 0.50", "think times", None),
    ("too few users or too regular ones",
     even(groups=[{"users": k, "n": 1000 * k, "cov": 0.5} for k in (1, 10, 100)]), "off 1", "more users", None),
    ("a rate or a system that is not steady", run(gaps=SOUND_GAPS, dispersion=WAVES, period_s=20.0), "period of 20 s",
     "planned rate", run(gaps=SOUND_GAPS, dispersion=WAVES, period_s=2.0)),
    ("a load that comes in waves", run(gaps=SOUND_GAPS, dispersion=WAVES), "variance / mean 3.00", "one by one", None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "evidence", "seen", "remedy", "control"), FIRST)
def test_each_cause_comes_first_with_its_evidence_and_its_remedy(name, evidence, seen, remedy, control):
    """Negative control: with the figure just inside its bound another cause, or none, comes first."""
    verdict = judge(evidence, BOUNDS)
    first = verdict["causes"][0]
    assert (first["name"], first["status"]) == (name, verdict["overall"])
    assert seen in first["evidence"]
    assert remedy in first["remedy"]
    assert "nan" not in first["explanation"]
    assert name in verdict["sentence"]
    assert first["remedy"] == next(row["advice"] for row in verdict["checks"] if row["id"] == first["check"])
    if control is not None:
        assert name not in [cause["name"] for cause in judge(control, BOUNDS)["causes"]]


def test_every_cause_that_a_figure_of_the_health_shows_leaves_a_sound_pattern_alone():
    """A figure from its cause bound on names nothing where launches are like users'; from its amber bound it does."""
    quiet = {"throttled": 0.06, "steal": 0.06, "stopped": 0.03, "run_wait": 0.2, "blocked": 0.5, "machine_cpu": 0.94}
    place = {"blockers": [("locustfile.py:12 in parse", 0.19)]}
    assert judge(run(quiet, gaps=SOUND_GAPS, **OTHERS, **place), BOUNDS)["causes"] == []
    for figure, value, name in (
        ("throttled", 0.25, "a CPU limit of the container"),
        ("steal", 0.25, "a hypervisor that takes CPU time"),
        ("stopped", 0.15, "a process stopped from outside"),
        ("run_wait", 0.35, "a machine busy with other programs"),
        ("machine_cpu", 0.96, "a machine busy with other programs"),
        ("blocked", 0.25, "code that blocks the event loop"),
    ):
        more = PLACE if figure == "blocked" else {}
        verdict = judge(run({figure: value}, gaps=SOUND_GAPS, **more), BOUNDS)
        assert (verdict["overall"], verdict["causes"][0]["name"]) == (AMBER, name)
        assert verdict["sentence"].startswith(f"The test has a flaw: {name}")
        assert verdict["sentence"].endswith("Its launches came like those of independent users.")


def test_precedence_of_causes_that_come_together():
    """Each figure over its bound hides those behind it; without the first the second is named, and so on."""
    full = {"cpu_max": 0.97, "machine_cpu": 0.97}
    assert judge(run(full, lateness_p99_s=1.0, lateness_p50_s=0.5, **OTHERS), BOUNDS)["causes"][0]["name"] == (
        "a process of the generator at its limit"
    )
    health = {"throttled": 0.3, "steal": 0.3, "stopped": 0.3, "blocked": 0.5, "machine_cpu": 0.97}
    order = [
        (("lateness_p99_s", "lateness_p50_s"), "too few users for the planned launches"),
        ((), "retries of failed requests"),
        (("server_stalls",), "a server that stalls"),
        (("throttled",), "a CPU limit of the container"),
        (("steal",), "a hypervisor that takes CPU time"),
        (("stopped",), "a process stopped from outside"),
        (("blocked", "blockers"), "code that blocks the event loop"),
        (("machine_cpu",), "a machine busy with other programs"),
        (("retries",), "retries of failed requests"),
        (("user_cov",), "users that move in step"),
        (("stalls",), "repeated pauses of the test"),
        ((), "a server that paces its users"),
    ]
    more = {
        "lateness_p99_s": 1.0,
        "lateness_p50_s": 0.5,
        "retries": 0.3,
        "server_stalls": STALLS,
        "stalls": STALLS,
        **PLACE,
    }
    users = replace(SOUND_USERS, user_cov=0.2)
    for figures, name in order:
        first = judge(run(health, users=users, **more), BOUNDS)["causes"][0]
        assert first["name"] == name
        if not figures and "retries" in more:
            more["retries"] = 0.09  # so few are a cause only if the machine is idle
        for figure in figures:
            health.pop(figure, None)
            more.pop(figure, None)
        if figures == ("user_cov",):
            users = SOUND_USERS
        if figures == ("stalls",):
            users = WAITING


@pytest.mark.parametrize("figure", MEASURED)
def test_a_figure_that_is_not_measured_is_named_and_no_cause(figure):
    health = {key: value for key, value in IDLE.items() if key != figure}
    verdict = judge(replace(run(), facts=replace(run().facts, health=health)), BOUNDS)
    assert verdict["missing"] == [MEASURED[figure]]
    assert verdict["causes"][0]["name"] == USERS
    assert judge(run(), BOUNDS)["missing"] == []


def test_without_any_figure_of_the_generator_no_reason_is_made_up():
    unknown = replace(run(), facts=replace(run().facts, health={}))
    verdict = judge(unknown, BOUNDS)
    assert verdict["missing"] == ["the generator's health"]
    assert verdict["causes"][0]["name"] == "launches in batches"
    assert verdict["causes"][0]["remedy"].startswith("Record the generator's health")


LEVELS = {
    "cpu_max": (0.06, 0.97), "machine_cpu": (0.3, 0.97), "generator_cpu": (0.06, 1.9), "run_wait": (0.01, 0.4),
    "steal": (0.0, 0.3), "throttled": (0.0, 0.3), "stopped": (0.0, 0.3), "blocked": (0.01, 0.5),
    "loop_lag_p99_ms": (2.0, 8.0, 45.0, 250.0),
}  # fmt: skip


@pytest.mark.parametrize("late", [{}, LATE | {"gaps": BUNCHED}])
@pytest.mark.parametrize("known", [{}, OTHERS, PLACE, OTHERS | PLACE])
def test_no_remedy_contradicts_a_figure_beside_it(known, late):
    """All combinations of small and large figures of the health, bunched or late."""
    for figures in itertools.product(*LEVELS.values()):
        health = dict(zip(LEVELS, figures, strict=True))
        crowded = health["run_wait"] >= 0.1 or health["machine_cpu"] >= 0.9
        place = "blockers" in known
        for cause in judge(run(health, **known, **late), BOUNDS)["causes"]:
            remedy = cause["remedy"]
            where = (health, cause["name"], remedy)
            if cause["name"] == OWN_WORK:
                assert health["blocked"] >= 0.1, where
                assert not place, where
                assert not crowded, where
            elif "dd workers" in remedy:
                assert health["cpu_max"] >= 0.8, where
                assert ("on another machine" in remedy) == crowded, where
            if "Move ffmpeg" in remedy or "Move the other programs" in remedy:
                assert crowded, where
                assert health["generator_cpu"] < 1.7, where
            if "Spread the workers" in remedy:
                assert crowded, where
                assert health["generator_cpu"] > 1.7, where
            assert "Raise the CPU limit" not in remedy or health["throttled"] >= 0.05, where
            assert "CPUs are its own" not in remedy or health["steal"] >= 0.05, where
            assert "SIGSTOP" not in remedy or health["stopped"] >= 0.02, where
            assert "Move that code" not in remedy or place, where
            assert "Start more users" not in remedy or late, where
            assert cause["name"] != USERS or health["loop_lag_p99_ms"] < 50, where


LISTED = [(30.05 * k, 0.5) for k in range(1, 11)]
"""Ten pauses of the event loop; none overlaps the longest gap, which begins at 40 s."""
SHAPES = {
    "gaps": (BUNCHED, PAUSE, replace(SOUND_GAPS, longest_s=0.2)),
    "pauses": ([], LISTED, [*LISTED[1:], (40.05, 0.5)]),
    "stalls": (None, STALLS, Stalls(20, 0.2, 3.0)),
    "server_stalls": (None, STALLS, Stalls(12, 0.3, 3.0)),
    "retries": (0.0, 0.2),
    "steady": (halves("p95", 0.001), halves("p95", -0.31), halves("rate", 0.2)),
    "clock_offset_sd_us": (20.0, 1500.0, 15_000.0),
}


@pytest.mark.parametrize("lag_ms", [2.0, 8.0, 12.0, 45.0, 250.0])
def test_no_remedy_contradicts_a_pause_a_stall_a_clock_or_a_half(lag_ms):
    """All combinations of pauses of the event loop, stalls, retries, halves and clocks."""
    rows = [row | {"cov": 2.0} for row in SOUND.workers]
    for values in itertools.product(*SHAPES.values()):
        shape = dict(zip(SHAPES, values, strict=True))
        causes = judge(run({"loop_lag_p99_ms": lag_ms}, workers=rows, **shape), BOUNDS)["causes"]
        overlaps = (40.05, 0.5) in shape["pauses"]
        for cause in causes:
            evidence, remedy, name = cause["evidence"], cause["remedy"], cause["name"]
            where = (lag_ms, shape, name, evidence, remedy)
            assert "late at most" not in evidence, where
            if "event loop was on time" in evidence:
                assert lag_ms < 10, where
                assert not overlaps, where
                stopped_s = shape["stalls"].mean_s if "All launches" in evidence else shape["gaps"].longest_s
                assert stopped_s > 0.25, where
                assert "generator" not in remedy, where
            if "stood still" in evidence or "stopped the generator" in remedy:
                assert overlaps, where
            if name in ("repeated pauses of the test", "a server that stalls"):
                stalls = shape["stalls" if name.startswith("repeated") else "server_stalls"]
                assert ("at this rhythm" in remedy) == ("about every" in evidence) == stalls.regular, where
            if cause["check"] == 11:
                assert ("planned rate" in remedy) == ("launch rate" in evidence), where
            if name in CLOCKS:
                assert cause["consequences"] == [], where
                assert shape["clock_offset_sd_us"] > 1000, where
                assert cause["status"] == RED or cause is causes[-1], where
            assert "before they try again" not in remedy or shape["retries"], where
            assert name != USERS or lag_ms < 50, where


def test_clock_offsets_and_a_coarse_clock_explain_no_other_check():
    """Amber offsets stand last; red ones stand behind causes with evidence of their own and before the others."""
    first, last = judge(replace(step(clock_offset_sd_us=1500.0), period_s=1.0), BOUNDS)["causes"]
    assert (first["name"], last["name"]) == ("users that move in step", CLOCKS[0])
    assert (last["status"], last["consequences"]) == (AMBER, [])
    rows = [row | {"cov": 2.0} for row in SOUND.workers]
    red = {"clock_offset_sd_us": 15_000.0, "workers": rows}
    assert [cause["name"] for cause in judge(step(**red), BOUNDS)["causes"]] == ["users that move in step", CLOCKS[0]]
    assert [cause["name"] for cause in judge(run(**red), BOUNDS)["causes"]] == [CLOCKS[0], USERS]
    paused = judge(replace(run(gaps=replace(PAUSE, rate=200.0)), tick_us=1000), BOUNDS)["causes"]
    assert [(cause["name"], cause["status"]) for cause in paused] == [("a single pause", RED), (CLOCKS[1], AMBER)]
    assert [(cause["check"], cause["consequences"]) for cause in paused] == [(2, [1]), (9, [])]


@pytest.mark.parametrize(
    ("evidence", "stood"),
    [
        (run(gaps=PAUSE), False),
        (run(gaps=PAUSE, pauses=[(60.0, 0.5)]), False),
        (run(gaps=PAUSE, pauses=[(41.0, 2.9)]), True),
        (run(gaps=PAUSE, pauses=[(41.0, 0.9)]), None),
        (run(gaps=replace(PAUSE, rate=400.0, longest_s=0.2)), None),  # shorter than the pauses that are listed
        (run({"loop_lag_p99_ms": 12.0}, gaps=PAUSE), None),
        (run(gaps=replace(PAUSE, longest_s=0.45), pauses=[(60.0 + k, 0.5) for k in range(10)]), None),
        (run(stalls=STALLS), False),
        (run(stalls=STALLS, pauses=[(60.0, 0.5)]), None),
        (run(stalls=Stalls(20, 0.2, 30.0)), None),
        (run(stalls=Stalls(20, 0.5, 30.0, regular=True), pauses=[(10.0 + 30 * k, 0.5) for k in range(10)]), True),
        (run(stalls=Stalls(20, 0.5, 30.0, regular=True), pauses=[(10.0 + 30 * k, 0.5) for k in range(4)]), None),
    ],
)
def test_the_event_loop_was_on_time_only_where_it_was_measured(evidence, stood):
    """Listed pauses that overlap show that it stood; otherwise the gap must be long, and the lag small."""
    cause = judge(evidence, BOUNDS)["causes"][0]
    assert cause["name"] in ("a single pause", "repeated pauses of the test")
    assert ("The event loop was on time." in cause["evidence"]) == (stood is False)
    assert ("of the generator stood still" in cause["evidence"]) == (stood is True)
    assert ("stopped the generator" in cause["remedy"]) == (stood is True)
    assert ("generator" in cause["remedy"]) == (stood is not False)


def test_bunches_are_not_the_users_own_where_the_event_loop_may_make_them():
    """Late wake-ups in 6 % of the time may bunch 10 % of the launches; those in 2 % of the time cannot."""
    assert judge(run({"loop_lag_p99_ms": 45.0, "blocked": 0.06}), BOUNDS)["causes"][0]["name"] == "launches in batches"
    rare = judge(run({"loop_lag_p99_ms": 45.0, "blocked": 0.02}), BOUNDS)["causes"][0]
    assert rare["name"] == USERS
    assert "at most 45.0 ms late. It was late 3.0% of the time: too rarely" in rare["evidence"]
    assert "too rarely" not in judge(run(), BOUNDS)["causes"][0]["evidence"]


@pytest.mark.parametrize(("missed", "words"), [(0, "launches left at least 1 s after"), (50, "With these as 1 s late")])
def test_launches_that_were_missed_did_not_come_late(missed, words):
    late = replace(run(**LATE | {"missed_launches": missed}), lateness_p50_s=0.5)
    assert words in judge(late, BOUNDS)["causes"][0]["evidence"]


def test_the_dependence_of_the_gaps_makes_no_number_of_users_red():
    """Check 9 is red by itself beside an amber check 7; a red check 7 takes it along."""
    groups = [{"users": k, "n": 10**6, "cov": cov} for k, cov in ((1, 0.6), (10, 0.8), (100, 0.97))]
    off = run(gaps=replace(SOUND_GAPS, correlations=(-0.3,)), groups=groups)
    found = judge(off, BOUNDS)["causes"]
    assert [(cause["name"], cause["status"]) for cause in found] == [
        ("gaps that depend on each other", RED), ("too few users or too regular ones", AMBER),
    ]  # fmt: skip
    (cause,) = judge(replace(off, groups=[row | {"cov": 0.8} for row in groups]), BOUNDS)["causes"]
    assert (cause["name"], cause["status"], cause["consequences"]) == ("too few users or too regular ones", RED, [9])


STATUSES = st.sampled_from([GREEN, AMBER, RED, NO_DATA])


@given(st.lists(STATUSES, min_size=12, max_size=12), st.floats(0.1, 5), st.sampled_from([{}, {"cpu_max": 0.97}]))
def test_the_headline_agrees_with_every_status(statuses, cov, health):
    evidence = run(health, gaps=replace(BUNCHED, cov=cov))
    findings = {number: Finding(status, 0.5, None, "Seen.", "Meant.") for number, status in enumerate(statuses, 1)}
    causes = root_causes(evidence, findings, BOUNDS)
    overall = worst_status(findings.values()) if statuses[0] != NO_DATA else NO_DATA
    sentence = headline(overall, findings, causes)
    pattern = worst_status(findings[number] for number in PATTERN_CHECKS)
    assert ("not enough data" in sentence) == (overall == NO_DATA)
    if overall == NO_DATA:
        return
    assert ("did not come like" in sentence) == (pattern == RED)
    assert ("nearly like" in sentence) == (pattern == AMBER)
    assert ("came like" in sentence) == (pattern == GREEN)
    if overall == GREEN:
        assert sentence == "The launches came like those of independent users."
        assert not causes
    else:
        assert causes[0]["status"] == overall
        assert causes[0]["name"] in sentence
        assert sentence.startswith("The test is not sound: ") == (overall == RED and "did not come like" not in
                                                                  sentence.split(":")[0])  # fmt: skip
        # No red verdict begins with praise.
        assert not sentence.startswith("The launches came") or overall == AMBER


@given(
    st.lists(STATUSES, min_size=12, max_size=12),
    st.floats(0.1, 5),
    st.sampled_from([{}, {"steal": 0.5}, {"blocked": 0.5}]),
)
def test_every_bad_check_belongs_to_exactly_one_cause(statuses, cov, health):
    findings = {number: Finding(status, 0.5, None, "Seen.", "Meant.") for number, status in enumerate(statuses, 1)}
    rows = root_causes(run(health, gaps=replace(BUNCHED, cov=cov)), findings, BOUNDS)
    named = [number for row in rows for number in (row["check"], *row["consequences"])]
    assert sorted(named) == [number for number, finding in findings.items() if finding.bad]


def test_a_loop_that_no_code_of_the_user_blocks_may_be_late_by_what_users_do():
    """A burst of users in step makes Locust itself late; without them nothing else explains the late loop."""
    late = {"blocked": 0.5, "loop_lag_p99_ms": 70.0}
    some = replace(SOUND_USERS, user_cov=0.25)
    assert judge(run(late, users=some), BOUNDS)["causes"][0]["name"] == "users that move in step"
    assert judge(run(late, users=some, **PLACE), BOUNDS)["causes"][0]["name"] == "code that blocks the event loop"
    assert judge(run(late), BOUNDS)["causes"][0]["name"] == OWN_WORK


def test_constant_think_times_are_the_cause_on_a_busy_machine_too():
    """The machine is the second cause, of the late launches; negative control: think times that vary somewhat."""
    health = {"machine_cpu": 0.97, "loop_lag_p99_ms": 70.0}
    constant = run(health, users=replace(SOUND_USERS, user_cov=0.01), **OTHERS)
    first, second = judge(constant, BOUNDS)["causes"]
    assert (first["name"], second["name"]) == ("users that move in step", "a machine busy with other programs")
    assert (second["check"], second["consequences"]) == (4, [])
    varying = run(health, users=replace(SOUND_USERS, user_cov=0.25), **OTHERS)
    assert judge(varying, BOUNDS)["causes"][0]["name"] == "a machine busy with other programs"


def test_the_launches_that_a_pause_delayed_are_part_of_it():
    """All 86 users who were due in 2 s leave at once; negative control: as many short gaps after a shorter pause."""
    burst = replace(PAUSE, n=1400, rate=100.0, longest_s=0.9, cov_without_longest=1.1, short_share=1.6)
    assert judge(run(gaps=burst), BOUNDS)["causes"][0]["name"] == "a single pause"
    short = replace(burst, longest_s=0.2)
    assert judge(run(gaps=short), BOUNDS)["causes"][0]["name"] == USERS


def test_a_large_swing_of_the_rate_makes_short_gaps_and_is_no_bunching():
    """Counts in 10 ms of a swinging rate are nearly Poisson; negative control: those of users who act together."""
    swing = {"gaps": replace(BUNCHED, short_share=1.25), "period_s": 8.0}
    rows = [SCALE | {"window_s": 0.01, "idc": 1.2}, SCALE | {"idc": 9.0}]
    assert judge(run(dispersion=rows, **swing), BOUNDS)["causes"][0]["name"] == "a rate or a system that is not steady"
    steep = [SCALE | {"window_s": width, "idc": 1 + 60 * width} for width in (0.01, 0.1, 1.0)]
    assert judge(run(period_s=5.0, dispersion=steep), BOUNDS)["causes"][0]["name"].endswith("not steady"), "1.6 to 7"
    rows = [SCALE | {"window_s": 0.01, "idc": 4.0}, SCALE | {"idc": 9.0}]
    assert judge(run(dispersion=rows, **swing), BOUNDS)["causes"][0]["name"] == USERS


def test_a_pause_names_only_code_that_can_have_made_it():
    """A pause of 4 s is not the work of code that takes 0.1 s of the run; negative control: of code that fills it."""
    seconds = PAUSE.n / PAUSE.rate
    pauses = [(41.0, 2.9)]
    small, large = ([("locustfile.py:3 in parse", share)] for share in (0.1 / seconds, 3.0 / seconds))
    found = [
        judge(run(gaps=PAUSE, pauses=pauses, blockers=b), BOUNDS)["causes"][0]["explanation"] for b in (small, large)
    ]
    assert ["locustfile.py:3" in text for text in found] == [False, True]


def test_constant_think_times_pause_together():
    """Users with constant think times leave pauses between their waves: not the pauses are the cause."""
    constant = replace(SOUND_USERS, user_cov=0.05)
    assert judge(run(stalls=STALLS, users=constant), BOUNDS)["causes"][0]["name"] == "users that move in step"
    assert judge(run(stalls=STALLS), BOUNDS)["causes"][0]["name"] == "repeated pauses of the test"


def test_a_pause_too_short_for_the_waves_is_not_their_cause():
    """A rate that swings is not steady, whatever pause there was; a pause of 90 mean gaps makes waves itself."""
    short = replace(PAUSE, n=1500, longest_s=0.2, longest_share=0.13)
    swinging = run(gaps=short, dispersion=[SCALE | {"idc": 7.0}], period_s=5.0)
    assert judge(swinging, BOUNDS)["causes"][0]["name"] == "a rate or a system that is not steady"
    long = replace(short, longest_s=0.9)
    assert judge(run(gaps=long, dispersion=[SCALE | {"idc": 7.0}]), BOUNDS)["causes"][0]["name"] == "a single pause"


def test_every_cause_of_the_table_has_sentences():
    """Evidence and remedy of each cause are whole sentences on a run in which everything is wrong."""
    evidence = run({"cpu_max": 0.97, "blocked": 0.5}, stalls=STALLS, server_stalls=STALLS, **OTHERS, **PLACE)
    findings = {number: Finding(RED, 2.0, None, "Seen.", "Meant.") for number in range(1, 13)}
    case = Case(evidence, findings, BOUNDS)
    for cause in CAUSES:
        for text in (cause.evidence(case), cause.remedy(case)):
            assert text[0].isupper(), (cause.name, text)
            assert text.endswith("."), (cause.name, text)
            assert "  " not in text, (cause.name, text)


def test_delays_of_the_generator_do_not_explain_launches_that_are_too_even():
    """Three users on a full machine: the machine makes them late, not even."""
    rows = [{"users": k, "n": 50_000, "cov": 0.5} for k in (1, 3)]
    late = {"loop_lag_p99_ms": 70.0, "machine_cpu": 0.97}
    found = judge(even(health=late, groups=rows), BOUNDS)["causes"]
    assert [cause["name"] for cause in found] == [
        "too few users or too regular ones", "a machine busy with other programs",
    ]  # fmt: skip
    assert (found[0]["status"], found[1]["status"]) == (RED, AMBER)
    assert (found[1]["check"], found[1]["consequences"]) == (4, [])


def test_a_slow_server_is_no_consequence_of_a_busy_machine():
    """Answers of 200 ms are the server's; negative control: answers shorter than the lag of the event loop."""
    slow = run({"machine_cpu": 0.97}, users=WAITING, gaps=SOUND_GAPS)
    assert judge(slow, BOUNDS)["causes"][0]["name"] == "a server that paces its users"
    late = run({"machine_cpu": 0.97, "loop_lag_p99_ms": 300.0}, users=WAITING, gaps=SOUND_GAPS)
    (cause,) = judge(late, BOUNDS)["causes"]
    assert (cause["name"], cause["consequences"]) == ("a machine busy with other programs", [5])


def test_a_paced_plan_in_which_the_event_loop_is_late_does_not_lack_users():
    """Lateness that the event loop explains is not blamed on the number of users."""
    late = run({"loop_lag_p99_ms": 45.0}, gaps=SOUND_GAPS, lateness_p99_s=0.06, lateness_p50_s=0.03)
    assert judge(late, BOUNDS)["causes"][0]["name"] == "a generator that is nearly too slow"
    rare = run({"loop_lag_p99_ms": 2.0}, gaps=SOUND_GAPS, lateness_p99_s=0.06, lateness_p50_s=0.001)
    assert judge(rare, BOUNDS)["causes"][0]["name"] == "a generator that is nearly too slow"
    more = run({"loop_lag_p99_ms": 2.0}, gaps=SOUND_GAPS, lateness_p99_s=0.06, lateness_p50_s=0.03)
    assert judge(more, BOUNDS)["causes"][0]["name"] == "too few users for the planned launches"


def test_no_short_gaps_are_judged_that_the_generator_cannot_make():
    coarse = replace(run(), short_gap_s=0.006, short_gap_measurable=False)
    row = next(row for row in judge(coarse, BOUNDS)["checks"] if row["id"] == 3)
    assert (row["status"], row["value"], row["bound"]) == (NO_DATA, None, None)
    assert "not measurable" in row["seen"]
    assert math.isnan(SOUND.short_gap_s)


def test_a_law_of_gaps_that_the_generator_cannot_make_is_not_judged():
    """Negative control: the same distance in gaps that the generator resolves is amber."""
    off = run(gaps=replace(SOUND_GAPS, distance=0.041))
    for measurable, status in ((True, AMBER), (False, GREEN)):
        found = replace(off, short_gap_s=0.006, short_gap_measurable=measurable)
        row = next(row for row in judge(found, BOUNDS)["checks"] if row["id"] == 9)
        assert row["status"] == status
        assert ("not measurable" in row["seen"]) is not measurable


def test_workers_on_other_machines_do_not_fill_the_one_that_others_keep_busy():
    """Five cores on five machines are no reason to leave the one on which ffmpeg uses 1.4 of 2 cores."""
    crowded = run({"machine_cpu": 0.97, "generator_cpu": 5.0}, **OTHERS)
    for own, cause in ((0.5, "a machine busy with other programs"), (2.0, "a machine full of the generator's own")):
        found = replace(crowded, facts=replace(crowded.facts, own_cores=own))
        assert judge(found, BOUNDS)["causes"][0]["name"].startswith(cause)


def test_a_plan_is_not_judged_as_a_pool():
    """Negative control of the words above: an open workload has no feedback of R/(R+Z)."""
    open_ = run(users=WAITING, gaps=SOUND_GAPS, model=WorkloadModel(kind="open"))
    assert judge(open_, BOUNDS)["feedback"] == NO_DATA
    assert judge(replace(open_, retries=0.2), BOUNDS)["feedback"] == RED
