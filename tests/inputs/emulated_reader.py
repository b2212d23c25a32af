"""An RFID reader that speaks LLRP 1.1, for tests: strict with what it gets, no code of ours in it.

It takes one connection at a time, checks ROSpecs field by field, keeps them over connections, sends
keepalives when it is configured to, and holds reports while nobody is connected if configured so.
"""

from __future__ import annotations

import asyncio
import struct
import time
from typing import Any

SUCCESS, PARAMETER_ERROR, FIELD_ERROR = 0, 100, 101


class WrongError(Exception):
    """What a client sent breaks the standard."""


def cut(data: bytes) -> list[tuple[int, bytes]]:
    """The TLV parameters of ``data``."""
    found = []
    while data:
        if len(data) < 4:
            raise WrongError("a torn parameter")
        kind, size = struct.unpack(">HH", data[:4])
        if kind >> 10 or not 4 <= size <= len(data):
            raise WrongError(f"parameter {kind} of {size} bytes")
        found.append((kind, data[4:size]))
        data = data[size:]
    return found


def need(found: list[tuple[int, bytes]], *kinds: int) -> list[bytes]:
    if [kind for kind, _ in found] != list(kinds):
        raise WrongError(f"{[kind for kind, _ in found]} instead of {kinds}")
    return [value for _, value in found]


class RoSpec:
    """What a ROSpec says, after every field was looked at."""

    def __init__(self, body: bytes) -> None:
        (spec,) = need(cut(body), 177)
        self.id, priority, self.state = struct.unpack(">IBB", spec[:6])
        if self.id == 0 or priority > 7 or self.state != 0:
            raise WrongError("a new ROSpec is disabled")
        boundary, antennas, report = need(cut(spec[6:]), 178, 183, 237)
        start, stop = need(cut(boundary), 179, 182)
        if start != b"\x01" or stop != b"\x00" + bytes(4):
            raise WrongError("triggers")
        (count,) = struct.unpack(">H", antennas[:2])
        self.antennas = struct.unpack(f">{count}H", antennas[2 : 2 + 2 * count])
        ai_stop, inventory = need(cut(antennas[2 + 2 * count :]), 184, 186)
        number, protocol = struct.unpack(">HB", inventory)
        if ai_stop != bytes(5) or number == 0 or protocol != 1:
            raise WrongError("antenna inventory")
        trigger, self.every = struct.unpack(">BH", report[:3])
        (self.content,) = struct.unpack(">H", need(cut(report[3:]), 238)[0])
        if trigger > 2 or self.content & 0x3F:
            raise WrongError("report")


