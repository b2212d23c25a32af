"""``kind = "rfid-llrp"``: connects to an RFID reader and keeps it reading.

The reader's clock stamps the reads. The agent asks for its time every ``ask_every``. LLRP has no
request for the time, but a reader sends its time at the start of each connection, including one
that it refuses because it already has a client (LLRP 1.1, ConnectionAttemptEvent).

LLRP acknowledges no report: a read is safe once it is in the outbox, and further reports wait in
the socket while the outbox is full. The reader holds reports while no client is connected; its
ROSpec continues over a lost connection, so that no tag is missed. The agent reconnects to a reader
that is silent for three of its keepalives.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from slackwater.edge_agent.errors import did_you_mean
from slackwater.edge_agent.inputs.base import Backoff, Outlet, Surroundings, read_backoff
from slackwater.edge_agent.inputs.llrp import protocol as p
from slackwater.edge_agent.inputs.llrp.inventory import (
    READS_MAX,
    InventorySettings,
    ReaderEvent,
    ReadFilter,
    TagRead,
    has_rospec,
    reader_config,
    reader_event,
    rospec,
    tag_reads,
)
from slackwater.edge_agent.inputs.llrp.protocol import LlrpError, LlrpMessage, Messages, message
from slackwater.edge_agent.inputs.stamping import AGENT, DEVICE, StampingClocks, read_stamping
from slackwater.edge_agent.messages import StreamSchema
from slackwater.edge_agent.packing import BadRecord, Row, checked_row
from slackwater.edge_agent.settings_file import Table
from slackwater.edge_agent.units import NS_PER

PORT: Final = 5084
READER_CLOCK: Final = "reader"
"""Another value that means ``clock = "device"``."""
DELAY_MIN_MAX_NS: Final = NS_PER["s"]
DELAY_MAX_NS: Final = 60 * NS_PER["s"]
_OFF_NS: Final = NS_PER["s"]
"""Largest offset of a reader's clock that is declared to be the agent's [ns]."""
ATTRS: Final = {
    "tag": "str", "antenna": "int", "rssi": "int", "channel": "int", "count": "int",
    "last_seen": "int", "reader": "str",
}  # fmt: skip
"""Fields of a read with their types; the stream's attributes select among them."""
_ANSWER_SECONDS: Final = 10.0
_AGAIN_SECONDS: Final = 1.0
"""Wait before the next question after one without an answer."""
_CHUNK_BYTES: Final = 1 << 16
_KEEPALIVES: Final = 3
_ALL: Final = bytes(4)
_OURS: Final = (1).to_bytes(4, "big")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderSettings:
    """The reader, its inventory, and the mapping of its reads to events."""

    host: str
    port: int
    inventory: InventorySettings
    schema: StreamSchema
    types: Mapping[int, str]
    """Event type per antenna."""
    type: str
    ask_every_s: float
    """Interval between questions for the reader's time; 0: only at connections."""


