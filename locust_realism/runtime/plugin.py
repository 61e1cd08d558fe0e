"""Composition of the extension in a running Locust: the only module that imports all of its parts."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

import locust
from locust.env import Environment
from locust.event import Events
from locust.runners import WorkerRunner
from locust.web import WebUI

from locust_realism.analysis.document import PopulationDocument
from locust_realism.analysis.settings import AnalysisSettings, parse_bounds
from locust_realism.analysis.summary import describe_workload
from locust_realism.report.html import render_report
from locust_realism.runtime.capture.files import file_plan
from locust_realism.runtime.capture.run import Recording, attach
from locust_realism.runtime.coordination.randomness import connect as seed_random_waits
from locust_realism.runtime.figures.generator_view import GeneratorView
from locust_realism.runtime.figures.provider import RunProvider
from locust_realism.runtime.figures.workload_model import missed_launches, workload_facts
from locust_realism.runtime.lifecycle.final_report import FinalReport
from locust_realism.runtime.lifecycle.shutdown import shut_down_gracefully
from locust_realism.runtime.lifecycle.signals import interrupt_main_only
from locust_realism.runtime.locust_compat import add_first, add_once
from locust_realism.runtime.memory import freeze_loaded_objects
from locust_realism.runtime.options import OPTIONS, add_options, watch_start_form
from locust_realism.runtime.pacing.spread import spread_starts
from locust_realism.runtime.population.model import any_population
from locust_realism.runtime.population.view import population_document
from locust_realism.runtime.users.session import hook_user_start
from locust_realism.web.views import register
from locust_realism.workload.rates.profile import RateProfile

LIVE_USER_ROWS = 500_000
"""Launches from which think times of single users are measured (of whole users, up to that number): 50 MB."""


def install(events: Events | None = None) -> None:
    """Record every launch of the coming test runs and report on them; call it once in a locustfile.

    Adds the options of ``--realism-help``, tabs and downloads of the web UI, and exact figures at the end of the run.
    A second call changes nothing. ``events`` are Locust's own unless an Environment was given others.

    >>> from locust_realism import install
    >>> install()
    """
    events = locust.events if events is None else events
    if not add_once(events.init_command_line_parser, _add_options):
        return
    hook_user_start()
    seed_random_waits()
    add_once(events.init, _compose)
    shut_down_gracefully(events)  # after the listeners of quitting, which fires in reverse: users stop before all else


def _add_options(parser: ArgumentParser, **_: object) -> None:
    # Locust makes a new parser for each page: by then the locustfile's init has built the populations of its options
    off_form = () if any_population() else [o.dest for o in OPTIONS if o.dest.startswith("population_")]
    add_options(
        parser, "locust_realism", OPTIONS, "Realistic load, and exact figures that prove it.", off_form=off_form
    )


def _compose(environment: Environment, web_ui: WebUI | None, **_: object) -> None:
    """Attach all parts to an Environment that has its runner (listener of ``init``); ``run_single_user`` has none."""
    if environment.runner is None:
        return
    spread_starts(environment)
    recording = attach(environment, files=file_plan(environment.parsed_options))
    freeze_loaded_objects()
    interrupt_main_only()
    if isinstance(environment.runner, WorkerRunner):
        return
    generator = GeneratorView(environment, recording)
    provider = RunProvider(
        environment,
        recording,
        settings=lambda: analysis_settings(environment.parsed_options),
        facts=lambda: workload_facts(environment),
        population=lambda: _population(environment, recording),
        generator=generator.document,
        report=render_report,
    )

    def describe(**_: object) -> None:
        recording.workload = describe_workload(workload_facts(environment), provider.started_us)

    def add_missed(**_: object) -> None:
        recording.workload = {**recording.workload, "missed_launches": missed_launches(environment)}

    events = environment.events
    events.test_start.add_listener(provider.run_starts)
    events.test_start.add_listener(generator.clear)
    events.spawning_complete.add_listener(describe)
    events.test_stop.add_listener(add_missed)
    if web_ui is not None:
        register(web_ui, provider)
        watch_start_form(environment, web_ui)
    report = FinalReport(environment, provider)
    # quitting fires in reverse order: position 0 runs last, after the users have stopped and the last rows arrived
    add_first(events.quitting, report.quitting)
    events.quit.add_listener(report.quit)


def _population(environment: Environment, recording: Recording) -> PopulationDocument:
    planned = workload_facts(environment).planned_profile
    return population_document(environment, planned if isinstance(planned, RateProfile) else None, recording)


def analysis_settings(options: Namespace | None) -> AnalysisSettings:
    """Return the settings that the command line or the start form chose."""
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
