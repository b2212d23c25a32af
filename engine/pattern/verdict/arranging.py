"""What the pattern kernel has found, put in order and spread out in columns.

The kernel finds matches by the row that causes them. What one row causes is sorted here: older
matches before new ones, by branch, then by the ranks of their events step by step. Ranks of the
first steps make one number. One row causes few, so runs of eight are sorted by insertion and merged
where they are not in order yet.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from engine.kernels.jit import inline, kernel
from engine.stream.timeline import LONG_AGO

_RUN: Final = 8


class Spread(NamedTuple):
    """Matches as columns, one item per match. ``rows``: (matches, steps). ``known_at``: when the
    last of its events arrived; ``last_ns``: the time of its last event. The flags are bool; the
    others are int64, as in FOUND.
    """

    rows: np.ndarray
    branch: np.ndarray
    completing: np.ndarray
    cause: np.ndarray
    known_at: np.ndarray
    last_ns: np.ndarray
    new: np.ndarray
    stands: np.ndarray
    sure: np.ndarray
    sure_before: np.ndarray


def empty_spread(n: int, steps: int) -> Spread:
    """With room for ``n`` matches."""
    numbers = [np.empty(n, np.int64) for _ in range(5)]
    flags = [np.empty(n, np.bool_) for _ in range(4)]
    return Spread(np.empty((n, steps), np.int64), *numbers, *flags)


@kernel
def keys_of(facts: np.ndarray, cause: np.ndarray, old: np.ndarray, branch: np.ndarray) -> None:
    """The columns by which ``facts`` (FOUND) are sorted; ``old``: the match stood before."""
    for i in range(len(facts)):
        cause[i], branch[i] = facts[i].cause, facts[i].branch
        old[i] = facts[i].new == 0


@kernel
def ascends(
    cause: np.ndarray, old: np.ndarray, branch: np.ndarray, lead: np.ndarray, events: np.ndarray
) -> bool:
    """Whether the events of the first step, ``lead``, tell that all is in order."""
    for i in range(1, len(cause)):
        if cause[i] != cause[i - 1]:
            continue
        low, high = lead[i - 1], lead[i]
        if old[i] != old[i - 1] or branch[i] != branch[i - 1] or low < 0 or high < 0:
            return False
        if events[high].ref <= events[low].ref:
            return False
    return True


@kernel
def pack(
    old: np.ndarray, branch: np.ndarray, branches: int, rows: np.ndarray, rank: np.ndarray,
    bits: int, steps: int, key: np.ndarray,
) -> None:  # fmt: skip
    """Into ``key`` what comes first in the order: whether the match is old, its branch, and the
    ranks of the first ``steps`` steps, of so many ``bits`` each.
    """
    for i in range(len(key)):
        packed = branch[i] if old[i] else branches + branch[i]
        for step in range(steps):
            packed = packed << bits | (rank[rows[i, step]] + 1)
        key[i] = packed


@inline
def _after(
    x: int, y: int, key: np.ndarray, packed: int, rows: np.ndarray, rank: np.ndarray
) -> bool:
    """Whether the match at ``x`` comes after the one at ``y``."""
    if key[x] != key[y]:
        return bool(key[x] > key[y])
    for step in range(packed, rows.shape[1]):
        one, two = rows[x, step], rows[y, step]
        if one != two:
            return bool(rank[one] > rank[two])
    return False


@kernel
def sort_caused(
    cause: np.ndarray, key: np.ndarray, packed: int, rows: np.ndarray, rank: np.ndarray,
    places: np.ndarray, spare: np.ndarray,
) -> None:  # fmt: skip
    """Sort ``places`` (0, 1, ... at first), within what each row causes.

    ``key``: as ``pack`` gives it, of so many steps. ``rank``: by row, no two alike; that of no row
    is the last item. ``spare``: as long as ``places``.
    """
    first = 0
    while first < len(places):
        stop = first + 1
        while stop < len(places) and cause[stop] == cause[first]:
            stop += 1
        for start in range(first, stop, _RUN):
            for at in range(start + 1, min(start + _RUN, stop)):
                mine, to = places[at], at
                while to > start and _after(places[to - 1], mine, key, packed, rows, rank):
                    places[to] = places[to - 1]
                    to -= 1
                places[to] = mine
        width = _RUN
        while width < stop - first:
            for low in range(first, stop - width, 2 * width):
                middle, high = low + width, min(low + 2 * width, stop)
                if _after(places[middle - 1], places[middle], key, packed, rows, rank):
                    for at in range(low, middle):
                        spare[at] = places[at]
                    _merge(low, middle, high, key, packed, rows, rank, places, spare)
            width *= 2
        first = stop


@inline
def _merge(
    low: int, middle: int, high: int, key: np.ndarray, packed: int, rows: np.ndarray,
    rank: np.ndarray, places: np.ndarray, spare: np.ndarray,
) -> None:  # fmt: skip
    """Two runs, of which the first is in ``spare``, into one."""
    left, right, to = low, middle, low
    while left < middle and right < high:
        if _after(spare[left], places[right], key, packed, rows, rank):
            places[to] = places[right]
            right += 1
        else:
            places[to] = spare[left]
            left += 1
        to += 1
    for at in range(left, middle):
        places[to + at - left] = spare[at]


@kernel
def spread(
    facts: np.ndarray, rows: np.ndarray, places: np.ndarray, events: np.ndarray,
    arrival: np.ndarray, lasts: np.ndarray, by_end: bool, made: Spread,
) -> None:  # fmt: skip
    """Matches in the order of ``places``, spread out.

    Args:
        facts: FOUND records.
        rows: (matches, steps) of them.
        places: which of them come first.
        events: EVENT records of the store.
        arrival: its column.
        lasts: (branches, steps): first those steps that no other one must follow, then -1.
        by_end: the last event is the one that ends last, else the one that begins last.
        made: written.
    """
    steps = rows.shape[1]
    for at in range(len(places)):
        place = places[at]
        fact = facts[place]
        made.branch[at], made.completing[at] = fact.branch, fact.completing
        made.cause[at] = fact.cause
        made.new[at], made.stands[at] = fact.new == 1, fact.stands == 1
        made.sure[at], made.sure_before[at] = fact.sure == 1, fact.sure_before == 1
        known = last = LONG_AGO
        for step in range(steps):
            row = rows[place, step]
            made.rows[at, step] = row
            if row >= 0:
                known = max(known, arrival[row])
        for number in range(steps):
            step = lasts[fact.branch, number]
            if step < 0:
                break
            row = rows[place, step]
            last = max(last, events[row].ref_end if by_end else events[row].ref)
        made.known_at[at], made.last_ns[at] = known, last
