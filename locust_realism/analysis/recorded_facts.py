"""What a recording says of its run besides the launches, so that the saved file is judged as the live run was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from locust_realism.analysis.evidence import Facts
from locust_realism.analysis.settings import WorkloadModel
from locust_realism.recording.reading import held_us, read_health, read_info, read_sessions
from locust_realism.workload.profile import RateProfile
from locust_realism.workload.rates import rate_profile_from_dict


def described(facts: Facts, run_start_us: int) -> dict[str, Any]:
    """What ``run.json`` says of the workload: JSON-able, read back by :func:`recorded_facts`.

    >>> described(Facts(model=WorkloadModel(kind="open")), 5)["model"]["kind"]
    'open'
    """

    def plain(profile: Any) -> dict[str, Any] | None:
        return profile.to_dict() if isinstance(profile, RateProfile) else None

    return {
        "model": asdict(facts.model),
        "planned_profile": plain(facts.planned_profile),
        "arrival_profile": plain(facts.arrival_profile),
        "run_start_us": run_start_us,
    }


def recorded_facts(paths: Sequence[Path]) -> Facts:
    """The facts that a recording among the paths holds (the master's, or that of a local run); empty where none does.

    What is not there, or cannot be understood, is left out.
    """
    for path in paths:
        if path.is_dir() and (held := held_us(path)) is not None:
            info = read_info(path)
            offset = info.get("clock_offset_sd_us")
            facts = Facts(
                held_us=held,
                health=read_health(path).between(*held).worst(),
                user_starts_us=read_sessions(path).start_us,
                clock_offset_sd_us=float(offset) if isinstance(offset, int | float) else None,
            )
            return _with_workload(facts, info.get("workload"))
    return Facts()


def _with_workload(facts: Facts, workload: Any) -> Facts:
    try:
        launches, arrivals = workload["planned_profile"], workload.get("arrival_profile")
        return replace(
            facts,
            model=WorkloadModel(**workload["model"]),
            planned_profile=None if launches is None else rate_profile_from_dict(launches),
            arrival_profile=None if arrivals is None else rate_profile_from_dict(arrivals),
            run_start_us=int(workload["run_start_us"]),
        )
    except (AttributeError, KeyError, TypeError, ValueError):  # of another version, or not ours
        return facts
