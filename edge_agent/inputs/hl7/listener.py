"""``kind = "hl7-mllp"``: listens for ORU^R01 messages and answers when their events are durable.

Answers come in the order of the messages. A repeated message (its acknowledgement was lost, or the
agent was) gets the same answer and is not taken twice. Two messages are the same if sender (MSH-3,
MSH-4), control id (MSH-10) and all segments after the header are equal. The last condition
distinguishes them for devices that restart their control ids at 1.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from slackwater.edge_agent.errors import AgentError
from slackwater.edge_agent.inputs.base import Outlet, Surroundings
from slackwater.edge_agent.inputs.hl7.message import (
    LOCAL,
    Framing,
    Hl7Message,
    Hl7Refusal,
    MllpFrame,
    answers,
    named_zone,
    read_message,
)
from slackwater.edge_agent.inputs.hl7.observations import Observations, mapping_of
from slackwater.edge_agent.inputs.stamping import DEVICE, StampingClocks, read_stamping
from slackwater.edge_agent.outbox.journal import KEY_BYTES
from slackwater.edge_agent.settings_file import Table
from slackwater.edge_agent.units import NS_PER

PORT: Final = 2575
"""Port registered for HL7 over MLLP."""
DELAY_MIN_MAX_NS: Final = 500 * NS_PER["ms"]
DELAY_MAX_NS: Final = 60 * NS_PER["s"]
MESSAGE_MAX: Final = 256 << 10
CONTROL_ID_MAX: Final = 199
_CHUNK_BYTES: Final = 1 << 16
_TOGETHER: Final = 64
"""Most messages of one connection that wait for one fsync together."""
_STALLED_SECONDS: Final = 30.0
"""Longest wait for the rest of a message or for sending an answer."""
_OBSERVATION: Final = ("type", "attr")
_CHARSETS: Final = ("utf-8", "iso-8859-1", "ascii")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hl7Settings:
    """Address, limits and accepted messages."""

    name: str
    host: str
    port: int
    connections_max: int
    message_max: int
    charset: str
    processing: tuple[str, ...]
    """Accepted values of MSH-11 (P production, T training, D debugging)."""


class Hl7Input:
    """One listening socket and its senders."""

    def __init__(
        self, settings: Hl7Settings, observations: Observations, wall_ns: Callable[[], int],
        clocks: StampingClocks,
    ) -> None:  # fmt: skip
        self.counts: Counter[str] = Counter()
        """Messages: ``accepted``, ``repeated``, ``refused_AE``, ``refused_AR``; connections:
        ``connected``, ``refused_connections``, ``lost``; and the counters of ``Observations``,
        ``Framing`` and ``StampingClocks``."""
        clocks.counts = self.counts
        self._clocks = clocks
        self._settings = settings
        self._observations = observations
        observations.counts = self.counts
        self._wall_ns = wall_ns
        self._taking = asyncio.Lock()
        self._connections = 0
        self._answers = 0
        self.port = 0
        """The port that it listens on; 0: not yet."""

    async def run(self, outlet: Outlet) -> None:
        host, port = self._settings.host, self._settings.port
        senders = asyncio.TaskGroup()

        def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            senders.create_task(self._serve(reader, writer, outlet))

        try:
            server = await asyncio.start_server(
                begin, host, port, limit=_CHUNK_BYTES, start_serving=False
            )
        except OSError as error:
            reason = error.strerror or error
            raise AgentError(f"{self._settings.name}: {host} port {port}: {reason}") from error
        self.port = server.sockets[0].getsockname()[1]
        async with senders, server:
            await server.serve_forever()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, outlet: Outlet
    ) -> None:
        peer = writer.get_extra_info("peername") or ("?", 0)
        place = f"{self._settings.name}: {peer[0]} port {peer[1]}"
        self._connections += 1
        # A sender that is switched off never closes its connection: keepalive detects it.
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            if self._connections > self._settings.connections_max:
                self.counts["refused_connections"] += 1
                outlet.trouble(f"more than {self._settings.connections_max} connections", place)
                return
            self.counts["connected"] += 1
            await self._converse(reader, writer, outlet, str(peer[0]))
            writer.close()  # answers in the buffer are still sent
        except OSError as error:
            self.counts["lost"] += 1
            outlet.trouble(error.strerror or str(error) or "the connection was lost", place)
        finally:
            self._connections -= 1
            if not writer.is_closing():
                writer.transport.abort()

    async def _converse(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, outlet: Outlet,
        host: str,
    ) -> None:  # fmt: skip
        framing = Framing(self._settings.message_max)
        framing.counts = self.counts
        while True:
            async with asyncio.timeout(_STALLED_SECONDS if framing.partial else None):
                data = await reader.read(_CHUNK_BYTES)
            if not data:
                return
            frames = framing.feed(data)
            for first in range(0, len(frames), _TOGETHER):
                # Several if the sender does not wait for answers; they are started in order.
                some = (self.answered(each, outlet, host) for each in frames[first:][:_TOGETHER])
                for found in await asyncio.gather(*some):
                    writer.writelines(found)
                async with asyncio.timeout(_STALLED_SECONDS):
                    await writer.drain()

    async def answered(self, frame: MllpFrame, outlet: Outlet, host: str) -> list[bytes]:
        """Take a message of a sender at address ``host``; return the answers once its events are
        durable.
        """
        message: Hl7Message | None = None
        refused: Hl7Refusal | None = None
        try:
            # The header first, so that any refusal can name the control id.
            message = read_message(frame.content.partition(b"\r")[0], self._settings.charset)
            self._check(frame, message)
            message = read_message(frame.content, self._settings.charset)
            await self._take(message, outlet, host)
        except Hl7Refusal as error:
            refused = error
            self.counts[f"refused_{error.code}"] += 1
            control = "" if message is None else f" {message.control_id!r:.40}"
            place = f"{self._settings.name}: {host}"
            outlet.bad(f"message{control} refused: {error.reason}", place)
        self._answers += 1
        return answers(message, refused, self._wall_ns(), self._answers)

    def _check(self, frame: MllpFrame, message: Hl7Message) -> None:
        header = message.header
        kind = (header.text(9, 1), header.text(9, 2))
        if not frame.whole:
            raise Hl7Refusal(
                "AR", 207, f"a message of more than {self._settings.message_max} bytes"
            )
        if kind != ("ORU", "R01"):
            number = 201 if kind[0] == "ORU" else 200
            raise Hl7Refusal("AR", number, f"{'^'.join(kind)!r:.40} is not ORU^R01")
        if (header.text(11, 1) or "P") not in self._settings.processing:
            raise Hl7Refusal(
                "AR", 202, f"processing id {header.text(11, 1)!r:.20} is not taken here"
            )
        if not 1 <= len(message.control_id) <= CONTROL_ID_MAX:
            reason = f"a control id (MSH-10) of 1 to {CONTROL_ID_MAX} characters is needed"
            raise Hl7Refusal("AE", 101, reason)

    async def _take(self, message: Hl7Message, outlet: Outlet, host: str) -> None:
        key = self._key(message)
        async with self._taking:  # the same message may come on another connection
            if outlet.knows(key):
                self.counts["repeated"] += 1
            else:
                rows = self._observations.rows(message)
                stream = self._observations.stream
                made_ns, resolution_ns = self._observations.made_at(message)
                stamped = await self._clocks.stamped(
                    rows, outlet, device=_device(message, host), stamp_ns=made_ns,
                    resolution_ns=max(resolution_ns, self._observations.resolution_ns),
                )  # fmt: skip
                if rows and not await outlet.take(stream, stamped, (key,)):
                    raise Hl7Refusal("AE", 207, "no room for its events")
                self.counts["accepted"] += 1
        await outlet.durable()

    def _key(self, message: Hl7Message) -> bytes:
        parts = (
            self._settings.name, message.header.raw(3), message.header.raw(4), message.control_id,
            message.after_header,
        )  # fmt: skip
        content = "\r".join(part.replace("\r", "\n") for part in parts[:-1]) + "\r" + parts[-1]
        return hashlib.blake2b(content.encode("utf-8"), digest_size=KEY_BYTES).digest()


def _device(message: Hl7Message, host: str) -> str:
    """The stamping device: a sender (MSH-3, MSH-4) at an address, as equal models share names."""
    return f"{host}/{message.header.text(3, 1)}^{message.header.text(4, 1)}"


def hl7_input(table: Table, around: Surroundings) -> Hl7Input:
    """``kind = "hl7-mllp"``; its settings are in docs/devices.md."""
    schema = around.schemas[
        table.text("stream", next(iter(around.schemas)), among=list(around.schemas))
    ]
    as_attrs = table.text("observation", "type", among=_OBSERVATION) == "attr"
    type_ = table.text("type", "") if as_attrs else ""
    zone_name = table.text("zone", LOCAL)
    try:
        zone = named_zone(zone_name)
    except (KeyError, ValueError, OSError) as error:
        problem = 'write "local", "+01:00" or a name that this device knows, as "Europe/Berlin"'
        raise table.wrong("zone", problem) from error
    names = table.table("map")
    fields = {name: names.text(name, among=()) for name in names.keys()}  # noqa: SIM118 - no dict
    for name in fields:
        if name not in schema.attrs:
            raise names.wrong(name, f"stream {schema.name} has no such attribute")
    try:
        mapping = mapping_of(schema, fields, as_attrs=as_attrs, type_=type_, zone=zone)
    except ValueError as error:
        raise table.wrong("map", str(error)) from error
    settings = Hl7Settings(
        name=around.name,
        host=table.host("listen", "127.0.0.1"),
        port=table.integer("port", PORT, 0, 65_535),
        connections_max=table.integer("connections", 32, 1, 1000),
        message_max=table.size("message_max", MESSAGE_MAX, low=1 << 10),
        charset=table.text("charset", "utf-8", among=_CHARSETS),
        processing=tuple(table.texts("processing", ["P"])),
    )
    if settings.message_max > MESSAGE_MAX:
        raise table.wrong("message_max", f"must be at most {MESSAGE_MAX} B")
    stamping = read_stamping(
        table, DEVICE, delay_min_max_ns=DELAY_MIN_MAX_NS, delay_max_ns=DELAY_MAX_NS
    )
    clocks = StampingClocks(stamping, around)
    return Hl7Input(settings, Observations(mapping), around.wall_ns, clocks)
