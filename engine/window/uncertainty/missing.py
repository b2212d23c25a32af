"""Completeness: which numbers are known to be missing, and which windows they could belong to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from engine.kernels.jit import inline, kernel
from engine.kernels.records import NONE
from engine.stream.released import Gaps
from engine.window.settings import Geometry
from engine.window.state.cells import HEADER, Cells, find, find_or_add

# Gaps in numbers as kernels search them: which of them an event fills, how much may lie in a span.
#
# Late events and emitted windows search many gaps, one per loss within reach, hence sorted columns.
# By number: the gaps of a source and stream, and how far those before reach, which ends the search
# where gaps overlap. By time: a gap may lie in a span unless it begins behind or ends before it,
# which no gap does both; so two prefix sums tell, kept in binary indexed trees (Fenwick, 1994), as
# gaps become known and are filled while a pass runs.


class GapTable(NamedTuple):
    """Gaps in the order in which they became known; ``left``: events still missing.

    ``high``: the later neighbour's time [ns]; ``first``, ``last``: windows touched, or times. The
    rest is made of these (``searchable``): ``by_number``: gaps by source, stream and first number;
    ``reach``: of each in that order, the largest end of numbers up to it in its source and stream;
    ``firsts`` and ``lasts``: sorted, each gap's place there, and sums of what is left;
    ``by_last``: gaps in the order of ``lasts``; ``backward``: those that end before they begin, as
    their neighbours' clocks were set.
    """

    source: np.ndarray
    stream: np.ndarray
    first_seq: np.ndarray
    events: np.ndarray
    high: np.ndarray
    first: np.ndarray
    last: np.ndarray
    left: np.ndarray
    by_number: np.ndarray
    reach: np.ndarray
    firsts: np.ndarray
    first_place: np.ndarray
    first_sums: np.ndarray
    lasts: np.ndarray
    by_last: np.ndarray
    last_place: np.ndarray
    last_sums: np.ndarray
    backward: np.ndarray


COLUMNS: Final = GapTable._fields[: GapTable._fields.index("by_number")]
"""Those that a snapshot has."""


def searchable(columns: Sequence[np.ndarray], known: int) -> GapTable:
    """The gaps ``columns`` (int64, of ``COLUMNS``), of which the first ``known`` are known."""
    source, stream, first_seq, events, _, first, last, left = columns
    by_number = np.lexsort((first_seq, stream, source))
    backward = first > last
    weight = np.where(backward, 0, left)
    weight[known:] = 0
    by_first, by_last = np.argsort(first, kind="stable"), np.argsort(last, kind="stable")
    made = [
        by_number, _reach(source, stream, first_seq + events, by_number),
        first[by_first], _places(by_first), _sums(weight[by_first]),
        last[by_last], by_last, _places(by_last), _sums(weight[by_last]),
        np.flatnonzero(backward),
    ]  # fmt: skip
    return GapTable(*columns, *made)


def _reach(
    source: np.ndarray, stream: np.ndarray, end: np.ndarray, order: np.ndarray
) -> np.ndarray:
    """The largest ``end`` so far, in ``order``, of each source and stream."""
    source, stream, end = source[order], stream[order], end[order]
    begins = (np.diff(source, prepend=source[:1]) != 0) | (np.diff(stream, prepend=stream[:1]) != 0)
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
def _below(ascending: np.ndarray, value: int) -> int:
    """How many are smaller than ``value``."""
    low, high = 0, len(ascending)
    while low < high:
        middle = (low + high) >> 1
        if ascending[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


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
    if gaps.first[j] <= gaps.last[j]:
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
    ended = _below(gaps.lasts, start + 1)
    n = _sum(gaps.first_sums, _below(gaps.firsts, end)) - _sum(gaps.last_sums, ended)
    if start == end:  # what has no extent and lies just there was only taken off
        while ended > 0 and gaps.lasts[ended - 1] == start:
            ended -= 1
            j = gaps.by_last[ended]
            if j < known and gaps.first[j] == start:
                n += gaps.left[j]
    for place in range(len(gaps.backward)):
        j = gaps.backward[place]
        if j < known and gaps.first[j] < end and gaps.last[j] > start:
            n += gaps.left[j]
    return n


@kernel
def take_off(gaps: GapTable, known: int, event: tuple[int, int, int]) -> int:
    """Take one event (source, stream, seq) off the newest of the ``known`` gaps that it fills;
    gives which one, or -1.
    """
    source, stream, seq = event
    low, high = 0, len(gaps.by_number)
    while low < high:
        middle = (low + high) >> 1
        j = gaps.by_number[middle]
        if (gaps.source[j], gaps.stream[j], gaps.first_seq[j]) <= (source, stream, seq):
            low = middle + 1
        else:
            high = middle
    newest = -1
    while low > 0 and gaps.reach[low - 1] > seq:
        low -= 1
        j = gaps.by_number[low]
        if gaps.source[j] != source or gaps.stream[j] != stream:
            break
        fills = j < known and seq < gaps.first_seq[j] + gaps.events[j] and gaps.left[j] > 0
        if fills and j > newest:
            newest = j
    if newest < 0:
        return int(NONE)
    gaps.left[newest] -= 1
    _change(gaps, newest, -1)
    return newest


# Completeness: which numbers are known to be missing, and which windows they could belong to.
#
# Source: SPEC 4.4. A gap's events lie between their neighbours' times, so they could belong to
# every window that this range touches. Each such window counts them in its header, and gets a
# header if it has none: it may have had events, so it has a result. A late event lowers the count
# of the gap it fills, in each of its windows. What changes in a closed window makes it *stale*.


WINDOWS_MAX: Final = 4096
"""A gap over more windows than that gives no result where no event is: one clock that jumped by a
year would else make millions. It is counted in the windows that have one."""


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
def know(
    cells: Cells, gaps: GapTable, j: int, closed: int, over: int, no_key: np.ndarray
) -> tuple[int, int]:
    """Gap ``j`` becomes known; gives the windows refused for want of a cell, and 1 if too wide.

    Args:
        cells: the windows.
        gaps: with gap ``j``, all before it known.
        j: see ``gaps``.
        closed: largest window that is closed.
        over: windows up to this one are kept no more.
        no_key: the key of a header: one row of zeros.
    """
    refused, too_wide = 0, 0
    if gaps.last[j] - gaps.first[j] < WINDOWS_MAX:
        for window in range(max(gaps.first[j], over + 1), gaps.last[j] + 1):
            refused += header_of(cells, window, gaps, j, no_key) == NONE
    else:
        too_wide = 1
    _spread(cells, gaps, j, gaps.left[j], closed, no_key)
    become_known(gaps, j)
    return refused, too_wide


@inline
def fill(
    cells: Cells, gaps: GapTable, known: int, event: tuple[int, int, int], closed: int,
    no_key: np.ndarray,
) -> None:  # fmt: skip
    """Take one event off the gap that it fills, and tell that gap's windows."""
    j = take_off(gaps, known, event)
    if j != NONE:
        _spread(cells, gaps, j, -1, closed, no_key)


