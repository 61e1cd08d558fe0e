"""What the page, the console and the exit code ask of a running test, answered from the record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import gevent

from locust_realism.analysis.evidence import Facts
from locust_realism.analysis.settings import AnalysisSettings
from locust_realism.analysis.summary import summarize
from locust_realism.recording.launches import LaunchLog
from locust_realism.runtime.completeness import balance_sentence
from locust_realism.runtime.live import Document, LiveFigures
from locust_realism.runtime.memory import trim
from locust_realism.runtime.recording import Recording
from locust_realism.runtime.whole_run import WholeRun, holds

T = TypeVar("T")

MINUTE_US = 60_000_000

FIRST_ANSWER_S = 0.15
"""How long a page that asks for the first time is kept waiting, before it is told that figures are being computed."""


def window_bounds(log: LaunchLog, window: str, origin_us: int) -> tuple[int, int] | None:
    """First and last launch time of a window in epoch microseconds, both included; None for all launches.

    ``minute`` is the last minute, ``FROM..TO`` seconds since ``origin_us``.

    >>> log = LaunchLog.build(launch_us=[0, 30_000_000, 90_000_000], response_us=[1, 1, 1])
    >>> window_bounds(log, "minute", 0), window_bounds(log, "0..30", 0), window_bounds(log, "run", 0)
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
    """The figures of one Environment's run, for ``locust_realism.web`` and for the end of a headless run.

    ``recording`` is what ``runtime.recording.attach`` gave; ``settings()`` is asked anew for each answer, since the
    start form may change them; ``population`` and ``generator`` give the documents of their tabs and ``report`` turns
    a bundle of documents into a page.
    """

    def __init__(
        self,
        environment: Any,
        recording: Recording,
        *,
        settings: Callable[[], AnalysisSettings],
        facts: Callable[[], Facts],
        population: Callable[[], Document],
        generator: Callable[[], Document],
        sessions: Callable[[], Sequence[Mapping[str, Any]]],
        report: Callable[[Document], str],
        version: str,
    ) -> None:
        self.environment = environment
        self.recording = recording
        if recording.record is None:
            raise ValueError("recording.record=None: a worker has no figures, ask the master")
        self._record = recording.record
        self.figures = LiveFigures(self._compute)
        self.whole = WholeRun(recording, self._settings_of, lambda: self._started_us)
        self._settings = settings
        self._facts = facts
        self._population = population
        self._generator = generator
        self._sessions = sessions
        self._report = report
        self._version = version
        self._known = Facts()
        self._started_us = 0
        self._run_id = 0

    def _compute(self, window: str) -> Document:
        """Called in a native thread: nothing here may touch Locust or gevent."""
        with self.whole.turn:
            try:
                return self._newest(window)
            finally:
                trim()

    def _newest(self, window: str) -> Document:
        log: LaunchLog = self.recording.launches(since_reset=window == "reset")
        origin = self._started_us or (int(log.launch_us.min()) if len(log) else 0)
        bounds = window_bounds(log, window, origin)
        held = self.recording.held_us
        document = summarize(
            log,
            settings=self._settings_of(window),
            window=bounds,
            run_start_us=origin,
            facts=replace(
                self._known,
                health=self.recording.health().between(*held).worst(),
                clock_offset_sd_us=self.recording.clock_offset_sd_us(),
                user_starts_us=self.recording.user_starts_us(),
                # who asks for certain seconds gets these judged
                held_us=None if ".." in window else held,
            ),
            source={
                "kind": "live run",
                "warnings": self.recording.warnings(),
                "balance": balance_sentence(self.recording.balance()),
            },
        )
        return document if holds(self.recording, window, bounds) else {**document, "missing": bounds}

    def _settings_of(self, window: str) -> AnalysisSettings:
        settings = self._settings()
        if window == "run":
            return settings
        return replace(settings, skip_s=0.0, cooldown_s=0.0, skip_requests=0, sample_requests=None, mser5=False)

    @property
    def started_us(self) -> int:
        """When the run started, epoch microseconds; 0 before the first."""
        return self._started_us

    def run_starts(self) -> None:
        """A new run: forget the figures of the last one."""
        self._started_us = self.recording.clock.now_us()
        self._run_id += 1
        self.figures.clear()
        self.whole.clear()

    def summary(self, window: str | None) -> Document:
        """The newest figures of a window, see :class:`locust_realism.web.provider.Provider`."""
        self._known = self._facts()
        window = window or "run"
        answer = self.whole.complete(self.figures.get(window, patience_s=FIRST_ANSWER_S), window)
        return {"age_s": None, **answer, "state": self._state()}

    def final_summary(self) -> Document:
        """The figures of the whole run as it stands now; waits until they are computed."""
        self._known = self._facts()
        return {
            "age_s": 0.0,
            **self.whole.complete(self.figures.fresh("run"), "run", fresh=True),
            "state": self._state(),
        }

    def status(self) -> Document:
        """State of the run and of the recorder."""
        runner, counts = self.environment.runner, self._record.counts()
        failed = self.figures.errors + self.whole.figures.errors
        elapsed = (self.recording.clock.now_us() - self._started_us) / 1e6 if self._started_us else 0.0
        return {
            "state": self._state(),
            "run_id": self._run_id,
            "elapsed_s": round(elapsed, 3),
            "users": runner.user_count if runner else 0,
            "workers": getattr(runner, "worker_count", 1),
            "rows": counts.rows,
            "lost": counts.lost,
            "balance": balance_sentence(self.recording.balance()),
            "errors": [f"{failed} times the figures could not be computed; see the log."] if failed else [],
            "warnings": self.recording.warnings(),
            "version": self._version,
        }

    def _state(self) -> str:
        runner = self.environment.runner
        return str(runner.state) if runner else "ready"

    def population(self) -> Document:
        """The document of the Population tab."""
        return self._population()

    def generator(self) -> Document:
        """The document of the Generator tab."""
        return self._generator()

    def export_rows(self) -> LaunchLog:
        """Every row recorded in this run that is held in memory."""
        log: LaunchLog = self.offload(self.recording.launches)
        return log

    def export_sessions(self) -> Sequence[Mapping[str, Any]]:
        """One mapping a session that has ended."""
        return self._sessions()

    def report_html(self) -> str:
        """The report of the whole run as one page."""
        documents = self.bundle()
        return self.offload(lambda: self._report(documents))

    def bundle(self) -> Document:
        """The documents of all tabs for the whole run as it stands."""
        return {
            "status": self.status(),
            "summary": self.final_summary(),
            "population": self.population(),
            "generator": self.generator(),
        }

    def offload(self, function: Callable[[], T]) -> T:
        """The result of a function, computed in a native thread."""
        result: T = gevent.get_hub().threadpool.apply(function)
        return result
