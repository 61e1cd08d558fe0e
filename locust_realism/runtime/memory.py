"""Memory that is freed goes back to the system, and collections are short: a run of days needs what it holds."""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Any

M_MMAP_THRESHOLD = -3
M_ARENA_MAX = -8
"""Parameters of glibc's mallopt, malloc.h."""

OWN_MAPPING_BYTES = 1 << 20
ARENAS = 2


def give_memory_back() -> bool:
    """Set up the allocators of this process; whether the C library is one that can be told (glibc).

    glibc learns from each large block that is freed to keep blocks of its size (up to 32 MB) in its heaps, of which it
    has one for each thread, and so do Arrow's own allocators. Columns come and go in native threads all the time: half
    of the memory of a process that analyses them would be such left-overs (``benchmarks/soak.py``).
    """
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())
    mallopt = _from_libc("mallopt")
    return mallopt is not None and bool(mallopt(M_MMAP_THRESHOLD, OWN_MAPPING_BYTES) and mallopt(M_ARENA_MAX, ARENAS))


def trim() -> None:
    """Give back what a computation that is over has left in the heaps; takes some milliseconds, in a native thread."""
    if _malloc_trim is not None:
        _malloc_trim(0)


def spare_what_is_loaded() -> None:
    """Leave what has been imported out of garbage collections: it stays, and to look through it takes 35 to 70 ms.

    Each time, nothing is launched meanwhile and then all at once: three such pauses in 10,000 arrivals at 450/s make
    their coefficient of variation 1.07 instead of 1. To be called when a process has loaded what it needs.
    """
    gc.collect()
    gc.freeze()


def _from_libc(name: str) -> Any:
    """A function of the C library; None where it has none of that name."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        return getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError):
        return None


_malloc_trim = _from_libc("malloc_trim")
