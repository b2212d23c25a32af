"""Completeness: the numbers known to be missing, and the windows that they may belong to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from slackwater.engine.core.released import Gaps
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import NONE
from slackwater.engine.operators.window.settings import Geometry, windows_touched
from slackwater.engine.operators.window.state.cells import HEADER, Cells, find, find_or_add

# Gaps in numbers, sorted for two searches: the gap that an event fills, and the missing events that
# may be in a span of time.
#
# By number: the gaps of a source and stream, with the largest end of the earlier ones, which ends
# the search when gaps overlap. By time: a gap may be in a span unless it begins after or ends
# before it, and no gap does both; so two prefix sums suffice. They are binary indexed trees
# (Fenwick, 1994), as gaps become known and are filled during a pass.
#
# A late event splits the gap that it fills: smaller numbers are before it in time, larger ones
# after it. The later part has a place prepared before the pass and sorted by the event's time, so
# the trees are not sorted again.


class GapTable(NamedTuple):
    """Gaps in the order in which they become known, then a place for each late row of the batch
    (``late_row``). ``left``: events still missing.

    ``high``: the later neighbour's time [ns]; ``first``, ``last``: windows touched, or times.
    Derived by ``gap_table``: ``age``: number of gaps known before it; ``by_number``: gaps by
    source, stream, incarnation and first number; ``reach``: in that order, the largest end of
    numbers so far in the incarnation; ``firsts`` and ``lasts``: sorted, with each gap's place and
    sums of missing events; ``by_last``: gaps in order of ``lasts``.
    """

    source: np.ndarray
    stream: np.ndarray
    incarnation: np.ndarray
    first_seq: np.ndarray
    events: np.ndarray
    high: np.ndarray
    first: np.ndarray
    last: np.ndarray
    left: np.ndarray
    age: np.ndarray
    by_number: np.ndarray
    reach: np.ndarray
    firsts: np.ndarray
    first_place: np.ndarray
    first_sums: np.ndarray
    lasts: np.ndarray
    by_last: np.ndarray
    last_place: np.ndarray
    last_sums: np.ndarray
    late_row: np.ndarray


COLUMNS: Final = GapTable._fields[: GapTable._fields.index("age")]
"""The columns of a snapshot."""
_NO_LATE: Final = np.empty(0, np.int64)


def gap_table(
    columns: Sequence[np.ndarray], known: int, late_row: np.ndarray = _NO_LATE
) -> GapTable:
    """Return the table of gaps ``columns`` (int64, ``COLUMNS``); the first ``known`` are known."""
    source, stream, incarnation, first_seq, events, _, first, last, left = columns
    by_number = np.lexsort((first_seq, incarnation, stream, source))
    weight = left.copy()
    weight[known:] = 0
    by_first, by_last = np.argsort(first, kind="stable"), np.argsort(last, kind="stable")
    made = [
        np.arange(len(left)), by_number,
        _reach((source, stream, incarnation), first_seq + events, by_number),
        first[by_first], _places(by_first), _sums(weight[by_first]),
        last[by_last], by_last, _places(by_last), _sums(weight[by_last]), late_row,
    ]  # fmt: skip
    return GapTable(*columns, *made)


def _reach(of: Sequence[np.ndarray], end: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return the largest ``end`` so far, in ``order``, among gaps with equal values in ``of``."""
    end, begins = end[order], np.zeros(len(order), np.bool_)
    for column in of:
        begins |= np.diff(column[order], prepend=column[order][:1]) != 0
    ends, rank = np.unique(end, return_inverse=True)
    group = np.cumsum(begins) * len(ends)
    return np.asarray(ends[np.maximum.accumulate(group + rank.reshape(-1)) - group])


def _places(order: np.ndarray) -> np.ndarray:
    """Return the inverse of the permutation ``order``."""
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return places


def _sums(weight: np.ndarray) -> np.ndarray:
    """Return a binary indexed tree: at i >= 1 the sum of the last n weights, n being i's lowest
    bit.
    """
    so_far, i = np.concatenate(([0], np.cumsum(weight))), np.arange(len(weight) + 1)
    return np.asarray(so_far - so_far[i & (i - 1)])


