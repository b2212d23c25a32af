"""Purges by name, and their short form ``name[:DURATION]``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.units import DURATION_MAX_NS, parse_duration

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
        """The fields of ``engine.operators.match.seq.PatternSettings`` that say so."""
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
    span_ns = parse_duration(span, time_unit) if colon else None
    if span_ns is not None and span_ns > DURATION_MAX_NS:
        raise UserError(f"purge {text[:40]!r}: at most {DURATION_MAX_NS} ns")
    return PurgeSettings(name, span_ns)
