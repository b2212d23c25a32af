"""What systemd is told (sd_notify(3)): ready, alive, stopping. Nothing where there is no systemd.

``Type=notify`` of a unit waits for READY; ``WatchdogSec`` restarts a service that has not said for
so long that it is alive, which here the event loop says: one that hangs says nothing.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping
from typing import Final

_PER_WATCHDOG: Final = 3
"""How often in the watchdog's time it is told; systemd recommends twice or more."""
_US_PER_S: Final = 1_000_000


class Systemd:
    """The service manager, as the environment of this process names it."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        # An address that begins with @ is in the abstract name space of Linux.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        watched = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        wait = environment.get("WATCHDOG_USEC", "") if watched else ""
        self._seconds = int(wait) / _US_PER_S / _PER_WATCHDOG if wait.isdecimal() else 0.0

    def ready(self) -> None:
        """Inputs are read, and the outbox is open."""
        self._say("READY=1")

    def stopping(self) -> None:
        """A stop was asked for, or all is done."""
        self._say("STOPPING=1")

    def doing(self, what: str) -> None:
        """A line for ``systemctl status``."""
        self._say(f"STATUS={what.splitlines()[0] if what else ''}")

    async def watch(self) -> None:
        """Says again and again that the event loop runs; returns where nobody asks for it."""
        while self._seconds > 0:
            self._say("WATCHDOG=1")
            await asyncio.sleep(self._seconds)

    def _say(self, text: str) -> None:
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as link:
            try:
                link.sendto(text.encode(), self._address)
            except OSError:
                return  # a manager that is gone, or slow, stops no agent
