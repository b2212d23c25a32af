"""Turns what scenarios hand over into what JSON has."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np
from msgspec import Struct, structs


def plain(value: Any) -> Any:
    """``value`` with dicts, lists, texts, numbers, bools and None only.

    NumPy values become Python's, a number that is not finite becomes None, other objects texts.
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Struct):
        return plain(structs.asdict(value))
    return str(value)


def as_json(value: Any, indent: int | None = None) -> str:
    """Plain data as JSON text.

    Raises:
        ValueError: a number is not finite.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
