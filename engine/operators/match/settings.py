"""What matchers of patterns keep, and how; light to load, as every chain has these settings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from slackwater.engine.core.errors import UserError
from slackwater.engine.query.joins import COST, IBP
from slackwater.engine.query.purge_settings import MATCHES_MAX


class Rule(StrEnum):
    """Where the bound of a pair comes from."""

    PAIRWISE = "pairwise"
    MAX_DELAY = "max-delay"
    """The largest uncertainty of an event so far, twice: T_a as SPEC 4.3 needs it."""
    MAX_DELAY_R19 = "max-delay-r19"
    """The site's largest delay of the moment (R19 Eq 3.16), without age: for R19's figures."""

    @property
    def by_delay(self) -> bool:
        """Whether one bound holds for all pairs."""
        return self is not Rule.PAIRWISE

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise UserError(f"certainty {value!r}: use {' or '.join(cls)}")


@dataclass(frozen=True, slots=True)
class PatternSettings:
    """``certainty``: ``pairwise``, ``max-delay`` or ``max-delay-r19``. ``keep_late_ns``: how late
    a row may be to find its partners; None means 60 s or WITHIN, whichever is longer.
    ``buffer_warn``: events held beyond which ``beyond_limit`` counts (without WITHIN nothing bounds
    them).
    ``purge`` and ``slack_ns`` (of ``slack``): see ``engine.query.purge_settings``. Rows that
    break the promise meant find what is left. ``divider``: what lies before the window is left
    out by binary search (L10 Opt. 4.3), else by a test of each; same results. ``intervals``: how an
    ISEQ is searched (``engine.query.joins``). ``joins``: in which order the steps of a
    SEQ/PAL tree are found (``engine.query.joins``). ``matches_max``: as many may one
    event complete or change; the events of one call, or the barrier hold back,
    ``MATCHES_TOGETHER`` times as many.
    """

    certainty: str = "pairwise"
    keep_late_ns: int | None = None
    buffer_warn: int = 1_000_000
    purge: str = "late"
    slack_ns: int = 0
    divider: bool = True
    intervals: str = IBP
    joins: str = COST
    matches_max: int = MATCHES_MAX
