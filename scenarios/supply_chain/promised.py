"""The promises of the sites about a parcel, spelled out: every way, and its consequences.

Nothing here knows of automata: what is certain after some events is read off the ways that begin
with them (SPEC 4.6's definition).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

ALERT, CLEARED, VIOLATION = "alert", "cleared", "violation"
LOST: Final = ("SHIPPED", "RECEIVED", "DESTROYED")
"""The pattern of the query ``waste``, in this order."""
Way = tuple[str, ...]


@cache
def ways(hubs: int) -> frozenset[Way]:
    """All ways of a parcel that passes 1 to ``hubs`` hubs."""
    found = set()
    for n in range(1, hubs + 1):
        road = ("SHIPPED", *["HUB"] * n, "RECEIVED")
        for end in ("SOLD", "RETURNED"):
            found.add(("PACKED", "COOLED", *road, "SHELVED", end))
            found.add(("PACKED", *road, "INSPECTED", "SHELVED", end))
        found.add(("PACKED", *road, "INSPECTED", "REJECTED", "DESTROYED"))
        found.add(("PACKED", "OPENED", *road, "REJECTED", "DESTROYED"))
    return frozenset(found)


def lost(events: Sequence[str]) -> bool:
    """Whether ``LOST`` happened, in its order."""
    rest = iter(events)
    return all(name in rest for name in LOST)


def certain(events: Sequence[str]) -> Iterator[tuple[int, str]]:
    """(which event, what it makes certain) of a parcel's events, in their true order."""
    known, broken = "", False
    every = ways(events.count("HUB") + 2)
    for at in range(len(events)):
        begun = tuple(events[: at + 1])
        ahead = [way for way in every if way[: at + 1] == begun]
        if not ahead and not broken:
            broken = True
            yield at, VIOLATION
        if broken:
            now = ALERT if lost(begun) else ""
        else:
            ends = {lost(way) for way in ahead}
            now = "" if len(ends) > 1 else ALERT if True in ends else CLEARED
        if now and now != known:
            yield at, now
        known = now