class Missing:
    """The gaps that still matter to some window."""

    def __init__(self) -> None:
        self._keep([np.empty(0, np.int64) for _ in COLUMNS])

    def _keep(self, columns: Sequence[np.ndarray], known: int | None = None) -> None:
        """``known``: so many are, or all."""
        self.table = searchable(columns, len(columns[0]) if known is None else known)

    @property
    def _columns(self) -> tuple[np.ndarray, ...]:
        return self.table[: len(COLUMNS)]

    def take(self, gaps: Gaps, geometry: Geometry) -> tuple[np.ndarray, np.ndarray]:
        """Add ``gaps``; gives the rows and steps before they are known."""
        low = gaps.low - geometry.high_shift
        high = gaps.high + geometry.low_shift
        more = (
            gaps.source, gaps.stream, gaps.first_seq, gaps.count, gaps.high,
            (low - geometry.size) // geometry.step + 1, high // geometry.step, gaps.count,
        )  # fmt: skip
        if len(gaps.row):
            columns = [
                np.concatenate((old, new.astype(np.int64)))
                for old, new in zip(self._columns, more, strict=True)
            ]
            self._keep(columns, known=len(self.table.left))
        return gaps.row.astype(np.int64), gaps.steps.astype(np.int64)

    def forget(self, before: int) -> None:
        """Drop gaps that end before ``before`` or are filled."""
        useful = (self.table.high >= before) & (self.table.left > 0)
        if not useful.all():
            self._keep([column[useful] for column in self._columns])

    def merge(self, before: int, most: int) -> None:
        """Make one of each two gaps that follow one another, if more than ``most`` end before
        ``before``. A late event does not fill such a one any more.
        """
        old = np.flatnonzero(self.table.high < before)
        if len(old) <= most:
            return
        old = old[np.argsort(self.table.high[old], kind="stable")]
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
