"""Packets under way: the simulator's links decide when each comes out, the clock is handed in.

Nothing here knows of devices or of real time, so that the same packets at the same instants have
the same fates as in a simulation: the decisions are those of ``simulator.links.Link`` alone.

>>> from pathlib import Path
>>> from slackwater.simulator.emulator.settings import read_emulation
>>> emulation = read_emulation({"links": [
...     {"between": ["a", "b"], "up": {"delay": {"model": "constant", "delay": "5 ms"}}}]})
>>> relay = Relay(emulation, Place(origin_ns=0, data=Path()))
>>> there = relay.ways[0]
>>> relay.take(there, now_ns=1_000_000, packet=b"x" * 100)
>>> relay.next_ns, list(relay.due(5_999_999)), [len(packet) for *_, packet in relay.due(6_000_000)]
(6000000, [], [100])
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from slackwater.simulator.emulator.settings import Emulation
from slackwater.simulator.links import Link, Place, Tally
from slackwater.simulator.seeds import Seeds

MS: Final = 1_000_000


@dataclass(slots=True)
class Lateness:
    """How long after its instant each packet was handed on [ns]: the emulator's own error.

    Attributes:
        packets: that came out.
        sum_ns: of their lateness.
        max_ns: the largest.
        over_1ms: packets that were later than that.
    """

    packets: int = 0
    sum_ns: int = 0
    max_ns: int = 0
    over_1ms: int = 0

    def add(self, late_ns: int) -> None:
        self.packets += 1
        self.sum_ns += late_ns
        self.max_ns = max(self.max_ns, late_ns)
        self.over_1ms += late_ns > MS

    @property
    def mean_ns(self) -> int:
        """Rounded down; 0 of no packets."""
        return self.sum_ns // self.packets if self.packets else 0


@dataclass(slots=True, eq=False)
class LinkDirection:
    """One direction of a link: its ends, and what became of its packets.

    In tallies the second number (``events`` in a simulation) counts bytes.
    """

    source: str
    target: str
    link: Link
    no_room: Tally = field(default_factory=Tally)
    """Dropped because too much was under way."""
    late: Lateness = field(default_factory=Lateness)


class Relay:
    """All links of an emulation.

    Args:
        emulation: its settings.
        place: when it starts (outages count from there), and where recordings are.
    """

    def __init__(self, emulation: Emulation, place: Place) -> None:
        seeds = Seeds(emulation.seed)
        self.ways = [
            LinkDirection(source, target, Link(settings, seeds, name, place))
            for link in emulation.links
            for source, target, name, settings in link.ways
        ]
        self.waiting = Tally()
        """Under way now, copies included."""
        self._room = emulation.waiting_bytes_max
        self._heap: list[tuple[int, int, LinkDirection, bytes]] = []
        self._taken = 0

    @property
    def next_ns(self) -> int | None:
        """When the next packet is to come out; None: nothing is under way."""
        return self._heap[0][0] if self._heap else None

    def take(self, way: LinkDirection, now_ns: int, packet: bytes) -> None:
        """A packet enters at ``now_ns``; the calls of a way are in order of time."""
        size = len(packet)
        for at_ns in way.link.transmit(now_ns, size, size):
            if self.waiting.events + size > self._room:
                way.no_room.add(size)
                continue
            # The count keeps packets of one instant in their order.
            self._taken += 1
            self.waiting.add(size)
            heapq.heappush(self._heap, (at_ns, self._taken, way, packet))

    def due(self, now_ns: int) -> Iterator[tuple[int, LinkDirection, bytes]]:
        """Takes out what comes out by ``now_ns``: instant, direction and packet, in this order."""
        while self._heap and self._heap[0][0] <= now_ns:
            at_ns, _, way, packet = heapq.heappop(self._heap)
            self.waiting.remove(len(packet))
            yield at_ns, way, packet
