"""Numbers of windows' results as columns of one type, or as JSON texts where they have several."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import ContractViolation
from engine.results.lines.float_texts import float_texts
from engine.window.held.number import FLOAT, HALF_WORD, INT, NULL

_INT_MAX: Final = 1 << 31
"""Of the upper word, so that the whole fits into 64 bits."""


def number_column(kinds: np.ndarray, words: np.ndarray) -> pa.Array | None:
    """The numbers as int64, float64 or (when there are none) nulls; None: in no single type.

    Args:
        kinds: int8 (n,), as in ``engine.window.held.number``.
        words: int64 (n, 2).

    Raises:
        ContractViolation: a NaN or an infinity, which JSON does not have.
    """
    absent = kinds == NULL
    some = bool(absent.any())
    if some and absent.all():
        return pa.nulls(len(kinds))
    is_float = bool((kinds == FLOAT).any())
    if is_float and bool((kinds == INT).any()):
        return None
    if is_float:
        return pa.array(_finite(words[:, 0].copy().view(np.float64)), mask=absent if some else None)
    if not _is_plain(words[:, 0]).all():
        return None
    return pa.array(_whole(words[:, 0], words[:, 1]), mask=absent if some else None)


def number_texts(kinds: np.ndarray, words: np.ndarray) -> pa.Array:
    """The JSON text of each number, of whatever types; arguments as of ``number_column``.

    Raises:
        ContractViolation: a NaN or an infinity.
    """
    high, low = words[:, 0], words[:, 1]
    is_int, is_float = kinds == INT, kinds == FLOAT
    plain = is_int & _is_plain(high)
    place = np.zeros(len(kinds), np.int64)
    texts = [pa.array(["null"])]
    for chosen, told in (
        (plain, pc.cast(pa.array(_whole(high[plain], low[plain])), pa.string())),
        (is_float, float_texts(_finite(high[is_float].copy().view(np.float64)))),
        (is_int & ~plain, _large(words[is_int & ~plain])),
    ):
        place[chosen] = np.arange(len(told)) + sum(map(len, texts))
        texts.append(told)
    return pa.concat_arrays(texts).take(pa.array(place))


def _is_plain(high: np.ndarray) -> np.ndarray:
    return (high >= -_INT_MAX) & (high < _INT_MAX)


def _whole(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    return np.asarray((high << HALF_WORD) | low)


def _finite(values: np.ndarray) -> np.ndarray:
    if not np.isfinite(values).all():
        raise ContractViolation("a window's result holds a NaN or an infinity")
    return values


def _large(words: np.ndarray) -> pa.Array:
    """Beyond int64, which is rare."""
    return pa.array([str((high << HALF_WORD) + low) for high, low in words.tolist()], pa.string())
