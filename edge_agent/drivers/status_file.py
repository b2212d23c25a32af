"""What an agent is doing, as a JSON file that is replaced whole every few seconds.

For tiny devices that serve no page: a person or a program reads the file. It is not synced to the
disk, which would wear flash memory out for nothing: after a power cut it may be old or empty.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edge_agent import clock
from edge_agent.drivers.channel import Channel
from edge_agent.drivers.network_interface import interface_of
from edge_agent.inputs.registry import NamedInput
from edge_agent.unfinished import taking_name


def status_of(channel: Channel, inputs: Sequence[NamedInput]) -> dict[str, Any]:
    """Fields of the status file; counts are of this run of the agent.

    ``at`` [ns, this device's wall clock]; ``interface`` and ``address`` of the newest connection;
    ``unacked_bytes``: kept for the gateway's ack; ``outlet``: what came from all inputs;
    ``inputs``: what each of them counts; ``outbox``: per stream.
    """
    driver = channel.driver
    session = driver.session
    interface = interface_of(driver.local_address) if driver.local_address else None
    return {
        "at": clock.read().wall_ns,
        "site": session.settings.site,
        "source": session.settings.source,
        "incarnation": session.incarnation,
        "state": session.state.value,
        "clock": session.sync_state.value,
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
    """The file at ``path``. An error of writing it is kept in ``error``: the agent goes on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.error: OSError | None = None

    def write(self, channel: Channel, inputs: Sequence[NamedInput]) -> None:
        """Replaces the file."""
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
