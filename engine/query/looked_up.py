"""What a CHECK reads in the history of a query's results, as a name in its condition."""

from __future__ import annotations

from dataclasses import dataclass

from engine.query.check_plan import HISTORY, Lookup
from engine.query.plan import Attribute

_NOTHING = Lookup("", None, 0)


@dataclass(frozen=True, slots=True)
class LookedUp(Attribute):
    """``past_count(1 h)``: the attribute ``name``, its place in ``Checks.lookups``, of HISTORY."""

    lookup: Lookup = _NOTHING


def looked_up(place: int, lookup: Lookup) -> LookedUp:
    """The name of the lookup at ``place`` of a query's."""
    return LookedUp(str(place), HISTORY, lookup=lookup)
