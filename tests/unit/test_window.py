"""Sentence of the part that the verdict covers where a run ends before that part begins."""

import numpy as np
import pytest

from locust_realism.analysis.settings import AnalysisSettings, WorkloadModel
from locust_realism.analysis.summary import summarize
from locust_realism.analysis.verdict.evidence import Facts
from locust_realism.recording.launches import LaunchLog

SETTINGS = AnalysisSettings(charts=False)
SLOW = WorkloadModel(kind="closed", users=100, think_time_s=60.0)


def judged_sentence(launches_s, held_s, model=SLOW):
    """Return the sentence of a run from full spawn to the stop request, both in seconds."""
    held = tuple(None if at is None else round(at * 1e6) for at in held_s)
    log = LaunchLog.build((np.asarray(launches_s) * 1e6).astype(np.int64), 5000)
    facts = Facts(model=model, held_us=held, run_start_us=0)
    return summarize(log, settings=SETTINGS, facts=facts, run_start_us=0)["window"]["judged_sentence"]


def slow_users(end_s):
    """Return launches of 100 users with a mean wait of 60 s: 1.67 a second."""
    return np.cumsum(np.random.default_rng(1).exponential(0.6, round(end_s / 0.6)))


def test_a_run_that_ends_before_its_judged_part_states_by_how_much():
    """Three mean waits are 180 s after full spawn at 5 s, and the run is stopped at 120 s."""
    sentence = judged_sentence(slow_users(119), (5, 120))
    assert sentence.startswith(
        "The verdict covers no request: it begins 180 s (3 mean waits) after full spawn at 5.0 s, and the stop request "
        "came at 120.0 s. Run the test at least "
    )
    # 65 s until the judged part, and 900 gaps of 0.6 s for a verdict.
    longer = float(sentence.split("at least ")[1].split()[0])
    assert longer == pytest.approx(65 + 540, rel=0.2)


def test_it_states_the_time_until_the_judged_part_where_no_rate_is_known():
    sentence = judged_sentence([1.0, 2.0, 60.0], (5, 120))
    assert sentence.endswith("Run the test at least 65 s longer: a verdict takes more launches.")


def test_the_least_time_of_settling_is_no_number_of_waits():
    sentence = judged_sentence([1.0, 5.2], (5, 5.5), WorkloadModel(kind="closed", users=9, think_time_s=0.1))
    assert "it begins 1 s after full spawn at 5.0 s, and the stop request came at 5.5 s." in sentence


@pytest.mark.parametrize("end", [None, 186.0])
def test_a_run_that_goes_on_or_reaches_it_has_its_span(end):
    until = "" if end is None else " to the stop request at 186.0 s"
    sentence = judged_sentence(slow_users(185.9), (5, end))
    assert sentence.startswith(f"The verdict covers the time from 185.0 s{until}. It begins 3 mean waits after ")
