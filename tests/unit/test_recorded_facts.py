"""What a recording says of its run: a saved file is judged as the live run was."""

import json

import numpy as np
import pytest

from locust_realism.analysis.evidence import Facts
from locust_realism.analysis.recorded_facts import described, recorded_facts
from locust_realism.analysis.settings import WorkloadModel
from locust_realism.analysis.summary import summarize
from locust_realism.recording.formats import read_launches
from locust_realism.recording.launches import LaunchLog
from locust_realism.recording.packing import pack
from locust_realism.recording.spool import Spool, write_info
from locust_realism.workload.arrivals import arrival_times
from locust_realism.workload.rates import SineRate

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
    workload = described(Facts(model=model, planned_profile=profile, arrival_profile=arrivals), START)
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
    workload = described(Facts(model=WorkloadModel(kind="open"), planned_profile=PROFILE), START)
    path = recording(tmp_path / "run", {"held_us": [START, None], "workload": workload})
    log, facts = read_launches(path), recorded_facts([path])
    judged = summarize(log, facts=facts, run_start_us=facts.run_start_us)["verdict"]
    assert judged["overall"] == "green", judged
    assert summarize(log)["verdict"]["overall"] == "red"


@pytest.mark.parametrize("workload", [None, 5, [], {}, {"model": {"kind": "?"}}, {"model": {"new": 1}}])
def test_what_cannot_be_understood_is_left_out(tmp_path, workload):
    path = recording(tmp_path / "run", {"held_us": [START, START + 5], "workload": workload})
    assert recorded_facts([path]).model == WorkloadModel()
    assert recorded_facts([path]).held_us == (START, START + 5)
    write_info(path, {})
    assert recorded_facts([path, tmp_path / "a.csv"]) == Facts()
