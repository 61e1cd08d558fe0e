"""The command line, called as a test calls it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from locust_realism.cli import main

Run = Callable[..., tuple[int, str, str]]


def called(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs the command: status, standard output and standard error."""

    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            status = main(arguments)
        except SystemExit as exit_:
            status = int(exit_.code or 0)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call
