"""The agents in the machine room: those of the scenario's file, with the options of a run."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

from slackwater.scenarios.network_correlation.incidents import server_name
from slackwater.scenarios.network_correlation.seen import SEES_FAILURES, SEES_PACKETS, MachineRoom
from slackwater.scenarios.options import tables_of
from slackwater.simulation import Scenario, build_from_tables

FILE: Final = Path(__file__).with_name("network_correlation.toml")
WORLDS: Final = {"machine-room": MachineRoom}
"""Models of workloads of scenario files."""


def machine_room(options: Mapping[str, Any]) -> Scenario:
    """An agent on each server, an intrusion detector, and a recorder of failures.

    Args:
        options: of ``NetworkCorrelation``.

    Raises:
        UserError: a setting out of its range.
    """
    tables = tables_of(FILE, options)
    server, *others = tables["sources"]
    tables["sources"] = []
    for number in range(options["servers"]):
        mine = deepcopy(server)
        mine["name"] = mine["workload"]["sees"] = server_name(number)
        tables["sources"].append(mine)
    tables["sources"] += [
        each for each in others if each["workload"]["sees"] in {SEES_PACKETS, SEES_FAILURES}
    ]
    for each in tables["sources"]:
        each["workload"] |= {name: options[name] for name in ("servers", "attacks")}
    return build_from_tables("network-correlation", tables, None, FILE.name, WORLDS).simulated
