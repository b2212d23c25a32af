"""Settings of patterns: the purge of events, and the search for matches.

This module imports little, as every chain has these settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.units import parse_span
from slackwater.engine.query.joins import COST, IBP

# Purges by name, and their short form ``name[:DURATION]``.


PURGES: Final = ("late", "slack", "promises")
MATCHES_MAX: Final = 200_000
"""Largest number of matches that one event may complete or change."""
MATCHES_TOGETHER: Final = 5
"""Factor of ``MATCHES_MAX`` for the events of one call, and for a barrier (500 bytes per match)."""


@dataclass(frozen=True, slots=True)
class PurgeSettings:
    """The purge of events that matches may need.

    ``late``: when no row that is up to ``span_ns`` late can need them (None: 60 s or WITHIN,
    whichever is longer). ``slack``: when ref + W + ``span_ns`` < event clock (L10 4.5, Alg. 9).
    ``promises``: as ``late``, and when promises make them useless (L09 Algorithms 1 and 2).
    """

    name: str = "late"
    span_ns: int | None = None

    def of_pattern(self) -> dict[str, Any]:
        """Return the corresponding fields of ``PatternSettings``."""
        if self.name == "slack":
            return {"purge": self.name, "slack_ns": self.span_ns}
        return {"purge": self.name, "keep_late_ns": self.span_ns}


def parse_purge(text: str, time_unit: str = "ns") -> PurgeSettings:
    """Settings of a purge from its short form.

    >>> parse_purge("slack:1s")
    PurgeSettings(name='slack', span_ns=1000000000)

    Args:
        text: ``late``, ``late:10s``, ``slack:1s``, ``promises`` or ``promises:10s``.
        time_unit: unit of durations written without one.

    Raises:
        UserError: an unknown purge, or ``slack`` without its K.
    """
    name, colon, span = (part.strip() for part in text.strip().partition(":"))
    if name not in PURGES:
        raise UserError(f"purge {text[:40]!r} is unknown; use late, late:10s, slack:1s or promises")
    if name == "slack" and not span:
        raise UserError("purge slack needs its K, as in slack:1s: how late an event may be")
    span_ns = parse_span(span, time_unit, f"purge {text[:40]!r}") if colon else None
    return PurgeSettings(name, span_ns)


# Settings of matchers.


class Rule(StrEnum):
    """The source of the error bound between two events."""

    PAIRWISE = "pairwise"
    MAX_DELAY = "max-delay"
    """Twice the largest uncertainty of an event so far: T_a as SPEC 4.3 needs it."""
    MAX_DELAY_R19 = "max-delay-r19"
    """The site's current largest delay (R19 Eq 3.16), without age: for R19's figures."""

    @property
    def by_delay(self) -> bool:
        """Whether all pairs have one bound."""
        return self is not Rule.PAIRWISE

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise UserError(f"certainty {value!r}: use {' or '.join(cls)}")


@dataclass(frozen=True, slots=True)
class PatternSettings:
    """``certainty``: ``pairwise``, ``max-delay`` or ``max-delay-r19``. ``keep_late_ns``: how late
    a row may be to find its partners; None: 60 s or WITHIN, whichever is longer. ``buffer_warn``:
    number of buffered events beyond which ``beyond_limit`` counts (without WITHIN it is unbounded).
    ``purge`` and ``slack_ns`` (of ``slack``): see ``PurgeSettings``; rows that break the assumption
    find only what is left. ``divider``: events before the window are skipped by binary search (L10
    Opt. 4.3), else tested one by one; same results. ``intervals``: search of an ISEQ, ``joins``:
    order of steps of a SEQ/PAL tree (``engine.query.joins``). ``matches_max``: most matches that
    one event may complete or change; for the events of one call, and for the barrier,
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
