"""Incremental sums per cell: exact for integers, compensated for floats.

An integer sum has two words (128 bits in effect), so it is exact. A float sum carries the rounding
error along (Neumaier 1974, "Rundungsfehleranalyse"). The moments of the deviation follow Welford
1962 and are merged by Chan, Golub & LeVeque 1979. They use values minus the first value, so the
rounding error is small compared with the deviations, even for large values. All sums are strictly
sequential per cell.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import NONE, Record, record
from slackwater.engine.query.plan import Aggregate, Expression

# Numbers of results in columns: null, an integer of any size (two words), or the bits of a float.
#
# An integer is ``high * 2**32 + low`` with ``0 <= low < 2**32``. A number has one int8 ``kind`` and
# one record of ``words``. A text is stored as its code: an integer of kind TEXT.


NULL, INT, FLOAT, TEXT = 0, 1, 2, 3
HALF_WORD: Final = 32
LOW_WORD: Final = 0xFFFFFFFF
WORDS: Final = np.dtype(
    {"names": ["high", "low", "real"], "formats": ["i8", "i8", "f8"], "offsets": [0, 8, 0]}
)
"""The two words of an integer, or a float and a word that is 0."""
_INT_MAX: Final = 1 << 31
"""Limit of the upper word of an integer that fits into 64 bits."""


@inline
def put_int(kinds: np.ndarray, words: np.ndarray, j: int, high: int, low: int) -> None:
    """Set number ``j`` to high * 2**32 + low; ``low`` may be any int64."""
    kinds[j] = INT
    words[j].high = high + (low >> HALF_WORD)
    words[j].low = low & LOW_WORD


@inline
def put_float(kinds: np.ndarray, words: np.ndarray, j: int, value: float) -> None:
    """Set number ``j`` to ``value``; null if that is not finite."""
    if not np.isfinite(value):
        put_null(kinds, words, j)
        return
    kinds[j] = FLOAT
    words[j].real = value
    words[j].low = 0


@inline
def put_null(kinds: np.ndarray, words: np.ndarray, j: int) -> None:
    """Set number ``j`` to null."""
    kinds[j] = NULL
    words[j].high = 0
    words[j].low = 0


@inline
def copy_number(kinds: np.ndarray, words: np.ndarray, j: int, k: int) -> None:
    """Copy number ``k`` to number ``j``."""
    kinds[j] = kinds[k]
    words[j].high, words[j].low = words[k].high, words[k].low


@kernel
def as_float(kinds: np.ndarray, words: np.ndarray, j: int) -> float:
    """Return number ``j``, which is not null, as a float."""
    if kinds[j] == FLOAT:
        return float(words[j].real)
    return np.float64(words[j].high) * 4294967296.0 + np.float64(words[j].low)


@kernel
def same_numbers(
    kinds: np.ndarray, words: np.ndarray, other_kinds: np.ndarray, other_words: np.ndarray
) -> bool:
    """Return whether two rows of numbers are equal; 3 equals 3.0."""
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
    """Return which integers, given by their upper words, fit into 64 bits."""
    return np.asarray((high >= -_INT_MAX) & (high < _INT_MAX))


def numbers(kinds: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Return a column of numbers: int64 if all are integers of 64 bits, else float64."""
    high, low = words[:, 0], words[:, 1]
    if not (kinds == FLOAT).any() and are_short(high).all():
        return np.asarray((high << HALF_WORD) | low)
    return reals(kinds, words)


