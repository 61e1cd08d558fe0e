"""A locustfile whose processes write down the think times that each user slot drew and the planned launches."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from locust import User, events, task

from locust_realism import ConstantRate, exponential, install, paced

install()

think = exponential(12)
waits: dict[int, list[float]] = {}
planned: list[float] = []


class Visitor(User):
    wait_time = paced(ConstantRate(100))

    @task
    def note(self) -> None:
        from locust_realism.runtime.coordination.plan import ensure_plan
        from locust_realism.runtime.users.session import current_session

        session = current_session()
        assert session is not None
        assert session.planned is not None
        planned.append(session.planned - ensure_plan(self.environment).time_of(0))
        waits.setdefault(session.slot, []).append(think(self))


@events.quitting.add_listener
def write(environment: Any, **_: Any) -> None:
    index = getattr(environment.runner, "worker_index", None)
    if index is not None:
        (Path(os.environ["RESULTS"]) / f"worker-{index}.json").write_text(json.dumps([waits, planned]))
