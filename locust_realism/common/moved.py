"""Module paths of release 0.1 that scenarios and docs named: each imports its new home and warns, for one release."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

PACKAGE = "locust_realism."

MOVED = {
    "runtime.embedded": "kit",
    "runtime.plan": "kit",
    "runtime.preflight": "kit",
    "runtime.runid": "kit",
    "runtime.sample_pdf": "kit",
    "runtime.scenario_options": "kit",
    "runtime.think_time": "kit",
    "targets.process": "common.supervisor",
}
"""Old module path to the module that has its names now."""

RETIRED = {"targets.process": {"END_WITH_PARENT": "--end-with-parent", "end_with_parent": lambda stop: None}}
"""Names without a successor: the supervisor of a target ends it with its parent."""


class MovedModules(MetaPathFinder, Loader):
    """Finder of the old paths; Python uses it only for modules without a file."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec for an old path, None for any other name."""
        return ModuleSpec(fullname, self) if fullname.removeprefix(PACKAGE) in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        """Warn, and look attributes up in the new home."""
        path = module.__name__.removeprefix(PACKAGE)
        home = PACKAGE + MOVED[path]
        warnings.warn(
            f"{module.__name__} is now {home}; the old path goes with release 0.3", DeprecationWarning, stacklevel=2
        )
        moved = import_module(home)
        vars(module).update(RETIRED.get(path, {}))
        module.__getattr__ = lambda name: getattr(moved, name)  # type: ignore[method-assign]


def register_moved_modules() -> None:
    """Make the old paths importable; a second call changes nothing."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(MovedModules())
