"""Memory of a long run: freed blocks return to the system, and garbage collections stay short."""

from __future__ import annotations

import ctypes
import gc
import sys

M_MMAP_THRESHOLD = -3
M_ARENA_MAX = -8
"""Parameters of glibc's mallopt, malloc.h."""

OWN_MAPPING_BYTES = 1 << 20
ARENAS = 2

_libc = ctypes.CDLL(None) if sys.platform.startswith("linux") else None


def configure_allocators() -> bool:
    """Have freed memory return to the system; return True if the C library (glibc) supports it.

    glibc raises its threshold with each large block that is freed, up to 32 MB, and keeps blocks below it in its heaps,
    one for each thread; so do Arrow's own allocators. Columns come and go in native threads all the time: without this,
    half of the memory of a process that analyses them would be such freed blocks (``benchmarks/soak.py``).
    """
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())
    if _libc is None or not hasattr(_libc, "mallopt"):
        return False
    return bool(_libc.mallopt(M_MMAP_THRESHOLD, OWN_MAPPING_BYTES) and _libc.mallopt(M_ARENA_MAX, ARENAS))


def trim() -> None:
    """Return the freed blocks of a finished computation to the system: some milliseconds, for a native thread."""
    if _libc is not None and hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(0)


def freeze_loaded_objects() -> None:
    """Exclude all present objects from garbage collections; call it when a process has imported what it needs.

    A full collection of them takes 35 to 70 ms in which nothing is launched, followed by a burst: three such pauses in
    10,000 arrivals at 450/s make their coefficient of variation 1.07 instead of 1.
    """
    gc.collect()
    gc.freeze()
