"""Result of reading a file of launches: the rows, and the lines that were left out."""

from __future__ import annotations

from dataclasses import dataclass

from locust_realism.recording.launches import LaunchLog

LISTED = 20
"""Bad lines listed one by one; more are only counted."""


@dataclass(frozen=True)
class BadLine:
    """Line that was left out: its number in the file (1 is the first; None where unknown) and the reason."""

    line: int | None
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}" if self.line else self.reason


@dataclass(frozen=True)
class LaunchFile:
    """Content of a file of launches.

    - ``log`` the rows, in the order of the file
    - ``format`` name of the format
    - ``bad_rows`` number of rows left out, ``bad_lines`` the first of them with line numbers
    """

    log: LaunchLog
    format: str
    bad_rows: int = 0
    bad_lines: tuple[BadLine, ...] = ()

    def complaint(self, name: str) -> str:
        """Return one sentence on the rows left out, empty if there are none.

        >>> LaunchFile(LaunchLog.empty(), "jtl", 1, (BadLine(7, "3 fields"),)).complaint("run.jtl")
        'run.jtl: 1 row left out (line 7: 3 fields)'
        """
        if not self.bad_rows:
            return ""
        listed = "; ".join(str(bad) for bad in self.bad_lines[:5])
        more = ", …" if self.bad_rows > 5 else ""
        return f"{name}: {self.bad_rows} row{'s' * (self.bad_rows != 1)} left out ({listed}{more})"
