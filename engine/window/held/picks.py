"""Values of one event each: the first, the last, that where another value is least or largest.

A *pick* has a key, which is the event's time or that other value, and takes the event with the
smallest or largest one; of equal ones the earliest, or for the last the latest, by reference time,
then by release. Keys are integers in the order of their values, so floats compare like
integers. The result does not depend on the order in which cells are merged.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engine.kernels.jit import inline, kernel
from engine.kernels.records import NONE, Record, record
from engine.query.plan import Aggregate, Expression

PICKED: Final = record("value", "key", "sign", "tie")
"""Which arguments: of the value, and of the key (-1: the time). ``sign``: 1 the smallest key, -1
the largest; ``tie``: 1 the earliest of equal ones, -1 the latest."""
PICK: Final = record("there", "key", "value", "ref", "number")
"""Of one cell: whether it has a value; its key, its value (an integer, a float's bits or a text's
code), its event's time [ns] and number in order of release."""
FUNCTIONS: Final = {"first": (1, 1), "last": (-1, -1), "min_by": (1, 1), "max_by": (-1, 1)}
"""Sign and tie."""
_REST: Final = 2**63 - 1
"""All bits but the sign's."""
MINUS_ZERO: Final = -(2**63)
"""The bits of -0.0, which equals 0.0."""


def picked_of(aggregates: tuple[Aggregate, ...], place: dict[Expression, int]) -> np.ndarray:
    """PICKED of those aggregates that pick, in their order; ``place`` has their arguments'."""
    found = [
        (place[one.argument], NONE if one.by is None else place[one.by], *FUNCTIONS[one.function])
        for one in aggregates
        if one.function in FUNCTIONS and one.argument is not None
    ]
    return np.array(found, PICKED)


def widen_picks(picked: np.ndarray, picks: np.ndarray, m: int) -> None:
    """From now on argument ``m`` is a float (earlier ones were integers)."""
    for spec, mine in zip(picked, picks, strict=True):
        if spec["value"] == m:
            mine["value"] = mine["value"].astype(np.float64).view(np.int64)
        if spec["key"] == m:
            bits = (mine["key"].astype(np.float64) + 0.0).view(np.int64)
            mine["key"] = np.where(bits >= 0, bits, bits ^ _REST)


@inline
def _ordered(bits: int) -> int:
    """An integer that is in the order of the float with these bits; 0.0 and -0.0 are equal."""
    if bits >= 0:
        return bits
    return 0 if bits == MINUS_ZERO else bits ^ _REST


@inline
def _beats(spec: Record, key: int, ref: int, number: int, one: Record) -> bool:
    """Whether an event is to be picked in place of ``one``."""
    if key != one.key:
        return bool((key < one.key) == (spec.sign > 0))
    if ref != one.ref:
        return bool((ref < one.ref) == (spec.tie > 0))
    if number != one.number:
        return bool((number < one.number) == (spec.tie > 0))
    return bool(spec.tie < 0)


@kernel
def add_picks(
    row: np.ndarray, cell: np.ndarray, ints: np.ndarray, valid: np.ndarray, ref: np.ndarray,
    number: np.ndarray, of: np.ndarray, picked: np.ndarray, picks: np.ndarray,
) -> None:  # fmt: skip
    """Add ``row[j]`` to cell ``cell[j]``; ``number`` is empty if rows come in order of release."""
    for p in range(len(picked)):
        spec = picked[p]
        v, k = spec.value, spec.key
        for j in range(len(row)):
            i = row[j]
            if not valid[v, i] or (k >= 0 and not valid[k, i]):
                continue
            key = ref[i] if k < 0 else ints[k, i]
            if k >= 0 and of[k].is_float:
                key = _ordered(key)
            of_row = number[i] if len(number) > 0 else 0
            one = picks[p, cell[j]]
            if one.there == 0 or _beats(spec, key, ref[i], of_row, one):
                one.there, one.key, one.value = 1, key, ints[v, i]
                one.ref, one.number = ref[i], of_row


@kernel
def merge_picks(
    picked: np.ndarray, picks: np.ndarray, cell: int, into: np.ndarray, target: int
) -> None:
    """Add what ``cell`` picked to ``target``."""
    for p in range(len(picked)):
        more, one = picks[p, cell], into[p, target]
        if more.there and (
            one.there == 0 or _beats(picked[p], more.key, more.ref, more.number, one)
        ):
            one.there, one.key, one.value = 1, more.key, more.value
            one.ref, one.number = more.ref, more.number


@kernel
def best_pick(picked: np.ndarray, picks: np.ndarray, p: int, cells: np.ndarray) -> int:
    """Which of ``cells`` has the event of pick ``p``, or -1."""
    best = NONE
    for cell in cells:
        more = picks[p, cell]
        if more.there and (
            best == NONE or _beats(picked[p], more.key, more.ref, more.number, picks[p, best])
        ):
            best = cell
    return int(best)
