"""Completeness: which numbers are known to be missing, and which windows they could belong to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from slackwater.engine.core.released import Gaps
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import NONE
from slackwater.engine.operators.window.settings import Geometry, windows_touched
from slackwater.engine.operators.window.state.cells import HEADER, Cells, find, find_or_add

# Gaps in numbers as kernels search them: which of them an event fills, how much may lie in a span.
#
# Late events and emitted windows search many gaps, one per loss within reach, hence sorted columns.
# By number: the gaps of a source and stream, and how far those before reach, which ends the search
# where gaps overlap. By time: a gap may lie in a span unless it begins behind or ends before it,
# which no gap does both; so two prefix sums tell, kept in binary indexed trees (Fenwick, 1994), as
# gaps become known and are filled while a pass runs.
#
# A late event parts the gap that it fills: the numbers below its own lie before it in time, those
# above behind it. The part behind it takes a place that was made for it before the pass, where its
# own time is sorted in already; so the trees need no sorting again.


class GapTable(NamedTuple):
    """Gaps in the order in which they became known, and behind them a place for each late row of
    the batch (``late_row``). ``left``: events still missing.

    ``high``: the later neighbour's time [ns]; ``first``, ``last``: windows touched, or times. The
    rest is made of these (``gap_table``): ``age``: so many gaps were known before it;
    ``by_number``: gaps by source, stream, incarnation and first number; ``reach``: of each in that
    order, the largest end of numbers up to it in its incarnation; ``firsts`` and ``lasts``: sorted,
    each gap's place there, and sums of what is left; ``by_last``: gaps in the order of ``lasts``.
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
"""Those that a snapshot has."""
_NO_LATE: Final = np.empty(0, np.int64)


def gap_table(
    columns: Sequence[np.ndarray], known: int, late_row: np.ndarray = _NO_LATE
) -> GapTable:
    """The gaps ``columns`` (int64, of ``COLUMNS``), of which the first ``known`` are known."""
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
    """The largest ``end`` so far, in ``order``, of what is alike in ``of``."""
    end, begins = end[order], np.zeros(len(order), np.bool_)
    for column in of:
        begins |= np.diff(column[order], prepend=column[order][:1]) != 0
    ends, rank = np.unique(end, return_inverse=True)
    group = np.cumsum(begins) * len(ends)
    return np.asarray(ends[np.maximum.accumulate(group + rank.reshape(-1)) - group])


def _places(order: np.ndarray) -> np.ndarray:
    """Where in ``order`` each stands."""
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return places


def _sums(weight: np.ndarray) -> np.ndarray:
    """A binary indexed tree: at i from 1 on, the sum of as many up to it as i's lowest bit says."""
    so_far, i = np.concatenate(([0], np.cumsum(weight))), np.arange(len(weight) + 1)
    return np.asarray(so_far - so_far[i & (i - 1)])


@inline
def _sum(sums: np.ndarray, n: int) -> int:
    """Of the first ``n``."""
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
    """From here on gap ``j`` counts in ``missing_between``."""
    _change(gaps, j, gaps.left[j])


@kernel
def missing_between(gaps: GapTable, known: int, start: int, end: int) -> int:
    """Events missing, by the first ``known`` gaps, that may lie strictly between ``start`` and
    ``end``, which is not before it; both in the measure of ``first`` and ``last``.
    """
    begun = int(np.searchsorted(gaps.firsts, end))
    ended = int(np.searchsorted(gaps.lasts, start + 1))
    n = _sum(gaps.first_sums, begun) - _sum(gaps.last_sums, ended)
    if start == end:  # what has no extent and lies just there was only taken off
        while ended > 0 and gaps.lasts[ended - 1] == start:
            ended -= 1
            j = gaps.by_last[ended]
            if gaps.age[j] < known and gaps.first[j] == start:
                n += gaps.left[j]
    return n


@kernel
def filled_by(gaps: GapTable, known: int, row: int) -> tuple[int, int]:
    """The newest of the ``known`` gaps that a late ``row`` fills, or -1; and the place made for the
    row.
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
    """Take the late row of the place ``part`` off gap ``j``, which it fills; gives ``part`` if it
    now is a gap as well: what is missing behind the row. One that did not happen between the
    neighbours of the gap, as a clock was set, parts nothing.
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


# Completeness: which numbers are known to be missing, and which windows they could belong to.
#
# Source: SPEC 4.4. A gap's events lie between their neighbours' times, so they could belong to
# every window that this range touches. Each such window counts them in its header, and gets a
# header if it has none: it may have had events, so it has a result. A late event leaves two gaps of
# the one that it fills, before and behind it. What changes in a closed window makes it *stale*.


WINDOWS_MAX: Final = 4096
"""A gap over more windows than that gives no result where no event is: one clock that jumped by a
year would else make millions. It is counted in the windows that have one."""
ROWS_MAX: Final = 1 << 18
"""Nor does one that becomes known while so many windows are open or can be corrected: windows of ns
under errors of ms would else fill the memory."""


@inline
def gives_rows(cells: Cells, gaps: GapTable, j: int) -> bool:
    """Whether windows without any event have a result for the sake of gap ``j``."""
    few = gaps.last[j] - gaps.first[j] < WINDOWS_MAX
    return bool(few and cells.tally[0].headers < ROWS_MAX)


@inline
def header_of(cells: Cells, window: int, gaps: GapTable, known: int, no_key: np.ndarray) -> int:
    """The window's header, made if there is none; -1 where no cell is free."""
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
    """Tell those windows of gap ``j`` that have a header."""
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
    """Gap ``j`` becomes known; gives the windows refused for want of a cell, and 1 if it gives no
    rows.

    Args:
        cells: the windows.
        gaps: with gap ``j``, all before it known.
        j: see ``gaps``.
        closed: largest window that is closed.
        over: windows up to this one are kept no more.
        no_key: the key of a header: one row of zeros.
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
    """Take the late ``row`` off the gap that it fills, and tell that gap's windows."""
    j, part = filled_by(gaps, known, row)
    if j != NONE:
        _spread(cells, gaps, j, -gaps.left[j], closed, no_key)
        behind = split_gap(gaps, j, part)
        for each in (j, behind):
            if each != NONE:
                _spread(cells, gaps, each, gaps.left[each], closed, no_key)


class LateRows(NamedTuple):
    """The rows of a batch that came after their place was given up: int64 columns, which ``row``,
    what it is, and between which times it happened [ns].
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
    """The gaps that still matter to some window."""

    def __init__(self) -> None:
        self._keep([np.empty(0, np.int64) for _ in COLUMNS])

    def _keep(
        self, columns: Sequence[np.ndarray], known: int | None = None,
        late_row: np.ndarray = _NO_LATE,
    ) -> None:  # fmt: skip
        """``known``: so many are, or all."""
        known = len(columns[0]) if known is None else known
        self.table = gap_table(columns, known, late_row)

    @property
    def _columns(self) -> tuple[np.ndarray, ...]:
        return self.table[: len(COLUMNS)]

    def take(
        self, gaps: Gaps, geometry: Geometry, late: LateRows = NO_LATE_ROWS
    ) -> tuple[np.ndarray, np.ndarray]:
        """Add ``gaps``, and places for the rows that may fill them or older ones; gives the rows
        and steps before they are known.
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
        """Make one of each two gaps that follow one another, if more than ``most`` end before
        ``before``. A late event does not fill such a one any more.
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
