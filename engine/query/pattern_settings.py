"""Settings of patterns: when events are dropped, and how matches are searched for.

Light to load, as every chain has these settings.
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
"""Matches that one event may complete or change."""
MATCHES_TOGETHER: Final = 5
"""Times as many may the events of one call, or a barrier hold back: of some 500 bytes each."""


@dataclass(frozen=True, slots=True)
class PurgeSettings:
    """When events that matches may need are dropped.

    ``late``: once a row that is ``span_ns`` late cannot need them any more (None: 60 s or WITHIN,
    whichever is longer). ``slack``: when ref + W + ``span_ns`` < event clock (L10 4.5, Alg. 9).
    ``promises``: as ``late``, and whatever promises make useless (L09 Algorithms 1 and 2).
    """

    name: str = "late"
    span_ns: int | None = None

    def of_pattern(self) -> dict[str, Any]:
        """The fields of ``PatternSettings`` that say so."""
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


# What matchers of patterns keep, and how.


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
    ``purge`` and ``slack_ns`` (of ``slack``): see ``PurgeSettings``. Rows that
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
