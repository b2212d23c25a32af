"""What of an agent's settings its simulated twin must share, as keys of a scenario file."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from edge_agent.settings import Delivery, SessionSettings
from engine.validate.quality import AgentHabits

_NS: Final = "_ns"


def habits_of(session: SessionSettings) -> AgentHabits:
    """Of an agent that sends what its inputs give at once (``poll`` 0), as all inputs do."""
    source = {
        "connections": str(session.connections),
        "resend": "true" if session.delivery is Delivery.RESEND else "false",
        "poll": '"0 ns"',
        "heartbeat": f'"{session.heartbeat_ns} ns"',
        "heartbeat_lag": f'"{session.heartbeat_lag_ns} ns"',
    }
    sync = {}
    for field in fields(session.sync):
        value = getattr(session.sync, field.name)
        name = field.name.removesuffix(_NS)
        sync[name] = f'"{value} ns"' if name != field.name else str(value)
    return AgentHabits(source, sync, session.connections)
