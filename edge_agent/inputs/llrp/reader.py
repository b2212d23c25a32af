"""``kind = "rfid-llrp"``: connects to an RFID reader and keeps it reading.

LLRP acknowledges no report, so a read is safe when it is in the outbox, and what the reader sends
waits in its socket while the outbox is full. The reader is asked to hold reports while nobody is
connected; its ROSpec runs on over a lost connection, so that no tag passes in between. A reader
that says nothing for three of its keepalives is connected anew.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from edge_agent.inputs.backoff import Backoff, read_backoff
from edge_agent.inputs.base import Outlet, Surroundings
from edge_agent.inputs.llrp import protocol as p
from edge_agent.inputs.llrp.filters import READS_MAX, ReadFilter
from edge_agent.inputs.llrp.inventory import (
    InventorySettings,
    ReaderEvent,
    TagRead,
    has_rospec,
    reader_config,
    reader_event,
    rospec,
    tag_reads,
)
from edge_agent.inputs.llrp.protocol import LlrpError, Message, Messages, message
from edge_agent.messages import StreamSchema
from edge_agent.near_miss import did_you_mean
from edge_agent.rows import BadRecord, Row, checked_row
from edge_agent.settings_file import Table
from edge_agent.units import NS_PER

PORT: Final = 5084
CLOCKS: Final = ("reader", "agent")
ATTRS: Final = {
    "tag": "str", "antenna": "int", "rssi": "int", "channel": "int", "count": "int",
    "last_seen": "int", "reader": "str",
}  # fmt: skip
"""What a read may say; the attributes of the stream choose."""
_ANSWER_SECONDS: Final = 10.0
_CHUNK_BYTES: Final = 1 << 16
_KEEPALIVES: Final = 3
_ALL: Final = bytes(4)
_OURS: Final = (1).to_bytes(4, "big")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderSettings:
    """Which reader, what it does, and how its reads become events."""

    host: str
    port: int
    inventory: InventorySettings
    schema: StreamSchema
    types: Mapping[int, str]
    """Type of the events of an antenna."""
    type: str
    agent_clock: bool
    """Times are moved by how far the reader's clock was from this device's at the connection."""


class ReaderInput:
    """One reader, over one connection after the other."""

    def __init__(
        self, name: str, settings: ReaderSettings, reads: ReadFilter, backoff: Backoff,
        wall_ns: Callable[[], int],
    ) -> None:  # fmt: skip
        self.counts = reads.counts
        """``connected``, ``not_connected``, ``lost``; ``reports``, ``reads`` and, of these, those
        that ``ReadFilter`` left out; ``bad`` ones."""
        self._place = f"{name}: {settings.host} port {settings.port}"
        self._settings = settings
        self._filter = reads
        self._backoff = backoff
        self._wall_ns = wall_ns
        self._configured = False

    async def run(self, outlet: Outlet) -> None:
        while True:
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
            link = _Link(*streams)
            try:
                await self._converse(link, outlet)
            except (OSError, LlrpError) as error:
                self.counts["lost"] += 1
                outlet.trouble(str(error) or "the reader has fallen silent", self._place)
            finally:
                link.close()
            await self._backoff.wait()

    async def _converse(self, link: _Link, outlet: Outlet) -> None:
        """Returns by an error alone."""
        event: ReaderEvent | None = None
        async with asyncio.timeout(_ANSWER_SECONDS):
            while event is None or event.attempt is None:
                first = await link.next()
                if first.type == p.READER_EVENT_NOTIFICATION:
                    event = reader_event(first.body)
        if event.attempt:
            raise LlrpError(f"the reader refuses (ConnectionAttemptEvent {event.attempt})")
        clock = _ReaderClock(event, self._wall_ns(), agent=self._settings.agent_clock)
        self.counts["connected"] += 1

        async def other(found: Message) -> None:
            await self._take(link, found, clock, outlet)

        await self._configure(link, other)
        self._backoff.reset()
        silence = self._settings.inventory.keepalive_ms / 1000 * _KEEPALIVES
        while True:
            async with asyncio.timeout(silence):
                found = await link.next()
            await other(found)

    async def _configure(self, link: _Link, other: Any) -> None:
        """The ROSpec of this process runs: it may have run on since the last connection."""
        inventory = self._settings.inventory
        answer = await link.ask(p.GET_ROSPECS, b"", other)
        if not self._configured or not has_rospec(answer):
            await link.ask(p.SET_READER_CONFIG, reader_config(inventory), other)
            await link.ask(p.DELETE_ROSPEC, _ALL, other)
            await link.ask(p.ADD_ROSPEC, rospec(inventory), other)
            await link.ask(p.ENABLE_ROSPEC, _OURS, other)
            self._configured = True
        await link.send(p.ENABLE_EVENTS_AND_REPORTS)

    async def _take(self, link: _Link, found: Message, clock: _ReaderClock, outlet: Outlet) -> None:
        if found.type == p.KEEPALIVE:
            await link.send(p.KEEPALIVE_ACK)
        elif found.type == p.RO_ACCESS_REPORT:
            self.counts["reports"] += 1
            reads = tag_reads(found.body)
            self.counts["reads"] += len(reads)
            rows = [row for read in reads if (row := self._row(read, clock, outlet)) is not None]
            if rows:
                await outlet.take(self._settings.schema.name, rows)
        elif found.type == p.ERROR_MESSAGE:
            outlet.trouble(f"the reader says: error {p.status_of(found.body)}", self._place)

    def _row(self, read: TagRead, clock: _ReaderClock, outlet: Outlet) -> Row | None:
        found = clock.time_of(read)
        seen = self._wall_ns() if found is None else found
        ts = self._filter.passes((read.epc, read.antenna), seen, read.seen)
        if ts is None:
            return None
        last = None if read.last_utc_ns is None else read.last_utc_ns + clock.moved_ns
        said = {
            "tag": read.epc, "antenna": read.antenna, "rssi": read.rssi_dbm,
            "channel": read.channel, "count": read.seen, "last_seen": last,
            "reader": self._settings.host,
        }  # fmt: skip
        type_ = self._settings.types.get(read.antenna or 0, self._settings.type)
        try:
            return checked_row(self._settings.schema, ts, None, None, type_ or None, said)
        except BadRecord as error:
            self.counts["bad"] += 1
            outlet.bad(str(error), self._place)
            return None


class _ReaderClock:
    """From a reader's times to an event's; ``moved_ns`` is added to its UTC."""

    def __init__(self, event: ReaderEvent, wall_ns: int, *, agent: bool) -> None:
        self.moved_ns = wall_ns - event.utc_ns if agent and event.utc_ns is not None else 0
        self._booted_ns = None if event.uptime_ns is None else wall_ns - event.uptime_ns

    def time_of(self, read: TagRead) -> int | None:
        """When a tag was first seen; None: the report has no time that means anything here."""
        if read.first_utc_ns is not None:
            return read.first_utc_ns + self.moved_ns
        if read.first_uptime_ns is not None and self._booted_ns is not None:
            return self._booted_ns + read.first_uptime_ns
        return None


class _Link:
    """A connection to a reader."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._messages = Messages()
        self._came: deque[Message] = deque()
        self._number = 0

    async def next(self) -> Message:
        """The next message; raises OSError, LlrpError."""
        while not self._came:
            data = await self._reader.read(_CHUNK_BYTES)
            if not data:
                raise ConnectionResetError("the reader closed the connection")
            self._came.extend(self._messages.feed(data))
        return self._came.popleft()

    async def send(self, kind: int, body: bytes = b"") -> int:
        """Gives the message's id."""
        self._number += 1
        self._writer.write(message(kind, self._number, body))
        await self._writer.drain()
        return self._number

    async def ask(self, kind: int, body: bytes, other: Any) -> bytes:
        """The body of the answer; ``other`` takes what comes before it.

        Raises:
            LlrpError: the reader refuses.
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
        """At once."""
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
        host=table.text("host"),
        port=table.integer("port", PORT, 1, 65_535),
        inventory=inventory,
        schema=schema,
        types=types,
        type=table.text("type", ""),
        agent_clock=table.text("clock", "reader", among=CLOCKS) == "agent",
    )
    reads = ReadFilter(
        table.duration_ns("same_tag_within", 0),
        table.integer("ghost_reads", 1, 1, READS_MAX),
        table.duration_ns("ghost_window", NS_PER["s"], low=1),
    )
    return ReaderInput(
        around.name, settings, reads, read_backoff(table, around.jitter), around.wall_ns
    )


def _antenna(antennas: Table, name: str) -> int:
    if not (name.isascii() and name.isdecimal() and 1 <= int(name[:6]) <= 65_535):
        raise antennas.wrong(
            name, "write the number of an antenna, from 1 on, and its events' type"
        )
    return int(name)
