"""Sums that grow one value at a time, per cell: exact for integers, compensated for floats.

Integer sums are kept in two words (128 bits in effect), so they are exact. Float sums carry the
rounding error along (Neumaier 1974, "Rundungsfehleranalyse"), the deviation's moments follow
Welford 1962 and are joined by Chan, Golub & LeVeque 1979. All are strictly sequential per cell.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from engine.kernels.jit import inline, kernel
from engine.window.held.number import HALF_WORD, LOW_WORD

IS_FLOAT, MOMENTS, KEEPS_ALL = 0, 1, 2
"""Columns of ``Sums.of``: whether the attribute is a float (so far), whether its moments are
needed, and whether all of its values are."""
TOTAL, REST, SMALLEST, LARGEST = 0, 1, 2, 3
"""Columns of a cell's sums: sum and its rounding error, or high and low word; and the ends."""
MEAN, SQUARES = 4, 5
"""And of a summary: mean and sum of squared deviations, always floats."""
SUMMARY_SIZE: Final = 6


class Sums(NamedTuple):
    """Of ``m`` attributes and ``c`` cells. ``floats`` is ``ints`` seen as float64.

    ``of``: bool (m, 3). ``n``: int64 (m, c), values. ``ints``: int64 (m, c, 4). ``moments``:
    float64 (m, c, 3): count, mean and sum of squared deviations; c is 0 where nobody needs them.
    """

    of: np.ndarray
    n: np.ndarray
    ints: np.ndarray
    floats: np.ndarray
    moments: np.ndarray


class Values(NamedTuple):
    """Of ``m`` attributes and the batch's ``n`` rows. ``floats`` is ``ints`` seen as float64."""

    ints: np.ndarray
    floats: np.ndarray
    valid: np.ndarray


def new_sums(of: np.ndarray, cells: int) -> Sums:
    """Nothing in any of ``cells``."""
    m = len(of)
    ints = np.zeros((m, cells, 4), np.int64)
    moments = np.zeros((m, cells if of[:, MOMENTS].any() else 0, 3))
    return Sums(of, np.zeros((m, cells), np.int64), ints, ints.view(np.float64), moments)


def more_sums(sums: Sums, cells: int) -> Sums:
    """A copy with room for ``cells``."""
    made, before = new_sums(sums.of, cells), sums.n.shape[1]
    made.n[:, :before] = sums.n
    made.ints[:, :before] = sums.ints
    made.moments[:, : sums.moments.shape[1]] = sums.moments
    return made


def values_of(columns: list[tuple[np.ndarray, np.ndarray | None] | None], sums: Sums,
              rows: int) -> Values:  # fmt: skip
    """(values, which are valid) per attribute, None without any, as kernels read them. NaN is null.

    An attribute of integers that has floats now is a float from here on.
    """
    ints = np.zeros((len(columns), rows), np.int64)
    floats, valid = ints.view(np.float64), np.zeros((len(columns), rows), np.bool_)
    for m, found in enumerate(columns):
        if found is None:
            continue
        data, known = found
        if data.dtype.kind == "f" and not sums.of[m, IS_FLOAT]:
            widen(sums, m)
        valid[m] = True if known is None else known
        if sums.of[m, IS_FLOAT]:
            floats[m] = data
            valid[m] &= ~np.isnan(floats[m])
        else:
            ints[m] = data
    return Values(ints, floats, valid)


def widen(sums: Sums, m: int) -> None:
    """From now on attribute ``m`` is a float (earlier ones were integers)."""
    high, low = (sums.ints[m, :, column].astype(np.float64) for column in (TOTAL, REST))
    high *= float(1 << HALF_WORD)
    total = high + low
    back = total - high
    ends = sums.ints[m, :, SMALLEST:].astype(np.float64)
    sums.floats[m, :, REST] = (high - (total - back)) + (low - back)
    sums.floats[m, :, TOTAL] = total
    sums.floats[m, :, SMALLEST:] = ends
    sums.of[m, IS_FLOAT] = True


@kernel
def _add_ints(
    row: np.ndarray, cell: np.ndarray, values: np.ndarray, valid: np.ndarray, n: np.ndarray,
    sums: np.ndarray,
) -> None:  # fmt: skip
    for j in range(len(row)):
        if not valid[row[j]]:
            continue
        x, c = values[row[j]], cell[j]
        if n[c] == 0:
            sums[c, TOTAL] = x >> HALF_WORD
            sums[c, REST] = x & LOW_WORD
            sums[c, SMALLEST] = x
            sums[c, LARGEST] = x
        else:
            sums[c, TOTAL] += x >> HALF_WORD
            sums[c, REST] += x & LOW_WORD
            sums[c, SMALLEST] = min(sums[c, SMALLEST], x)
            sums[c, LARGEST] = max(sums[c, LARGEST], x)
        n[c] += 1


