"""Access logs: formats, time zones, damage, hostile content, order of time and names."""

from __future__ import annotations

import gzip
import re
import time
import tracemalloc
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_support import write_log

from locust_realism.fit.access_logs import (
    LONGEST_LINE,
    AccessLog,
    Disorder,
    RequestBlock,
    in_time_order,
    read_blocks,
    recognises,
)
from locust_realism.fit.names import EXAMPLES, NOT_HTTP, OTHER, LabelTable, RequestFilter, label_of
from locust_realism.recording.launches import MISSING, Label

COMMON = '127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326'
COMBINED = COMMON + ' "http://www.example.com/start.html" "Mozilla/4.08 [en] (Win98; I ;Nav)"'
AGENT = '"-" "Mozilla/5.0"'


def read(path: Path, **options: object) -> tuple[RequestBlock, AccessLog, LabelTable]:
    log, labels = AccessLog(path), LabelTable()
    blocks = list(read_blocks(log, labels, RequestFilter(), **options))  # type: ignore[arg-type]
    return RequestBlock.concat(blocks), log, labels


def line(second: int = 0, *, client: str = "1.2.3.4", request: str = "GET / HTTP/1.1", status: str = "200") -> str:
    return f'{client} - - [02/Mar/2026:00:00:{second:02d} +0100] "{request}" {status} 5 {AGENT}'


@pytest.mark.parametrize(
    "row",
    [
        COMMON,
        COMBINED,
        COMBINED + ' 0.123 "extra"',
        "www.example.com:443 " + COMBINED,
        COMBINED.replace("127.0.0.1", "2001:db8::10:1"),
        COMBINED.replace("frank", "Frank N. Stein"),
        COMBINED.replace("2326", "-"),
        COMBINED.replace("Mozilla/4.08", r"Mozilla \"quoted\" \\"),
    ],
)
def test_each_format_gives_time_label_and_outcome(tmp_path: Path, row: str) -> None:
    path = write_log(tmp_path / "access.log", [row])
    assert recognises(path)
    block, log, labels = read(path)
    assert (len(block), log.bad_rows, log.rows) == (1, 0, 1)
    moment = datetime.fromisoformat("2000-10-10T13:55:36-07:00")
    assert block.time_us[0] == moment.timestamp() * 1e6
    assert block.offset_s[0] == -7 * 3600
    assert labels.labels[block.label[0]] == Label("GET", "/apache_pb.gif")
    assert not block.failed[0]


def test_virtual_host_at_the_start_is_not_the_client(tmp_path: Path) -> None:
    rows = [f"www.example.com:{port} " + line(client=client) for port, client in ((80, "1.1.1.1"), (443, "1.1.1.1"))]
    block, _, _ = read(write_log(tmp_path / "vhosts.log", rows))
    assert block.visitor[0] == block.visitor[1]


def test_gzip_is_recognised_by_content_and_reads_the_same(tmp_path: Path) -> None:
    rows = [line(second) for second in range(50)]
    plain, packed = write_log(tmp_path / "a.log", rows), write_log(tmp_path / "a.log.gz", rows)
    packed = packed.rename(tmp_path / "renamed.1")
    assert recognises(packed)
    np.testing.assert_array_equal(read(plain)[0].time_us, read(packed)[0].time_us)


