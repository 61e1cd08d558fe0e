"""Turn a document of figures into what JSON can hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np


def to_json_safe(value: Any) -> Any:
    """The value with NaN and infinities as None and numpy's scalars and arrays as Python's, at any depth.

    >>> to_json_safe({"cov": float("nan"), "n": np.int64(3), "t": np.array([1.5, np.inf]), "size": (1, 2)})
    {'cov': None, 'n': 3, 't': [1.5, None], 'size': [1, 2]}
    """
    if isinstance(value, Mapping):
        return {str(key): to_json_safe(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_safe(part) for part in value]
    if isinstance(value, np.ndarray | np.generic):
        return to_json_safe(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if is_dataclass(value) and not isinstance(value, type):
        return to_json_safe(asdict(value))
    return value
