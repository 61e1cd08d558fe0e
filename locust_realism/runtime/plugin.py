"""Joins the parts of the extension in a running Locust: the only module that knows them all."""

from __future__ import annotations

import json
import logging
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any
from weakref import WeakSet

import locust
from locust.env import Environment
from locust.runners import WorkerRunner

from locust_realism.analysis.settings import AnalysisSettings
from locust_realism.analysis.thresholds import evaluate_thresholds, parse_thresholds
from locust_realism.report.console import render_summary
from locust_realism.report.text import wants_color, wants_unicode
from locust_realism.runtime.ending import end_gently
from locust_realism.runtime.options import OPTIONS, add_options
from locust_realism.runtime.provider import RunProvider
from locust_realism.runtime.randomness import connect as seed_random_waits
from locust_realism.runtime.recording import attach
from locust_realism.runtime.run_files import file_plan
from locust_realism.runtime.sessions import hook_user_start
from locust_realism.web.views import register

logger = logging.getLogger(__name__)
console = logging.getLogger("locust.stats_logger")  # where Locust prints its own tables

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
        add_options(parser, "locust_realism", OPTIONS, "Realistic load, and exact figures that prove it.")


def _compose(environment: Environment, web_ui: Any, **_: Any) -> None:
    """Attach everything to an Environment that has its runner; called by Locust's ``init`` event."""
    recording = attach(environment, files=file_plan(environment.parsed_options))
    if isinstance(environment.runner, WorkerRunner):
        return
    provider = RunProvider(
        environment,
        recording,
        settings=lambda: analysis_settings(environment.parsed_options),
        population=lambda: {"model": None},
        generator=lambda: {"workers": [], "target": None},
        sessions=list,
        report=lambda bundle: json.dumps(bundle),
        version=version("locust_realism"),
    )
    events: Any = environment.events
    events.test_start.add_listener(lambda **_: provider.run_starts())
    if web_ui is not None:
        register(web_ui, provider)
    finish = _Finish(environment, provider)
    # quitting fires in reverse: this runs before Recording's own listener unless it is added before it
    events.quitting._handlers.insert(0, finish.quitting)
    events.quit.add_listener(finish.quit)


def analysis_settings(options: Any) -> AnalysisSettings:
    """The settings that the command line or the start form ask for."""
    return AnalysisSettings(
        skip_s=getattr(options, "realism_warmup", 0.0) or 0.0,
        cooldown_s=getattr(options, "realism_cooldown", 0.0) or 0.0,
        percentile_rule=getattr(options, "realism_percentile_rule", None) or "nearest_rank",
    )


class _Finish:
    """What happens when Locust ends: the figures are computed, judged and written, then printed below Locust's own."""

    def __init__(self, environment: Environment, provider: RunProvider) -> None:
        self.environment = environment
        self.provider = provider
        self.text = ""

    def quitting(self, **_: Any) -> None:
        """Every row is here: compute the figures, decide the exit code, write what was asked for."""
        options: Any = self.environment.parsed_options
        summary = self.provider.final_summary()
        thresholds = parse_thresholds(getattr(options, "realism_fail_if", None) or [])
        if "launches" not in summary:
            logger.error("The figures of the run could not be computed; see the messages above.")
            if thresholds:
                self.environment.process_exit_code = 1
            return
        results = evaluate_thresholds(thresholds, summary)
        if any(result.failed for result in results):
            self.environment.process_exit_code = 1
        self.text = "\n".join(
            [
                render_summary(
                    summary, color=wants_color(sys.stderr), unicode=wants_unicode(sys.stderr), width=_terminal_width()
                ),
                *self.provider.recording.warnings(),
                *(result.line for result in results),
            ]
        )
        if target := getattr(options, "realism_json", None):
            _write(Path(target), json.dumps(summary, indent=1, allow_nan=False) + "\n")

    def quit(self, **_: Any) -> None:
        """Locust has printed its tables; ours come last, where they are read first."""
        if self.text:
            console.info("\n" + self.text)


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        logger.error("%s could not be written: %s", path, error)


def _terminal_width() -> int:
    import shutil

    return shutil.get_terminal_size((120, 40)).columns
