"""Conversion of a document of figures into what JSON can hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np


def to_json_safe(value: object) -> Any:
    """Return a copy with None for NaN and infinities, and Python's values for numpy's and dataclasses, at any depth.

    >>> to_json_safe({"cov": float("nan"), "n": np.int64(3), "t": np.array([1.5, np.inf]), "size": (1, 2)})
    {'cov': None, 'n': 3, 't': [1.5, None], 'size': [1, 2]}
    """
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None  # float: numpy.float64 is a float too
    if isinstance(value, Mapping):
        return {str(key): to_json_safe(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_safe(part) for part in value]
    if isinstance(value, np.ndarray | np.generic):
        return to_json_safe(value.tolist())
    if is_dataclass(value) and not isinstance(value, type):
        return to_json_safe(asdict(value))
    return value
