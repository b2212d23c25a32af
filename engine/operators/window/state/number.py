"""Numbers of results in columns: null, an integer of any size (two words), or a float's bits.

An integer is ``high * 2**32 + low`` with ``0 <= low < 2**32``. A number is one int8 ``kind`` and
one of ``words``. A text stands as its code: an integer of another kind.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from slackwater.engine.kernels.jit import inline, kernel

NULL, INT, FLOAT, TEXT = 0, 1, 2, 3
HALF_WORD: Final = 32
LOW_WORD: Final = 0xFFFFFFFF
WORDS: Final = np.dtype(
    {"names": ["high", "low", "real"], "formats": ["i8", "i8", "f8"], "offsets": [0, 8, 0]}
)
"""An integer's two words, or a float and a word that is 0."""
_INT_MAX: Final = 1 << 31
"""Of the upper word, so that the whole fits into 64 bits."""


@inline
def put_int(kinds: np.ndarray, words: np.ndarray, j: int, high: int, low: int) -> None:
    """Number ``j`` becomes high * 2**32 + low; ``low`` may be of any size."""
    kinds[j] = INT
    words[j].high = high + (low >> HALF_WORD)
    words[j].low = low & LOW_WORD


@inline
def put_text(kinds: np.ndarray, words: np.ndarray, j: int, code: int) -> None:
    """Number ``j`` becomes the text of ``code``."""
    kinds[j] = TEXT
    words[j].high, words[j].low = 0, code


@inline
def put_float(kinds: np.ndarray, words: np.ndarray, j: int, value: float) -> None:
    """Number ``j`` becomes ``value``; null if that lies beyond the floats' range."""
    if not np.isfinite(value):
        put_null(kinds, words, j)
        return
    kinds[j] = FLOAT
    words[j].real = value
    words[j].low = 0


@inline
def put_null(kinds: np.ndarray, words: np.ndarray, j: int) -> None:
    """Number ``j`` becomes null."""
    kinds[j] = NULL
    words[j].high = 0
    words[j].low = 0


@inline
def copy_number(kinds: np.ndarray, words: np.ndarray, j: int, k: int) -> None:
    """Number ``j`` becomes what number ``k`` is."""
    kinds[j] = kinds[k]
    words[j].high, words[j].low = words[k].high, words[k].low


@kernel
def as_float(kinds: np.ndarray, words: np.ndarray, j: int) -> float:
    """Number ``j``, which is not null, as a float."""
    if kinds[j] == FLOAT:
        return float(words[j].real)
    return np.float64(words[j].high) * 4294967296.0 + np.float64(words[j].low)


@kernel
def same_numbers(
    kinds: np.ndarray, words: np.ndarray, other_kinds: np.ndarray, other_words: np.ndarray
) -> bool:
    """Whether two rows of numbers are equal; 3 and 3.0 are."""
    for j in range(len(kinds)):
        if (kinds[j] == NULL) != (other_kinds[j] == NULL):
            return False
        if kinds[j] != other_kinds[j]:
            if kinds[j] == TEXT or other_kinds[j] == TEXT:
                return False
            if as_float(kinds, words, j) != as_float(other_kinds, other_words, j):
                return False
        elif words[j].high != other_words[j].high or words[j].low != other_words[j].low:
            return False
    return True


def are_short(high: np.ndarray) -> np.ndarray:
    """Which integers, by their upper words, fit into 64 bits."""
    return np.asarray((high >= -_INT_MAX) & (high < _INT_MAX))


def numbers(kinds: np.ndarray, words: np.ndarray) -> np.ndarray:
    """A column of numbers: as integers where all are and fit into 64 bits, else as floats."""
    high, low = words[:, 0], words[:, 1]
    if not (kinds == FLOAT).any() and are_short(high).all():
        return np.asarray((high << HALF_WORD) | low)
    return reals(kinds, words)


def reals(kinds: np.ndarray, words: np.ndarray) -> np.ndarray:
    """A column of numbers as floats."""
    high, low = words[:, 0], words[:, 1]
    whole = high.astype(np.float64) * float(1 << HALF_WORD) + low
    return np.where(kinds == FLOAT, high.copy().view(np.float64), whole)