def test_truncated_gzip_file_is_read_up_to_the_damage(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = [line(request=f"GET /{rng.integers(1 << 60)} HTTP/1.1") for _ in range(20_000)]
    path = tmp_path / "a.log.gz"
    whole = write_log(path, rows).read_bytes()
    path.write_bytes(whole[: len(whole) * 9 // 10])
    block, log, _ = read(path)
    assert "cut off" in log.damage
    assert 10_000 < len(block) < 20_000
    assert log.bad_rows <= 1


def test_each_line_keeps_its_own_time_zone(tmp_path: Path) -> None:
    times = ["28/Mar/2026:23:59:59 +0100", "29/Mar/2026:00:00:00 +0200", "29/Mar/2026:03:29:59 +0530"]
    rows = [f'1.2.3.4 - - [{when}] "GET / HTTP/1.1" 200 5' for when in times]
    block, _, _ = read(write_log(tmp_path / "a.log", rows))
    expected = [datetime.strptime(when, "%d/%b/%Y:%H:%M:%S %z").timestamp() for when in times]
    assert (block.time_us / 1e6).tolist() == expected
    assert block.offset_s.tolist() == [3600, 7200, 19800]


def test_decimals_of_seconds_set_the_resolution(tmp_path: Path) -> None:
    block, log, _ = read(write_log(tmp_path / "a.log", [line().replace(":00 +", ":00.250 +")]))
    assert block.time_us[0] % 1_000_000 == 250_000
    assert log.resolution_s == pytest.approx(1e-3)


@pytest.mark.parametrize(
    "when",
    [
        "31/Feb/2026:00:00:00 +0000",
        "02/Mar/2026:24:00:00 +0000",
        "02/Mar/1026:00:00:00 +0000",
        "02/Foo/2026:00:00:00 +0000",
        "02/Mar/2026:00:60:00 +0000",
    ],
)
def test_impossible_time_is_a_bad_line(tmp_path: Path, when: str) -> None:
    rows = [line(), f'1.2.3.4 - - [{when}] "GET / HTTP/1.1" 200 5', line()]
    block, log, _ = read(write_log(tmp_path / "a.log", rows))
    assert len(block) == 2
    assert [(bad.line, when in bad.reason) for bad in log.bad_lines] == [(2, True)]


def test_leap_second_is_the_first_of_the_next_minute(tmp_path: Path) -> None:
    block, log, _ = read(write_log(tmp_path / "a.log", [line().replace("00:00:00", "23:59:60")]))
    assert log.bad_rows == 0
    assert block.time_us[0] == datetime.fromisoformat("2026-03-03T00:00:00+01:00").timestamp() * 1e6


def test_bad_lines_are_counted_and_located(tmp_path: Path) -> None:
    rows = [line(0), "not a line", line(1), "", '1.2.3.4 - - [02/Mar/2026:00:00:00 +0100] "GET / HTTP', line(2)]
    block, log, _ = read(write_log(tmp_path / "a.log", rows))
    assert len(block) == 3
    assert log.bad_rows == 2  # an empty line is not one
    assert [bad.line for bad in log.bad_lines] == [2, 5]


def test_lines_are_located_past_the_first_block_and_past_an_overlong_line(tmp_path: Path) -> None:
    rows = [line() for _ in range(30_000)]
    rows[20_000] = "x" * 3_000_000
    rows[25_000] = "bad"
    block, log, _ = read(write_log(tmp_path / "a.log", rows))
    assert len(block) == 29_998
    assert [(bad.line, bad.reason) for bad in log.bad_lines] == [
        (20_001, "longer than 64 kB"), (25_001, "not a line of an access log"),
    ]  # fmt: skip


def test_file_without_line_ends_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", compresslevel=1) as stream:
        for _ in range(64):
            stream.write(b"x" * (1 << 20))
    log = AccessLog(path)
    tracemalloc.start()
    assert list(read_blocks(log, LabelTable(), RequestFilter())) == []
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert log.bad_rows == 1
    assert peak < 12 << 20


@pytest.mark.parametrize(
    ("hostile", "bad"),
    [
        ("1.2.3.4 - " + "[02/Mar/2026:00:00:00 +0100] " * 1500, True),
        ("1.2.3.4 - - [02/Mar/2026:00:00:00 +0100] \"" + "\\\"" * 20_000, True),
        # what comes after the common format's fields does not count where it cannot be read
        ("1.2.3.4 - - [02/Mar/2026:00:00:00 +0100] \"GET / HTTP/1.1\" 200 5 \"" + "\\\\" * 20_000 + "x", False),
        ("a:1 " * 10_000, True),
        ("[" * 40_000, True),
    ],
)  # fmt: skip
def test_matching_time_is_linear_in_the_line(tmp_path: Path, hostile: str, bad: bool) -> None:
    assert len(hostile) < LONGEST_LINE
    path = write_log(tmp_path / "a.log", [hostile] * 20 + [line()])
    began = time.process_time()
    block, log, _ = read(path)
    assert time.process_time() - began < 2  # a quadratic pattern takes minutes
    assert (len(block), log.bad_rows) == ((1, 20) if bad else (21, 0))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=120), max_size=8))
def test_any_bytes_are_read_or_counted_as_bad(tmp_path_factory: pytest.TempPathFactory, junk: list[bytes]) -> None:
    path = tmp_path_factory.mktemp("junk") / "a.log"
    path.write_bytes(b"\n".join([line().encode(), *junk]))
    log, labels = AccessLog(path), LabelTable()
    rows = sum(len(block) for block in read_blocks(log, labels, RequestFilter()))
    text = b"\n".join(junk).replace(b"\r\n", b"\n").decode("utf-8", errors="replace")
    assert rows >= 1
    assert rows + log.bad_rows == 1 + sum(bool(one.strip()) for one in text.split("\n"))


def test_visitors_are_identified_by_the_setting(tmp_path: Path) -> None:
    rows = [
        f'{client} - {user} [02/Mar/2026:00:00:00 +0100] "GET / HTTP/1.1" 200 5 "-" "{agent}"'
        for client, user, agent in [("1.1.1.1", "ann", "x"), ("1.1.1.1", "-", "y"), ("2.2.2.2", "ann", "x")]
    ]
    path = write_log(tmp_path / "a.log", rows)
    expected = {"client+agent": [0, 1, 2], "client": [0, 0, 2]}
    for visitor, groups in expected.items():
        seen = read(path, visitor=visitor)[0].visitor.tolist()
        assert [seen.index(one) for one in seen] == groups
    by_user = read(path, visitor="user")[0].visitor
    assert by_user[0] == by_user[2] != by_user[1] == MISSING
    with pytest.raises(ValueError, match="visitor must be one of"):
        read(path, visitor="cookie")