class EmulatedReader:
    """``tag`` is a tag before an antenna; ``port`` is where it listens."""

    def __init__(
        self, utc_us: int = 1_700_000_000_000_000, uptime: bool = False, runs: bool = False
    ) -> None:
        """``runs``: its clock runs from ``utc_us`` on, instead of showing that for ever."""
        self.utc_us = utc_us
        self._since = time.monotonic() if runs else None
        self.uptime = uptime
        self.rospecs: dict[int, RoSpec] = {}
        self.seen: list[int] = []
        """Types of the messages that came."""
        self.refuse: dict[int, int] = {}
        """Message type -> status to answer with."""
        self.mute = False
        self.wrong: list[str] = []
        self.keepalives = 0
        self.connections = 0
        self._keepalive_ms = 0
        self._hold = False
        self._reports: list[bytes] = []
        self._open = False
        self._writer: asyncio.StreamWriter | None = None
        self._number = 0
        self.server: Any = None

    async def start(self, port: int = 0) -> int:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        return int(self.server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """The power goes: ROSpecs and held reports are forgotten."""
        self.server.close()
        self.drop()
        self.rospecs.clear()
        self._reports.clear()
        self._keepalive_ms = 0
        await asyncio.sleep(0)

    def drop(self) -> None:
        """The connection is lost."""
        if self._writer is not None:
            self._writer.transport.abort()
            self._writer = None

    def shows_us(self) -> int:
        """Its clock now; ``utc_us`` may be changed to set it."""
        ran = 0.0 if self._since is None else time.monotonic() - self._since
        return self.utc_us + int(ran * 1e6)

    @property
    def reading(self) -> bool:
        return any(spec.state == 2 for spec in self.rospecs.values())

    def tag(self, epc: bytes, antenna: int, rssi: int = -50, count: int = 1, at: int = 0) -> None:
        """A read, ``at`` microseconds after the reader's clock began."""
        for spec in self.rospecs.values():
            if spec.state == 2 and (spec.antennas == (0,) or antenna in spec.antennas):
                self._reports.append(self._report(spec, epc, antenna, rssi, count, at))
        self._flush()

    def _report(
        self, spec: RoSpec, epc: bytes, antenna: int, rssi: int, count: int, at: int
    ) -> bytes:
        if len(epc) == 12:
            found = b"\x8d" + epc
        else:
            found = struct.pack(">HHH", 241, 6 + len(epc), 8 * len(epc)) + epc
        first = 0x83 if self.uptime else 0x82
        base = 0 if self.uptime else self.utc_us
        if spec.content & 0x1000:
            found += struct.pack(">BH", 0x81, antenna)
        if spec.content & 0x0400:
            found += struct.pack(">Bb", 0x86, rssi)
        if spec.content & 0x0800:
            found += struct.pack(">BH", 0x87, 9)
        if spec.content & 0x0200:
            found += struct.pack(">BQ", first, base + at)
        if spec.content & 0x0100:
            found += struct.pack(">BQ", first + 2, base + at + 5)
        if spec.content & 0x0080:
            found += struct.pack(">BH", 0x88, count)
        found += struct.pack(">BHBH", 0x8C, 0x3000, 0x8B, 0xBEEF)  # Gen 2: PC and CRC
        return struct.pack(">HH", 240, 4 + len(found)) + found

    def _flush(self) -> None:
        if self._writer is not None and self._open and self._reports:
            self._send(61, b"".join(self._reports))
            self._reports.clear()

    def _send(self, kind: int, body: bytes, number: int | None = None) -> None:
        if number is None:
            self._number += 1
            number = self._number
        assert self._writer is not None
        if not self.mute:
            self._writer.write(struct.pack(">HII", 1 << 10 | kind, 10 + len(body), number) + body)

    def _event(self, attempt: int) -> bytes:
        stamp = struct.pack(
            ">HHQ", 129 if self.uptime else 128, 12, 7 if self.uptime else self.shows_us()
        )
        data = stamp + struct.pack(">HHH", 256, 6, attempt)
        return struct.pack(">HH", 246, 4 + len(data)) + data

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._writer is not None:
            body = self._event(2)
            writer.write(struct.pack(">HII", 1 << 10 | 63, 10 + len(body), 1) + body)
            writer.close()
            return
        self._writer = writer
        self.connections += 1
        self._open = not self._hold
        self._send(63, self._event(0))
        alive = asyncio.create_task(self._keep_alive(writer))
        try:
            while True:
                first, size, number = struct.unpack(">HII", await reader.readexactly(10))
                body = await reader.readexactly(size - 10)
                if first >> 10 != 1:
                    raise WrongError("version")
                self.seen.append(first & 0x3FF)
                self._handle(first & 0x3FF, number, body)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            alive.cancel()
            if self._writer is writer:
                self._writer = None
            writer.transport.abort()

    async def _keep_alive(self, writer: asyncio.StreamWriter) -> None:
        while True:
            await asyncio.sleep((self._keepalive_ms or 10) / 1000)
            if self._keepalive_ms and self._writer is writer:
                self._send(62, b"")

    def _handle(self, kind: int, number: int, body: bytes) -> None:
        if kind == 72:
            self.keepalives += 1
        elif kind == 64:
            self._open = True
            self._flush()
        else:
            try:
                status, more = self.refuse.get(kind, SUCCESS), b""
                if status == SUCCESS:
                    status, more = self._done(kind, body)
            except WrongError as error:
                self.wrong.append(str(error))
                status, more = PARAMETER_ERROR, b""
            status_part = struct.pack(">HHHH", 287, 8, status, 0)
            self._send(kind + 10, status_part + more, number)

    def _done(self, kind: int, body: bytes) -> tuple[int, bytes]:
        if kind == 26:
            states = [struct.pack(">IBB", spec.id, 0, spec.state) for spec in self.rospecs.values()]
            return SUCCESS, b"".join(struct.pack(">HH", 177, 10) + each for each in states)
        if kind == 3:
            keepalive, events = need(cut(body[1:]), 220, 226)
            trigger, period = struct.unpack(">BI", keepalive)
            if body[0] or trigger != 1 or len(events) != 1:
                raise WrongError("configuration")
            self._keepalive_ms, self._hold = period, bool(events[0] & 0x80)
            return SUCCESS, b""
        if kind == 20:
            spec = RoSpec(body)
            if spec.id in self.rospecs:
                return FIELD_ERROR, b""
            self.rospecs[spec.id] = spec
            return SUCCESS, b""
        (which,) = struct.unpack(">I", body)
        if kind == 21:
            if which and which not in self.rospecs:
                return FIELD_ERROR, b""
            self.rospecs = {i: s for i, s in self.rospecs.items() if which and i != which}
            return SUCCESS, b""
        if kind == 24 and which in self.rospecs:
            self.rospecs[which].state = 2  # enabled, and started by its immediate trigger
            return SUCCESS, b""
        return FIELD_ERROR, b""
