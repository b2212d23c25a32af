"""HAVING: which results are shown.

What it says follows from a result's content alone, and a retraction repeats the content of what it
takes back, so both are shown or neither.
"""

from __future__ import annotations

import numpy as np

from engine.query.expression import mask
from engine.query.plan import Predicate, WindowPlan
from engine.stream.frame import ATTR_PREFIX
from engine.stream.released import Strings
from engine.window.held.content import NUMBERS, VALUE
from engine.window.held.number import FLOAT, HALF_WORD, INT, NULL, TEXT
from engine.window.told import Outbox

_INT_MAX = 1 << 31
"""Of the upper word, so that the whole fits into 64 bits."""


def holds(plan: WindowPlan, outbox: Outbox, strings: Strings) -> np.ndarray:
    """Which results of ``outbox``, in words, ``plan.having`` holds for: shape (tally,).

    ``plan`` has all aggregates that it names; ``strings``: what codes of texts mean.
    """
    n = int(outbox.tally[0])
    held = np.ones(n, np.bool_)
    if plan.having is not None:
        values = np.arange(len(plan.aggregates)) * NUMBERS + VALUE
        kinds, words = outbox.kinds[:n, values], outbox.words[:n, values]
        for rows in of_same_kinds(kinds, words):
            held[rows] = _holds(plan, plan.having, kinds[rows], words[rows], strings)
    return held


def _holds(
    plan: WindowPlan, having: Predicate, kinds: np.ndarray, words: np.ndarray, strings: Strings
) -> np.ndarray:
    """As ``holds``, of one number of each aggregate: kinds (n, m) and words (n, m, 2)."""
    columns: dict[str, np.ndarray] = {}
    valid: dict[str, np.ndarray] = {}
    types: dict[str, str] = {}
    for a, one in enumerate(plan.aggregates):
        kind, word = kinds[:, a], words[:, a]
        valid[one.label] = kind != NULL
        if (kind == TEXT).any():
            columns[ATTR_PREFIX + one.label] = np.where(valid[one.label], word[:, 1], -1)
            types[one.label] = "str"
            continue
        columns[ATTR_PREFIX + one.label] = found = numbers(kind, word)
        types[one.label] = "int" if found.dtype.kind == "i" else "float"
    return mask(having, columns, valid.get, types, strings)


def numbers(kinds: np.ndarray, words: np.ndarray) -> np.ndarray:
    """A column of numbers: as integers where all are and fit into 64 bits, else as floats."""
    high, low = words[:, 0], words[:, 1]
    is_float = kinds == FLOAT
    if not is_float.any() and _are_short(high).all():
        return np.asarray((high << HALF_WORD) | low)
    whole = high.astype(np.float64) * float(1 << HALF_WORD) + low
    return np.where(is_float, high.copy().view(np.float64), whole)


def of_same_kinds(kinds: np.ndarray, words: np.ndarray) -> list[slice | np.ndarray]:
    """All rows, by whether each of their numbers is a whole one: a column that has fractions, too,
    is one of fractions, and what follows of a row must not hang on which others leave with it.
    """
    whole = (kinds == INT) & _are_short(words[..., 0])
    rest = (kinds == FLOAT) | ((kinds == INT) & ~whole)
    mixed = whole.any(axis=0) & rest.any(axis=0)
    if not mixed.any():
        return [slice(None)]
    which = np.unique(rest[:, mixed], axis=0, return_inverse=True)[1].reshape(-1)
    return [np.flatnonzero(which == one) for one in range(int(which.max()) + 1)]


def _are_short(high: np.ndarray) -> np.ndarray:
    """Which integers, by their upper words, fit into 64 bits."""
    return np.asarray((high >= -_INT_MAX) & (high < _INT_MAX))
