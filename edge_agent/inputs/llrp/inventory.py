"""Requests to a reader, its reports, and the filter of reads."""

from __future__ import annotations

import struct
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from slackwater.edge_agent.inputs.llrp import protocol as p
from slackwater.edge_agent.inputs.llrp.protocol import LlrpError, parameter, parameters

# Filter of reads: drops ghost reads, and repeated reads of a tag that stays before an antenna.
#
# Both filters work per tag and antenna, on the reads' own times. A read passes the ghost filter if
# the window that ends with it has enough reads; the first read to pass gets the time of the oldest
# read in the window, when the tag was first seen. A passed read hides later ones for a while.


TAGS_MAX: Final = 16_384
"""Tags and antennas that are remembered; the least recent is forgotten first."""
READS_MAX: Final = 20
"""Most reads that a ghost filter may require."""

Key = tuple[str, int | None]


class _Tag:
    __slots__ = ("passed_ns", "reads")

    def __init__(self) -> None:
        self.reads: deque[tuple[int, int]] = deque()
        """Time and count of the reads in the window."""
        self.passed_ns: int | None = None


class ReadFilter:
    """Decides whether a read becomes an event, and its time."""

    def __init__(self, same_ns: int, ghost_reads: int, ghost_ns: int) -> None:
        """``same_ns`` 0: every read passes; ``ghost_reads`` 1: one read is enough."""
        self.counts: Counter[str] = Counter()
        """Dropped reads: ``duplicates``, ``ghosts``; ``forgotten`` tags."""
        self._same_ns = same_ns
        self._reads = ghost_reads
        self._ghost_ns = ghost_ns
        self._tags: dict[Key, _Tag] = {}

    def passes(self, key: Key, ts: int, count: int) -> int | None:
        """Return the event's time [ns]; None: the read is dropped.

        Args:
            key: tag and antenna.
            ts: time of the read [ns].
            count: how many times the tag was seen for this read.
        """
        if not self._same_ns and self._reads <= 1:
            return ts
        tag = self._tags.pop(key, None) or _Tag()
        self._tags[key] = tag
        if len(self._tags) > TAGS_MAX:
            del self._tags[next(iter(self._tags))]
            self.counts["forgotten"] += 1
        since = self._since(tag, ts, count)
        if since is None:
            self.counts["ghosts"] += 1
            return None
        # A clock that was set back by more than ``same_ns`` hides nothing.
        if tag.passed_ns is not None and abs(ts - tag.passed_ns) < self._same_ns:
            self.counts["duplicates"] += 1
            return None
        first = tag.passed_ns is None or tag.passed_ns < since
        tag.passed_ns = ts
        return since if first else ts

    def _since(self, tag: _Tag, ts: int, count: int) -> int | None:
        """Time of the oldest read in the window that ends at ``ts``; None: too few reads."""
        if self._reads <= 1:
            return ts
        tag.reads.append((ts, max(count, 1)))
        # Each read counts at least once, so the newest ``_reads`` reads suffice.
        while len(tag.reads) > self._reads or abs(ts - tag.reads[0][0]) >= self._ghost_ns > 0:
            tag.reads.popleft()
        return tag.reads[0][0] if sum(n for _, n in tag.reads) >= self._reads else None


# Requests to a reader, and its reports.
#
# The ROSpec reads continuously on the chosen antennas and reports each tag at once, or every
# ``report_every`` tags (LLRP 1.1, sections 11.2 and 14.2).


ROSPEC_ID: Final = 1
_GEN2: Final = 1
"""AirProtocolID of EPCglobal Class 1 Gen 2."""
_IMMEDIATE: Final = 1
_N_TAGS_OR_END: Final = 2
_CONTENT: Final = 0x1F80
"""Antenna, channel, RSSI, first and last time seen, count (bits 12 to 7 of 16)."""


class TagRead(NamedTuple):
    """One TagReportData. Times [ns] are of the reader's own clock; None: not in the report."""

    epc: str
    """Hexadecimal digits in capitals."""
    antenna: int | None
    rssi_dbm: int | None
    channel: int | None
    seen: int
    """How many times the tag was seen for this report."""
    first_utc_ns: int | None
    first_uptime_ns: int | None
    last_utc_ns: int | None


