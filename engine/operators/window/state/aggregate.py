"""The aggregate functions over the cells of a key: count sum avg min max stddev var quantile.

``engine.operators.window.state.accumulate`` has first last min_by max_by.

Nulls are skipped, as in SQL; without any value every function but ``count`` is null. ``stddev`` is
the deviation of the population (SQL's stddev_pop), ``var`` its square.
``quantile`` interpolates linearly between the two nearest ranks (Hyndman & Fan 1996, type 7).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from slackwater.engine.kernels.jit import inline, kernel, njit
from slackwater.engine.kernels.records import NONE
from slackwater.engine.operators.window.settings import PART_BITS
from slackwater.engine.operators.window.state import accumulate as picks
from slackwater.engine.operators.window.state.accumulate import (
    FLOAT,
    NULL,
    OF,
    TEXTS,
    UNTYPED,
    Summary,
    Sums,
    join_sums,
    put_float,
    put_int,
    put_null,
    total_of,
    whole,
)
from slackwater.engine.operators.window.state.cells import HEADER, Cells, Kept
from slackwater.engine.operators.window.uncertainty.bounds import ALL_ROWS
from slackwater.engine.query.plan import TAKES_TEXT, Expression, WindowPlan

COUNT, SUM, AVG, MIN, MAX, STDDEV, VAR, QUANTILE, DISTINCT, PICKS = range(10)
CODES: Final = {
    "count": COUNT, "sum": SUM, "avg": AVG, "min": MIN, "max": MAX, "stddev": STDDEV,
    "var": VAR, "quantile": QUANTILE, "median": QUANTILE, "count_distinct": DISTINCT,
    **dict.fromkeys(picks.FUNCTIONS, PICKS),
}  # fmt: skip
BOUNDED: Final = frozenset({"count", "sum", "avg", "min", "max"})
"""Functions with bounds."""
NEEDS_ALL_VALUES: Final = frozenset({"quantile", "median", "count_distinct"})
NEEDS_MOMENTS: Final = frozenset({"stddev", "var"})
_MIDDLE: Final = 0.5
"""The quantile of the median."""


class AggregateSpecs(NamedTuple):
    """The aggregates of a query.

    ``function``: code. ``attribute``: place of the argument, or ``ALL_ROWS``; for ``PICKS`` the
    place in ``Sums.picked``. ``parameter``: q of a quantile.
    """

    function: np.ndarray
    attribute: np.ndarray
    parameter: np.ndarray


def arguments_asked(plan: WindowPlan) -> tuple[dict[Expression, bool], np.ndarray, np.ndarray]:
    """Return the distinct arguments of aggregates with whether they may be text, and ``of`` and
    ``picked`` of ``Sums``.
    """
    functions: dict[Expression, set[str]] = {}
    for aggregate in plan.aggregates:
        if aggregate.argument is not None:
            functions.setdefault(aggregate.argument, set()).add(aggregate.function)
        if aggregate.by is not None:
            functions.setdefault(aggregate.by, set()).add("by")
    of = [
        (False, bool(used & NEEDS_MOMENTS), bool(used & NEEDS_ALL_VALUES), UNTYPED)
        for used in functions.values()
    ]
    may_be_text = {argument: used <= TAKES_TEXT for argument, used in functions.items()}
    place = {argument: m for m, argument in enumerate(functions)}
    return may_be_text, np.array(of, OF), picks.picked_of(plan.aggregates, place)


def asked_of(plan: WindowPlan, arguments: dict[Expression, bool]) -> AggregateSpecs:
    """Return the aggregates of ``plan``; ``arguments``: the first result of ``arguments_asked``."""
    place = {argument: m for m, argument in enumerate(arguments)}
    function = np.array([CODES[one.function] for one in plan.aggregates], np.int64)
    attribute = [
        ALL_ROWS if one.argument is None else place[one.argument] for one in plan.aggregates
    ]
    which = np.cumsum(function == PICKS) - 1
    return AggregateSpecs(
        function, np.where(function == PICKS, which, np.array(attribute, np.int64)),
        np.array([
            _MIDDLE if one.function == "median" else one.parameter or 0.0
            for one in plan.aggregates
        ]),
    )  # fmt: skip


class Scratch(NamedTuple):
    """Buffers for one key's cells and their summary, reused so that kernels do not allocate.

    ``cells``, ``parts``: one place per part.
    """

    cells: np.ndarray
    parts: np.ndarray
    sum: Summary


@inline
def cells_with(cells: Cells, leader: int, bits: int, scratch: Scratch) -> int:
    """Write a key's cells whose part has one of ``bits`` to ``scratch``; return their number.

    The cells are sorted by part, so that sums do not depend on arrival. A header has no cells.
    """
    found, part = scratch.cells, scratch.parts
    n, cell = 0, NONE if cells.tag[leader] == HEADER else leader
    while cell != NONE:
        mine = cells.tag[cell] & ((1 << PART_BITS) - 1)
        if mine & bits:
            j = n
            while j > 0 and part[j - 1] > mine:
                found[j] = found[j - 1]
                part[j] = part[j - 1]
                j -= 1
            found[j] = cell
            part[j] = mine
            n += 1
        cell = cells.down[cell]
    return n


@inline
def rows_in(cells: Cells, chosen: np.ndarray) -> int:
    """Return the number of rows in the ``chosen`` cells."""
    n = 0
    for cell in chosen:
        n += cells.rows[cell]
    return n


@inline
def summarise(sums: Sums, m: int, chosen: np.ndarray, out: Summary) -> int:
    """Sum up attribute ``m`` of the ``chosen`` cells into ``out``; return the number of values."""
    n, ints, floats = 0, out.ints[0], out.floats[0]
    ints.high, ints.low, floats.total, floats.rest = 0, 0, 0.0, 0.0
    for cell in chosen:
        if sums.n[m, cell] > 0:
            join_sums(sums, m, cell, ints, floats, n == 0)
            n += sums.n[m, cell]
    return n


@inline
def put_total(kinds: np.ndarray, words: np.ndarray, j: int, is_float: bool, of: Summary) -> None:
    """Set number ``j`` to the sum in a summary."""
    if is_float:
        put_float(kinds, words, j, whole(of.floats[0]))
    else:
        put_int(kinds, words, j, of.ints[0].high, of.ints[0].low)


@inline
def put_value(
    kinds: np.ndarray, words: np.ndarray, j: int, is_float: bool, one: int, other: float
) -> None:
    """Set number ``j`` to the value ``other`` if ``is_float``, else to ``one``."""
    if is_float:
        put_float(kinds, words, j, other)
    else:
        put_int(kinds, words, j, 0, one)


@inline
def put_aggregate(
    aggregates: AggregateSpecs, a: int, cells: Cells, sums: Sums, kept: Kept, leader: int,
    bits: int, chosen: np.ndarray, scratch: Scratch, kinds: np.ndarray, words: np.ndarray, j: int,
) -> None:  # fmt: skip
    """Set number ``j`` to aggregate ``a`` of the ``chosen`` cells, those with ``bits``."""
    m, function = aggregates.attribute[a], aggregates.function[a]
    if function == PICKS:
        _put_pick(sums, m, chosen, kinds, words, j)
        return
    if m == ALL_ROWS:
        put_int(kinds, words, j, 0, rows_in(cells, chosen))
        return
    ints, floats = scratch.sum.ints[0], scratch.sum.floats[0]
    n = summarise(sums, m, chosen, scratch.sum)
    is_float = sums.of[m].is_float
    if function == COUNT:
        put_int(kinds, words, j, 0, n)
    elif function == DISTINCT:
        put_int(kinds, words, j, 0, _distinct(kept, cells, leader, bits, m, n, is_float))
    elif n == 0:
        put_null(kinds, words, j)
    elif function == SUM:
        put_total(kinds, words, j, is_float, scratch.sum)
    elif function == AVG:
        put_float(kinds, words, j, total_of(scratch.sum, is_float) / n)
    elif function == MIN:
        put_value(kinds, words, j, is_float, ints.smallest, floats.smallest)
    elif function == MAX:
        put_value(kinds, words, j, is_float, ints.largest, floats.largest)
    elif function in (STDDEV, VAR):
        moments = scratch.sum.moments[0]
        moments.count, moments.mean, moments.squares = 0.0, 0.0, 0.0
        for cell in chosen:
            if sums.n[m, cell] > 0:
                picks.join_moments(moments, sums.moments[m, cell], is_float)
        variance = max(0.0, moments.squares) / n
        put_float(kinds, words, j, np.sqrt(variance) if function == STDDEV else variance)
    else:
        q = aggregates.parameter[a]
        put_float(kinds, words, j, _quantile(kept, cells, leader, bits, m, n, is_float, q))


@kernel
def _put_pick(
    sums: Sums, p: int, chosen: np.ndarray, kinds: np.ndarray, words: np.ndarray, j: int
) -> None:
    spec, best = sums.picked[p], NONE
    for cell in chosen:
        more = sums.picks[p, cell]
        if more.there and (
            best == NONE or picks.beats(spec, more.key, more.ref, more.number, sums.picks[p, best])
        ):
            best = cell
    if best == NONE:
        put_null(kinds, words, j)
        return
    value, of = sums.picks[p, best].value, sums.of[spec.value]
    if of.typed == TEXTS:
        kinds[j] = picks.TEXT
        words[j].high, words[j].low = 0, value
    elif of.is_float:
        words[j].high, words[j].low = value, 0
        kinds[j] = FLOAT if np.isfinite(words[j].real) else NULL
    else:
        put_int(kinds, words, j, 0, value)


@kernel
def _gather(kept: Kept, cells: Cells, leader: int, bits: int, m: int, found: np.ndarray) -> int:
    """Write the values of attribute ``m`` of a key's records whose part has one of ``bits``.

    Return their number.
    """
    n, place = 0, cells.first[leader]
    while place != NONE:
        if kept.part[place] & bits and kept.valid[place, m]:
            found[n] = kept.ints[place, m]
            n += 1
        place = kept.next[place]
    return n


@njit
def _distinct(
    kept: Kept, cells: Cells, leader: int, bits: int, m: int, values: int, is_float: bool
) -> int:
    """Return the number of distinct values: codes, integers, or floats by their bits.

    ``values``: the number of values.
    """
    found = np.empty(values, np.int64)
    n = _gather(kept, cells, leader, bits, m, found)
    for k in range(n):
        if is_float and found[k] == picks.MINUS_ZERO:
            found[k] = 0
    found = np.sort(found[:n])
    different = 0
    for k in range(n):
        different += k == 0 or found[k] != found[k - 1]
    return different


@njit
def _quantile(
    kept: Kept, cells: Cells, leader: int, bits: int, m: int, values: int, is_float: bool, q: float
) -> float:
    """Return the quantile ``q``; ``values``: the number of values."""
    found = np.empty(values, np.int64)
    found = found[: _gather(kept, cells, leader, bits, m, found)]
    numbers = found.view(np.float64) if is_float else found.astype(np.float64)
    return interpolated(np.sort(numbers), q) if len(numbers) > 0 else np.nan


@kernel
def interpolated(values: np.ndarray, q: float) -> float:
    """Return the quantile ``q`` of sorted values; there is at least one."""
    n = len(values)
    rank = (n - 1) * q
    below = min(int(np.floor(rank)), n - 1)
    above, share = min(below + 1, n - 1), rank - below
    step = values[above] - values[below]
    if step == 0.0:
        return float(values[below])
    # Interpolate from the nearer value, which loses less precision.
    if share < 0.5:
        return float(values[below] + step * share)
    return float(values[above] - step * (1.0 - share))
