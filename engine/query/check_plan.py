"""What is asked of a query's results before they go out (Z10 5.1, 5.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

if TYPE_CHECKING:
    from engine.query.plan import Expression, Predicate

DOUBTFUL: Final = "doubtful"
"""Field of a result that disagrees: the names of the rules."""
HISTORY: Final = "$history"
"""Alias of what is looked up: ``$history.0`` is the first of ``Checks.lookups``."""
RESULT: Final = "$result"
"""Alias of what is known of a result itself: the fields in ``RESULT_FIELDS``."""
APART: Final = frozenset({HISTORY, RESULT})
"""Aliases that are no steps."""
RESULT_FIELDS: Final = {
    "matches": ("probability",),
    "windows": ("missing", "certain", "ambiguous"),
}
"""By kind of results (``engine.results.kinds``)."""
PAST_COUNT, NEAR_COUNT, SINCE_LAST = "past_count", "near_count", "since_last"
LOOKUPS: Final = (PAST_COUNT, NEAR_COUNT, SINCE_LAST)


class Lookup(Struct, frozen=True):
    """What the history says of results of ``query`` (None: of the same one) with the same key.

    ``past_count``: how many were known in the ``within_ns`` before this one. ``near_count``: those,
    and what has become known since, while this one is held. ``since_last``: how long before this
    one the last of them was known [ns]; null if none was in the ``within_ns`` before.
    """

    function: str
    query: str | None
    within_ns: int


class ResultRule(Struct, frozen=True):
    """``CHECK name (condition) HOLD hold_ns DROP``: ``condition`` holds of a result that agrees
    with what is known.
    """

    name: str
    condition: Predicate
    hold_ns: int
    drop: bool


class Checks(Struct, frozen=True):
    """All that is asked of one query's results.

    ``key``: results with the same values have one history; empty: all of the query, or, of windows,
    all of a group.
    """

    rules: tuple[ResultRule, ...] = ()
    key: tuple[Expression, ...] = ()
    lookups: tuple[Lookup, ...] = ()


def checks_of(plan: Any) -> Checks | None:
    """What is asked of the results of ``plan``; a plan of a user's own class may say nothing."""
    found: Checks | None = getattr(plan, "checks", None)
    return found