class ReaderEvent(NamedTuple):
    """A READER_EVENT_NOTIFICATION. ``attempt``: ConnectionAttemptEvent (0: success), or None."""

    utc_ns: int | None
    uptime_ns: int | None
    attempt: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InventorySettings:
    """``antennas`` empty: all antennas."""

    antennas: tuple[int, ...] = ()
    report_every: int = 1
    keepalive_ms: int = 5_000


def rospec(settings: InventorySettings) -> bytes:
    """The ROSpec parameter."""
    antennas: Sequence[int] = settings.antennas or (0,)
    return parameter(
        p.ROSPEC,
        struct.pack(">IBB", ROSPEC_ID, 0, 0),  # priority 0, disabled
        parameter(
            p.RO_BOUNDARY,
            parameter(p.RO_START, bytes([_IMMEDIATE])),
            parameter(p.RO_STOP, struct.pack(">BI", 0, 0)),
        ),
        parameter(
            p.AI_SPEC,
            struct.pack(f">H{len(antennas)}H", len(antennas), *antennas),
            parameter(p.AI_STOP, struct.pack(">BI", 0, 0)),
            parameter(p.INVENTORY, struct.pack(">HB", 1, _GEN2)),
        ),
        parameter(
            p.RO_REPORT,
            struct.pack(">BH", _N_TAGS_OR_END, settings.report_every),
            parameter(p.TAG_CONTENT, struct.pack(">H", _CONTENT)),
        ),
    )


def reader_config(settings: InventorySettings) -> bytes:
    """Body of SET_READER_CONFIG: keepalives, and reports are held while no client is connected."""
    return (
        b"\x00"
        + parameter(p.KEEPALIVE_SPEC, struct.pack(">BI", 1, settings.keepalive_ms))
        + parameter(p.EVENTS_AND_REPORTS, b"\x80")
    )


def has_rospec(body: bytes) -> bool:
    """Whether an answer to GET_ROSPECS has our ROSpec, enabled."""
    return any(
        kind == p.ROSPEC and value[:4] == ROSPEC_ID.to_bytes(4, "big") and value[5:6] in b"\x01\x02"
        for kind, value in parameters(body)
        if len(value) > 5
    )


def reader_event(body: bytes) -> ReaderEvent:
    """Parse a READER_EVENT_NOTIFICATION; raises LlrpError."""
    data = next((value for kind, value in parameters(body) if kind == p.READER_EVENT), None)
    if data is None:
        raise LlrpError("a reader's event without its data")
    utc = uptime = attempt = None
    for kind, value in parameters(data):
        if kind in (p.UTC_TIMESTAMP, p.UPTIME) and len(value) == 8:
            ns = int.from_bytes(value, "big") * p.UNIT_NS
            utc, uptime = (ns, uptime) if kind == p.UTC_TIMESTAMP else (utc, ns)
        if kind == p.CONNECTION_ATTEMPT and len(value) == 2:
            attempt = int.from_bytes(value, "big")
    return ReaderEvent(utc, uptime, attempt)


def tag_reads(body: bytes) -> list[TagRead]:
    """Parse the reads of an RO_ACCESS_REPORT; raises LlrpError."""
    return [_read(value) for kind, value in parameters(body) if kind == p.TAG_REPORT]


def _read(data: bytes) -> TagRead:
    values: dict[int, int] = {}
    epc = ""
    for kind, value in parameters(data):
        if kind == p.EPC_96:
            epc = value.hex().upper()
        elif kind == p.EPC_DATA:
            epc = _epc(value)
        elif kind in p.TV_BYTES:
            values[kind] = int.from_bytes(value, "big", signed=kind == p.PEAK_RSSI)
    if not epc:
        raise LlrpError("a tag's report without its EPC")

    def ns(kind: int) -> int | None:
        return None if kind not in values else values[kind] * p.UNIT_NS

    return TagRead(
        epc, values.get(p.ANTENNA_ID), values.get(p.PEAK_RSSI), values.get(p.CHANNEL_INDEX),
        values.get(p.TAG_SEEN_COUNT, 1), ns(p.FIRST_SEEN_UTC), ns(p.FIRST_SEEN_UPTIME),
        ns(p.LAST_SEEN_UTC),
    )  # fmt: skip


def _epc(value: bytes) -> str:
    """Parse an EPC of any bit length, padded to whole bytes."""
    bits = int.from_bytes(value[:2], "big")
    size = (bits + 7) // 8
    if not size or size > len(value) - 2:
        raise LlrpError(f"an EPC of {bits} bits in {len(value) - 2} bytes")
    return value[2 : 2 + size].hex().upper()