@kernel
def _add_floats(
    row: np.ndarray, cell: np.ndarray, values: np.ndarray, valid: np.ndarray, n: np.ndarray,
    sums: np.ndarray,
) -> None:  # fmt: skip
    for j in range(len(row)):
        if not valid[row[j]]:
            continue
        x, c = values[row[j]], cell[j]
        if n[c] == 0:
            sums[c, TOTAL] = x
            sums[c, REST] = 0.0
            sums[c, SMALLEST] = x
            sums[c, LARGEST] = x
        else:
            before = sums[c, TOTAL]
            after = before + x
            shifted = after - before
            sums[c, TOTAL] = after
            sums[c, REST] += (before - (after - shifted)) + (x - shifted)
            sums[c, SMALLEST] = min(sums[c, SMALLEST], x)
            sums[c, LARGEST] = max(sums[c, LARGEST], x)
        n[c] += 1


@kernel
def _add_moments(
    row: np.ndarray, cell: np.ndarray, values: Values, m: int, is_float: bool,
    moments: np.ndarray,
) -> None:  # fmt: skip
    for j in range(len(row)):
        i, c = row[j], cell[j]
        if not values.valid[m, i]:
            continue
        x = values.floats[m, i] if is_float else np.float64(values.ints[m, i])
        moments[c, 0] += 1.0
        delta = x - moments[c, 1]
        moments[c, 1] += delta / moments[c, 0]
        moments[c, 2] += delta * (x - moments[c, 1])


@kernel
def add_rows(row: np.ndarray, cell: np.ndarray, values: Values, sums: Sums) -> None:
    """Add the values of ``row[j]`` to cell ``cell[j]``, in order."""
    for m in range(len(sums.of)):
        is_float = sums.of[m, IS_FLOAT]
        if sums.of[m, MOMENTS]:
            _add_moments(row, cell, values, m, is_float, sums.moments[m])
        if is_float:
            _add_floats(row, cell, values.floats[m], values.valid[m], sums.n[m], sums.floats[m])
        else:
            _add_ints(row, cell, values.ints[m], values.valid[m], sums.n[m], sums.ints[m])


@kernel
def clear(sums: Sums, cell: int) -> None:
    """Nothing is in ``cell`` any more."""
    for m in range(len(sums.of)):
        sums.n[m, cell] = 0
        if sums.moments.shape[1] > 0:
            for part in range(3):
                sums.moments[m, cell, part] = 0.0


@inline
def merge_ints(sums: Sums, m: int, cells: np.ndarray, out: np.ndarray) -> int:
    """Sum up ``cells`` into ``out`` (``TOTAL`` ... ``LARGEST``); gives the number of values."""
    n = 0
    out[TOTAL] = 0
    out[REST] = 0
    for c in cells:
        if sums.n[m, c] == 0:
            continue
        one = sums.ints[m, c]
        out[TOTAL] += one[TOTAL]
        out[REST] += one[REST]
        out[SMALLEST] = one[SMALLEST] if n == 0 else min(out[SMALLEST], one[SMALLEST])
        out[LARGEST] = one[LARGEST] if n == 0 else max(out[LARGEST], one[LARGEST])
        n += sums.n[m, c]
    return n


@inline
def add_float(out: np.ndarray, x: float) -> None:
    """Add ``x`` to the sum in ``out``, with the rounding error."""
    before = out[TOTAL]
    after = before + x
    shifted = after - before
    out[TOTAL] = after
    out[REST] += (before - (after - shifted)) + (x - shifted)


@inline
def whole(out: np.ndarray) -> float:
    """A compensated sum; an infinity leaves no NaN as rounding error."""
    return float(out[TOTAL] + out[REST] if np.isfinite(out[REST]) else out[TOTAL])


@inline
def merge_floats(sums: Sums, m: int, cells: np.ndarray, out: np.ndarray) -> int:
    """As ``merge_ints``."""
    n = 0
    out[TOTAL] = 0.0
    out[REST] = 0.0
    for c in cells:
        if sums.n[m, c] == 0:
            continue
        one = sums.floats[m, c]
        add_float(out, one[TOTAL])
        out[REST] += one[REST]
        out[SMALLEST] = one[SMALLEST] if n == 0 else min(out[SMALLEST], one[SMALLEST])
        out[LARGEST] = one[LARGEST] if n == 0 else max(out[LARGEST], one[LARGEST])
        n += sums.n[m, c]
    return n


@kernel
def merge_moments(sums: Sums, m: int, cells: np.ndarray, out: np.ndarray) -> None:
    """Mean and sum of squared deviations of ``cells`` into ``out`` (``MEAN``, ``SQUARES``)."""
    count = 0.0
    out[MEAN] = 0.0
    out[SQUARES] = 0.0
    for c in cells:
        if sums.n[m, c] == 0:
            continue
        moments = sums.moments[m, c]
        delta = moments[1] - out[MEAN]
        both = count + moments[0]
        out[SQUARES] += moments[2] + delta * delta * count * moments[0] / both
        out[MEAN] += delta * moments[0] / both
        count = both
