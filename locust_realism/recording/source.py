"""What reading a file of launches gives: the rows, and which lines could not be used."""

from __future__ import annotations

from dataclasses import dataclass, field

from locust_realism.recording.launches import LaunchLog

LISTED = 20
"""Bad lines that are listed one by one; more are only counted."""


@dataclass(frozen=True)
class BadLine:
    """A line that was left out: its number in the file (1 is the first; None where unknown) and why."""

    line: int | None
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}" if self.line else self.reason


@dataclass(frozen=True)
class LaunchFile:
    """A file of launches that has been read.

    - ``log`` the rows, in the order of the file
    - ``format`` name of the format
    - ``bad_rows`` how many rows were left out, ``bad_lines`` the first of them with line numbers
    - ``metadata`` what the file says of itself
    """

    log: LaunchLog
    format: str
    bad_rows: int = 0
    bad_lines: tuple[BadLine, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict)

    def complaint(self, name: str) -> str:
        """One sentence on what was left out; empty when nothing was.

        >>> LaunchFile(LaunchLog.empty(), "jtl", 1, (BadLine(7, "3 fields"),)).complaint("run.jtl")
        'run.jtl: 1 row left out (line 7: 3 fields)'
        """
        if not self.bad_rows:
            return ""
        listed = "; ".join(str(bad) for bad in self.bad_lines[:5])
        more = ", …" if self.bad_rows > 5 else ""
        return f"{name}: {self.bad_rows} row{'s' * (self.bad_rows != 1)} left out ({listed}{more})"