@inline
def _sum(sums: np.ndarray, n: int) -> int:
    """Return the sum of the first ``n`` weights."""
    total = 0
    while n > 0:
        total += sums[n]
        n &= n - 1
    return total


@inline
def _add(sums: np.ndarray, place: int, change: int) -> None:
    i = place + 1
    while i < len(sums):
        sums[i] += change
        i += i & -i


@inline
def _change(gaps: GapTable, j: int, change: int) -> None:
    _add(gaps.first_sums, gaps.first_place[j], change)
    _add(gaps.last_sums, gaps.last_place[j], change)


@kernel
def become_known(gaps: GapTable, j: int) -> None:
    """Count gap ``j`` in ``missing_between`` from now on."""
    _change(gaps, j, gaps.left[j])


@kernel
def missing_between(gaps: GapTable, known: int, start: int, end: int) -> int:
    """Return the missing events of the first ``known`` gaps that may be strictly between ``start``
    and ``end`` (at least ``start``); both in the unit of ``first`` and ``last``.
    """
    begun = int(np.searchsorted(gaps.firsts, end))
    ended = int(np.searchsorted(gaps.lasts, start + 1))
    n = _sum(gaps.first_sums, begun) - _sum(gaps.last_sums, ended)
    if start == end:  # a gap without extent at this place is subtracted, but not added
        while ended > 0 and gaps.lasts[ended - 1] == start:
            ended -= 1
            j = gaps.by_last[ended]
            if gaps.age[j] < known and gaps.first[j] == start:
                n += gaps.left[j]
    return n


@kernel
def filled_by(gaps: GapTable, known: int, row: int) -> tuple[int, int]:
    """Return the newest of the ``known`` gaps that a late ``row`` fills, or -1; and the row's
    place.
    """
    late = np.searchsorted(gaps.late_row, row)
    part = int(len(gaps.left) - len(gaps.late_row) + late)
    if late == len(gaps.late_row) or gaps.late_row[late] != row:
        return int(NONE), part
    source, stream, seq = gaps.source[part], gaps.stream[part], gaps.first_seq[part] - 1
    incarnation = gaps.incarnation[part]
    low, high = 0, len(gaps.by_number)
    while low < high:
        middle = (low + high) >> 1
        j = gaps.by_number[middle]
        mine = (gaps.source[j], gaps.stream[j], gaps.incarnation[j], gaps.first_seq[j])
        if mine <= (source, stream, incarnation, seq):
            low = middle + 1
        else:
            high = middle
    newest, age = int(NONE), -1
    while low > 0 and gaps.reach[low - 1] > seq:
        low -= 1
        j = gaps.by_number[low]
        if (gaps.source[j], gaps.stream[j], gaps.incarnation[j]) != (source, stream, incarnation):
            break
        fills = seq < gaps.first_seq[j] + gaps.events[j] and gaps.left[j] > 0
        if fills and age < gaps.age[j] < known:
            newest, age = j, gaps.age[j]
    return int(newest), part


@kernel
def split_gap(gaps: GapTable, j: int, part: int) -> int:
    """Split gap ``j`` by the late row of place ``part``, which fills it.

    Returns:
        ``part`` if it is a gap now: the numbers after the row. A row that is not between the gap's
        neighbours in time, as a clock was set, does not split it.
    """
    rest, end = gaps.left[j] - 1, gaps.first_seq[j] + gaps.events[j]
    if not (gaps.first[j] <= gaps.first[part] and gaps.last[part] <= gaps.last[j]):
        gaps.left[j] = rest
        _change(gaps, j, -1)
        return int(NONE)
    _change(gaps, j, -gaps.left[j])
    gaps.events[part], gaps.age[part] = end - gaps.first_seq[part], gaps.age[j]
    gaps.events[j] = gaps.first_seq[part] - 1 - gaps.first_seq[j]
    gaps.left[part], gaps.left[j] = min(gaps.events[part], rest), min(gaps.events[j], rest)
    gaps.last[j], gaps.last[part] = gaps.last[part], gaps.last[j]
    gaps.high[j], gaps.high[part] = gaps.high[part], gaps.high[j]
    gaps.last_place[j], gaps.last_place[part] = gaps.last_place[part], gaps.last_place[j]
    gaps.by_last[gaps.last_place[j]], gaps.by_last[gaps.last_place[part]] = j, part
    _change(gaps, j, gaps.left[j])
    _change(gaps, part, gaps.left[part])
    return part


