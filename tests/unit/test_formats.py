"""Files of launches: recognition, published conventions, bad rows with their lines, and writing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from locust_realism.recording.columns import VERSION_KEY, to_table
from locust_realism.recording.formats import open_launches, read_launches, recognise, write_launches
from locust_realism.recording.launches import MISSING, ROW_DTYPES, Label, LaunchLog, Outcome

HEADLESS_LINE = "1331859604094,71,012_Home_jpg,200,OK,Thread Group 1-2,bin,true,141994,25"
JTL_HEADER = (
    "timeStamp,elapsed,label,responseCode,responseMessage,threadName,dataType,success,failureMessage,bytes,sentBytes,"
    "grpThreads,allThreads,URL,Latency,IdleTime,Connect"
)
LOCUST_HEADER = "timestamp,request_type,name,response_time_ms,response_length,status_code,exception"


def written_out(log: LaunchLog) -> list[tuple[object, ...]]:
    columns = [getattr(log, name).tolist() for name in ROW_DTYPES if name not in ("label", "outcome")]
    return list(zip(*columns, [log.labels[k] for k in log.label], [log.outcomes[k] for k in log.outcome], strict=True))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file"


@pytest.fixture
def log() -> LaunchLog:
    """Return rows with difficult texts: quotes, commas, line breaks, formulas, other scripts."""
    return LaunchLog(
        **{
            **vars(LaunchLog.build(1_700_000_000_000_000 + np.arange(6) * 1501, [559, 0, 10**9, -1, 7, 12_345])),
            "planned_us": np.array([1_700_000_000_000_000, -1, -1, -1, -1, 5]),
            "first_byte_us": np.array([300, -1, -1, -1, -1, -1]),
            "size_bytes": np.array([0, 10**12, 5, 5, 5, 5]),
            "slot": np.array([0, 1, 2, -1, 0, 1], dtype=np.int32),
            "worker": np.array([0, 0, 1, 1, 2, 2], dtype=np.int32),
            "users": np.array([-1, 3, 3, 3, 3, 3], dtype=np.int32),
            "task": np.array([-1, 7, 7, 2**52 - 1, 0, 8]),
            "think_us": np.array([-1, -1, -1, 0, 5, 10**12]),
            "label": np.array([0, 1, 2, 0, 1, 2], dtype=np.int32),
            "outcome": np.array([0, 1, 2, 0, 1, 2], dtype=np.int32),
            "labels": (Label("GET", "/a,b"), Label("", '=cmd("x")\nnext'), Label("PUT", "Größe ☃")),
            "outcomes": (
                Outcome(False, 200, ""),
                Outcome(True, -1, 'said "no",\nthen hung up'),
                Outcome(True, 503, ""),
            ),
        }
    )


class TestJtl:
    def test_headerless_ten_columns(self, file: Path) -> None:
        file.write_text(f"{HEADLESS_LINE}\n1331859607193,153,Other,500,Oops,Thread Group 1-10,text,false,16839,149\n")
        log = read_launches(file)
        assert written_out(log) == [
            (1331859604094000, -1, 71000, 25000, 141994, 0, 0, -1, -1, -1, ("", "012_Home_jpg"), (False, 200, "")),
            (1331859607193000, -1, 153000, 149000, 16839, 1, 0, -1, -1, -1, ("", "Other"), (True, 500, "Oops")),
        ]

    def test_header_in_any_order_with_other_columns_and_delimiter(self, file: Path) -> None:
        file.write_text("label;elapsed;myVariable;timeStamp;success\nHome;5;x;1700000000000;false\n")
        log = read_launches(file)
        assert (log.launch_us.tolist(), log.response_us.tolist(), log.failed.tolist()) == (
            [1_700_000_000_000_000],
            [5000],
            [True],
        )
        assert log.slot.tolist() == [MISSING]

    def test_threads_are_slots_in_numeric_order(self, file: Path) -> None:
        """Thread 1-10 comes after 1-2: the published group tables depend on it."""
        names = ["G 1-10", "G 1-2", "G 2-1", "G 1-1", "G 1-10"]
        file.write_text("".join(f"{HEADLESS_LINE.replace('Thread Group 1-2', name)}\n" for name in names))
        assert read_launches(file).slot.tolist() == [2, 1, 3, 0, 2]

    def test_non_http_code_becomes_the_message(self, file: Path) -> None:
        row = "1700000000000,3,Home,Non HTTP response code: java.net.ConnectException,,T 1-1,text,false,,0,0,4,4,,0,0,3"
        file.write_text(f"{JTL_HEADER}\n{row}\n")
        log = read_launches(file)
        expected = Outcome(True, MISSING, "Non HTTP response code: java.net.ConnectException")
        assert log.outcomes[log.outcome[0]] == expected
        assert log.users.tolist() == [4]

    def test_bad_rows_are_counted_and_located_and_the_rest_used(self, file: Path) -> None:
        good = HEADLESS_LINE
        lines = [
            good,
            "half a li",
            good,
            good.replace("1331859604094", "133185960409"),  # 12 digits
            good.replace(",71,", ",slow,"),
            good,
            good.replace(",71,", ",-5,"),
            good + ",one,more",
            good.replace("1331859604094", "16.03.2012 01:00:04"),
            good,
            good[:30],  # the process that wrote it was killed
        ]
        file.write_text("\n".join(lines))
        found = open_launches(file)
        assert len(found.log) == 4
        assert found.bad_rows == 7
        assert [bad.line for bad in found.bad_lines] == [2, 4, 5, 7, 8, 9, 11]
        reasons = [bad.reason for bad in found.bad_lines]
        assert "1 fields, expected 10" in reasons[0]
        assert "timeStamp is not within 1e+12" in reasons[1]
        assert "elapsed is not an integer" in reasons[2]
        assert "elapsed is not within 0" in reasons[3]
        assert "12 fields, expected 10" in reasons[4]
        assert "timeStamp is not an integer" in reasons[5]
        assert found.complaint("run.jtl").startswith("run.jtl: 7 rows left out (line 2: 1 fields, expected 10; ")

    def test_line_numbers_count_line_breaks_in_quoted_messages(self, file: Path) -> None:
        message = HEADLESS_LINE.replace(",OK,", ',"two\nlines, quoted",').replace("true", "false")
        file.write_text("\n".join([JTL_HEADER.split(",")[0] and HEADLESS_LINE, message, "bad", message, "worse", ""]))
        found = open_launches(file)
        assert [bad.line for bad in found.bad_lines] == [4, 7]
        assert [outcome.message for outcome in found.log.outcomes if outcome.failed] == ["two\nlines, quoted"]

    def test_bytes_that_are_not_utf8_do_not_stop_the_reading(self, file: Path) -> None:
        file.write_bytes(HEADLESS_LINE.replace("Home", "Gr\u00f6\u00dfe").encode("latin-1") + b"\n")
        assert read_launches(file).labels[0].name == "012_Gr\ufffd\ufffde_jpg"

    def test_written_jtl_is_read_back_in_milliseconds(self, file: Path, log: LaunchLog) -> None:
        path = file.with_suffix(".jtl")
        write_launches(log, path)
        back = read_launches(path)
        assert path.read_text().splitlines()[0] == JTL_HEADER
        assert len(path.read_text().splitlines()) == 1 + len(log), "one line a request, line breaks taken out"
        assert back.launch_us.tolist() == (log.launch_us // 1000 * 1000).tolist()
        assert back.response_us.tolist() == [1000, 0, 10**9, 0, 0, 12000]
        assert back.failed.tolist() == log.failed.tolist()
        assert [back.labels[k].name for k in back.label][:2] == ["GET /a,b", '=cmd("x") next']
        assert back.size_bytes.tolist() == log.size_bytes.tolist()


class TestLocustCsv:
    def test_rows_keep_microseconds(self, file: Path) -> None:
        file.write_text(
            f"{LOCUST_HEADER}\n1700000000.123457,GET,/a,0.56,12,200,\n1700000001.5,PUT,/b,1200.0,0,0,ConnectionError('x')\n"
            "1700000002,GET,/a,,0,503,busy\n"
        )
        log = read_launches(file)
        assert log.launch_us.tolist() == [1_700_000_000_123_457, 1_700_000_001_500_000, 1_700_000_002_000_000]
        assert log.response_us.tolist() == [560, 1_200_000, MISSING]
        assert [log.labels[k] for k in log.label] == [("GET", "/a"), ("PUT", "/b"), ("GET", "/a")]
        expected = [(False, 200, ""), (True, MISSING, "ConnectionError('x')"), (True, 503, "busy")]
        assert [log.outcomes[k] for k in log.outcome] == expected

    def test_what_locusts_own_logger_writes_is_read(self, file: Path) -> None:
        from locust.env import Environment

        # Locust has it since 2.44; the oldest supported one does not
        logger = pytest.importorskip("locust.contrib.csv_request_logger")
        environment = Environment()
        writer = logger.CsvRequestLogger(str(file))
        writer.register(environment)
        environment.events.request.fire(
            request_type="GET", name='a "b", c', response_time=1.5, response_length=7, start_time=1.7e9, exception=None
        )
        writer.close()
        log = read_launches(file)
        assert written_out(log) == [
            (1_700_000_000_000_000, -1, 1500, -1, 7, -1, 0, -1, -1, -1, ("GET", 'a "b", c'), (False, MISSING, ""))
        ]


class TestOwn:
    @pytest.mark.parametrize("suffix", [".parquet", ".csv"])
    def test_every_column_survives(self, file: Path, log: LaunchLog, suffix: str) -> None:
        path = file.with_suffix(suffix)
        write_launches(log, path)
        assert recognise(path) == suffix[1:]
        assert written_out(read_launches(path)) == written_out(log)

    def test_files_of_format_1_have_no_tasks(self, file: Path, log: LaunchLog) -> None:
        table = to_table(log).drop_columns(["task", "think_us"]).replace_schema_metadata({VERSION_KEY: b"1"})
        pq.write_table(table, file)
        missing = np.full(len(log), MISSING)
        assert written_out(read_launches(file)) == written_out(replace(log, task=missing, think_us=missing))
        file.write_text("launch_us,response_us,name,users\n5,2,home,3\n")
        found = read_launches(file)
        assert [column.tolist() for column in (found.users, found.task, found.think_us)] == [[3], [MISSING], [MISSING]]

    @pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jtl"])
    def test_a_log_without_rows(self, file: Path, suffix: str) -> None:
        path = file.with_suffix(suffix)
        write_launches(LaunchLog.empty(), path)
        assert len(read_launches(path)) == 0

    def test_pandas_and_pyarrow_open_it_with_one_line(self, file: Path, log: LaunchLog) -> None:
        import pandas as pd

        path = file.with_suffix(".parquet")
        write_launches(log, path)
        assert pd.read_parquet(path)["name"].tolist() == [log.labels[k].name for k in log.label]
        assert pq.read_table(path).column("response_us").to_pylist() == log.response_us.tolist()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"PAR1 and then nothing", "not a readable Parquet block"),
        (b'<?xml version="1.0"?><testResults/>', "XML results are not read"),
        (b"hello\n", "the format is unknown"),
        (b"timeStamp,elapsed,success\n1700000000000,1,true\n", "no column label"),
    ],
)
def test_other_file_is_refused_with_the_reason(file: Path, content: bytes, message: str) -> None:
    file.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_launches(file)


def test_writer_needs_a_known_suffix(file: Path) -> None:
    with pytest.raises(ValueError, match=r"must end in one of .parquet, .csv, .jtl"):
        write_launches(LaunchLog.empty(), file)
