"""The records of the system: field names and limits, defined once."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

# Limits of the numbers in a record: the same for agents, the wire and every input.
#
# An event time plus an offset, two uncertainties and a window stay within int64:
# 2**62 + 2**61 + 2 * 2**58 + 2**60 < 2**63. So no later sum needs its own check.


TIME_MAX_NS: Final = 2**62 - 1
"""Largest absolute event or arrival time: 146 years around 1970 (to the year 2116)."""
OFFSET_MAX_NS: Final = 2**61
"""Largest absolute offset of a clock: 73 years; a clock that started at 1970 is 56 years slow."""
DELAY_MAX_NS: Final = 2**58
"""Largest delay of a time sync: 9 years."""
PRECISION_MAX_NS: Final = 2**57
"""Largest precision of a time sync: 4.5 years; with half a delay it is at most UNC_MAX_NS."""
SKEW_ERROR_MAX_PPB: Final = 10**9
"""Largest growth rate of an offset's error: 100 %."""
UNC_MAX_NS: Final = 2**58
"""Largest uncertainty (9 years); larger ones saturate here."""
COUNTER_MAX: Final = 2**62
"""Limit of event numbers and incarnations: sums of one and a count stay well within int64."""


# The records of the system and their field names, defined once.
#
# All other modules import these names: traces (JSONL), arrival-log frames (Arrow) and wire messages
# (msgpack) use the same words. Times are int64 nanoseconds.


DEFAULT_SITE: Final = "main"
DEFAULT_STREAM: Final = "events"
DEFAULT_SOURCE: Final = "s0"


class Kind(IntEnum):
    """Kind of a record. The values are stored in arrival logs and never change."""

    EVENT = 0
    POG = 1
    """Punctuation: no later record of this type and/or source has event time below ``ts``."""
    IBP = 2
    """Interval begin punctuation: interval ``id`` of ``type`` began at ``ts``."""
    SYNC = 3
    """Time-sync report: ``offset`` and ``delay`` of one source."""
    TICK = 4
    """Silence: the arrival clock reached ``arrival`` and no other record arrived."""
    EOS = 5
    """End of stream of one source."""
    IBE = 6
    """Interval end alone: interval ``id`` of ``type`` ended at ``ts``; its start is not given. An
    event gives both."""


KIND_NAMES: Final = {kind.name.lower(): kind for kind in Kind}

# Fields that every record may carry.
KIND: Final = "kind"
SITE: Final = "site"
STREAM: Final = "stream"
SOURCE: Final = "source"
CLOCK: Final = "clock"
"""Name of the clock that stamped the record, or whose offset a sync gives; sources whose records
name the same clock share it. Absent: the source's own clock, which has the source's name."""
SEQ: Final = "seq"
INCARNATION: Final = "incarnation"
TYPE: Final = "type"
TS: Final = "ts"
TE: Final = "te"
ID: Final = "id"
ARRIVAL: Final = "arrival"
ATTRS: Final = "attrs"

# Fields of a sync record.
OFFSET: Final = "offset"
"""Reference clock minus source clock [ns]; positive = the source is slow. Added to ``ts``."""
DELAY: Final = "delay"
"""Round trip without the server's own time [ns]; half of it bounds the offset's error."""
FIRST_SEQ: Final = "first_seq"
"""Number of the first event that this incarnation of the source will send (per stream)."""
PRECISION: Final = "precision"
"""Both clocks' reading precision [ns], added to the uncertainty."""
SKEW_ERROR_PPB: Final = "skew_error_ppb"
"""How fast the uncertainty grows with the age of the offset [ns per second of age]."""

RECORD_FIELDS: Final = (
    KIND, SITE, STREAM, SOURCE, CLOCK, SEQ, INCARNATION, TYPE, TS, TE, ID, ARRIVAL, ATTRS,
    OFFSET, DELAY, FIRST_SEQ, PRECISION, SKEW_ERROR_PPB,
)  # fmt: skip
