"""The kinds of input, found as entry points of the group ``slackwater.inputs``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from slackwater.edge_agent.inputs.base import InputReader, Maker, Surroundings
from slackwater.edge_agent.sequence import DeviceCounters
from slackwater.edge_agent.settings_file import Kind, Table, read_kinds

GROUP: Final = "slackwater.inputs"
OURS: Final[dict[str, Kind]] = {
    "exec": Kind("slackwater.edge_agent.inputs.pipes:exec_input"),
    "hl7-mllp": Kind("slackwater.edge_agent.inputs.hl7.listener:hl7_input"),
    "mqtt": Kind("slackwater.edge_agent.inputs.mqtt.subscription:mqtt_input", ("mqtt",)),
    "replay": Kind("slackwater.edge_agent.inputs.replay:replay_input"),
    "rfid-llrp": Kind("slackwater.edge_agent.inputs.llrp.reader:llrp_input"),
    "soccer-udp": Kind("slackwater.edge_agent.inputs.soccer:soccer_input"),
    "stdin": Kind("slackwater.edge_agent.inputs.pipes:stdin_input"),
}


class NamedInput(NamedTuple):
    """An input and its name in messages and the status file."""

    name: str
    input: InputReader
    counters: Sequence[DeviceCounters] = ()
    """Counters that survive a restart of the agent."""


def read_inputs(tables: Sequence[Table], around: Surroundings) -> tuple[NamedInput, ...]:
    """Create the inputs that the ``[[input]]`` tables describe.

    Raises:
        SettingsError: a wrong setting, a duplicate name, or a package that is not installed.
    """
    found = []
    for name, table, maker in read_kinds(tables, OURS, GROUP, "inputs"):
        make: Maker = maker
        input_surroundings = replace(around, name=name, counters=[])
        found.append(NamedInput(name, make(table, input_surroundings), input_surroundings.counters))
    return tuple(found)
