"""HAVING: which results are shown.

What it says follows from a result's content alone, and a retraction repeats the content of what it
takes back, so both are shown or neither.
"""

from __future__ import annotations

import numpy as np

from engine.query.expression import mask
from engine.query.plan import WindowPlan
from engine.stream.frame import ATTR_PREFIX
from engine.stream.released import Strings
from engine.window.held.content import NUMBERS, VALUE
from engine.window.held.number import FLOAT, HALF_WORD, NULL, TEXT
from engine.window.told import Outbox

_INT_MAX = 1 << 31
"""Of the upper word, so that the whole fits into 64 bits."""


def holds(plan: WindowPlan, outbox: Outbox, strings: Strings) -> np.ndarray:
    """Which results of ``outbox``, in words, ``plan.having`` holds for: shape (tally,).

    ``plan`` has all aggregates that it names; ``strings``: what codes of texts mean.
    """
    n = int(outbox.tally[0])
    if plan.having is None:
        return np.ones(n, np.bool_)
    columns: dict[str, np.ndarray] = {}
    valid: dict[str, np.ndarray] = {}
    types: dict[str, str] = {}
    for a, one in enumerate(plan.aggregates):
        j = a * NUMBERS + VALUE
        kinds, words = outbox.kinds[:n, j], outbox.words[:n, j]
        valid[one.label] = kinds != NULL
        if (kinds == TEXT).any():
            columns[ATTR_PREFIX + one.label] = np.where(valid[one.label], words[:, 1], -1)
            types[one.label] = "str"
            continue
        columns[ATTR_PREFIX + one.label] = found = numbers(kinds, words)
        types[one.label] = "int" if found.dtype.kind == "i" else "float"
    return mask(plan.having, columns, valid.get, types, strings)


def numbers(kinds: np.ndarray, words: np.ndarray) -> np.ndarray:
    """A column of numbers: as integers where all are and fit into 64 bits, else as floats."""
    high, low = words[:, 0], words[:, 1]
    is_float = kinds == FLOAT
    if not is_float.any() and are_short(high).all():
        return np.asarray((high << HALF_WORD) | low)
    whole = high.astype(np.float64) * float(1 << HALF_WORD) + low
    return np.where(is_float, high.copy().view(np.float64), whole)


def are_short(high: np.ndarray) -> np.ndarray:
    """Which integers, by their upper words, fit into 64 bits."""
    return np.asarray((high >= -_INT_MAX) & (high < _INT_MAX))
