"""The result of a window for one key: aggregates of the three drift windows, counts, bounds.

Numbers of aggregate ``a`` are at ``a * NUMBERS``: ``VALUE LOW_ONE MIDDLE_ONE HIGH_ONE LEAST MOST``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from slackwater.engine.kernels.jit import inline, kernel, njit
from slackwater.engine.kernels.records import NONE, Record, record
from slackwater.engine.operators.window.settings import (
    AMBIGUOUS,
    CERTAIN,
    HIGH,
    LOW,
    MIDDLE,
    PART_BITS,
    WHOLE,
)
from slackwater.engine.operators.window.state.accumulate import (
    NULL,
    WORDS,
    Summary,
    Sums,
    as_float,
    copy_number,
    new_summary,
    put_float,
    put_int,
    put_null,
)
from slackwater.engine.operators.window.state.aggregate import (
    AVG,
    COUNT,
    MAX,
    MIN,
    SUM,
    AggregateSpecs,
    Scratch,
    cells_with,
    put_aggregate,
    put_total,
    put_value,
    rows_in,
    summarise,
)
from slackwater.engine.operators.window.state.cells import HEADER, Cells, Kept, count, gather
from slackwater.engine.operators.window.uncertainty import bounds as b
from slackwater.engine.operators.window.uncertainty.bounds import Runs, find_runs, new_runs

VALUE, LOW_ONE, MIDDLE_ONE, HIGH_ONE, LEAST, MOST = 0, 1, 2, 3, 4, 5
NUMBERS: Final = 6
STAGE_LOW, STAGE_MIDDLE, STAGE_LAST = 0, 1, 2
"""The results of a window; with ``DRIFT EACH`` there are all three."""
PLAIN, EACH, TOGETHER = 0, 1, 2
"""Uses of the drift windows (``engine.query.plan.Drift``)."""
COUNTS: Final = record("certain", "ambiguous", "missing", "clocks")
"""Counts of a window and key: certain rows, ambiguous rows, events known to be missing that may
belong to the window; and the worst status of the rows' clocks."""
UNKNOWN: Final = -1
"""A count that is not known yet."""
_FEW: Final = 16
"""Number of ambiguous events with preallocated buffers; more need an allocation each time."""


class WindowStore(NamedTuple):
    """Content of windows, and the aggregates of the query; ``mode``: ``PLAIN EACH TOGETHER``."""

    aggregates: AggregateSpecs
    mode: int
    cells: Cells
    sums: Sums
    kept: Kept


class Room(NamedTuple):
    """Buffers for bounds; ``runs`` and ``choice`` limit the number of events."""

    runs: Runs
    choice: b.RunChoice
    total: Summary


class Content(NamedTuple):
    """One result: ``kinds`` and ``words`` hold the numbers, ``counts`` one COUNTS.

    ``scratch`` and ``room`` are buffers for the computation.
    """

    kinds: np.ndarray
    words: np.ndarray
    counts: np.ndarray
    scratch: Scratch
    room: Room


def new_content(aggregates: int) -> Content:
    """Return an empty result with its buffers."""
    n, parts = aggregates * NUMBERS, 1 << PART_BITS
    scratch = Scratch(np.zeros(parts, np.int64), np.zeros(parts, np.int64), new_summary())
    room = Room(new_runs(_FEW), b.new_choice(_FEW), new_summary())
    return Content(np.zeros(n, np.int8), np.zeros(n, WORDS), np.zeros(1, COUNTS), scratch, room)


EVERY_PASS: Final = ("refuted_from", "refuted_to", "earliest", "taken")
"""Fields of the state of every pass.

``refuted_from``, ``refuted_to``: range of times in which clock bounds did not hold [ns].
``earliest``: no event is before this time by the bounds of its clock [ns]. ``taken``: number of
rows in earlier batches.
"""


@inline
def has_result(store: WindowStore, leader: int, stage: int) -> bool:
    """Return whether ``stage`` has a result for the key: an event is or may be in the window.

    In mode ``PLAIN``, events in LOW or HIGH only do not count.
    """
    makes, cell = LOW | MIDDLE | HIGH | CERTAIN | AMBIGUOUS, leader
    if stage != STAGE_LAST:
        makes = LOW if stage == STAGE_LOW else LOW | MIDDLE
    elif store.mode == PLAIN:
        makes = MIDDLE | CERTAIN | AMBIGUOUS
    while cell != NONE:
        if store.cells.tag[cell] & makes:
            return True
        cell = store.cells.down[cell]
    return False


