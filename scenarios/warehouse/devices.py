"""The devices of the cold store: those of the scenario's file, with the options of a run."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from slackwater.scenarios.options import tables_of
from slackwater.scenarios.warehouse.stored import StoreDevice, zone_name
from slackwater.simulation import Scenario, build_from_tables

FILE: Final = Path(__file__).with_name("warehouse.toml")
WORLDS: Final = {"cold-store": StoreDevice}
"""Models of workloads of scenario files."""
_OF_ZONE: Final = 2
"""Devices of a zone; those of the first zone represent all."""


def warehouse_scenario(options: Mapping[str, Any]) -> Scenario:
    """Sensors and readers of the zones through which pallets pass.

    Args:
        options: of ``Warehouse``.

    Raises:
        UserError: a setting out of its range.
    """
    tables = tables_of(FILE, options)
    size = {name: options[name] for name in ("zones", "pallets")}
    devices = tables["sources"][:_OF_ZONE]
    tables["sources"] = []
    for number in range(options["zones"]):
        zone = zone_name(number)
        for device in deepcopy(devices):
            device["name"] = f"{device['workload']['sensor']}-{zone}"
            device["workload"] |= {"zone": zone, **size}
            tables["sources"].append(device)
    return build_from_tables("warehouse", tables, None, FILE.name, WORLDS).simulated


def with_readings(scenario: Scenario) -> Scenario:
    """The same devices; they send every reading and no interval."""
    return replace(scenario, sources=tuple(replace(each, abstract=()) for each in scenario.sources))