# Completeness: the numbers known to be missing, and the windows that they may belong to.
#
# Source: SPEC 4.4. A gap's events are between their neighbours' times, so they may belong to every
# window that this range touches. Each such window counts them in its header; it gets a header if it
# has none, as it may have had events. A late event splits the gap that it fills. A change in a
# closed window makes it *stale*.


WINDOWS_MAX: Final = 4096
"""A gap over more windows does not create results of windows without events: a clock that jumps by
a year would create millions. Windows with events count it."""
ROWS_MAX: Final = 1 << 18
"""With more open or correctable windows a new gap creates no results either: windows of ns with
clock errors of ms would fill the memory."""


@inline
def gives_rows(cells: Cells, gaps: GapTable, j: int) -> bool:
    """Return whether gap ``j`` creates results of windows without events."""
    few = gaps.last[j] - gaps.first[j] < WINDOWS_MAX
    return bool(few and cells.tally[0].headers < ROWS_MAX)


@inline
def header_of(cells: Cells, window: int, gaps: GapTable, known: int, no_key: np.ndarray) -> int:
    """Return the window's header, created if there is none; -1: no cell is free."""
    headers = cells.tally[0].headers
    header = find_or_add(cells, window, HEADER, no_key, 0)
    if cells.tally[0].headers != headers:
        cells.missing[header] = missing_between(gaps, known, window - 1, window + 1)
    return header


@inline
def _count(cells: Cells, header: int, change: int, closed: int) -> None:
    cells.missing[header] += change
    if cells.window[header] <= closed:
        cells.stale[header] = 1


@kernel
def _spread(
    cells: Cells, gaps: GapTable, j: int, change: int, closed: int, no_key: np.ndarray
) -> None:
    """Change the count of missing events in the windows of gap ``j`` that have a header."""
    first, last = gaps.first[j], gaps.last[j]
    if last - first < WINDOWS_MAX:
        for window in range(first, last + 1):
            header = find(cells, window, HEADER, no_key, 0)
            if header != NONE:
                _count(cells, header, change, closed)
        return
    for place in range(cells.tally[0].headers):
        header = cells.headers[place]
        if first <= cells.window[header] <= last:
            _count(cells, header, change, closed)


@inline
def count_gap(
    cells: Cells, gaps: GapTable, j: int, closed: int, over: int, no_key: np.ndarray
) -> tuple[int, int]:
    """Count gap ``j``, which becomes known, in its windows.

    Args:
        cells: the windows.
        gaps: with gap ``j``; all earlier ones are known.
        j: see ``gaps``.
        closed: the largest closed window.
        over: the largest window that is dropped already.
        no_key: the key of a header: one row of zeros.

    Returns:
        the number of windows refused as no cell is free, and 1 if the gap creates no results.
    """
    refused, too_wide = 0, 0
    if gives_rows(cells, gaps, j):
        for window in range(max(gaps.first[j], over + 1), gaps.last[j] + 1):
            refused += header_of(cells, window, gaps, j, no_key) == NONE
    else:
        too_wide = 1
    _spread(cells, gaps, j, gaps.left[j], closed, no_key)
    become_known(gaps, j)
    return refused, too_wide


