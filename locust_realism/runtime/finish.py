"""The end of Locust: the figures of the whole run are computed, judged and written, then printed below Locust's own."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from locust.env import Environment

from locust_realism.analysis.threshold_text import parse_thresholds
from locust_realism.analysis.thresholds import evaluate_thresholds
from locust_realism.runtime.completeness import balance_sentence
from locust_realism.runtime.live import Document
from locust_realism.runtime.patience import patient
from locust_realism.runtime.provider import RunProvider

logger = logging.getLogger(__name__)
console = logging.getLogger("locust.stats_logger")  # where Locust prints its own tables

FAILED = 1
"""Exit code of a run that broke a threshold."""

STILL_COMPUTING = "Still computing the figures of the run. Ctrl-C again ends without them; what was recorded stays."
GIVEN_UP = "The figures of the run were not waited for."
HOW_TO_GET_THEM = " locust-realism analyze computes them from the recording."


class Finish:
    """Listeners of ``quitting`` and ``quit`` for the process that leads the test.

    ``render(summary)`` gives the text for the console and ``add_section(page, bundle)`` the page of Locust's ``--html``
    with our section.
    """

    def __init__(
        self,
        environment: Environment,
        provider: RunProvider,
        *,
        render: Callable[[Mapping[str, Any]], str],
        add_section: Callable[[str, Document], str],
    ) -> None:
        self.environment = environment
        self.provider = provider
        self.text = ""
        self._render = render
        self._add_section = add_section
        self._began = time.time()

    def quitting(self, **_: Any) -> None:
        """Every row is here: compute the figures, decide the exit code, write what was asked for."""
        done = False
        recorded = self.provider.recording.files is not None
        with patient(STILL_COMPUTING, GIVEN_UP + HOW_TO_GET_THEM * recorded):
            self._conclude()
            done = True
        if not done and getattr(self.environment.parsed_options, "realism_fail_if", None):
            self.environment.process_exit_code = FAILED

    def _conclude(self) -> None:
        options: Any = self.environment.parsed_options
        thresholds = parse_thresholds(getattr(options, "realism_fail_if", None) or [])
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
        said = [balance_sentence(recording.balance()), *recording.warnings()]
        lines = [self._render(summary), *filter(None, said), *(result.line for result in results)]
        self.text = "\n".join(lines)
        self._write_files(options, summary)

    def _write_files(self, options: Any, summary: Document) -> None:
        if path := getattr(options, "realism_json", None):
            write_text(Path(path), json.dumps(summary, indent=1, allow_nan=False) + "\n")
        if path := getattr(options, "realism_report", None):
            write_text(Path(path), self.provider.report_html())
        page = getattr(options, "html_file", None)
        # Locust wrote its page before it fired quitting; after a SIGTERM it writes none, and an older one may lie there
        if page and Path(page).is_file() and Path(page).stat().st_mtime >= self._began:
            bundle = self.provider.bundle()
            text = Path(page).read_text(encoding="utf-8")
            try:
                write_text(Path(page), self.provider.offload(lambda: self._add_section(text, bundle)))
            except ValueError as error:
                logger.error("%s got no section of ours: %s", page, error)

    def quit(self, **_: Any) -> None:
        """Locust has printed its tables; ours come last, where they are read first."""
        if self.text:
            console.info("\n" + self.text)


def write_text(path: Path, text: str) -> None:
    """Write a file and its folder; one that cannot be written is an error in the log and no more."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        logger.error("%s could not be written: %s", path, error)
