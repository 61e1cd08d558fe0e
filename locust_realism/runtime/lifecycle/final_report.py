"""Final report of a run: its figures are computed, judged and written, then printed below Locust's own."""

from __future__ import annotations

import json
import logging
import sys
import time
from argparse import Namespace
from pathlib import Path

from locust.env import Environment

from locust_realism.analysis.document import Summary
from locust_realism.analysis.thresholds import evaluate_thresholds, parse_thresholds
from locust_realism.report.console import render_summary
from locust_realism.report.html import add_section
from locust_realism.report.terminal import Screen
from locust_realism.runtime.capture.accounting import balance_sentence
from locust_realism.runtime.figures.provider import RunProvider
from locust_realism.runtime.lifecycle.signals import interruptible

logger = logging.getLogger(__name__)
console = logging.getLogger("locust.stats_logger")  # Locust prints its own tables by it

FAILED = 1
"""Exit code of a run that broke a threshold."""

STILL_COMPUTING = "Still computing the figures of the run. Ctrl-C again skips them; the recording stays."
SKIPPED = "The figures of the run were not waited for."
HOW_TO_GET_THEM = " locust-realism analyze computes them from the recording."


class FinalReport:
    """Listeners of ``quitting`` and ``quit`` for the process that leads the test."""

    def __init__(self, environment: Environment, provider: RunProvider) -> None:
        self.environment = environment
        self.provider = provider
        self.text = ""
        self._began = time.time()
        self._options = environment.parsed_options or Namespace()

    def quitting(self, **_: object) -> None:
        """Compute the figures, decide the exit code and write the files; every row has arrived by now."""
        recorded = self.provider.recording.files is not None
        with interruptible(STILL_COMPUTING, SKIPPED + HOW_TO_GET_THEM * recorded) as wait:
            self._conclude()
        if wait.skipped and self._option("realism_fail_if"):
            self.environment.process_exit_code = FAILED

    def quit(self, **_: object) -> None:
        """Print the report below Locust's tables, where it is read first."""
        if self.text:
            console.info("\n" + self.text)

    def _option(self, name: str) -> str:
        """Return the value of an option, falsy if it was not given or does not exist."""
        return getattr(self._options, name, None) or ""

    def _conclude(self) -> None:
        thresholds = parse_thresholds(self._option("realism_fail_if"))
        summary = self.provider.final_summary()
        if "launches" not in summary:
            logger.error("The figures of the run could not be computed; see the messages above.")
            if thresholds:
                self.environment.process_exit_code = FAILED
            return
        results = evaluate_thresholds(thresholds, summary)
        if any(result.failed for result in results):
            self.environment.process_exit_code = FAILED
        recording = self.provider.recording
        notes = [balance_sentence(recording.balance()), *recording.warnings()]
        lines = [render_summary(summary, Screen.of(sys.stderr)), *filter(None, notes)]
        self.text = "\n".join([*lines, *(result.line for result in results)])
        self._write_files(summary)

    def _write_files(self, summary: Summary) -> None:
        if path := self._option("realism_json"):
            write_text(Path(path), json.dumps(summary, indent=1, allow_nan=False) + "\n")
        if path := self._option("realism_report"):
            write_text(Path(path), self.provider.report_html())
        if not (path := self._option("html_file")):
            return
        # Locust writes its page before it fires quitting; after a SIGTERM it writes none, and an older one may exist
        page = Path(path)
        if page.is_file() and page.stat().st_mtime >= self._began:
            bundle, text = self.provider.bundle(), page.read_text(encoding="utf-8")
            try:
                write_text(page, self.provider.offload(lambda: add_section(text, bundle)))
            except ValueError as error:
                logger.error("%s: our section could not be added: %s", page, error)


def write_text(path: Path, text: str) -> None:
    """Write a file and its folder; log an error where that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        logger.error("%s could not be written: %s", path, error)
