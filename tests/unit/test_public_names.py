"""Public names: those of the README, for locustfiles and notebooks, and the module paths of release 0.1."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

import locust_realism
from locust_realism.common.moved import MOVED

RELEASE_0_1 = [
    "ConstantRate",
    "FinitePopulation",
    "LaunchLog",
    "PiecewiseLinearRate",
    "Population",
    "SineRate",
    "StepRate",
    "arrival_times",
    "constant",
    "diurnal_sine",
    "empirical",
    "exponential",
    "gamma",
    "install",
    "lognormal",
    "open_arrivals",
    "paced",
    "pareto",
    "rate_from_csv",
    "truncated_exponential",
    "uniform",
    "weibull",
]

SINCE = ["Distribution", "RateProfile", "hyperexponential", "read_launches", "summarize"]


def test_the_public_names_are_the_documented_ones() -> None:
    """The facade is exactly the documented list, sorted, and every name exists."""
    assert list(locust_realism.__all__) == sorted([*RELEASE_0_1, *SINCE])
    assert all(getattr(locust_realism, name) is not None for name in locust_realism.__all__)
    assert set(locust_realism.__all__) <= set(dir(locust_realism))
    with pytest.raises(AttributeError, match="no attribute 'attack'"):
        _ = locust_realism.attack


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("runtime.embedded", "embedded_service"),
        ("runtime.embedded", "embedded_target"),
        ("runtime.plan", "connecting"),
        ("runtime.preflight", "preflight"),
        ("runtime.preflight", "reachable"),
        ("runtime.runid", "RunId"),
        ("runtime.sample_pdf", "sample_pdf"),
        ("runtime.scenario_options", "scenario_options"),
        ("runtime.scenario_options", "POSITIVE"),
        ("runtime.think_time", "think_time_options"),
        ("targets.process", "announce"),
        ("targets.process", "end_with_parent"),
    ],
)
def test_a_module_path_of_release_0_1_works_and_warns(path: str, name: str) -> None:
    """A scenario written for release 0.1 still starts; the warning names the new path."""
    assert path in MOVED
    code = (
        "import warnings; warnings.simplefilter('error', DeprecationWarning)\n"
        "import locust_realism\n"
        f"try:\n    from locust_realism.{path} import {name}\n"
        f"except DeprecationWarning as warning:\n    assert 'locust_realism.{MOVED[path]}' in str(warning), warning\n"
        "else:\n    raise AssertionError('no warning')\n"
        "warnings.simplefilter('ignore')\n"
        f"from locust_realism.{path} import {name}\n"
        f"import {'locust_realism.' + MOVED[path]} as home\n"
        f"assert {name} is getattr(home, '{name}', {name})\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_a_path_that_never_existed_is_still_an_error() -> None:
    """The finder serves the table and nothing else."""
    with pytest.raises(ModuleNotFoundError):
        import_module("locust_realism.runtime.attack")


def test_importing_the_public_names_of_a_notebook_leaves_locust_and_gevent_alone() -> None:
    """A notebook imports the public names without gevent patching its event loop, and without anything heavy."""
    code = (
        "import sys, locust_realism as lr\n"
        "[getattr(lr, name) for name in lr.__all__ if not lr._HOMES[name].startswith('runtime')]\n"
        "print(sorted({'locust', 'gevent', 'pandas', 'scipy.stats', 'pyarrow'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
