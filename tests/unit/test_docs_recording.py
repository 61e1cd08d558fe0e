"""Each line of docs/recording.md opens a recording in its library; polars and DuckDB come with the bench extra."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from locust_realism.recording.columns import pack
from locust_realism.recording.launches import LaunchLog
from locust_realism.recording.spool import Spool

PAGE = Path(__file__).parents[2] / "docs" / "recording.md"
RESPONSES_US = np.random.default_rng(5).integers(1, 10**7, 1000)


def documented_line(library: str) -> str:
    (line,) = re.findall(rf"^    ({library}\..*)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return str(line)


@pytest.fixture(params=[False, True], ids=["running", "ended"])
def recording(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write 1,000 launches in four parts, as during a test, or in one file."""
    monkeypatch.chdir(tmp_path)
    directory = re.search(r"realism-recordings/\d{8}T\d{6}Z", documented_line("pandas"))
    assert directory is not None
    spool = Spool(Path(directory[0]))
    for part in np.split(np.arange(1000), 4):
        log = LaunchLog.build(launch_us=part, response_us=RESPONSES_US[part], names="home", methods="GET")
        spool.add(pack(log), len(part))
        spool.flush()
    if request.param:
        spool.close()


@pytest.mark.usefixtures("recording")
@pytest.mark.parametrize("library", ["polars", "duckdb"])
def test_documented_line_opens_a_recording(library: str) -> None:
    module: Any = pytest.importorskip(library)
    found = eval(documented_line(library), {library: module})  # noqa: S307 - a line of our own documentation
    if library == "duckdb":
        assert found.fetchall() == [("home", np.sort(RESPONSES_US)[989])]
    else:
        assert found["response_us"].to_list() == RESPONSES_US.tolist()
        assert set(found["name"].to_list()) == {"home"}


@pytest.mark.parametrize("recording", [True], indirect=True, ids=["ended"])
@pytest.mark.usefixtures("recording")
def test_pandas_opens_a_closed_recording() -> None:
    pandas = importlib.import_module("pandas")
    found = eval(documented_line("pandas"), {"pandas": pandas})  # noqa: S307 - a line of our own documentation
    assert found["response_us"].tolist() == RESPONSES_US.tolist()