@inline
def fill_gap(
    cells: Cells, gaps: GapTable, known: int, row: int, closed: int, no_key: np.ndarray
) -> None:
    """Split the gap that the late ``row`` fills, and update the counts of that gap's windows."""
    j, part = filled_by(gaps, known, row)
    if j != NONE:
        _spread(cells, gaps, j, -gaps.left[j], closed, no_key)
        behind = split_gap(gaps, j, part)
        for each in (j, behind):
            if each != NONE:
                _spread(cells, gaps, each, gaps.left[each], closed, no_key)


class LateRows(NamedTuple):
    """The late rows of a batch, which arrive after they were declared missing: int64 columns: the
    ``row``, its identity, and bounds of its time [ns].
    """

    row: np.ndarray
    source: np.ndarray
    stream: np.ndarray
    incarnation: np.ndarray
    seq: np.ndarray
    low: np.ndarray
    high: np.ndarray


NO_LATE_ROWS: Final = LateRows(*[_NO_LATE] * 7)


class Missing:
    """The gaps that windows may still count."""

    def __init__(self) -> None:
        self._keep([np.empty(0, np.int64) for _ in COLUMNS])

    def _keep(
        self, columns: Sequence[np.ndarray], known: int | None = None,
        late_row: np.ndarray = _NO_LATE,
    ) -> None:  # fmt: skip
        """Store the columns; ``known``: how many gaps are known, None: all."""
        known = len(columns[0]) if known is None else known
        self.table = gap_table(columns, known, late_row)

    @property
    def _columns(self) -> tuple[np.ndarray, ...]:
        return self.table[: len(COLUMNS)]

    def take(
        self, gaps: Gaps, geometry: Geometry, late: LateRows = NO_LATE_ROWS
    ) -> tuple[np.ndarray, np.ndarray]:
        """Add ``gaps``, and places for the rows that may fill gaps.

        Returns:
            the row and the steps before which each gap becomes known.
        """
        known = len(self.table.left)
        if not known + len(gaps.row):
            late = NO_LATE_ROWS
        if len(gaps.row) + len(late.row):
            nobody = np.zeros(len(late.row), np.int64)
            first, last = windows_touched(geometry, gaps.low, gaps.high)
            early, until = windows_touched(geometry, late.low, late.high)
            more = (
                (gaps.source, late.source), (gaps.stream, late.stream),
                (gaps.incarnation, late.incarnation), (gaps.first_seq, late.seq + 1),
                (gaps.count, nobody), (gaps.high, late.high), (first, early), (last, until),
                (gaps.count, nobody),
            )  # fmt: skip
            columns = [
                np.concatenate((old, *(new.astype(np.int64) for new in news)))
                for old, news in zip(self._columns, more, strict=True)
            ]
            self._keep(columns, known, late.row)
        return gaps.row.astype(np.int64), gaps.steps.astype(np.int64)

    def forget(self, before: int) -> None:
        """Drop gaps that end before ``before`` or are filled; a batch is over."""
        useful = (self.table.high >= before) & (self.table.left > 0)
        if len(self.table.late_row) or not useful.all():
            order = np.argsort(self.table.age, kind="stable")
            order = order[useful[order]]
            self._keep([column[order] for column in self._columns])

    def merge(self, before: int, most: int) -> None:
        """Merge neighbouring gaps in pairs if more than ``most`` end before ``before``. A late
        event does not fill a merged gap.
        """
        old = np.flatnonzero(self.table.high < before)
        if len(old) <= most:
            return
        t = self.table
        keys = (t.first_seq, t.incarnation, t.stream, t.source, t.high)
        old = old[np.lexsort([key[old] for key in keys])]
        one, other = old[: len(old) // 2 * 2].reshape(-1, 2).T
        self.table.first[one] = np.minimum(self.table.first[one], self.table.first[other])
        self.table.last[one] = np.maximum(self.table.last[one], self.table.last[other])
        self.table.left[one] += self.table.left[other]
        self.table.high[one] = self.table.high[other]
        self.table.events[one] = 0
        stays = np.ones(len(self.table.left), bool)
        stays[other] = False
        self._keep([column[stays] for column in self._columns])

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {name: getattr(self.table, name).copy() for name in COLUMNS}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        self._keep([state[name].copy() for name in COLUMNS])
