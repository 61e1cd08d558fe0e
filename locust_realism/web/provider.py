"""What the web views ask of a running test.

The views know nothing of Locust's runner: they are given one object with the methods below. ``runtime/live.py`` has the
real one; the tests have one made of a log. Every document is JSON-able; NaN and infinity are turned into null on the
way out, so a provider need not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from locust_realism.recording.launches import LaunchLog

T = TypeVar("T")
Document = dict[str, Any]

WINDOW_WORDS = ("run", "reset", "minute")
_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\.\.(\d{1,9}(?:\.\d{1,6})?)")


def checked_window(text: str | None) -> str | None:
    """The window of a request as the provider gets it: None, a word of ``WINDOW_WORDS``, or ``"FROM..TO"``.

    ``run`` (or nothing) is the whole run with its warm-up cut as configured, ``reset`` since the last Reset Stats,
    ``minute`` the last 60 s, and ``12..72.5`` a span in seconds since the start of the run. Anything else is a
    ValueError that says so.

    >>> checked_window("12..72.5"), checked_window(""), checked_window("minute")
    ('12..72.5', None, 'minute')
    >>> checked_window("72..12")
    Traceback (most recent call last):
    ValueError: window='72..12' must be one of run, reset, minute or FROM..TO in seconds with FROM < TO
    """
    if not text:
        return None
    if text in WINDOW_WORDS:
        return text
    span = _SPAN.fullmatch(text)
    if span and float(span[1]) < float(span[2]):
        return text
    raise ValueError(
        f"window={text!r:.80} must be one of {', '.join(WINDOW_WORDS)} or FROM..TO in seconds with FROM < TO"
    )


class Provider(Protocol):
    """Answers the views; no method may block the event loop for more than a few milliseconds.

    An exception that a method raises becomes a status 500 with a JSON ``error``, never more.
    """

    def status(self) -> Document:
        """State of the run and of the recorder.

        ``state`` (Locust's: ready, spawning, running, stopping, stopped), ``run_id`` (changes when a new run starts),
        ``elapsed_s``, ``users``, ``workers``, ``rows`` recorded, ``lost`` rows known to be missing, ``errors`` and
        ``warnings`` (lists of plain sentences), ``balance`` (a sentence: where the launched requests have gone; empty
        before the first), ``version``.
        """
        ...

    def summary(self, window: str | None) -> Document:
        """The JSON of ``analysis/summary.py`` for a window, with ``age_s``, ``state`` and ``charts``.

        ``age_s`` is how long ago the figures were computed, ``charts`` is ``analysis.charts.chart_data`` of the same
        rows. ``window`` has passed ``checked_window``. The latest result is returned at once while a newer one is
        computed off the event loop; before the first result it holds ``state`` and ``age_s: null`` only.
        """
        ...

    def population(self) -> Document:
        """Users over time against the expected curve; keys that do not apply are left out.

        - ``model``: None for a fixed number of users, else ``{"name", "text"}``
        - ``series``: equal-length lists ``t_s``, ``users``, ``arrivals`` and ``departures`` (per second), ``rate``
          (launches per second), ``planned_rate``, ``expected``, ``low``, ``high`` (the 95 % band of ``expected``)
        - ``sessions``: ``{"n", "mean_s", "sdev_s", "cov", "p50_s", "p90_s", "p95_s", "p99_s", "min_s", "max_s",
          "edges_s", "counts"}``
        - ``balked``, ``late``, ``cut_short``: counts of arrivals dropped, arrivals late and sessions not let finish
        - ``profile``: ``{"t_s", "rate", "now_s", "unit"}``, the planned profile from now on, for hours to come
        """
        ...

    def generator(self) -> Document:
        """Health of the load generator, one row a worker.

        - ``workers``: dicts ``id``, ``state``, ``users``, ``cpu`` (share of one core), ``machine_cpu`` (share of the
          machine), ``memory_bytes``, ``lag_p99_ms`` (event loop), ``lateness_p50_ms``, ``lateness_p95_ms``,
          ``lateness_p99_ms``, ``rows``, ``lost``, ``clock_offset_ms``, ``clock_uncertainty_ms``
        - ``target``: ``{"cpu", "name"}`` when the system under test runs on this machine, else None; with
          ``read_bytes_s``, ``write_bytes_s`` and ``disk_busy`` (a share) where the machine tells them
        - ``series``: ``{"t_s": [...], "workers": [{"id", "cpu": [...], "lag_p99_ms": [...]}]}``
        """
        ...

    def export_rows(self) -> LaunchLog:
        """Every row recorded in this run."""
        ...

    def export_sessions(self) -> Sequence[Mapping[str, Any]]:
        """One mapping a session, all with the same keys in the same order; empty when none has ended."""
        ...

    def report_html(self) -> str:
        """The offline report of this run as one HTML page."""
        ...

    def offload(self, function: Callable[[], T]) -> T:
        """The result of a pure function, computed off the event loop (a native thread under gevent)."""
        ...