@inline
def read_content(
    store: WindowStore, leader: int, stage: int, missing: int, span: tuple[int, int], out: Content
) -> bool:
    """Write the result of ``stage`` for a key to ``out``; return False if there is none.

    Args:
        store: the windows.
        leader: the leader of the key; a header: a window without known events.
        stage: ``STAGE_LOW`` ``STAGE_MIDDLE`` ``STAGE_LAST``.
        missing: number of missing events that may belong to the window.
        span: start and end of the window [ns].
        out: overwritten.
    """
    if store.cells.tag[leader] != HEADER and not has_result(store, leader, stage):
        return False
    for a in range(len(store.aggregates.function)):
        for j in range(NUMBERS):
            put_null(out.kinds, out.words, a * NUMBERS + j)
    last = stage == STAGE_LAST
    cell, alike, out.counts[0].clocks = leader, last, 0
    while cell != NONE:
        out.counts[0].clocks = max(out.counts[0].clocks, store.cells.clocks[cell])
        # ``alike``: no event of the key is near an edge, so the three windows are equal.
        tag = store.cells.tag[cell]
        alike = alike and (tag == HEADER or tag & WHOLE == WHOLE)
        cell = store.cells.down[cell]
    # A single call site, as each inlined one takes seconds to compile. Place LEAST has the bit
    # CERTAIN: these are the bounds if nothing is ambiguous, else they are overwritten.
    for place in range(LOW_ONE, LEAST + 1):
        if last or place == LOW_ONE + stage:
            bit = 1 << (place - LOW_ONE)
            chosen = out.scratch.cells[: cells_with(store.cells, leader, bit, out.scratch)]
            for a in range(len(store.aggregates.function)):
                at = a * NUMBERS
                if place == LEAST and store.aggregates.function[a] > MAX:
                    continue
                if alike and place > LOW_ONE:
                    copy_number(out.kinds, out.words, at + place, at + LOW_ONE)
                else:
                    put_aggregate(
                        store.aggregates, a, store.cells, store.sums, store.kept, leader, bit,
                        chosen, out.scratch, out.kinds, out.words, at + place,
                    )  # fmt: skip
            if place == LEAST:
                out.counts[0].certain = rows_in(store.cells, chosen)
                _bounds(store, leader, chosen, span, out)
    if last:
        out.counts[0].missing = missing
    else:
        counts = out.counts[0]
        counts.certain, counts.ambiguous, counts.missing = UNKNOWN, UNKNOWN, UNKNOWN
    _values(store, stage, out)
    return True


@inline
def without_bounds(store: WindowStore, out: Content) -> None:
    """Mark the result in ``out`` as uncertain and drop its bounds.

    It may lack events or hold events of others.
    """
    counts = out.counts[0]
    counts.ambiguous, counts.certain = max(counts.ambiguous + counts.certain, 1), 0
    for a in range(len(store.aggregates.function)):
        for j in range(LEAST, MOST + 1):
            put_null(out.kinds, out.words, a * NUMBERS + j)


@inline
def put_extent(store: WindowStore, out: Content, start: int, end: int) -> None:
    """Write the window's start and end [ns] after the numbers of the aggregates."""
    at = len(store.aggregates.function) * NUMBERS
    put_int(out.kinds, out.words, at + VALUE, 0, start)
    put_int(out.kinds, out.words, at + LOW_ONE, 0, end)


@inline
def is_refuted(st: Record, start: int, end: int) -> bool:
    """Return whether refuted clock bounds affect [``start``, ``end``] [ns]."""
    low, high = st.refuted_from, st.refuted_to
    return bool(low < high and start < high and end >= low)


@inline
def _values(store: WindowStore, stage: int, out: Content) -> None:
    """Set ``VALUE``: that of MIDDLE, of the window that closes (EACH), or the mean (TOGETHER)."""
    for a in range(len(store.aggregates.function)):
        at = a * NUMBERS
        if store.mode == TOGETHER:
            n, total, rest, last, equal = 0, 0.0, 0.0, 0.0, True
            for j in range(at + LOW_ONE, at + HIGH_ONE + 1):
                if out.kinds[j] == NULL:
                    continue
                x = as_float(out.kinds, out.words, j)
                equal = equal and (n == 0 or x == last)
                after = total + x
                shifted = after - total
                rest += (total - (after - shifted)) + (x - shifted)
                total, last = after, x
                n += 1
            if n > 0:  # equal values: avoids rounding of x + x + x
                put_float(out.kinds, out.words, at, last if equal else (total + rest) / n)
        elif store.mode == EACH:
            copy_number(out.kinds, out.words, at, at + LOW_ONE + stage)
        else:
            copy_number(out.kinds, out.words, at, at + MIDDLE_ONE)


