"""The clocks of devices behind inputs, measured from a reader's greeting, a monitor's message, or
other messages of a few seconds.

A monitor's message is not acknowledged, so that its sender keeps it for the agent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from slackwater.edge_agent.device_clock import device_of
from slackwater.edge_agent.errors import AgentError
from slackwater.edge_agent.inputs.base import InputReader, StatelessOutlet
from slackwater.edge_agent.inputs.hl7.listener import MESSAGE_MAX
from slackwater.edge_agent.inputs.hl7.message import (
    Framing,
    instant_of,
    named_zone,
    read_message,
    resolution_of,
)
from slackwater.edge_agent.inputs.llrp.reader import reader_time
from slackwater.edge_agent.inputs.stamping import AGENT, ARRIVAL
from slackwater.edge_agent.measure import DeviceFindings
from slackwater.edge_agent.packing import Row
from slackwater.edge_agent.settings_file import quantity, shown_ns
from slackwater.edge_agent.units import NS_PER

_CHUNK: Final = 1 << 16
_SAID_NS: Final = 100 * NS_PER["ms"]
"""A device's clock within this offset counts as right [ns]."""


class ClockOffset(NamedTuple):
    """A device's clock is ahead of this device's wall clock by ``low`` to ``high`` ns."""

    low: int
    high: int
    grain: int


async def reader_reading(
    host: str, port: int, wall_ns: Callable[[], int]
) -> tuple[ClockOffset | None, int]:
    """Offset of an LLRP reader's clock (None: it has no time of day), and round-trip time [ns].

    Raises:
        OSError, AgentError: the reader cannot be asked.
    """
    sent_ns = wall_ns()
    event = await reader_time(host, port)
    came = wall_ns()
    if event.utc_ns is None:
        return None, came - sent_ns
    return ClockOffset(event.utc_ns - came, event.utc_ns - sent_ns, NS_PER["us"]), came - sent_ns


async def monitor_reading(
    table: Mapping[str, Any], wall_ns: Callable[[], int], patience_s: float
) -> ClockOffset | None:
    """Offset of the first monitor that sends an HL7 message; None: none did in time.

    Raises:
        OSError: this device cannot listen at the address.
    """
    found: asyncio.Future[ClockOffset] = asyncio.get_running_loop().create_future()
    zone = named_zone(table["zone"])

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        framing = Framing(MESSAGE_MAX)
        try:
            while data := await reader.read(_CHUNK):
                came = wall_ns()
                for frame in framing.feed(data):
                    header = frame.content.partition(b"\r")[0]
                    text = read_message(header, table["charset"]).header.text(7, 1)
                    ahead, grain = instant_of(text, zone) - came, resolution_of(text)
                    if not found.done():
                        found.set_result(ClockOffset(ahead, ahead + grain, grain))
        except (OSError, AgentError):
            pass  # no usable time
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, table["listen"], table["port"])
    async with server:
        try:
            async with asyncio.timeout(patience_s):
                return await found
        except TimeoutError:
            return None


class ClockListener(StatelessOutlet):
    """An outlet that compares time stamps with arrivals and keeps no event."""

    def __init__(self, wall_ns: Callable[[], int], *, is_named: bool) -> None:
        """``is_named``: rows name the device that stamped them; the agent stamps others on arrival,
        which says nothing about a device's clock.
        """
        self._wall_ns = wall_ns
        self._is_named = is_named
        self.on_arrival = 0
        """Number of events that the agent stamped on arrival."""
        self.ahead: dict[str, int] = {}
        """Device -> least offset of its clock [ns, positive: ahead], from its fastest message."""
        self.why = ""
        """The last fault of a message or of the connection."""

    async def take(self, stream: str, rows: Sequence[Row], keys: Sequence[bytes] = ()) -> bool:
        """Update the offsets; the newest event of a message has the tightest bound."""
        del stream, keys
        came = self._wall_ns()
        for row in rows:
            if self._is_named and row.clock is None:
                self.on_arrival += 1
                continue
            device = device_of(row.clock or "")
            self.ahead[device] = max(self.ahead.get(device, row.ts - came), row.ts - came)
        return True

    async def durable(self) -> None:
        """Return at once, because the messages are copies."""

    def bad(self, what: str, place: str) -> None:
        """Record a bad record as the last fault."""
        self.trouble(what, place)

    def trouble(self, what: str, place: str) -> None:
        """Record the last fault."""
        self.why = f"{place}: {what}"