@pytest.mark.parametrize(
    ("request_line", "name"),
    [
        ("GET /a/b.html?x=1#y HTTP/1.1", "/a/b.html"),
        ("GET /users/12/posts/345 HTTP/2.0", "/users/{id}/posts/{id}"),
        ("GET /f/550e8400-e29b-41d4-a716-446655440000 HTTP/1.1", "/f/{id}"),
        ("GET /c/deadbeef00112233 HTTP/1.1", "/c/{id}"),
        ("GET /feedback/defaced HTTP/1.1", "/feedback/defaced"),
        ("PROPFIND /remote.php/dav HTTP/1.1", "/remote.php/dav"),
    ],
)
def test_paths_become_names(request_line: str, name: str) -> None:
    assert label_of(request_line) == Label(request_line.split(" ")[0], name)


@pytest.mark.parametrize("request_line", ["-", "", r"\x16\x03\x01", "GET", "get / HTTP/1.1", "GET / / /"])
def test_text_that_is_no_request_line_has_its_own_name(request_line: str) -> None:
    assert label_of(request_line) == NOT_HTTP


def test_names_are_limited_in_number_and_length() -> None:
    table = LabelTable(most=10)
    codes = table.codes([f"GET /{'x' * 500}{chr(97 + i)}y HTTP/1.1" for i in range(5)], np.ones(5, dtype=bool))
    assert len(set(codes.tolist())) == 1  # they differ past the longest name
    codes = table.codes([f"GET /p{chr(97 + i)} HTTP/1.1" for i in range(26)], np.ones(26, dtype=bool))
    assert len(table.labels) == 11
    assert table.labels[codes[-1]] == OTHER
    assert all(len(label.name) <= 200 for label in table.labels)
    assert all(len(examples) <= EXAMPLES for examples in table.examples)


def test_filters_count_what_they_leave_out() -> None:
    wanted = RequestFilter(no_static=True, no_bots=True, exclude=(re.compile("^/health"),))
    requests = [
        "GET / HTTP/1.1",
        "GET /a.css?v=2 HTTP/1.1",
        "GET /health HTTP/1.1",
        "GET / HTTP/1.1",
        "GET /b.JPG HTTP/1.1",
    ]
    agents = ["Mozilla", "Mozilla", "Mozilla", "Googlebot/2.1", "Googlebot/2.1"]
    assert wanted.mask(requests, agents).tolist() == [True, False, False, False, False]
    assert wanted.left_out == {"excluded paths": 1, "static files": 2, "robots": 1}
    keeping = RequestFilter()
    assert keeping.mask(requests, agents).all()
    assert (keeping.static, keeping.bots, keeping.left_out) == (2, 2, {})


def blocks_of(times: np.ndarray, size: int) -> Iterator[RequestBlock]:
    for first in range(0, len(times), size):
        t = (times[first : first + size] * 1e6).astype(np.int64)
        zeros = np.zeros(len(t), dtype=np.int32)
        yield RequestBlock(t, t, zeros, t, zeros, zeros == 1)


def test_several_unordered_files_are_merged_in_order() -> None:
    rng = np.random.default_rng(5)
    files = [np.sort(rng.uniform(0, 20_000, 30_000)) for _ in range(3)]
    shaken = [times + rng.uniform(0, 100, len(times)) for times in files]  # lines come as requests end
    logged = [times[np.argsort(late)] for times, late in zip(files, shaken, strict=True)]
    disorder = Disorder()
    merged = list(in_time_order([blocks_of(times, 1000) for times in logged], disorder, at_once=5000))
    times = np.concatenate([block.time_us for block in merged])
    assert len(merged) > 3
    assert disorder.late == 0
    np.testing.assert_array_equal(times, (np.sort(np.concatenate(files)) * 1e6).astype(np.int64))


def test_late_row_is_counted_and_none_is_lost() -> None:
    times = np.arange(0, 100_000, 1.0)
    times[90_000] = 5.0
    disorder = Disorder()
    merged = np.concatenate(
        [b.time_us for b in in_time_order([blocks_of(times, 1000)], disorder, holdback_s=10, at_once=2000)]
    )
    assert disorder.late == 1
    assert len(merged) == len(times)
    assert (np.diff(merged) >= 0).all()


def test_one_wrong_year_does_not_spoil_the_order() -> None:
    times = np.arange(0, 100_000, 1.0)
    times[50] = 3e9
    disorder = Disorder()
    merged = np.concatenate([b.time_us for b in in_time_order([blocks_of(times, 1000)], disorder, at_once=2000)])
    assert disorder.late == 0
    assert merged[-1] == 3e15


def test_rows_of_one_instant_do_not_accumulate_in_memory() -> None:
    blocks = in_time_order([blocks_of(np.full(600_000, 7.0), 1000)], Disorder(), at_once=1000, most_rows=50_000)
    sizes = [len(block) for block in blocks]
    assert sum(sizes) == 600_000
    assert max(sizes) <= 300_000