class ReaderInput:
    """One reader, over successive connections."""

    def __init__(
        self, name: str, settings: ReaderSettings, reads: ReadFilter, backoff: Backoff,
        clocks: StampingClocks, around: Surroundings,
    ) -> None:  # fmt: skip
        self.counts = clocks.counts = reads.counts
        """``connected``, ``not_connected``, ``lost``; ``reports``, ``reads`` and those that
        ``ReadFilter`` dropped; ``bad`` reads; ``time_asked``, ``time_not_told``: questions for the
        reader's time, and failed ones; and the counters of ``StampingClocks``."""
        self._place = f"{name}: {settings.host} port {settings.port}"
        self._settings = settings
        self._filter = reads
        self._backoff = backoff
        self._clocks = clocks
        self._wall_ns, self._mono_ns = around.wall_ns, around.mono_ns
        self._booted_ns: int | None = None
        """Boot time, by this device's clock, of a reader that reports only its uptime [ns]."""
        self._doubtful = asyncio.Event()
        """Set when the reader's time should be asked for at once."""
        self._configured = False

    async def run(self, outlet: Outlet) -> None:
        while True:
            asked_ns = self._mono_ns()
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    streams = await asyncio.open_connection(
                        self._settings.host, self._settings.port
                    )
            except OSError as error:
                self.counts["not_connected"] += 1
                outlet.trouble(str(error) or "no answer in time", self._place)
                await self._backoff.wait()
                continue
            link = _ReaderConnection(*streams)
            try:
                await self._converse(link, asked_ns, outlet)
            except (OSError, LlrpError) as error:
                self.counts["lost"] += 1
                outlet.trouble(str(error) or "the reader has fallen silent", self._place)
            finally:
                link.close()
            await self._backoff.wait()

    async def _converse(self, link: _ReaderConnection, asked_ns: int, outlet: Outlet) -> None:
        """Run one connection; ends only by an exception."""
        event = await _greeting(link)
        if event.attempt:
            raise LlrpError(f"the reader refuses (ConnectionAttemptEvent {event.attempt})")
        self.counts["connected"] += 1
        if event.utc_ns is None and event.uptime_ns is not None:
            self._booted_ns = self._wall_ns() - event.uptime_ns
            self._clocks.device("").restart()
        await self._take_time(event, asked_ns, outlet)

        async def other(found: LlrpMessage) -> None:
            await self._take(link, found, outlet)

        asking = asyncio.create_task(self._ask_time(outlet))
        try:
            await self._configure(link, other)
            self._backoff.reset()
            silence = self._settings.inventory.keepalive_ms / 1000 * _KEEPALIVES
            while True:
                async with asyncio.timeout(silence):
                    found = await link.next()
                await other(found)
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def _ask_time(self, outlet: Outlet) -> None:
        """Ask for the time periodically, and at once if a message suggests a clock step."""
        every = self._settings.ask_every_s
        while every:
            with suppress(TimeoutError):
                async with asyncio.timeout(every):
                    await self._doubtful.wait()
            self._doubtful.clear()
            self.counts["time_asked"] += 1
            asked_ns = self._mono_ns()
            try:
                event = await reader_time(self._settings.host, self._settings.port)
            except (OSError, LlrpError):
                self.counts["time_not_told"] += 1
                await asyncio.sleep(min(every, _AGAIN_SECONDS))
                continue
            await self._take_time(event, asked_ns, outlet)

    async def _take_time(self, event: ReaderEvent, asked_ns: int, outlet: Outlet) -> None:
        stamp_ns, mono_ns = self._time_of(event.utc_ns, event.uptime_ns), self._mono_ns()
        if stamp_ns is None:
            return
        if self._clocks.mode == DEVICE:
            await self._clocks.answered(outlet, "", asked_ns, mono_ns, stamp_ns, p.UNIT_NS)
        elif self._clocks.mode == AGENT:
            ahead_ns = stamp_ns - self._wall_ns()
            if abs(ahead_ns) > _OFF_NS + mono_ns - asked_ns:
                outlet.trouble(
                    f"its clock is {abs(ahead_ns) / NS_PER['s']:.1f} s "
                    f"{'ahead' if ahead_ns > 0 else 'slow'}, not this device's: set clock = "
                    f'"{DEVICE}"', self._place,
                )  # fmt: skip

    def _time_of(self, utc_ns: int | None, uptime_ns: int | None) -> int | None:
        """Time of the reader's clock; None: it has no time of day."""
        if utc_ns is not None:
            return utc_ns
        known = uptime_ns is not None and self._booted_ns is not None
        return self._booted_ns + uptime_ns if known else None  # type: ignore[operator]

    async def _configure(self, link: _ReaderConnection, other: Any) -> None:
        """Start the ROSpec unless one of this process still runs from an earlier connection."""
        inventory = self._settings.inventory
        answer = await link.ask(p.GET_ROSPECS, b"", other)
        if not self._configured or not has_rospec(answer):
            await link.ask(p.SET_READER_CONFIG, reader_config(inventory), other)
            await link.ask(p.DELETE_ROSPEC, _ALL, other)
            await link.ask(p.ADD_ROSPEC, rospec(inventory), other)
            await link.ask(p.ENABLE_ROSPEC, _OURS, other)
            self._configured = True
        await link.send(p.ENABLE_EVENTS_AND_REPORTS)

    async def _take(self, link: _ReaderConnection, found: LlrpMessage, outlet: Outlet) -> None:
        if found.type == p.KEEPALIVE:
            await link.send(p.KEEPALIVE_ACK)
        elif found.type == p.RO_ACCESS_REPORT:
            self.counts["reports"] += 1
            reads = tag_reads(found.body)
            self.counts["reads"] += len(reads)
            rows = [row for read in reads if (row := self._row(read, outlet)) is not None]
            if rows:
                stamped = await self._clocks.stamped(rows, outlet, resolution_ns=p.UNIT_NS)
                if self._clocks.mode == DEVICE and self._clocks.device("").needs_answer:
                    self._doubtful.set()
                await outlet.take(self._settings.schema.name, stamped)
        elif found.type == p.ERROR_MESSAGE:
            outlet.trouble(f"the reader says: error {p.status_of(found.body)}", self._place)

    def _row(self, read: TagRead, outlet: Outlet) -> Row | None:
        found = self._time_of(read.first_utc_ns, read.first_uptime_ns)
        seen = self._wall_ns() if found is None else found
        ts = self._filter.passes((read.epc, read.antenna), seen, read.seen)
        if ts is None:
            return None
        said = {
            "tag": read.epc, "antenna": read.antenna, "rssi": read.rssi_dbm,
            "channel": read.channel, "count": read.seen, "last_seen": read.last_utc_ns,
            "reader": self._settings.host,
        }  # fmt: skip
        type_ = self._settings.types.get(read.antenna or 0, self._settings.type)
        try:
            return checked_row(self._settings.schema, ts, None, None, type_ or None, said)
        except BadRecord as error:
            self.counts["bad"] += 1
            outlet.bad(str(error), self._place)
            return None


