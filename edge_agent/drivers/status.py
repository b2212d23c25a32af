"""Reports of an agent: lines for people, systemd notifications, and a status file."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from slackwater.edge_agent import clock
from slackwater.edge_agent.inputs.registry import NamedInput
from slackwater.edge_agent.listening import interface_of
from slackwater.edge_agent.standard_streams import taking_name

if TYPE_CHECKING:
    from slackwater.edge_agent.drivers.channel import Channel

# Lines for people: most are written at once, repeated faults at a limited rate.


_EVERY_NS: Final = 10 * 10**9
_AT_ONCE: Final = 5


class LineWriter:
    """Writes lines with ``tell``. ``write_limited`` writes 5 per 10 s and counts the others."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.tell = tell
        self._since_ns = clock.read().mono_ns
        self._written = 0
        self._left_out = 0

    def write_limited(self, line: str) -> None:
        """Report a fault that may occur thousands of times."""
        now_ns = clock.read().mono_ns
        if now_ns - self._since_ns >= _EVERY_NS:
            self.end()
            self._since_ns, self._written = now_ns, 0
        if self._written < _AT_ONCE:
            self._written += 1
            self.tell(line)
        else:
            self._left_out += 1

    def end(self) -> None:
        """Write how many lines were suppressed since the last call."""
        if self._left_out:
            self.tell(f"{self._left_out} more such lines")
        self._left_out = 0


# Notifications of systemd (sd_notify(3)): ready, alive, stopping; no effect without systemd.
#
# A unit of ``Type=notify`` waits for READY. ``WatchdogSec`` restarts a service that has not sent
# WATCHDOG for that long; here the event loop sends it, so a blocked loop is restarted.


_PER_WATCHDOG: Final = 3
"""Notifications per watchdog period; systemd recommends two or more."""
_US_PER_S: Final = 1_000_000


class Systemd:
    """The service manager that this process's environment names."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        # An address that begins with @ is in the abstract name space of Linux.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        watched = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        wait = environment.get("WATCHDOG_USEC", "") if watched else ""
        self._seconds = int(wait) / _US_PER_S / _PER_WATCHDOG if wait.isdecimal() else 0.0

    def ready(self) -> None:
        """Report that inputs are read and the outbox is open."""
        self._say("READY=1")

    def stopping(self) -> None:
        """Report that the agent stops."""
        self._say("STOPPING=1")

    def set_status(self, what: str) -> None:
        """Set the line that ``systemctl status`` shows."""
        self._say(f"STATUS={what.splitlines()[0] if what else ''}")

    async def watch(self) -> None:
        """Send WATCHDOG periodically; returns at once if no watchdog is configured."""
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
                return  # a missing or slow manager must not stop the agent


# The state of an agent as a JSON file, which is replaced whole every few seconds.
#
# For tiny devices without a web page: people or programs read the file. It is not synced, to spare
# flash memory: after a power cut it may be old or empty.


def status_of(channel: Channel, inputs: Sequence[NamedInput]) -> dict[str, Any]:
    """The fields of the status file; counters start with the agent.

    ``at`` [ns, this device's wall clock]; ``interface`` and ``address`` of the newest connection;
    ``unacked_bytes``: bytes kept until the gateway acks; ``outlet``: events of all inputs;
    ``inputs``: counters per input; ``outbox``: per stream; ``clocks``: the clocks of this agent
    (empty name) and of its devices, with ``offset`` (gateway minus clock) and ``bound`` [ns].
    """
    driver = channel.driver
    session = driver.session
    interface = interface_of(driver.local_address) if driver.local_address else None
    now = clock.read()
    return {
        "at": now.wall_ns,
        "site": session.settings.site,
        "source": session.settings.source,
        "incarnation": session.incarnation,
        "state": session.state.value,
        "clock": session.sync_state.value,
        "clocks": session.clock_states(now),
        "interface": None if interface is None else interface.name,
        "address": driver.local_address or None,
        "last_error": driver.last_error or None,
        "unacked_bytes": session.unacked_bytes,
        "next_seq": {stream.name: session.next_seq(stream.name) for stream in session.streams},
        "outlet": dict(channel.counts),
        "inputs": {each.name: dict(each.input.counts) for each in inputs},
        "outbox": channel.spool_counts(),
        "session": dict(session.counts),
        "sync": dict(session.sync_counts),
        "sockets": dict(driver.counts),
    }


class StatusFile:
    """The file at ``path``. A write error is kept in ``error``; the agent continues."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.error: OSError | None = None

    def write(self, channel: Channel, inputs: Sequence[NamedInput]) -> None:
        """Replace the file."""
        unfinished = self.path.with_name(f".{self.path.name}.writing")
        line = json.dumps(status_of(channel, inputs)) + "\n"
        try:
            with taking_name(unfinished, self.path):
                unfinished.write_text(line, encoding="utf-8")
                unfinished.replace(self.path)
        except OSError as error:
            self.error = error
        else:
            self.error = None
