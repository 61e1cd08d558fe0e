"""Files of launches, in and out: one function that recognises a file, a small module for each kind of text format.

A text format is an entry of ``TEXT_FORMATS``, and of ``WRITERS`` if it can be written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from locust_realism.recording.columns import from_table, read_table, write_parquet
from locust_realism.recording.formats import csv_files, jtl
from locust_realism.recording.formats.delimited import fields_of, first_line
from locust_realism.recording.launches import LaunchLog
from locust_realism.recording.reading import read_recording
from locust_realism.recording.source import BadLine, LaunchFile

__all__ = ["BadLine", "LaunchFile", "open_launches", "read_launches", "recognise", "write_launches"]

logger = logging.getLogger(__name__)

PARQUET = "parquet"
RECORDING = "recording"


def _header(*names: str) -> Callable[[str], bool]:
    return lambda line: set(names) <= set(fields_of(line))


TEXT_FORMATS = {
    csv_files.OWN: (_header("launch_us", "response_us", "name"), csv_files.read_own),
    csv_files.LOCUST: (_header("timestamp", "request_type", "name", "response_time_ms"), csv_files.read_locust),
    jtl.NAME: (jtl.matches, jtl.read),
}
"""Text formats: functions that recognise the first line, and read a file."""

WRITERS: dict[str, Callable[[LaunchLog, Path], None]] = {
    ".parquet": write_parquet,
    ".csv": csv_files.write_own,
    ".jtl": jtl.write,
}


def recognise(path: str | Path) -> str:
    """Return the name of a file's format; ValueError if it is unknown.

    ``recording`` (a directory that a run has written), ``parquet``, ``jtl``, ``locust-csv`` or ``csv``.
    """
    path = Path(path)
    if path.is_dir():
        return RECORDING
    with path.open("rb") as stream:
        head = stream.read(4)
    if head == b"PAR1":
        return PARQUET
    if not head:
        raise ValueError("the file is empty")
    line = first_line(path)
    for name, (matches, _) in TEXT_FORMATS.items():
        if matches(line):
            return name
    if line.startswith("<"):
        raise ValueError("XML results are not read: let JMeter save CSV (jmeter.save.saveservice.output_format=csv)")
    raise ValueError(f"the format is unknown (Parquet, JMeter JTL or Locust's CSV are read): it begins {line[:60]!r}")


def open_launches(path: str | Path) -> LaunchFile:
    """Read a file of launches, with the lines that were left out.

    Raises OSError if it cannot be opened and ValueError if its format is unknown.
    """
    path = Path(path)
    name = recognise(path)
    if name == RECORDING:
        return read_recording(path)
    if name == PARQUET:
        return LaunchFile(from_table(read_table(str(path))), PARQUET)
    file = TEXT_FORMATS[name][1](path)
    # Arrow's pool would keep twice the file's size allocated; return it to the system
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    return file


def read_launches(path: str | Path) -> LaunchLog:
    """Return the launches of a file; log one warning if rows were left out.

    Raises OSError if the file cannot be opened and ValueError if its format is unknown.
    """
    file = open_launches(path)
    if complaint := file.complaint(Path(path).name):
        logger.warning("%s", complaint)
    return file.log


def write_launches(log: LaunchLog, path: str | Path) -> None:
    """Write launches in the format of the file's ending: ``.parquet``, ``.csv`` or ``.jtl``."""
    path = Path(path)
    writer = WRITERS.get(path.suffix.lower())
    if writer is None:
        raise ValueError(f"path={path.name!r} must end in one of {', '.join(WRITERS)}")
    writer(log, path)