def reals(kinds: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Return a column of numbers as float64."""
    high, low = words[:, 0], words[:, 1]
    whole = high.astype(np.float64) * float(1 << HALF_WORD) + low
    return np.where(kinds == FLOAT, high.copy().view(np.float64), whole)


# Aggregates that return the value of one event: first, last, min_by, max_by.
#
# A *pick* has a key, the event time or another value, and selects the event with the smallest or
# largest key. Of equal keys it selects the earliest event, for ``last`` the latest one, by
# reference time, then by release order. Keys are integers in the order of their values, so floats
# compare like integers. The result does not depend on the order in which cells are merged.


PICKED: Final = record("value", "key", "sign", "tie")
"""A picking aggregate: places of the arguments for the value and the key (-1: event time).

``sign``: 1: the smallest key, -1: the largest. ``tie``: 1: the earliest of equal ones, -1: the
latest.
"""
PICK: Final = record("there", "key", "value", "ref", "number")
"""The pick of a cell: whether there is one; its key; its value (an integer, the bits of a float or
the code of a text); the event's time [ns] and number in release order."""
FUNCTIONS: Final = {"first": (1, 1), "last": (-1, -1), "min_by": (1, 1), "max_by": (-1, 1)}
"""``sign`` and ``tie`` of the picking functions."""
_REST: Final = 2**63 - 1
"""All bits except the sign."""
MINUS_ZERO: Final = -(2**63)
"""The bits of -0.0, which equals 0.0."""


def picked_of(aggregates: tuple[Aggregate, ...], place: dict[Expression, int]) -> np.ndarray:
    """Return PICKED of the picking aggregates, in order; ``place``: places of the arguments."""
    found = [
        (place[one.argument], NONE if one.by is None else place[one.by], *FUNCTIONS[one.function])
        for one in aggregates
        if one.function in FUNCTIONS and one.argument is not None
    ]
    return np.array(found, PICKED)


def widen_picks(picked: np.ndarray, picks: np.ndarray, m: int) -> None:
    """Convert argument ``m`` from integer to float."""
    for spec, mine in zip(picked, picks, strict=True):
        if spec["value"] == m:
            mine["value"] = mine["value"].astype(np.float64).view(np.int64)
        if spec["key"] == m:
            bits = (mine["key"].astype(np.float64) + 0.0).view(np.int64)
            mine["key"] = np.where(bits >= 0, bits, bits ^ _REST)


@inline
def _ordered(bits: int) -> int:
    """Return an integer that sorts like the float with these bits; 0.0 equals -0.0."""
    if bits >= 0:
        return bits
    return 0 if bits == MINUS_ZERO else bits ^ _REST


@inline
def beats(spec: Record, key: int, ref: int, number: int, one: Record) -> bool:
    """Return whether an event replaces the pick ``one``."""
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
    """Add ``row[j]`` to cell ``cell[j]``; ``number`` is empty if rows are in release order."""
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
            if one.there == 0 or beats(spec, key, ref[i], of_row, one):
                one.there, one.key, one.value = 1, key, ints[v, i]
                one.ref, one.number = ref[i], of_row


@kernel
def merge_picks(
    picked: np.ndarray, picks: np.ndarray, cell: int, into: np.ndarray, target: int
) -> None:
    """Merge the picks of ``cell`` into ``target``."""
    for p in range(len(picked)):
        more, one = picks[p, cell], into[p, target]
        if more.there and (
            one.there == 0 or beats(picked[p], more.key, more.ref, more.number, one)
        ):
            one.there, one.key, one.value = 1, more.key, more.value
            one.ref, one.number = more.ref, more.number


OF: Final = np.dtype([("is_float", "?"), ("moments", "?"), ("keeps_all", "?"), ("typed", "i1")])
"""An attribute: whether it is a float so far, whether its moments are needed, whether all of its
values are needed; ``typed``: ``UNTYPED`` so far, ``NUMBERS_ALONE``, or ``TEXTS`` as codes."""
UNTYPED, NUMBERS_ALONE, TEXTS = 0, 1, 2
INTS: Final = record("high", "low", "smallest", "largest")
"""Sum of integers in two words, and minimum and maximum."""
FLOATS: Final = np.dtype([("total", "f8"), ("rest", "f8"), ("smallest", "f8"), ("largest", "f8")])
"""Sum of floats and its rounding error, and minimum and maximum."""
MOMENTS: Final = np.dtype(
    [("count", "f8"), ("base", "i8"), ("shift", "f8"), ("mean", "f8"), ("squares", "f8")]
)
"""``base``, ``shift``: the first value as integer and as float; ``mean``: mean of all values minus
the first; ``squares``: sum of squared deviations."""


TWO_32: Final = 4294967296.0
_HALF_OF_ALL: Final = 2.0**62
"""The difference of integers closer than this fits into an int64."""


class Sums(NamedTuple):
    """Sums of ``m`` attributes in ``c`` cells.

    ``of``: OF (m,). ``n``: int64 (m, c), number of values. ``ints``: INTS (m, c). ``floats``: the
    memory of ``ints`` as FLOATS. ``moments``: MOMENTS (m, c), or (m, 0) if not needed. ``picked``:
    PICKED (p,). ``picks``: PICK (p, c). ``read``: (1,) number of rows so far.
    """

    of: np.ndarray
    n: np.ndarray
    ints: np.ndarray
    floats: np.ndarray
    moments: np.ndarray
    picked: np.ndarray
    picks: np.ndarray
    read: np.ndarray


class Summary(NamedTuple):
    """Sums of one key, one record of each kind: INTS or FLOATS, and MOMENTS."""

    ints: np.ndarray
    floats: np.ndarray
    moments: np.ndarray


def new_summary() -> Summary:
    """Return an empty summary."""
    return Summary(np.zeros(1, INTS), np.zeros(1, FLOATS), np.zeros(1, MOMENTS))


class RowValues(NamedTuple):
    """Values of ``m`` attributes in the ``n`` rows of a batch; ``floats``: memory of ``ints``.

    ``ref``: event times of the rows [ns]. ``number``: numbers in release order; empty if no
    aggregate picks.
    """

    ints: np.ndarray
    floats: np.ndarray
    valid: np.ndarray
    ref: np.ndarray
    number: np.ndarray


def no_values(attributes: int) -> RowValues:
    """Return the values of zero rows."""
    ints, none = np.zeros((attributes, 0), np.int64), np.empty(0, np.int64)
    return RowValues(ints, ints.view(np.float64), np.zeros(ints.shape, np.bool_), none, none)


def new_sums(of: np.ndarray, picked: np.ndarray, cells: int) -> Sums:
    """Return empty sums for ``cells`` cells; ``of``: OF, ``picked``: PICKED."""
    m = len(of)
    ints = np.zeros((m, cells), INTS)
    moments = np.zeros((m, cells if of["moments"].any() else 0), MOMENTS)
    return Sums(
        of, np.zeros((m, cells), np.int64), ints, ints.view(FLOATS), moments, picked,
        np.zeros((len(picked), cells), PICK), np.zeros(1, np.int64),
    )  # fmt: skip


def more_sums(sums: Sums, cells: int) -> Sums:
    """Return a copy with room for ``cells`` cells."""
    made, before = new_sums(sums.of, sums.picked, cells), sums.n.shape[1]
    made.n[:, :before] = sums.n
    made.read[:] = sums.read
    for name in ("ints", "moments", "picks"):
        new, old = getattr(made, name), getattr(sums, name)
        words = old.view(np.int64)  # NumPy copies int64 faster than records
        new.view(np.int64)[:, : words.shape[1]] = words
    return made


def values_of(columns: list[tuple[np.ndarray, np.ndarray | None] | None], sums: Sums,
              ref: np.ndarray) -> RowValues:  # fmt: skip
    """Convert columns to the form that kernels read; NaN becomes null.

    An integer attribute with a float value becomes a float attribute.

    Args:
        columns: per attribute (values, valid mask or None); None: the attribute has no values.
        sums: the sums that the values will be added to.
        ref: event times of the rows [ns].
    """
    rows = len(ref)
    ints = np.zeros((len(columns), rows), np.int64)
    floats, valid = ints.view(np.float64), np.zeros((len(columns), rows), np.bool_)
    for m, found in enumerate(columns):
        if found is None:
            continue
        data, known = found
        if data.dtype.kind == "f" and not sums.of[m]["is_float"]:
            widen(sums, m)
        valid[m] = True if known is None else known
        if sums.of[m]["is_float"]:
            floats[m] = data
            valid[m] &= ~np.isnan(floats[m])
        else:
            ints[m] = data
    number = np.empty(0, np.int64)
    if len(sums.picked):
        number = np.arange(sums.read[0], sums.read[0] + rows)
        sums.read[0] += rows
    return RowValues(ints, floats, valid, ref, number)


def widen(sums: Sums, m: int) -> None:
    """Convert attribute ``m`` from integer to float."""
    ints, floats = sums.ints[m], sums.floats[m]
    high, low = ints["high"].astype(np.float64), ints["low"].astype(np.float64)
    high *= float(1 << HALF_WORD)
    total = high + low
    back = total - high
    for name in ("smallest", "largest"):
        floats[name] = ints[name].astype(np.float64)
    floats["rest"] = (high - (total - back)) + (low - back)
    floats["total"] = total
    sums.of["is_float"][m] = True
    if sums.of["moments"][m]:
        moments = sums.moments[m]
        near = np.abs(moments["shift"]) < 2.0 * _HALF_OF_ALL
        moments["mean"][near] += moments["base"][near] - moments["shift"][near].astype(np.int64)
    widen_picks(sums.picked, sums.picks, m)


@kernel
def _add_values(
    row: np.ndarray, cell: np.ndarray, values: RowValues, m: int, is_float: bool, sums: Sums
) -> None:
    n, of_ints, of_floats = sums.n[m], sums.ints[m], sums.floats[m]
    valid, ints, floats = values.valid[m], values.ints[m], values.floats[m]
    for j in range(len(row)):
        i, c = row[j], cell[j]
        if not valid[i]:
            continue
        first = n[c] == 0
        n[c] += 1
        if is_float:
            real, real_sum = floats[i], of_floats[c]
            if first:
                real_sum.total, real_sum.rest = real, 0.0
                real_sum.smallest, real_sum.largest = real, real
            else:
                add_float(real_sum, real)
                real_sum.smallest = min(real_sum.smallest, real)
                real_sum.largest = max(real_sum.largest, real)
        else:
            x, one = ints[i], of_ints[c]
            one.high = (0 if first else one.high) + (x >> HALF_WORD)
            one.low = (0 if first else one.low) + (x & LOW_WORD)
            one.smallest = x if first else min(one.smallest, x)
            one.largest = x if first else max(one.largest, x)


@inline
def _apart(is_float: bool, whole: int, real: float, base: int, shift: float) -> float:
    """Return the difference of two values, each given as integer and as float.

    Nearby integers are subtracted as integers, so the difference is exact.
    """
    apart = real - shift
    if is_float or abs(apart) > _HALF_OF_ALL:
        return apart
    return float(np.float64(whole - base))


@inline
def join_moments(one: Record, more: Record, is_float: bool) -> None:
    """Merge the MOMENTS ``more`` into ``one``."""
    if one.count == 0.0:
        one.count, one.base, one.shift = more.count, more.base, more.shift
        one.mean, one.squares = more.mean, more.squares
        return
    delta = _apart(is_float, more.base, more.shift, one.base, one.shift) + (more.mean - one.mean)
    both = one.count + more.count
    one.squares += more.squares + delta * delta * one.count * more.count / both
    one.mean += delta * more.count / both
    one.count = both


@kernel
def _add_moments(
    row: np.ndarray, cell: np.ndarray, values: RowValues, m: int, is_float: bool,
    moments: np.ndarray,
) -> None:  # fmt: skip
    for j in range(len(row)):
        i = row[j]
        if not values.valid[m, i]:
            continue
        whole = values.ints[m, i]
        x = values.floats[m, i] if is_float else np.float64(whole)
        one = moments[cell[j]]
        if one.count == 0.0:
            one.base, one.shift = whole, x
        x = _apart(is_float, whole, x, one.base, one.shift)
        one.count += 1.0
        delta = x - one.mean
        one.mean += delta / one.count
        one.squares += delta * (x - one.mean)


@kernel
def add_rows(row: np.ndarray, cell: np.ndarray, values: RowValues, sums: Sums) -> None:
    """Add the values of ``row[j]`` to cell ``cell[j]``, in order."""
    for m in range(len(sums.of)):
        is_float = sums.of[m].is_float
        if sums.of[m].moments:
            _add_moments(row, cell, values, m, is_float, sums.moments[m])
        _add_values(row, cell, values, m, is_float, sums)
    if len(sums.picked) > 0:
        add_picks(
            row, cell, values.ints, values.valid, values.ref, values.number, sums.of, sums.picked,
            sums.picks,
        )  # fmt: skip


@kernel
def clear(sums: Sums, cell: int) -> None:
    """Clear the sums of ``cell``."""
    for m in range(len(sums.of)):
        sums.n[m, cell] = 0
        if sums.moments.shape[1] > 0:
            one = sums.moments[m, cell]
            one.count, one.mean, one.squares = 0.0, 0.0, 0.0
    for p in range(len(sums.picked)):
        sums.picks[p, cell].there = 0


@inline
def add_float(out: Record, x: float) -> None:
    """Add ``x`` and the rounding error to the FLOATS ``out``."""
    before = out.total
    after = before + x
    shifted = after - before
    out.total = after
    out.rest += (before - (after - shifted)) + (x - shifted)


@inline
def whole(out: Record) -> float:
    """Return a compensated sum; infinite sums ignore the rounding error, which is NaN."""
    return float(out.total + out.rest if np.isfinite(out.rest) else out.total)


@inline
def join_sums(sums: Sums, m: int, cell: int, ints: Record, floats: Record, first: bool) -> None:
    """Add the sum of attribute ``m`` in ``cell``, which has values, to ``ints`` or ``floats``.

    ``first``: whether these are empty.
    """
    if sums.of[m].is_float:
        real = sums.floats[m, cell]
        if first:
            floats.total, floats.rest = 0.0, 0.0
            floats.smallest, floats.largest = real.smallest, real.largest
        add_float(floats, real.total)
        floats.rest += real.rest
        floats.smallest = min(floats.smallest, real.smallest)
        floats.largest = max(floats.largest, real.largest)
    else:
        one = sums.ints[m, cell]
        if first:
            ints.high, ints.low = 0, 0
            ints.smallest, ints.largest = one.smallest, one.largest
        ints.high += one.high
        ints.low += one.low
        ints.smallest = min(ints.smallest, one.smallest)
        ints.largest = max(ints.largest, one.largest)


@inline
def total_of(of: Summary, is_float: bool) -> float:
    """Return the sum in a summary as a float."""
    if is_float:
        return whole(of.floats[0])
    return float(np.float64(of.ints[0].high) * TWO_32 + np.float64(of.ints[0].low))