@inline
def _bounds(
    store: WindowStore, leader: int, sure: np.ndarray, span: tuple[int, int], out: Content
) -> None:
    """Count ambiguous events and set the bounds; ``LEAST`` holds the certain part on entry."""
    doubtful = count(store.kept, store.cells, leader, AMBIGUOUS)
    out.counts[0].ambiguous = doubtful
    if doubtful > _FEW:
        _bounds_of_many(store, leader, sure, span, doubtful, out)
    elif doubtful > 0:
        _bounds_in_doubt(store, leader, sure, span, out.room, out)
    else:
        for a in range(len(store.aggregates.function)):
            copy_number(out.kinds, out.words, a * NUMBERS + MOST, a * NUMBERS + LEAST)


@njit
def _bounds_of_many(
    store: WindowStore,
    leader: int,
    sure: np.ndarray,
    span: tuple[int, int],
    events: int,
    out: Content,
) -> None:
    room = Room(new_runs(events), b.new_choice(events), out.room.total)
    _bounds_in_doubt(store, leader, sure, span, room, out)


@kernel
def _bounds_in_doubt(
    store: WindowStore,
    leader: int,
    sure: np.ndarray,
    span: tuple[int, int],
    room: Room,
    out: Content,
) -> None:
    runs, choice = room.runs, room.choice
    runs.size[0].events = gather(store.kept, store.cells, leader, AMBIGUOUS, runs.event)
    start, end = span
    find_runs(store.kept, start, end, runs)
    for a in range(len(store.aggregates.function)):
        if store.aggregates.function[a] > MAX:
            continue
        m = store.aggregates.attribute[a]
        is_float = m != b.ALL_ROWS and store.sums.of[m].is_float
        b.read_choice(store.kept, runs, m, is_float, choice)
        n = 0
        if m == b.ALL_ROWS:
            n = rows_in(store.cells, sure)
        else:
            n = summarise(store.sums, m, sure, out.scratch.sum)
        for j in range(LEAST, MOST + 1):
            put_null(out.kinds, out.words, a * NUMBERS + j)
            sign = 1 if j == LEAST else -1
            _bound(store.aggregates.function[a], is_float, n, room, sign, out, a * NUMBERS + j)


@kernel
def _bound(
    function: int, is_float: bool, n: int, room: Room, sign: int, out: Content, j: int
) -> None:
    """Set number ``j`` to the least (``sign`` 1) or largest (-1) aggregate of ``room``.

    ``n``: number of values that are certainly inside; ``out.scratch.sum`` is their summary.
    """
    runs, choice, sure = room.runs, room.choice, out.scratch.sum
    if function == COUNT:
        put_int(out.kinds, out.words, j, 0, n + b.choose(runs, choice, 0.0, -1.0 * sign, False))
    elif function == SUM:
        if b.choose(runs, choice, 1.0 * sign, 0.0, n == 0) >= 0:
            b.add_chosen(runs, choice, is_float, sure, room.total)
            put_total(out.kinds, out.words, j, is_float, room.total)
    elif function == AVG:
        least = b.bound_avg(runs, choice, sign, is_float, n, sure, room.total)
        if not np.isnan(least):
            put_float(out.kinds, out.words, j, least)
    else:
        which, last = 1 if function == MIN else -1, runs.size[0].events
        ints, floats = sure.ints[0], sure.floats[0]
        if is_float:
            choice.floats[last] = floats.smallest if which > 0 else floats.largest
        else:
            choice.ints[last] = ints.smallest if which > 0 else ints.largest
        if sign == which:
            found = b.nearest_end(runs, choice, which, is_float, n > 0)
        else:
            found = b.farthest_end(runs, choice, which, is_float, n > 0)
        if found >= 0:
            put_value(out.kinds, out.words, j, is_float, choice.ints[found], choice.floats[found])
