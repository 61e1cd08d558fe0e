"""Exact tables of a run that does not fit into memory, straight from its recording.

Response times, response sizes and times between launches of all requests, in the rows that
:func:`locust_realism.analysis.summary.summarize` makes of a log in memory. The verdict, groups, charts, stages and
capacity need the launches themselves; they cover the newest launches, and the document states which.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from locust_realism.analysis import document as doc
from locust_realism.analysis.percentiles import QUANTILES, Int64, Quantile, percentile_rank, sorted_percentiles
from locust_realism.analysis.settings import AnalysisSettings
from locust_realism.analysis.stats.batches import BatchCounts
from locust_realism.analysis.stats.intervals import TABLE_QUANTILES, TOTAL, gap_row
from locust_realism.analysis.stats.responses import UNLIMITED, Limits, Stats, bytes_row, limits_of, response_row
from locust_realism.analysis.window import Cut, Span, window_figures, with_untrimmed
from locust_realism.common.json import to_json_safe
from locust_realism.recording.launches import Label
from locust_realism.recording.selection import Selection
from locust_realism.recording.slices import RecordedLaunches, Slice

MAX_NAMES = 200
"""Most names with rows of their own, the most frequent ones; the aggregated row holds every request."""
Columns = tuple[tuple[Int64, Int64], ...]
"""Codes and values of response times, sizes, and gaps between requests of one name and between all."""


class _Whole:
    """Counts and order statistics of all requests."""

    def __init__(self, launches: RecordedLaunches, cut: Cut, max_names: int) -> None:
        order = sorted(range(len(launches.labels)), key=lambda code: -int(launches.label_rows[code]))
        kept = order[: min(max_names, MAX_NAMES)]
        self.labels: tuple[Label, ...] = tuple(launches.labels[code] for code in kept)
        self.names_left_out = len(order) - len(kept)
        # Names without a row of their own are one more group, which no table reads.
        self._group = np.full(len(order), len(kept), dtype=np.int64)
        self._group[kept] = np.arange(len(kept))
        self._launches, self._cut = launches, cut
        self.response, self.size = (Selection(len(kept) + 2, total=True) for _ in range(2))
        self.gaps = Selection(len(kept) + 1)  # the last group is the gaps between all requests
        self.n = self.start = 0
        self.failed = np.zeros(len(kept) + 1, dtype=np.int64)
        self.first_us = self.last_us = 0
        self.limits: dict[int, Limits] = {}

    def slices(self) -> Iterator[tuple[int, Slice, Int64]]:
        """Yield all requests of the part in launch order: number of rows before a piece, piece, names."""
        for at, rows in self._cut.of(self._launches.slices()):
            yield at, rows, self._group[rows.label]

    def pieces(self) -> Iterator[tuple[int, Slice, Int64, Columns]]:
        """Yield the pieces of :meth:`slices` with their columns."""
        names = len(self.labels)
        before = np.full(names, -1, dtype=np.int64)  # the last launch of each name so far
        last: Int64 = np.zeros(0, dtype=np.int64)
        for at, rows, name in self.slices():
            order = np.argsort(name.astype(np.int16), kind="stable")
            group, times = name[order], rows.launch_us[order]
            group, times = group[group < names], times[group < names]
            previous, starts = np.roll(times, 1), np.flatnonzero(np.diff(group, prepend=-1))
            previous[starts] = before[group[starts]]
            before[group] = times  # the last one of a name stays
            has_gap, answered = previous >= 0, rows.response_us >= 0  # a negative response time is unknown
            gaps = np.diff(rows.launch_us, prepend=last)
            last = rows.launch_us[-1:]
            group = np.append(group[has_gap], np.full(len(gaps), names))
            gaps = np.append((times - previous)[has_gap], gaps)
            yield at, rows, name, ((name[answered], rows.response_us[answered]), (name, rows.size_bytes), (group, gaps))

    def run(self, settings: AnalysisSettings) -> None:
        """Read the requests until every rank that the tables read is known."""
        selections = (self.response, self.size, self.gaps)
        for at, rows, name, columns in self.pieces():
            if not self.n:
                self.start, self.first_us = at, int(rows.launch_us[0])
            self.n += len(rows)
            self.last_us = int(rows.launch_us[-1])
            self.failed += np.bincount(name[rows.failed], minlength=len(self.failed))
            for selection, (codes, values) in zip(selections, columns, strict=True):
                selection.count(codes, values)
        if not self.n:
            return
        names = len(self.labels)
        for selection, everyone, quantiles in (
            (self.response, names + 1, QUANTILES),
            (self.size, names + 1, QUANTILES),
            (self.gaps, names, TABLE_QUANTILES),
        ):
            for group in (*range(names), everyone):
                if n := selection.n(group):
                    selection.want(group, *_ranks(n, quantiles, settings.percentile_rule))
        while sum(selection.begin() for selection in selections):  # sum, not any: each selection must begin
            for *_, columns in self.pieces():
                for selection, (codes, values) in zip(selections, columns, strict=True):
                    selection.refine(codes, values)
            for selection in selections:
                selection.finish()

    def find_limits(self, settings: AnalysisSettings) -> None:
        """Read the response times again until the limits of their percentiles are known."""
        everyone = len(self.labels) + 1
        found = np.full((everyone + 1, len(QUANTILES)), math.nan)
        for group in (*range(len(self.labels)), everyone):
            found[group] = sorted_percentiles(_Ordered(self.response, group), QUANTILES, settings.percentile_rule)
        n = [self.response.n(group) for group in range(everyone + 1)]
        by_name, total = BatchCounts(found[:-2], n[:-2]), BatchCounts(found[-1:], n[-1:])
        for _, rows, name in self.slices():
            by_name.add(rows.launch_us, name, rows.response_us)
            total.add(rows.launch_us, None, rows.response_us)
        for group in range(len(self.labels)):
            self.limits[group] = limits_of(by_name, group, settings.confidence)
        self.limits[everyone] = limits_of(total, 0, settings.confidence)
        for group, limits in self.limits.items():
            ranks = (rank for each in limits.ranks for rank in (each.low, each.high) if rank is not None)
            self.response.want(group, *ranks)
        while self.response.begin():
            for _, rows, name in self.slices():
                answered = rows.response_us >= 0
                self.response.refine(name[answered], rows.response_us[answered])
            self.response.finish()

    def tables(
        self, settings: AnalysisSettings
    ) -> tuple[list[doc.LaunchRow], list[doc.ResponseRow], list[doc.BytesRow]]:
        """Return launches, response times and bytes, rows in order of name and method, the aggregated one last."""
        names = [group for group in range(len(self.labels)) if self.size.n(group)]
        names.sort(key=lambda group: (self.labels[group].name, self.labels[group].method))
        span = (self.last_us - self.first_us) / 1e6
        launches: list[doc.LaunchRow] = []
        response, size = [], []
        for group in [*names, len(self.labels) + 1]:
            is_all = group > len(self.labels)
            label = TOTAL if is_all else self.labels[group]
            failed = int(self.failed.sum() if is_all else self.failed[group])
            n, known = self.size.n(group), _stats(self.response, group)
            limits = self.limits.get(group, UNLIMITED)
            response.append(response_row(label, n, failed, span, known, limits, settings))
            size.append(bytes_row(label, self.size.sum(group), span, _stats(self.size, group), settings))
            index = min(group, len(self.labels))
            gaps, total = _stats(self.gaps, index), self.gaps.sum(index)
            row = gap_row(gaps.ordered, len(gaps.ordered) + 1, gaps.mean, gaps.cov, total, settings.percentile_rule)
            launches.append({"label": label.name, "method": label.method, **row})
        return launches, response, size


@dataclass(frozen=True)
class _Ordered:
    """Values of a group in ascending order, of which the wanted ranks are known."""

    selection: Selection
    group: int

    def __len__(self) -> int:
        return self.selection.n(self.group)

    def __getitem__(self, index: int, /) -> int:
        return self.selection.value(self.group, index + 1)


def _stats(selection: Selection, group: int) -> Stats:
    n = selection.n(group)
    mean = selection.mean(group) if n else math.nan
    return Stats(_Ordered(selection, group), mean, selection.stddev(group) / mean if n > 1 and mean else math.nan)


def _ranks(n: int, quantiles: Sequence[Quantile], rule: str) -> set[int]:
    """Return every rank that the rows of n values read."""
    ranks = {1, n}
    for quantile in quantiles:
        rank = percentile_rank(n, quantile, rule)
        ranks |= {math.floor(rank), math.ceil(rank)}
    return ranks


def recorded_tables(
    launches: RecordedLaunches,
    settings: AnalysisSettings | None = None,
    *,
    window: Span | None = None,
    run_start_us: int | None = None,
) -> doc.RecordedTables:
    """Return the tables of every launch of a recording: ``launches``, ``response_times``, ``bytes``, ``window`` ...

    Arguments and rows as in :func:`locust_realism.analysis.summary.summarize`. Order statistics, counts, sums and means
    are those of one sort of all rows; standard deviations agree to 12 digits. Four passes over the files, two of them
    for the intervals (six where something is cut, for the untrimmed figures), at some 3 million rows a second each, in
    about 100 MB for any length.
    ValueError for the toolkit's rates, and for the warm-up by MSER-5: both need the launches themselves.
    """
    settings = settings or AnalysisSettings()
    if settings.mser5 or settings.rate_convention != "gaps":
        raise ValueError(
            f"mser5={settings.mser5}, rate_convention={settings.rate_convention!r}: expected False and 'gaps'"
        )
    names = len({label.name for label in launches.labels})
    tables: doc.RecordedTables = {
        "window": {"n": 0, "rows_total": 0, "sentence": "No request was recorded."},
        "source": {"rows": launches.rows, "names": names, "failures": launches.failed},
        "launches": [], "response_times": [], "bytes": [], "names_left_out": 0,
    }  # fmt: skip
    if not launches.rows:
        return tables
    origin = launches.first_us if run_start_us is None else run_start_us
    whole = _Whole(launches, Cut.of_settings(settings, window, origin, launches.last_us), settings.max_names)
    whole.run(settings)
    rows = slice(whole.start, whole.start + whole.n)
    span = (whole.first_us, whole.last_us) if whole.n else None
    if whole.n:
        whole.find_limits(settings)
        tables["launches"], tables["response_times"], tables["bytes"] = whole.tables(settings)
    tables["window"] = window_figures(launches.rows, rows, span, settings, origin)
    if window is None and whole.n < launches.rows:
        every = _Whole(launches, Cut(launches.first_us, launches.last_us), 1)  # another two passes
        every.run(settings)
        (*_, gaps), (*_, times), _ = every.tables(settings)
        tables["window"] = with_untrimmed(tables["window"], gaps, times)
    tables["names_left_out"] = whole.names_left_out
    safe: doc.RecordedTables = to_json_safe(tables)
    return safe


NEWEST_ONLY = "Verdict, groups, charts, stages and capacity"


def with_recorded_tables(document: doc.Summary, tables: doc.RecordedTables | None, age_s: float | None) -> doc.Summary:
    """Return a summary of the newest launches with the tables of all of them.

    ``tables`` is the result of :func:`recorded_tables` ``age_s`` seconds ago (None: just now), None before the first.
    The document gains ``newest`` (the launches that everything else covers) and ``tables_age_s``; its window states
    both in words.
    """
    window = document["window"]
    newest: doc.Newest = {"n": window["n"], "start_s": window.get("start_s"), "end_s": window.get("end_s")}
    if not tables:
        sentence = window["sentence"] + " These are the newest ones; the tables of all requests are being read."
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
    merged: doc.Window = {**tables["window"], "sentence": sentence}
    if "judged" in window:  # the tables have no verdict, so only the summary states which part it covers
        merged["judged"], merged["judged_sentence"] = window["judged"], window["judged_sentence"]
        merged["sentence"] += f" {window['judged_sentence']}"
    return {
        **document,
        "launches": tables["launches"], "response_times": tables["response_times"], "bytes": tables["bytes"],
        "source": {**document["source"], **tables["source"]},
        "window": merged, "newest": newest, "tables_age_s": age_s or 0.0,
    }  # fmt: skip
