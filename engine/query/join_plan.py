"""The plan of a join: a pattern with an alternative for what has no partner."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from engine.query.plan import OrPlan, Predicate, SeqPlan

_UNSAID: Final = SeqPlan("", "", ())


class JoinKind(StrEnum):
    """Which events of a join's two sides give a row though they have no partner."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    ANTI = "anti"
    """Those of the left side, and they alone."""


class JoinPlan(OrPlan, frozen=True):
    """``SELECT ... FROM a LEFT JOIN b ON a.id = b.id WITHIN d``: two streams' events whose times
    are at most ``d`` apart, or (``window_ns``) that lie in one window of that length.

    Of its ``branches`` one has the pairs, and one for each side that is kept has its events without
    a partner: there the partner is a negated step. ``pair``: the branch of the pairs, which ANTI
    does not ask for; its steps are the two sides. ``on`` is the condition, ``conjuncts`` what WHERE
    asks besides.
    """

    kind: JoinKind = JoinKind.INNER
    pair: SeqPlan = _UNSAID
    on: tuple[Predicate, ...] = ()
    window_ns: int | None = None