async def reader_time(host: str, port: int) -> ReaderEvent:
    """Connect only to get the reader's time; its current client is not disturbed.

    Raises:
        OSError, LlrpError: the reader did not send its time.
    """
    async with asyncio.timeout(_ANSWER_SECONDS):
        streams = await asyncio.open_connection(host, port)
    link = _ReaderConnection(*streams)
    try:
        return await _greeting(link)
    finally:
        link.close()


async def _greeting(link: _ReaderConnection) -> ReaderEvent:
    """Return the event that says how the connection attempt went; raises OSError, LlrpError."""
    async with asyncio.timeout(_ANSWER_SECONDS):
        while True:
            first = await link.next()
            if first.type == p.READER_EVENT_NOTIFICATION:
                event = reader_event(first.body)
                if event.attempt is not None:
                    return event


class _ReaderConnection:
    """A connection to a reader."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._messages = Messages()
        self._came: deque[LlrpMessage] = deque()
        self._number = 0

    async def next(self) -> LlrpMessage:
        """Return the next message; raises OSError, LlrpError."""
        while not self._came:
            data = await self._reader.read(_CHUNK_BYTES)
            if not data:
                raise ConnectionResetError("the reader closed the connection")
            self._came.extend(self._messages.feed(data))
        return self._came.popleft()

    async def send(self, kind: int, body: bytes = b"") -> int:
        """Send a message and return its id."""
        self._number += 1
        self._writer.write(message(kind, self._number, body))
        await self._writer.drain()
        return self._number

    async def ask(self, kind: int, body: bytes, other: Any) -> bytes:
        """Send a request and return the body of its answer; ``other`` takes messages before it.

        Raises:
            LlrpError: the reader refuses the request.
        """
        number = await self.send(kind, body)
        async with asyncio.timeout(_ANSWER_SECONDS):
            found = await self.next()
            while (found.type, found.id) != (p.ANSWERS[kind], number):
                await other(found)
                found = await self.next()
        code, text = p.status_of(found.body)
        if code:
            raise LlrpError(f"the reader refuses message {kind}: {code} {text!r:.200}")
        return found.body

    def close(self) -> None:
        """Close the connection at once."""
        self._writer.transport.abort()


def llrp_input(table: Table, around: Surroundings) -> ReaderInput:
    """``kind = "rfid-llrp"``; its settings are in docs/devices.md."""
    schema = around.schemas[
        table.text("stream", next(iter(around.schemas)), among=list(around.schemas))
    ]
    for name, kind in schema.attrs.items():
        if name not in ATTRS or (kind != ATTRS[name] and (kind, ATTRS[name]) != ("float", "int")):
            raise table.wrong(
                "stream", f"attribute {name} ({kind}) is nothing that a reader says"
                f"{did_you_mean(name, ATTRS)}",
            )  # fmt: skip
    antennas = table.table("antennas")
    types = {_antenna(antennas, name): antennas.text(name) for name in antennas.keys()}  # noqa: SIM118 - a Table is no dict
    inventory = InventorySettings(
        antennas=tuple(sorted(types)),
        report_every=table.integer("report_every", 1, 1, 1_000),
        keepalive_ms=table.duration_ns("keepalive", 5 * NS_PER["s"], NS_PER["ms"]) // NS_PER["ms"],
    )
    settings = ReaderSettings(
        host=table.host("host"),
        port=table.integer("port", PORT, 1, 65_535),
        inventory=inventory,
        schema=schema,
        types=types,
        type=table.text("type", ""),
        ask_every_s=table.duration_ns("ask_every", 10 * NS_PER["s"]) / NS_PER["s"],
    )
    reads = ReadFilter(
        table.duration_ns("same_tag_within", 0),
        table.integer("ghost_reads", 1, 1, READS_MAX),
        table.duration_ns("ghost_window", NS_PER["s"], low=1),
    )
    stamping = read_stamping(
        table, DEVICE, delay_min_max_ns=DELAY_MIN_MAX_NS, delay_max_ns=DELAY_MAX_NS,
        also=(READER_CLOCK,),
    )  # fmt: skip
    clocks = StampingClocks(stamping, around)
    backoff = read_backoff(table, around.jitter)
    return ReaderInput(around.name, settings, reads, backoff, clocks, around)


def _antenna(antennas: Table, name: str) -> int:
    if not (name.isascii() and name.isdecimal() and 1 <= int(name[:6]) <= 65_535):
        raise antennas.wrong(
            name, "write the number of an antenna, from 1 on, and its events' type"
        )
    return int(name)
