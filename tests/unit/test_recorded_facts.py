"""Facts that a recording saves: the verdict on a saved file equals that on the live run."""

import json

import numpy as np
import pytest

from locust_realism.analysis.settings import WorkloadModel
from locust_realism.analysis.summary import describe_workload, recorded_facts, summarize
from locust_realism.analysis.verdict.evidence import Facts
from locust_realism.recording.columns import pack
from locust_realism.recording.formats import read_launches
from locust_realism.recording.launches import LaunchLog
from locust_realism.recording.spool import Spool, write_info
from locust_realism.workload.rates.shapes import SineRate
from locust_realism.workload.users.arrivals import arrival_times

PROFILE = SineRate(min_rate=2, max_rate=38, period=100)
START = 1_700_000_000_000_000
MODELS = [
    WorkloadModel(kind="open", poisson_arrivals=True, session_s=12.5),
    WorkloadModel(kind="closed", users=40, think_time_s=2.0, think_time_cov=1.0),
    WorkloadModel(),
]


def recording(path, info):
    launches = START + (arrival_times(PROFILE, 200, np.random.default_rng(3)) * 1e6).astype(np.int64)
    spool = Spool(path)
    spool.add(pack(LaunchLog.build(launches, 5000)), len(launches))
    spool.flush()
    spool.close()
    write_info(path, info)
    return path


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.kind)
@pytest.mark.parametrize("profile", [None, PROFILE])
def test_facts_come_back_through_the_file(tmp_path, model, profile):
    arrivals = None if profile is None else 2 * profile
    workload = describe_workload(Facts(model=model, planned_profile=profile, arrival_profile=arrivals), START)
    path = recording(
        tmp_path / "run",
        {"held_us": [START, None], "clock_offset_sd_us": 12.5, "workload": json.loads(json.dumps(workload))},
    )
    found = recorded_facts([tmp_path / "none", path])
    assert found.model == model
    assert (found.planned_profile, found.arrival_profile) == (profile, arrivals)
    assert found.clock_offset_sd_us == 12.5
    assert (found.run_start_us, found.held_us, found.health) == (START, (START, None), {})


def test_a_saved_run_that_followed_its_plan_is_green_and_without_the_plan_it_is_not(tmp_path):
    workload = describe_workload(Facts(model=WorkloadModel(kind="open"), planned_profile=PROFILE), START)
    path = recording(tmp_path / "run", {"held_us": [START, None], "workload": workload})
    log, facts = read_launches(path), recorded_facts([path])
    judged = summarize(log, facts=facts, run_start_us=facts.run_start_us)["verdict"]
    assert judged["overall"] == "green", judged
    assert summarize(log)["verdict"]["overall"] == "red"


@pytest.mark.parametrize("workload", [None, 5, [], {}, {"model": {"kind": "?"}}, {"model": {"new": 1}}])
def test_an_unreadable_workload_is_left_out(tmp_path, workload):
    path = recording(tmp_path / "run", {"held_us": [START, START + 5], "workload": workload})
    assert recorded_facts([path]).model == WorkloadModel()
    assert recorded_facts([path]).held_us == (START, START + 5)
    write_info(path, {})
    assert recorded_facts([path, tmp_path / "a.csv"]) == Facts()


def test_missed_launches_are_saved_and_make_the_generator_late(tmp_path):
    """They have no rows: without them the launches that users did take look punctual."""
    launches = START + np.arange(1000) * 10_000
    log = LaunchLog.build(launches, 5000, planned_us=launches - 1000)

    def check(missed):
        workload = describe_workload(Facts(missed_launches=missed), START)
        facts = recorded_facts([recording(tmp_path / str(missed), {"held_us": [START, None], "workload": workload})])
        assert facts.missed_launches == missed
        found = summarize(log, facts=facts, run_start_us=START)["verdict"]["checks"]
        return next(row for row in found if row["id"] == 4)

    assert check(0)["status"] == check(9)["status"] == "green", "9 of 1,009 are fewer than 1 %"
    assert check(12)["status"] == check(1 << 53)["status"] == "red"
    assert check(12)["value"] == 1000.0
    assert "12 planned launches found no idle user" in check(12)["explanation"]
