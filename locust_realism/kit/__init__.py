"""Public kit of locustfiles: embedded targets, preflight checks, options, think times, run ids; see docs/scenarios.md.

A name is imported at its first use, so that a server of its own process can import :func:`sample_pdf` without Locust.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from locust_realism.common.lazy import lazy_names

if TYPE_CHECKING:
    from locust_realism.kit.command_line import NOT_NEGATIVE as NOT_NEGATIVE
    from locust_realism.kit.command_line import POSITIVE as POSITIVE
    from locust_realism.kit.command_line import Option as Option
    from locust_realism.kit.command_line import bounded as bounded
    from locust_realism.kit.command_line import connecting as connecting
    from locust_realism.kit.command_line import is_stopping as is_stopping
    from locust_realism.kit.command_line import scenario_options as scenario_options
    from locust_realism.kit.command_line import think_time as think_time
    from locust_realism.kit.command_line import think_time_options as think_time_options
    from locust_realism.kit.embedded import embedded_host as embedded_host
    from locust_realism.kit.embedded import embedded_service as embedded_service
    from locust_realism.kit.embedded import embedded_target as embedded_target
    from locust_realism.kit.pdf import sample_pdf as sample_pdf
    from locust_realism.kit.reports import report_part as report_part
    from locust_realism.kit.run_id import RunId as RunId
    from locust_realism.kit.start_checks import Check as Check
    from locust_realism.kit.start_checks import preflight as preflight
    from locust_realism.kit.start_checks import reachable as reachable
    from locust_realism.kit.start_checks import refuse as refuse

_NAMES = {
    "command_line": (
        "NOT_NEGATIVE", "Option", "POSITIVE", "bounded", "connecting", "is_stopping", "scenario_options", "think_time",
        "think_time_options",
    ),
    "embedded": ("embedded_host", "embedded_service", "embedded_target"),
    "pdf": ("sample_pdf",),
    "reports": ("report_part",),
    "run_id": ("RunId",),
    "start_checks": ("Check", "preflight", "reachable", "refuse"),
}  # fmt: skip
_HOMES = {name: module for module, names in _NAMES.items() for name in names}
"""Public name to the module that defines it."""

_RELEASE_0_1 = {"OPTION": "embedded", "PREFIX": "run_id"}
"""Names of release 0.1 that scenarios imported; not public any more."""

__all__ = sorted(_HOMES)
__getattr__ = lazy_names(__name__, _HOMES | _RELEASE_0_1)
