"""Warnings before a run whose population would pass a limit, of the settings or of the machine."""

from __future__ import annotations

from collections.abc import Iterator

from .population import AnyPopulation, Population

_SPARE_FILES = 100


def warnings_of(name: str, population: AnyPopulation, workers: int, run_time: float | None = None) -> Iterator[str]:
    """What a user should know before the run."""
    most = most_users(population, run_time)
    if most is None:
        return
    limit = population.max_users
    if limit is not None and most > limit:
        yield (
            f"{name}: {most} users are to be expected at times, but max_users is {limit}: arrivals beyond it are "
            "turned away and counted as balked"
        )
        most = limit
    files = open_file_limit()
    if files is not None and most / max(1, workers) > files - _SPARE_FILES:
        yield (
            f"{name}: about {most / max(1, workers):.0f} users a process are to be expected at times, and this machine "
            f"lets a process open {files} files: raise the limit (ulimit -n), set max_users, or add workers"
        )


def most_users(population: AnyPopulation, run_time: float | None = None) -> int | None:
    """The number in session that is passed 0.1 % of the time, at the peak; None if it depends on response times."""
    if isinstance(population, Population):
        forecast = population.forecast(run_time)
        return None if forecast is None else forecast[2]
    source = population.source()
    return None if source is None else source.quantile(0.999)


def open_file_limit() -> int | None:
    """Files that a process may open, or None where there is no limit or none is known."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft
