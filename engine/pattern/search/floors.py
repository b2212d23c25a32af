"""Floors of an ISEQ's search: below which end points no event can be in a match (L10 5.3.1).

From a window's begin upwards the least event of each place of the indexed chain that lies above the
least one of the place before: whatever is not below has a whole chain below it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engine.kernels.jit import inline
from engine.pattern.search.stacks import find, first_not_below
from engine.pattern.search.state import Search, key_of, spread_of

FAR: Final = 2**62
"""Later than all end points."""


@inline
def least_held(s: Search, number: int, least: int, horizon: int) -> int:
    """The least end point from ``least`` on that is held at a place of the chain, of events that
    have not expired at ``horizon``; FAR if there is none.
    """
    floor, entry, e = s.t.floors[number], s.stacks.entry, s.events
    key = key_of(s.t.keys, s.same, s.partial, floor.keys_from, floor.keys_to)
    found = find(s.stacks, floor.index, key)
    if found < 0:
        return FAR
    start, size = s.stacks.stack[found].start, s.stacks.stack[found].size
    at, stop = first_not_below(entry, start, size, least), start + size
    while at < stop and e[entry[at].row].expires < horizon:
        at += 1
    return int(entry[at].time) if at < stop else FAR


@inline
def raised(s: Search, join_order: np.record, row: int) -> bool:
    """Set the floors of a search that begins at ``row``; False if it can find no match.

    So no search ends for want of a chain below. Where clocks err nothing is left out.
    """
    now, e = s.state[0], s.events
    for step in range(len(s.floor)):
        s.floor[step] = -FAR
    if spread_of(now):
        return True
    low = e[row].ref_end - now.within if now.within >= 0 else -FAR
    for f in range(join_order.floors_from, join_order.floors_to):
        floor = s.t.floors[f]
        least = low + floor.strict
        if floor.index < 0:
            low = e[row].ref_end if floor.by_end else e[row].ref
            if low < least:
                return False
            continue
        low = least_held(s, f, least, e[row].horizon)
        if low == FAR:
            return False
        s.floor[floor.step] = low
    return True
