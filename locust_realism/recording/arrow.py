"""Arrow arrays out of numpy arrays and strings without ``pyarrow.array``.

``pyarrow.array`` imports pandas, where it is installed, to see whether it was given a Series: a quarter of a second and
60 MB in the middle of the first report of every load generator. These functions take what we have, and copy nothing
that is numeric.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa


def numbers(values: NDArray[Any]) -> pa.Array:
    """A numeric numpy array of shape (n,) as an Arrow array over the same memory."""
    import pyarrow as pa

    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def booleans(values: NDArray[np.bool_]) -> pa.Array:
    """A boolean numpy array of shape (n,) as an Arrow array."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(np.packbits(values, bitorder="little"))])


def texts(values: Sequence[str]) -> pa.Array:
    """Strings as an Arrow array; what UTF-8 cannot hold (lone surrogates) is replaced."""
    import pyarrow as pa

    encoded = [value.encode("utf-8", errors="replace") for value in values]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int32)
    np.cumsum([len(value) for value in encoded], out=offsets[1:])
    return pa.Array.from_buffers(
        pa.utf8(), len(encoded), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    )


def spelled(codes: NDArray[np.int32], values: Sequence[str]) -> pa.DictionaryArray:
    """Codes into a table of strings as a dictionary array that holds only the strings that are used, each once."""
    import pyarrow as pa

    # a recorder's table grows with the run, a block must not
    used = np.flatnonzero(np.bincount(codes, minlength=len(values))).tolist() if len(codes) else []
    table = list(dict.fromkeys(values[k] for k in used)) or [""]
    position = {value: k for k, value in enumerate(table)}
    recode = np.zeros(max(len(values), 1), dtype=np.int32)
    recode[used] = [position[values[k]] for k in used]
    return pa.DictionaryArray.from_arrays(numbers(recode[codes] if len(codes) else codes), texts(table))


def to_numpy(column: pa.ChunkedArray) -> NDArray[Any]:
    """A numeric or boolean column without nulls as a numpy array of shape (n,); one chunk of numbers is not copied."""
    import pyarrow as pa

    is_boolean = pa.types.is_boolean(column.type)
    named = {"bool": "uint8", "halffloat": "float16", "float": "float32", "double": "float64"}
    dtype = np.dtype(named.get(str(column.type), str(column.type)))
    parts = []
    for chunk in column.chunks:
        data = chunk.buffers()[1]
        if data is None or not len(chunk):
            continue
        if is_boolean:
            bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8), bitorder="little")
            parts.append(bits[chunk.offset : chunk.offset + len(chunk)].astype(np.bool_))
        else:
            parts.append(np.frombuffer(data, dtype=dtype, count=chunk.offset + len(chunk))[chunk.offset :])
    if not parts:
        return np.zeros(0, dtype=np.bool_ if is_boolean else dtype)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
