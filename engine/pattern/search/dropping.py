"""On-the-fly dropping and cascading purge of an ISEQ, by promises and by IBPs (L10 5.3.2, 5.4.1).

An interval is of use only if its place on the indexed chain of end points can have the whole chain
below it: of each place an event that is held or may still come. Which may come is a matter of
promises: every later interval ends at the horizon or later, so an end below that is there by now or
never. Nothing bounds the start of a later interval but its IBP: once a type is announced, a start
below the horizon is there, or its IBP has been heard. Without one it is taken that some start will
do. What is of no use is not put in its stack; what loses its chain as others expire goes at the
next set purge, and so do those above it.

It is done under ``purge=promises`` alone, and where clocks do not err. Rows that break a promise
find what is left, as with every purge by promises (``engine.query.purge_settings``).
"""

from __future__ import annotations

from typing import Final

from engine.kernels.jit import inline, kernel
from engine.pattern.search.floors import FAR, least_held
from engine.pattern.search.state import Search, spread_of
from engine.stream.timeline import LONG_AGO

_FEW: Final = 1024
"""So many events at least come between two set purges."""


@kernel
def admit(s: Search, order: int) -> None:
    """Take in the IBPs heard before row ``order`` of the stream: starts in order, by step."""
    now = s.state[0]
    while now.begun_n < len(s.begun) and s.begun[now.begun_n].order <= order:
        begun = s.begun[now.begun_n]
        starts, at = s.open_at[begun.step], s.open_n[begun.step]
        while at > 0 and starts[at - 1] > begun.time:
            starts[at] = starts[at - 1]
            at -= 1
        starts[at] = begun.time
        s.open_n[begun.step] += 1
        now.begun_n += 1


@kernel
def drop(s: Search, row: int) -> int:
    """Which steps, as bits, the new event at ``row`` is of no use for; 0 if none is dropped."""
    now, event = s.state[0], s.events[row]
    useless = 0
    if now.drops and spread_of(now) == 0:
        for j in range(now.join_orders_n):
            step = s.t.join_orders[j].step
            if (event.member >> step) & 1 and not _of_use(s, j, row, row):
                useless |= 1 << step
        if useless:
            now.dropped += 1
        if useless == event.member:
            event.expires = LONG_AGO
    return useless


@kernel
def cascade(s: Search, rows: int) -> None:
    """A set purge, when half as many events have come as were held after the last one."""
    now = s.state[0]
    if not now.drops or now.unpurged < now.purge_from or spread_of(now):
        return
    kept, latest = 0, rows - 1
    for row in range(rows):
        event = s.events[row]
        if event.expires >= s.events[latest].horizon:
            useful = False
            for j in range(now.join_orders_n):
                if (event.member >> s.t.join_orders[j].step) & 1:
                    useful = useful or _of_use(s, j, row, latest)
            if useful:
                kept += 1
            else:
                event.expires = LONG_AGO
                now.cascaded += 1
    now.unpurged = 0
    now.purge_from = max(_FEW, kept // 2)


@kernel
def _of_use(s: Search, number: int, row: int, latest: int) -> bool:
    """Whether the event at ``row`` may be part of a match that an event after ``latest`` completes,
    at the place of a join order.
    """
    now, join_order, e = s.state[0], s.t.join_orders[number], s.events
    horizon, own = e[latest].horizon, -1
    for f in range(join_order.floors_from, join_order.floors_to):
        if s.t.floors[f].index < 0:
            own = f
    if own < 0:
        return True
    mine = e[row].ref_end if s.t.floors[own].by_end else e[row].ref
    if horizon < mine + 1 - s.t.floors[own].strict:
        return True
    for step in range(len(s.partial)):
        s.partial[step] = -1
    s.partial[join_order.step] = row
    low = max(e[row].ref_end, horizon) - now.within if now.within >= 0 else -FAR
    for f in range(join_order.floors_from, own):
        low = _least(s, f, low + s.t.floors[f].strict, latest)
        if low == FAR:
            return False
    return bool(mine >= low + s.t.floors[own].strict)


@inline
def _least(s: Search, number: int, least: int, latest: int) -> int:
    """The least end point from ``least`` on that is held or may still come at a place of the chain;
    FAR if there is none.
    """
    floor, e = s.t.floors[number], s.events
    found = FAR
    if not floor.by_end:
        order = e[latest].order
        if not s.heard[floor.step] <= order < s.lost[floor.step]:
            return least
        starts = s.open_at[floor.step]
        for i in range(s.open_n[floor.step]):
            if starts[i] >= least:
                found = starts[i]
                break
    return min(found, least_held(s, number, least, e[latest].horizon))
