"""When a punctuation or an end of stream with a number counts, in a stream that is in no order.

One with number n follows the events below n of its source and stream, and may overtake them on
the way. It counts once these have come (L09 VI-A: a promise is released "based on acknowledged
receipt of the events in question"), or have been given up: ``wait`` after it arrived, when the
source starts anew, or when numbers ``WINDOW`` above have come. Numbers begin where a ``sync`` says,
or with a promise of number 0, or else with the first that comes. As at the gateway
(``engine.gateway.promises``), of those that wait for one lane and type the first is kept, so that
it is heard as soon as may be, and the newest, which says most.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from edge_agent.records import Kind
from engine.kernels.integers import INT_MAX, NONE
from engine.kernels.jit import inline, kernel
from engine.order.sequence.state import MAX_RING

_EVENT: Final = int(Kind.EVENT)
_POG: Final = int(Kind.POG)
_EOS: Final = int(Kind.EOS)
WINDOW: Final = 1024
"""Numbers above the next one that are remembered, a power of two."""
ANY_TYPE: Final = -1
_END: Final = -2
"""The type of an end of stream that waits."""

# Places in the scalars.
LANES: Final = 0
WAITING: Final = 1
"""Places of ``Waiting`` in use or free."""
FREE: Final = 2
"""First of the free places."""
SOONEST: Final = 3
"""No deadline lies before this instant."""
OUT: Final = 4
SCALARS: Final = 5


class Lanes(NamedTuple):
    """By lane (source and stream): codes; ``incarnation``; ``next``: the lowest number that has
    not come (-1: none has), ``came`` (lane, WINDOW): which above it have; ``closed``: it has ended;
    ``other``: the source's next lane; ``waiting``: the first of its promises that wait, ``wants``:
    the least number that one waits for. ``first``: a source's first lane, by its code.
    """

    source: np.ndarray
    stream: np.ndarray
    incarnation: np.ndarray
    next: np.ndarray
    came: np.ndarray
    closed: np.ndarray
    other: np.ndarray
    waiting: np.ndarray
    wants: np.ndarray
    unproven: np.ndarray
    first: np.ndarray


class Waiting(NamedTuple):
    """By lane and type of promises: ``link`` to the lane's next; and of the first and the newest
    one the ``number`` (-1: there is none), ``ref`` and ``deadline``. A free place is of lane -1.
    """

    type: np.ndarray
    lane: np.ndarray
    link: np.ndarray
    number: np.ndarray
    ref: np.ndarray
    deadline: np.ndarray


class Records(NamedTuple):
    """A batch: columns of all records, and refs that are corrected for promises. A column of one
    value holds it for all.
    """

    kind: np.ndarray
    source: np.ndarray
    stream: np.ndarray
    seq: np.ndarray
    incarnation: np.ndarray
    type: np.ndarray
    ref: np.ndarray
    arrival: np.ndarray


class Counted(NamedTuple):
    """What has come to count: before which record, and its type, source, ref and instant."""

    place: np.ndarray
    type: np.ndarray
    source: np.ndarray
    ref: np.ndarray
    at: np.ndarray


@inline
def _at(column: np.ndarray, row: int) -> int:
    return column[min(row, len(column) - 1)]  # type: ignore[no-any-return]


@inline
def _say(
    out: Counted, s: np.ndarray, place: int, kind: int, source: int, ref: int, at: int
) -> None:
    number = s[OUT]
    s[OUT] = number + 1
    out.place[number], out.type[number], out.source[number] = place, kind, source
    out.ref[number], out.at[number] = ref, at


@inline
def _counts(
    ln: Lanes, out: Counted, s: np.ndarray, lane: int, kind: int, ref: int, place: int, at: int
) -> None:
    """A promise counts; the end of a source once each of its streams has ended."""
    if kind != _END:
        _say(out, s, place, kind, ln.source[lane], ref, at)
        return
    ln.closed[lane] = True
    other = ln.first[ln.source[lane]]
    while other != NONE:
        if not ln.closed[other]:
            return
        other = ln.other[other]
    _say(out, s, place, ANY_TYPE, ln.source[lane], INT_MAX, at)


@inline
def find_lane(ln: Lanes, s: np.ndarray, source: int, stream: int, incarnation: int) -> int:
    """The lane, made if there is none; -1: the source is in a later incarnation."""
    lane = ln.first[source]
    while lane != NONE and ln.stream[lane] != stream:
        lane = ln.other[lane]
    if lane == NONE:
        lane = s[LANES]
        s[LANES] = lane + 1
        ln.source[lane], ln.stream[lane] = source, stream
        ln.incarnation[lane], ln.next[lane] = incarnation, NONE
        ln.came[lane], ln.closed[lane] = False, False
        ln.waiting[lane], ln.wants[lane], ln.unproven[lane] = NONE, INT_MAX, 0
        ln.other[lane] = ln.first[source]
        ln.first[source] = lane
    return lane if incarnation >= ln.incarnation[lane] else NONE


@kernel
def begin_anew(ln: Lanes, wt: Waiting, s: np.ndarray, lane: int, incarnation: int) -> None:
    """Another incarnation: nothing of the one before is waited for any more."""
    ln.incarnation[lane], ln.next[lane] = incarnation, NONE
    ln.came[lane] = False
    ln.closed[lane] = False
    while ln.waiting[lane] != NONE:
        place = ln.waiting[lane]
        ln.waiting[lane] = wt.link[place]
        wt.link[place], wt.lane[place] = s[FREE], NONE
        s[FREE] = place
    ln.wants[lane] = INT_MAX


@inline
def _pass(ln: Lanes, lane: int) -> None:
    """Go over the numbers that have come."""
    at = ln.next[lane]
    while ln.came[lane, at & (WINDOW - 1)]:
        ln.came[lane, at & (WINDOW - 1)] = False
        at += 1
    ln.next[lane] = at


@kernel
def _give_up(ln: Lanes, lane: int, number: int) -> None:
    """Wait for nothing below ``number`` any more."""
    for at in range(max(ln.next[lane], 0), min(number, max(ln.next[lane], 0) + WINDOW)):
        ln.came[lane, at & (WINDOW - 1)] = False
    ln.next[lane] = number
    _pass(ln, lane)


@kernel
def _hear(
    ln: Lanes, wt: Waiting, out: Counted, s: np.ndarray, lane: int, place: int, at: int
) -> None:
    """Let what waits for the lane count, as far as its numbers have come."""
    ln.wants[lane] = INT_MAX
    before, entry = NONE, ln.waiting[lane]
    while entry != NONE:
        link = wt.link[entry]
        newest = 1 if 0 <= wt.number[entry, 1] <= ln.next[lane] else 0
        if wt.number[entry, newest] <= ln.next[lane]:
            ref = max(wt.ref[entry, 0], wt.ref[entry, newest])
            _counts(ln, out, s, lane, wt.type[entry], ref, place, at)
            wt.number[entry, 0] = NONE if newest else wt.number[entry, 1]
            wt.ref[entry, 0], wt.deadline[entry, 0] = wt.ref[entry, 1], wt.deadline[entry, 1]
            wt.number[entry, 1] = NONE
        if wt.number[entry, 0] == NONE:
            if before == NONE:
                ln.waiting[lane] = link
            else:
                wt.link[before] = link
            wt.link[entry], wt.lane[entry] = s[FREE], NONE
            s[FREE] = entry
        else:
            ln.wants[lane] = min(ln.wants[lane], wt.number[entry, 0])
            s[SOONEST] = min(s[SOONEST], wt.deadline[entry, 0])
            before = entry
        entry = link


@kernel
def _late(ln: Lanes, wt: Waiting, out: Counted, s: np.ndarray, place: int, now: int) -> None:
    """Give up, one deadline after the other, what did not come before ``now``.

    Of equal deadlines that of the smallest number is first: each number is given up for itself,
    wherever its promise has its place.
    """
    while s[SOONEST] < now:
        first, number, s[SOONEST] = NONE, INT_MAX, INT_MAX
        for entry in range(s[WAITING]):
            due = wt.deadline[entry, 0]
            if wt.lane[entry] != NONE and (
                due < s[SOONEST] or (due == s[SOONEST] and wt.number[entry, 0] < number)
            ):
                first, number, s[SOONEST] = entry, wt.number[entry, 0], due
        if s[SOONEST] >= now:
            return
        at, lane = s[SOONEST], wt.lane[first]
        ln.unproven[lane] += 1
        _give_up(ln, lane, wt.number[first, 0])
        _hear(ln, wt, out, s, lane, place, at)


@inline
def _await(
    ln: Lanes, wt: Waiting, s: np.ndarray, lane: int, kind: int, number: int, ref: int,
    deadline: int,
) -> None:  # fmt: skip
    """A promise waits; it replaces the newest of its type."""
    entry = ln.waiting[lane]
    while entry != NONE and wt.type[entry] != kind:
        entry = wt.link[entry]
    if entry == NONE:
        entry = s[FREE]
        if entry == NONE:
            entry = s[WAITING]
            s[WAITING] = entry + 1
        else:
            s[FREE] = wt.link[entry]
        wt.type[entry], wt.lane[entry], wt.link[entry] = kind, lane, ln.waiting[lane]
        ln.waiting[lane] = entry
        wt.number[entry, 0], wt.number[entry, 1] = number, NONE
        wt.ref[entry, 0], wt.deadline[entry, 0] = ref, deadline
    elif number == wt.number[entry, 0]:
        wt.ref[entry, 0] = max(wt.ref[entry, 0], ref)
    elif number < wt.number[entry, 0]:
        if wt.number[entry, 1] == NONE:
            wt.number[entry, 1], wt.ref[entry, 1] = wt.number[entry, 0], wt.ref[entry, 0]
            wt.deadline[entry, 1] = wt.deadline[entry, 0]
        wt.number[entry, 0], wt.ref[entry, 0] = number, ref
        wt.deadline[entry, 0] = min(deadline, wt.deadline[entry, 0])
    elif number >= wt.number[entry, 1]:
        known = wt.ref[entry, 1] if wt.number[entry, 1] != NONE else ref
        wt.number[entry, 1], wt.ref[entry, 1] = number, max(known, ref)
        wt.deadline[entry, 1] = deadline
    ln.wants[lane] = min(ln.wants[lane], number)
    s[SOONEST] = min(s[SOONEST], wt.deadline[entry, 0])


@inline
def _event(
    ln: Lanes, wt: Waiting, out: Counted, s: np.ndarray, lane: int, number: int, row: int, at: int
) -> None:
    """An event with a number has come.

    One that was given up, after its source has ended, takes nothing back: the end is said again,
    for whoever keeps the book takes any event to mean that the source is back.
    """
    next_number = ln.next[lane]
    if number < next_number:
        if ln.closed[lane]:
            _counts(ln, out, s, lane, _END, INT_MAX, row + 1, at)
        return
    ln.closed[lane] = False
    if next_number in (number, NONE):
        ln.next[lane] = number + 1
        _pass(ln, lane)
    elif number < next_number + MAX_RING:
        if number >= next_number + WINDOW:
            _give_up(ln, lane, number - WINDOW + 1)
        if number > ln.next[lane]:
            ln.came[lane, number & (WINDOW - 1)] = True
        elif number == ln.next[lane]:
            ln.next[lane] = number + 1
            _pass(ln, lane)
    if ln.wants[lane] <= ln.next[lane]:
        _hear(ln, wt, out, s, lane, row + 1, at)


@kernel
def go_through(
    ln: Lanes, wt: Waiting, batch: Records, out: Counted, s: np.ndarray, start: int, wait: int
) -> int:
    """Records from ``start`` on; gives the first for which there is no room, or their number."""
    for row in range(start, len(batch.arrival)):
        if s[LANES] == len(ln.source) or s[WAITING] == len(wt.type):
            return row
        now, kind, source = batch.arrival[row], _at(batch.kind, row), batch.source[row]
        if s[SOONEST] < now:
            _late(ln, wt, out, s, row, now)
        if kind == _POG and source < 0:
            _say(out, s, row, _at(batch.type, row), source, batch.ref[row], now)
        if source < 0 or kind not in (_EVENT, _POG, _EOS):
            continue
        incarnation, number = _at(batch.incarnation, row), batch.seq[row]
        lane = find_lane(ln, s, source, _at(batch.stream, row), incarnation)
        if lane == NONE:
            continue
        if incarnation > ln.incarnation[lane]:
            begin_anew(ln, wt, s, lane, incarnation)
        if kind == _EVENT:
            if number >= 0:
                _event(ln, wt, out, s, lane, number, row, now)
            continue
        of = _at(batch.type, row) if kind == _POG else _END
        if number == 0 and ln.next[lane] == NONE:
            ln.next[lane] = 0  # nothing comes before it: numbers begin here
        if number <= max(ln.next[lane], 0):
            _counts(ln, out, s, lane, of, batch.ref[row], row, now)
        else:
            deadline = now + wait if now <= INT_MAX - wait else INT_MAX
            _await(ln, wt, s, lane, of, number, batch.ref[row], deadline)
    return len(batch.arrival)
