"""Numbers of windows' results as JSON texts by columns."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import ContractViolation
from engine.results.float_texts import float_texts
from engine.window.number import FLOAT, HALF_WORD, INT

_INT_MAX: Final = 1 << 31


def number_texts(kinds: np.ndarray, words: np.ndarray) -> pa.Array:
    """The JSON text of each number, row after row.

    Results repeat their numbers (LOW, MIDDLE, HIGH and bounds are mostly equal, and a retraction
    says all again), so each different one is written once.

    Args:
        kinds: int8 (n, numbers), as in ``engine.window.number``.
        words: int64 (n, numbers, 2).

    Raises:
        ContractViolation: a NaN or an infinity, which JSON does not have.
    """
    kind, high, low = kinds.reshape(-1), words[..., 0].reshape(-1), words[..., 1].reshape(-1)
    is_int, is_float = kind == INT, kind == FLOAT
    plain = is_int & (high >= -_INT_MAX) & (high < _INT_MAX)
    large = is_int & ~plain
    texts = [pa.array(["null"])]
    place = np.zeros(len(kind), np.int64)
    for chosen, say in ((plain, _plain), (is_float, _floats), (large, _large)):
        if chosen.any():
            told, which = say(high[chosen], low[chosen])
            place[chosen] = which.reshape(-1) + sum(map(len, texts))
            texts.append(told)
    return pa.concat_arrays(texts).take(pa.array(place))


def _plain(high: np.ndarray, low: np.ndarray) -> tuple[pa.Array, np.ndarray]:
    whole, which = np.unique((high << HALF_WORD) | low, return_inverse=True)
    return pc.cast(pa.array(whole), pa.string()), which


def _floats(bits: np.ndarray, _: np.ndarray) -> tuple[pa.Array, np.ndarray]:
    found, which = np.unique(bits, return_inverse=True)
    floats = found.view(np.float64)
    if not np.isfinite(floats).all():
        raise ContractViolation("a window's result holds a NaN or an infinity")
    return float_texts(floats), which


def _large(high: np.ndarray, low: np.ndarray) -> tuple[pa.Array, np.ndarray]:
    """Beyond int64, which is rare."""
    told = [str((a << HALF_WORD) + b) for a, b in zip(high.tolist(), low.tolist(), strict=True)]
    return pa.array(told, pa.string()), np.arange(len(told))
