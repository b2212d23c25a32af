"""Moves packets between TUN devices and the relay, by this machine's monotonic clock.

One thread sleeps until a packet comes or is due. It waits with ``select``, whose timeouts are of
microseconds (epoll's own are of milliseconds), on one epoll file, so that many links cost no more.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Mapping
from typing import Final

from slackwater.engine.core.errors import SlackwaterError
from slackwater.simulator.emulator.relay import LinkDirection, Relay
from slackwater.simulator.emulator.settings import MTU_MAX

READ_AT_ONCE: Final = 16
"""Packets of one device, before others have their turn."""
_IPV4: Final = 4
_NS: Final = 1_000_000_000


class Pump:
    """Runs a relay.

    Args:
        relay: decides.
        entries: for each direction, the file of the device at its beginning.
        exits: for each direction, the file of the device at its end.
    """

    def __init__(
        self, relay: Relay, entries: Mapping[LinkDirection, int], exits: Mapping[LinkDirection, int]
    ) -> None:
        self.not_ipv4 = 0
        """Packets of other protocols, dropped."""
        self.refused: dict[LinkDirection, int] = dict.fromkeys(relay.ways, 0)
        """Packets that the device at the end did not take."""
        self._relay = relay
        self._exits = exits
        self._ways = {file: way for way, file in entries.items()}
        self._calls: dict[int, Callable[[], None]] = {}
        self._epoll = select.epoll()
        for file in self._ways:
            self._epoll.register(file, select.EPOLLIN)

    def when_readable(self, file: int, call: Callable[[], None]) -> None:
        """Calls ``call`` whenever ``file`` can be read."""
        self._calls[file] = call
        self._epoll.register(file, select.EPOLLIN)

    def run(self, running: Callable[[], bool], every_ns: int, call: Callable[[], None]) -> None:
        """Moves packets while ``running()``, and calls ``call`` each ``every_ns``.

        Raises:
            SlackwaterError: a device is gone.
        """
        next_call_ns = time.monotonic_ns() + every_ns
        try:
            while running():
                self._deliver()
                now_ns = time.monotonic_ns()
                if now_ns >= next_call_ns:
                    call()
                    next_call_ns = now_ns + every_ns
                self._wait(next_call_ns)
        finally:
            self._epoll.close()

    def _wait(self, until_ns: int) -> None:
        """Sleeps until something can be read or is due; reads what can be."""
        due_ns = self._relay.next_ns
        until_ns = until_ns if due_ns is None else min(until_ns, due_ns)
        seconds = max(until_ns - time.monotonic_ns(), 0) / _NS
        if not select.select([self._epoll], [], [], seconds)[0]:
            return
        for file, _ in self._epoll.poll(0):
            way = self._ways.get(file)
            if way is None:
                self._calls[file]()
            else:
                self._read(file, way)

    def _read(self, file: int, way: LinkDirection) -> None:
        for _ in range(READ_AT_ONCE):
            try:
                packet = os.read(file, MTU_MAX)
            except BlockingIOError:
                return
            except OSError as error:
                raise SlackwaterError(
                    f"the device from {way.source} to {way.target} is gone: {error.strerror}"
                ) from error
            if packet[0] >> 4 != _IPV4:
                self.not_ipv4 += 1
                continue
            self._relay.take(way, time.monotonic_ns(), packet)

    def _deliver(self) -> None:
        for at_ns, way, packet in self._relay.due(time.monotonic_ns()):
            way.late.add(time.monotonic_ns() - at_ns)
            try:
                os.write(self._exits[way], packet)
            except OSError:
                # Its namespace may have set it down, as a device that is switched off.
                self.refused[way] += 1
