"""Exact tables of a run that does not fit into memory, straight from its recording.

Response times, response sizes and times between launches of all requests, in the very rows that
:func:`locust_realism.analysis.summary.summarize` makes of a log in memory. What a summary has besides (verdict, groups,
charts ...) needs the launches themselves and is of the newest ones, which the document then says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from locust_realism.analysis.intervals import AGGREGATED, TABLE_QUANTILES, Row, gap_row
from locust_realism.analysis.jsonable import to_json_safe
from locust_realism.analysis.percentiles import QUANTILES, Quantile, interval_ranks, percentile_rank
from locust_realism.analysis.responses import ordered_stats, percentile_intervals, stats_row
from locust_realism.analysis.settings import AnalysisSettings
from locust_realism.analysis.window import Cut, window_figures, with_untrimmed
from locust_realism.recording.launches import Int64, Label
from locust_realism.recording.selection import Selection
from locust_realism.recording.slices import RecordedLaunches, Slice

Document = dict[str, Any]

MAX_NAMES = 200
"""Names with rows of their own, the most frequent ones; of the others every request is in the aggregated row."""

OF_ALL = ("launches", "response_times", "bytes")
"""The tables that are of all launches."""


def _cut(launches: RecordedLaunches, settings: AnalysisSettings, window: tuple[int, int] | None, origin_us: int) -> Cut:
    if window is not None:
        return Cut(*window)
    low, high = origin_us + round(settings.skip_s * 1e6), launches.last_us - round(settings.cooldown_s * 1e6)
    if settings.duration_s is not None:
        high = min(high, low + round(settings.duration_s * 1e6))
    return Cut(low, high, settings.skip_requests, settings.sample_requests)


@dataclass(frozen=True)
class _Piece:
    """Requests by name, and the gaps that end with one of them: between all, and between those of a name."""

    rows: Slice
    name: Int64
    gaps: Int64
    name_gaps: Int64
    gap_names: Int64


class _Whole:
    """What is counted and selected of all requests."""

    def __init__(self, launches: RecordedLaunches, cut: Cut, max_names: int) -> None:
        order = sorted(range(len(launches.labels)), key=lambda code: -int(launches.label_rows[code]))
        kept = order[: min(max_names, MAX_NAMES)]
        self.labels: tuple[Label, ...] = tuple(launches.labels[code] for code in kept)
        self.names_left_out = len(order) - len(kept)
        # names without a row of their own are one more group, which nobody asks for
        self._group = np.full(len(order), len(kept), dtype=np.int64)
        self._group[kept] = np.arange(len(kept))
        self._launches, self._cut = launches, cut
        self.response, self.size = (Selection(len(kept) + 2, total=True) for _ in range(2))
        self.name_gaps, self.gaps = Selection(max(len(kept), 1)), Selection(1)
        self.n = self.start = 0
        self.failed = np.zeros(len(kept) + 1, dtype=np.int64)
        self.first_us = self.last_us = 0

    def pieces(self) -> Iterator[tuple[int, _Piece]]:
        """All requests of the part in launch order, each piece with the number of rows before it."""
        names = len(self.labels)
        before = np.full(names, -1, dtype=np.int64)  # the last launch of each name so far
        last: Int64 = np.zeros(0, dtype=np.int64)
        for at, rows in self._cut.of(self._launches.slices()):
            name = self._group[rows.label]
            order = np.argsort(name.astype(np.int16), kind="stable")
            group, times = name[order], rows.launch_us[order]
            group, times = group[group < names], times[group < names]
            previous = np.empty_like(times)
            previous[1:] = times[:-1]
            starts = np.flatnonzero(np.diff(group, prepend=-1))
            previous[starts] = before[group[starts]]
            before[group[np.append(starts[1:], len(group)) - 1]] = times[np.append(starts[1:], len(group)) - 1]
            known = previous >= 0
            gaps = np.diff(rows.launch_us, prepend=last)
            last = rows.launch_us[-1:]
            yield at, _Piece(rows, name, gaps, (times - previous)[known], group[known])

    def run(self, settings: AnalysisSettings) -> None:
        """Run through the requests as often as it takes."""
        for at, piece in self.pieces():
            self._count(at, piece)
        if not self.n:
            return
        every = (
            (self.response, QUANTILES, settings.confidence),
            (self.size, QUANTILES, None),
            (self.name_gaps, TABLE_QUANTILES, None),
            (self.gaps, TABLE_QUANTILES, None),
        )
        for selection, quantiles, confidence in every:
            for group in self._groups(selection):
                n = selection.n(group)
                if n:
                    selection.want(group, *_ranks(n, quantiles, settings.percentile_rule, confidence))
        while sum(selection.begin() for selection, *_ in every):  # each must begin
            for _, piece in self.pieces():
                known = piece.rows.response_us >= 0
                self.response.refine(piece.name[known], piece.rows.response_us[known])
                self.size.refine(piece.name, piece.rows.size_bytes)
                self.name_gaps.refine(piece.gap_names, piece.name_gaps)
                self.gaps.refine(0, piece.gaps)
            for selection, *_ in every:
                selection.finish()

    def _groups(self, selection: Selection) -> Sequence[int]:
        names = range(len(self.labels))
        return (0,) if selection is self.gaps else names if selection is self.name_gaps else (*names, len(names) + 1)

    def _count(self, at: int, piece: _Piece) -> None:
        rows, launch = piece.rows, piece.rows.launch_us
        known = rows.response_us >= 0  # what is below stands for a client that gave none
        self.response.count(piece.name[known], rows.response_us[known])
        self.size.count(piece.name, rows.size_bytes)
        self.name_gaps.count(piece.gap_names, piece.name_gaps)
        self.gaps.count(0, piece.gaps)
        self.failed += np.bincount(piece.name[rows.failed], minlength=len(self.failed))
        if not self.n:
            self.start, self.first_us = at, int(launch[0])
        self.n += len(rows)
        self.last_us = int(launch[-1])

    # The tables -------------------------------------------------------------------------------------------------

    def tables(self, settings: AnalysisSettings) -> Document:
        """The tables, rows in order of name and method, the aggregated one last."""
        names = [group for group in range(len(self.labels)) if self.size.n(group)]
        names.sort(key=lambda group: (self.labels[group].name, self.labels[group].method))
        span = (self.last_us - self.first_us) / 1e6
        response, size, launches = [], [], []
        for group in [*names, len(self.labels) + 1]:
            is_all = group > len(self.labels)
            label = Label("", AGGREGATED) if is_all else self.labels[group]
            head = {"label": label.name, "method": label.method}
            failed = int(self.failed.sum() if is_all else self.failed[group])
            response.append(head | self._response_row(group, failed, span, settings))
            size.append(head | self._size_row(group, span, settings))
            launches.append(
                head
                | (self._gap_row(self.gaps, 0, settings) if is_all else self._gap_row(self.name_gaps, group, settings))
            )
        return {"launches": launches, "response_times": response, "bytes": size}

    def _response_row(self, group: int, failed: int, span_s: float, settings: AnalysisSettings) -> Row:
        ordered = _Ordered(self.response, group)
        n = self.size.n(group)
        row: Row = {"n": n, "failures": failed, "rate": n / span_s if span_s else math.nan}
        if not len(ordered):
            nothing = np.zeros(0, dtype=np.int64)
            return row | ordered_stats(nothing, 1e3, "_ms", settings) | percentile_intervals(nothing, settings)
        row |= stats_row(ordered, ordered.mean, ordered.cov, 1e3, "_ms", settings)
        return row | percentile_intervals(ordered, settings)

    def _size_row(self, group: int, span_s: float, settings: AnalysisSettings) -> Row:
        ordered, total = _Ordered(self.size, group), self.size.sum(group)
        row: Row = {"n": len(ordered), "total_bytes": total, "bytes_per_s": total / span_s if span_s else math.nan}
        return row | stats_row(ordered, ordered.mean, ordered.cov, 1.0, "_bytes", settings)

    @staticmethod
    def _gap_row(selection: Selection, group: int, settings: AnalysisSettings) -> Row:
        ordered = _Ordered(selection, group)
        row = gap_row(ordered, ordered.mean, ordered.cov, selection.sum(group), settings.percentile_rule)
        return {"launches": len(ordered) + 1} | row


@dataclass(frozen=True)
class _Ordered:
    """The values of a group in ascending order, of which those can be had that were asked for."""

    selection: Selection
    group: int

    def __len__(self) -> int:
        return self.selection.n(self.group)

    def __getitem__(self, index: int) -> int:
        return self.selection.value(self.group, index + 1)

    @property
    def mean(self) -> float:
        return self.selection.mean(self.group) if len(self) else math.nan

    @property
    def cov(self) -> float:
        return self.selection.sdev(self.group) / self.mean if len(self) > 1 and self.mean else math.nan


def _ranks(n: int, quantiles: Sequence[Quantile], rule: str, confidence: float | None) -> set[int]:
    """Every rank that the rows of n values look at."""
    ranks = {1, n}
    for quantile in quantiles:
        rank: Fraction = percentile_rank(n, quantile, rule)
        ranks |= {math.floor(rank), min(math.ceil(rank), n)}
        ranks |= set((interval_ranks(n, quantile, confidence) or ()) if confidence is not None else ())
    return ranks


def recorded_tables(
    launches: RecordedLaunches,
    settings: AnalysisSettings | None = None,
    *,
    window: tuple[int, int] | None = None,
    run_start_us: int | None = None,
) -> Document:
    """The tables of every launch of a recording: ``launches``, ``response_times``, ``bytes``, ``window``, ``source``.

    Arguments and rows as in :func:`locust_realism.analysis.summary.summarize`. Order statistics, counts, sums and means
    are those of one sort of all rows; deviations agree to 12 digits. Reads the files three times (six where something
    is cut, for the untrimmed figures), at some 3 million rows a second, and holds about 100 MB whatever their length.
    ValueError for the toolkit's rates, and for the warm-up by MSER-5: both need the launches themselves.
    """
    settings = settings or AnalysisSettings()
    if settings.mser5 or settings.rate_convention != "gaps":
        raise ValueError(
            f"mser5={settings.mser5}, rate_convention={settings.rate_convention!r}: expected False and 'gaps'"
        )
    if not launches.rows:
        empty = {"n": 0, "rows_total": 0, "sentence": "No request was recorded."}
        return {**{key: [] for key in OF_ALL}, "window": empty, "source": {"rows": 0, "names": 0, "failures": 0}}
    origin = launches.first_us if run_start_us is None else run_start_us
    whole = _Whole(launches, _cut(launches, settings, window, origin), settings.max_names)
    whole.run(settings)
    rows = slice(whole.start, whole.start + whole.n)
    span = (whole.first_us, whole.last_us) if whole.n else None
    document = whole.tables(settings) if whole.n else {key: [] for key in OF_ALL}
    document["window"] = window_figures(launches.rows, rows, span, settings, origin)
    if window is None and whole.n < launches.rows:
        document["window"] = with_untrimmed(document["window"], _untrimmed(launches, settings))
    names = len({label.name for label in launches.labels})
    document["source"] = {"rows": launches.rows, "names": names, "failures": launches.failed}
    document["names_left_out"] = whole.names_left_out
    safe: Document = to_json_safe(document)
    return safe


def _untrimmed(launches: RecordedLaunches, settings: AnalysisSettings) -> dict[str, float]:
    """As ``window.untrimmed`` of a summary: the figures of every launch, which takes another three readings."""
    every = _Whole(launches, Cut(launches.first_us, launches.last_us), 1)
    every.run(settings)
    tables = every.tables(settings)
    gaps, times = tables["launches"][-1], tables["response_times"][-1]
    found = {key: gaps[key] for key in ("n", "rate", "cov")}
    return found | {f"response_{key}": times[key] for key in ("p50_ms", "p95_ms", "p99_ms")}


NEWEST_ONLY = "Verdict, groups, charts, stages and capacity"


def with_recorded_tables(document: Document, tables: Document, age_s: float | None) -> Document:
    """A summary of the newest launches, its tables replaced by those of all of them.

    ``tables`` is what :func:`recorded_tables` gave ``age_s`` seconds ago (None: just now), empty while it is not there
    yet. The document gains ``newest`` (``n``, ``start_s``, ``end_s``: the launches that everything else is of) and
    ``tables_age_s``, and its window says both in words.
    """
    window = document["window"]
    newest = {key: window.get(key) for key in ("n", "start_s", "end_s")}
    if not tables:
        sentence = window["sentence"] + " These are the newest ones; those before are being read from the recording."
        return {**document, "newest": newest, "tables_age_s": None, "window": {**window, "sentence": sentence}}
    sentence = tables["window"]["sentence"]
    if age_s:
        sentence += f" Tables as of {age_s:,.0f} s ago, from the recording."
    if newest["n"]:
        sentence += f" {NEWEST_ONLY} are of the newest {newest['n']:,}, from {newest['start_s']:,.1f} s on."
    else:
        sentence += f" {NEWEST_ONLY} are left out: none of these is in memory."
    if tables["names_left_out"]:
        sentence += f" {tables['names_left_out']:,} rarer names are in the aggregated row only."
    # what the verdict is about is said by the summary alone: tables know nothing of it
    judged = {key: window[key] for key in ("judged", "judged_sentence") if key in window}
    if judged:
        sentence += f" {judged['judged_sentence']}"
    return {
        **document,
        **{key: tables[key] for key in OF_ALL},
        "source": {**document["source"], **tables["source"]},
        "window": {**tables["window"], **judged, "sentence": sentence},
        "newest": newest,
        "tables_age_s": age_s or 0.0,
    }
