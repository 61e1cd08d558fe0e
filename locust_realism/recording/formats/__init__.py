"""Files of launches, in and out: one function that recognises what it is given, one small module a format.

A format is a module with ``NAME``, ``recognises(first_line)`` and ``read(path) -> LaunchFile``, and
``write(log, path)`` where it can be written; it is added to ``TEXT_FORMATS`` (and to ``WRITERS``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from locust_realism.recording.formats import jtl, locust_csv, own_csv
from locust_realism.recording.formats.text import first_line
from locust_realism.recording.launches import LaunchLog
from locust_realism.recording.packing import read_parquet, write_parquet
from locust_realism.recording.reading import read_recording
from locust_realism.recording.source import BadLine, LaunchFile

__all__ = ["BadLine", "LaunchFile", "open_launches", "read_launches", "recognise", "write_launches"]

logger = logging.getLogger(__name__)

PARQUET = "parquet"
RECORDING = "recording"


class TextFormat(Protocol):
    """What a module of a text format has."""

    NAME: str

    def recognises(self, line: str, /) -> bool:
        """Whether a file with this first line is of the format."""
        ...

    def read(self, path: Path, /) -> LaunchFile:
        """Read a file of the format."""
        ...


TEXT_FORMATS: tuple[TextFormat, ...] = (own_csv, locust_csv, jtl)
WRITERS: dict[str, Callable[[LaunchLog, Path], None]] = {
    ".parquet": write_parquet,
    ".csv": own_csv.write,
    ".jtl": jtl.write,
}


def recognise(path: str | Path) -> str:
    """The name of a file's format; ValueError when it is none that is known.

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
    for module in TEXT_FORMATS:
        if module.recognises(line):
            return module.NAME
    if line.startswith("<"):
        raise ValueError("XML results are not read: let JMeter save CSV (jmeter.save.saveservice.output_format=csv)")
    raise ValueError(f"not a format that is known (Parquet, JMeter JTL, Locust's request CSV): it begins {line[:60]!r}")


def open_launches(path: str | Path) -> LaunchFile:
    """Read a file of launches and say what could not be used.

    Raises OSError when it cannot be opened and ValueError when its format is not known.
    """
    path = Path(path)
    name = recognise(path)
    if name == RECORDING:
        return read_recording(path)
    if name == PARQUET:
        return LaunchFile(read_parquet(str(path)), PARQUET)
    module = next(module for module in TEXT_FORMATS if name == module.NAME)
    file = module.read(path)
    # Arrow keeps what its columns took, twice the size of the log, for a next time that does not come.
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    return file


def read_launches(path: str | Path) -> LaunchLog:
    """The launches of a file; rows that could not be used are logged as one warning.

    Raises OSError when it cannot be opened and ValueError when its format is not known.
    """
    file = open_launches(path)
    complaint = file.complaint(Path(path).name)
    if complaint:
        logger.warning("%s", complaint)
    return file.log


def write_launches(log: LaunchLog, path: str | Path) -> None:
    """Write launches in the format that the file's name asks for: ``.parquet``, ``.csv`` or ``.jtl``."""
    path = Path(path)
    writer = WRITERS.get(path.suffix.lower())
    if writer is None:
        raise ValueError(f"path={path.name!r} must end in one of {', '.join(WRITERS)}")
    writer(log, path)
