"""Order statistics from files equal those of one sort of all rows, bit for bit."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from locust_realism.recording import selection
from locust_realism.recording.launches import Label, LaunchLog
from locust_realism.recording.packing import pack
from locust_realism.recording.selection import EVERYTHING, LOW_BITS, order_statistics
from locust_realism.recording.spool import Spool, part_files

QUANTILES = (0.001, 0.5, 0.9, 0.99, 0.999, 1.0)


def ranks(n: int) -> list[int]:
    return [max(1, math.ceil(n * q)) for q in QUANTILES]


def recorded(directory: Path, response_us: np.ndarray, names: list[str], parts: int) -> None:
    spool = Spool(directory)
    for k in range(parts):
        rows = slice(k, None, parts)
        log = LaunchLog.build(np.arange(len(response_us))[rows], response_us[rows], names=names[rows], methods="GET")
        if len(log):
            spool.add(pack(log), len(log))
    spool.flush()


def one_sort(values: np.ndarray) -> tuple[int, tuple[int, ...]]:
    known = np.sort(values[values >= 0])
    return len(known), tuple(known[rank - 1] for rank in ranks(len(known)))


@pytest.mark.parametrize("parts", [1, 7])
def test_equal_to_one_sort_for_each_name_and_all_together(tmp_path: Path, parts: int) -> None:
    rng = np.random.default_rng(6)
    response = rng.lognormal(11, 1.5, 30_000).astype(np.int64)
    response[rng.random(30_000) < 0.01] = -1
    names = [f"page {k}" for k in rng.integers(0, 5, 30_000) ** 2]
    recorded(tmp_path, response, names, parts)
    found = order_statistics(tmp_path, ranks)
    assert (found[EVERYTHING].n, found[EVERYTHING].values) == one_sort(response)
    assert len(found) == 6
    for name in set(names):
        mine = response[np.array(names) == name]
        assert (found[Label("GET", name)].n, found[Label("GET", name)].values) == one_sort(mine)


EDGES = st.sampled_from([0, 1, (1 << LOW_BITS) - 1, 1 << LOW_BITS, (1 << LOW_BITS) + 1, 10**10, 7_200_000_000])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(EDGES | st.integers(0, 200_000), min_size=1, max_size=40), st.integers(1, 4))
def test_ties_and_borders_of_the_ranges(
    tmp_path_factory: pytest.TempPathFactory, values: list[int], parts: int
) -> None:
    directory = tmp_path_factory.mktemp("recording")
    response = np.array(values, dtype=np.int64)
    recorded(directory, response, ["it"] * len(values), parts)
    found = order_statistics(directory, ranks)[EVERYTHING]
    assert (found.n, found.values) == one_sort(response)


def test_parts_that_are_merged_meanwhile_are_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    response = np.arange(1000) * 700
    recorded(tmp_path, response, ["it"] * 1000, 6)
    parts = part_files(tmp_path)
    listings = iter([[*parts[:3], tmp_path / "launches-000004-000006.parquet"], parts])
    monkeypatch.setattr(selection, "part_files", lambda _: next(listings))
    assert order_statistics(tmp_path, ranks)[EVERYTHING].values == one_sort(response)[1]


def test_a_rank_outside_is_refused(tmp_path: Path) -> None:
    recorded(tmp_path, np.array([5, 6]), ["a", "a"], 1)
    with pytest.raises(ValueError, match="rank=3 of 'a' must be from 1 to 2"):
        order_statistics(tmp_path, lambda n: [n + 1])


def test_a_recording_without_response_times_has_none(tmp_path: Path) -> None:
    recorded(tmp_path, np.array([-1, -1]), ["a", "b"], 1)
    assert order_statistics(tmp_path, ranks) == {}
