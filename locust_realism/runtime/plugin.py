"""Joins the parts of the extension in a running Locust: the only module that knows them all."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any
from weakref import WeakSet

import locust
from locust.env import Environment
from locust.runners import WorkerRunner

from locust_realism.analysis.recorded_facts import described
from locust_realism.analysis.settings import AnalysisSettings, parse_bounds
from locust_realism.report.console import render_summary
from locust_realism.report.html import add_section, render_report
from locust_realism.report.text import wants_color, wants_unicode
from locust_realism.runtime.ending import end_gently
from locust_realism.runtime.finish import Finish
from locust_realism.runtime.generator_view import GeneratorView
from locust_realism.runtime.intent import intended_load
from locust_realism.runtime.memory import spare_what_is_loaded
from locust_realism.runtime.options import OPTIONS, add_options
from locust_realism.runtime.patience import spare_greenlets
from locust_realism.runtime.population import any_population
from locust_realism.runtime.population_view import population_document
from locust_realism.runtime.provider import RunProvider
from locust_realism.runtime.randomness import connect as seed_random_waits
from locust_realism.runtime.recording import attach
from locust_realism.runtime.run_files import file_plan
from locust_realism.runtime.sessions import hook_user_start
from locust_realism.runtime.start_form import watch_start_form
from locust_realism.web.views import register
from locust_realism.workload.profile import RateProfile

LIVE_USER_ROWS = 500_000
"""Launches from which single users' think times are measured (whole users, as many as that is): it takes 50 MB."""

_installed: WeakSet[Any] = WeakSet()
_parsers: WeakSet[Any] = WeakSet()


def install(events: Any = None) -> None:
    """Record every launch of the coming test runs and show what they were like; one call in a locustfile is all.

    Adds the options of ``--realism-help``, tabs and downloads to the web UI, and exact figures at the end of the run.
    Calling it again does nothing. ``events`` are Locust's own unless an Environment was given others.

    >>> from locust_realism import install
    >>> install()
    """
    events = locust.events if events is None else events
    if events in _installed:
        return
    _installed.add(events)
    hook_user_start()
    seed_random_waits()
    events.init_command_line_parser.add_listener(_add_options)
    events.init.add_listener(_compose)
    end_gently(events)  # after what listens to quitting, which fires in reverse: users stop before all else


def _add_options(parser: Any, **_: Any) -> None:
    if parser not in _parsers:
        _parsers.add(parser)
        # Locust makes a new parser for each page: by then the locustfile's init has built what its options ask for
        off_form = () if any_population() else [o.dest for o in OPTIONS if o.dest.startswith("population_")]
        add_options(
            parser, "locust_realism", OPTIONS, "Realistic load, and exact figures that prove it.", off_form=off_form
        )


def _compose(environment: Environment, web_ui: Any, **_: Any) -> None:
    """Attach everything to an Environment that has its runner; called by Locust's ``init`` event."""
    recording = attach(environment, files=file_plan(environment.parsed_options))
    spare_what_is_loaded()
    spare_greenlets()
    if isinstance(environment.runner, WorkerRunner):
        return
    generator = GeneratorView(environment, recording)
    provider = RunProvider(
        environment,
        recording,
        settings=lambda: analysis_settings(environment.parsed_options),
        facts=lambda: intended_load(environment),
        population=lambda: _population(environment),
        generator=generator.document,
        sessions=lambda: recording.sessions().rows(),
        report=render_report,
        version=version("locust_realism"),
    )
    events: Any = environment.events
    events.test_start.add_listener(lambda **_: provider.run_starts())
    events.test_start.add_listener(lambda **_: generator.clear())

    def describe(**_: Any) -> None:
        recording.workload = described(intended_load(environment), provider.started_us)

    events.spawning_complete.add_listener(describe)
    if web_ui is not None:
        register(web_ui, provider)
        watch_start_form(environment, web_ui)
    finish = Finish(environment, provider, render=_for_terminal, add_section=add_section)
    # quitting fires in reverse: what stands first runs last, after the users have stopped and the last rows are in
    events.quitting._handlers.insert(0, finish.quitting)
    events.quit.add_listener(finish.quit)


def _population(environment: Environment) -> dict[str, Any]:
    planned = intended_load(environment).planned_profile
    return population_document(environment, planned if isinstance(planned, RateProfile) else None)


def analysis_settings(options: Any) -> AnalysisSettings:
    """The settings that the command line or the start form ask for."""
    return AnalysisSettings(
        skip_s=getattr(options, "realism_warmup", 0.0) or 0.0,
        cooldown_s=getattr(options, "realism_cooldown", 0.0) or 0.0,
        skip_requests=getattr(options, "realism_warmup_requests", 0) or 0,
        sample_requests=getattr(options, "realism_sample_requests", None) or None,
        mser5=bool(getattr(options, "realism_mser5", False)),
        max_user_rows=LIVE_USER_ROWS,
        percentile_rule=getattr(options, "realism_percentile_rule", None) or "nearest_rank",
        bounds=parse_bounds(getattr(options, "realism_bounds", None) or ""),
    )


def _for_terminal(summary: Mapping[str, Any]) -> str:
    columns = shutil.get_terminal_size((120, 40)).columns
    return render_summary(summary, color=wants_color(sys.stderr), unicode=wants_unicode(sys.stderr), width=columns)
