"""Figures of a running test for the page, the console and the exit code, computed from the record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import TypeVar

import gevent
from locust.env import Environment

from locust_realism.analysis.document import (
    Bundle,
    GeneratorDocument,
    LiveSummary,
    PendingSummary,
    PopulationDocument,
    StatusDocument,
)
from locust_realism.analysis.settings import AnalysisSettings, generator_bounds
from locust_realism.analysis.summary import summarize
from locust_realism.analysis.verdict.evidence import Facts
from locust_realism.recording.launches import LaunchLog
from locust_realism.runtime.capture.accounting import balance_sentence
from locust_realism.runtime.capture.run import Recording
from locust_realism.runtime.figures.live import LiveFigures
from locust_realism.runtime.figures.whole_run import Span, WholeRun, WindowFigures, holds
from locust_realism.runtime.figures.workload_model import count_missed_launches

T = TypeVar("T")

MINUTE_US = 60_000_000

FIRST_ANSWER_S = 0.15
"""Seconds that the first request of a page waits for figures, before the answer is that they are being computed."""


def window_span(log: LaunchLog, window: str, origin_us: int) -> Span | None:
    """Return the first and last launch time of a window in epoch microseconds, both included; None for all launches.

    ``minute`` is the last minute, ``FROM..TO`` seconds since ``origin_us``.

    >>> log = LaunchLog.build(launch_us=[0, 30_000_000, 90_000_000], response_us=[1, 1, 1])
    >>> window_span(log, "minute", 0), window_span(log, "0..30", 0), window_span(log, "run", 0)
    ((30000000, 90000000), (0, 30000000), None)
    """
    if not len(log):
        return None
    if window == "minute":
        last = int(log.launch_us.max())
        return last - MINUTE_US, last
    if ".." in window:
        first, end = (origin_us + round(float(bound) * 1e6) for bound in window.split(".."))
        return first, end
    return None


class RunProvider:
    """Figures of one Environment's run, for ``locust_realism.web`` and for the final report.

    - ``recording`` the run's record, on a master or in a local run
    - ``settings()`` is called for each answer, since the start form may change them; ``facts()`` likewise
    - ``population()`` and ``generator()`` return the documents of their tabs, ``report(bundle)`` the page of the report
    """

    def __init__(
        self,
        environment: Environment,
        recording: Recording,
        *,
        settings: Callable[[], AnalysisSettings],
        facts: Callable[[], Facts],
        population: Callable[[], PopulationDocument],
        generator: Callable[[], GeneratorDocument],
        report: Callable[[Bundle], str],
    ) -> None:
        self.environment = environment
        self.recording = recording
        self.figures = LiveFigures(self._compute)
        self.whole = WholeRun(recording, self._settings_of, lambda: self.started_us)
        self.population = population
        self._generator = generator
        self.started_us = 0
        """Start of the run, epoch microseconds; 0 before the first."""
        self._settings, self._facts, self._report = settings, facts, report
        self._facts_now = Facts()
        self._run_id = 0
        self._version = version("locust_realism")
        count_missed_launches(environment)

    def _compute(self, window: str) -> WindowFigures:
        """Compute the figures of the launches in memory (in a native thread, without Locust or gevent)."""
        with self.whole.turn:
            return self._of_memory(window)

    def _of_memory(self, window: str) -> WindowFigures:
        recording = self.recording
        log = recording.launches(since_reset=window == "reset")
        origin = self.started_us or (int(log.launch_us.min()) if len(log) else 0)
        span, held = window_span(log, window, origin), recording.held_us
        complete = holds(recording, window, span)
        health, diagnosis = recording.side.health(), recording.side.diagnosis()
        if span is not None and ".." in window:
            health, diagnosis = health.between(*span), diagnosis.within(*span)
        else:
            health = health.between(*held)
        facts = replace(
            self._facts_now,
            run_start_us=origin,
            clock_offset_sd_us=recording.clock_offset_sd_us(),
            user_starts_us=recording.user_starts_us(),
            held_us=None if ".." in window else held,  # a window of chosen seconds is judged as a whole
        )
        if window != "run" or not complete:
            facts = replace(facts, missed_launches=0)  # they have no times, and this is a part of the run
        summary = summarize(
            log,
            settings=self._settings_of(window),
            window=span,
            run_start_us=origin,
            facts=facts.measured(health).diagnosed(diagnosis),
            source={"kind": "live run", "warnings": recording.warnings(), "balance": self._balance()},
        )
        return WindowFigures(summary, span, complete)

    def _settings_of(self, window: str) -> AnalysisSettings:
        settings = self._settings()
        if window == "run":
            return settings
        return replace(settings, skip_s=0.0, cooldown_s=0.0, skip_requests=0, sample_requests=None, mser5=False)

    def run_starts(self, **_: object) -> None:
        """Reset for a new run (listener of ``test_start``)."""
        self.started_us = self.recording.clock.now_us()
        self._run_id += 1
        self.figures.clear()
        self.whole.clear()

    def summary(self, window: str | None) -> LiveSummary | PendingSummary:
        """Return the newest figures of a window at once; only its first request waits, FIRST_ANSWER_S at most."""
        return self._answer(window or "run", fresh=False)

    def final_summary(self) -> LiveSummary | PendingSummary:
        """Wait for the figures of the whole run as it is now; without figures where their computation failed."""
        return self._answer("run", fresh=True)

    def _answer(self, window: str, *, fresh: bool) -> LiveSummary | PendingSummary:
        self._facts_now = self._facts()
        answer = self.figures.fresh(window) if fresh else self.figures.get(window, wait_s=FIRST_ANSWER_S)
        if answer is None:
            return {"age_s": None, "state": self._state()}
        summary, age_s = self.whole.complete(answer.document, window, fresh=fresh), 0.0 if fresh else answer.age_s
        return {**summary, "age_s": age_s, "state": self._state()}

    def status(self) -> StatusDocument:
        """Return the state of the run and of the recorder."""
        runner, counts = self.environment.runner, self.recording.counts()
        failed = self.figures.errors + self.whole.figures.errors
        elapsed = (self.recording.clock.now_us() - self.started_us) / 1e6 if self.started_us else 0.0
        return {
            "state": self._state(),
            "run_id": self._run_id,
            "elapsed_s": round(elapsed, 3),
            "users": getattr(runner, "user_count", 0),
            "workers": getattr(runner, "worker_count", 1),
            "rows": counts.rows,
            "lost": counts.lost,
            "balance": self._balance(),
            "errors": [f"{failed} times the figures could not be computed; see the log."] if failed else [],
            "warnings": self.recording.warnings(),
            "version": self._version,
        }

    def _state(self) -> str:
        return str(getattr(self.environment.runner, "state", "ready"))

    def _balance(self) -> str:
        return balance_sentence(self.recording.balance())

    def generator(self) -> GeneratorDocument:
        """Return the document of the Generator tab with Locust's state and the bounds of the run's settings."""
        bounds = generator_bounds(self._settings().bounds)
        amber = bounds["blocked"][0]
        places = sum(share for _, share in self.recording.side.diagnosis().blockers)
        if amber is not None and places <= amber:  # Locust's own work makes wake-ups late, too: check 4 needs a place
            bounds["blocked"] = [None, None]
        return {"bounds": bounds, **self._generator(), "state": self._state()}

    def export_rows(self) -> LaunchLog:
        """Return every row recorded in this run that memory holds."""
        return self.offload(self.recording.launches)

    def export_sessions(self) -> Sequence[Mapping[str, object]]:
        """Return a mapping for each session that has ended."""
        return self.recording.side.sessions().rows()

    def report_html(self) -> str:
        """Return the report of the whole run as one page."""
        bundle = self.bundle()
        return self.offload(lambda: self._report(bundle))

    def bundle(self) -> Bundle:
        """Return the documents of all tabs for the whole run as it is; RuntimeError where they cannot be computed."""
        summary = self.final_summary()
        if "launches" not in summary:
            raise RuntimeError("The figures of the run could not be computed; see the log.")
        population, generator = self.population(), self.generator()
        return {"status": self.status(), "summary": summary, "population": population, "generator": generator}

    def offload(self, function: Callable[[], T]) -> T:
        """Return the result of a function that is computed in a native thread."""
        result: T = gevent.get_hub().threadpool.apply(function)
        return result