async def heard_clocks(
    source: InputReader, table: Mapping[str, Any], wall_ns: Callable[[], int], patience_s: float,
    *, is_named: bool,
) -> DeviceFindings:  # fmt: skip
    """Listen for ``patience_s`` and judge the clocks that stamp the messages: with several devices,
    the one with the largest offset. ``is_named``: as in ``ClockListener``.
    """
    if table["clock"] == ARRIVAL:
        return _on_arrival(table)
    listener = ClockListener(wall_ns, is_named=is_named)
    try:
        async with asyncio.timeout(patience_s):
            await source.run(listener)
    except TimeoutError:
        pass
    except AgentError as error:
        listener.why = str(error)
    if not listener.ahead and listener.on_arrival:
        return _on_arrival(table)
    if not listener.ahead:
        found = judged("device", table, None, None)
        return replace(
            found, said=f"{found.said}: {listener.why or 'no message with a time of its own came'}"
        )
    device, ahead = max(listener.ahead.items(), key=lambda each: abs(each[1]))
    grain = NS_PER[table["time_unit"]] if table.get("time_unit", "ns") != "ns" else 0
    found = judged(device or "device", table, ClockOffset(ahead, ahead + grain, grain), None)
    if len(listener.ahead) > 1:
        found = replace(found, said=f"{found.said} (the worst of {len(listener.ahead)} devices)")
    if not listener.on_arrival:
        return found
    others = _on_arrival(table)
    said = f"{found.said}; {listener.on_arrival} {others.said}"
    return replace(found, said=said, width_ns=max(found.width_ns, others.width_ns))


def _on_arrival(table: Mapping[str, Any]) -> DeviceFindings:
    """Findings for events that are stamped on arrival."""
    latest = quantity(table["delay_max"], NS_PER, "delay_max")
    said = f"events are stamped by the agent on arrival, up to {shown_ns(latest)} late"
    return DeviceFindings(said=said, width_ns=latest, wrong=False)


def judged(
    what: str, table: Mapping[str, Any], reading: ClockOffset | None, answer_ns: int | None
) -> DeviceFindings:
    """Judge how a stamping clock affects the agent's events.

    Args:
        what: ``reader``, ``monitor``, ``device``, or a device's name.
        table: effective settings of the input.
        reading: the offset of the clock; None: it was not read.
        answer_ns: round-trip time of a question to the device; None: devices of this kind are not
            asked.
    """
    mode = str(table["clock"])
    if mode == ARRIVAL:
        return _on_arrival(table)
    fastest = quantity(table["delay_min_max"], NS_PER, "delay_min_max")
    grain = 0 if reading is None else reading.grain
    width = 2 * fastest + 3 * grain if answer_ns is None else 3 * answer_ns
    if reading is None:
        return DeviceFindings(
            said=f"the {what}'s clock was not read", width_ns=0 if mode == AGENT else width,
            wrong=False,
        )  # fmt: skip
    nearest = max(reading.low, 0) + min(reading.high, 0)
    middle = (reading.low + reading.high) // 2
    off = abs(nearest) > _SAID_NS
    way = "ahead" if middle > 0 else "slow"
    how = f"{abs(middle) / NS_PER['s']:.1f} s {way}" if off else "right to 0.1 s"
    said = f"the {what}'s clock is {how}; its events are stamped by it"
    if mode == AGENT:
        if off:
            said += ', and clock = "agent" takes them for right: set clock = "device"'
        return DeviceFindings(said=said, width_ns=0, wrong=off)
    said += f", and the agent follows it, to about {width / 2 / NS_PER['ms']:.0f} ms"
    return DeviceFindings(said=said, width_ns=width, wrong=False)
