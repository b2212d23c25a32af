"""The published JSON schema against files that are read: an editor must not mark what is right."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from scenarios.from_file import TEMPLATE, schema
from scenarios.network_correlation.agents import FILE as MACHINE_ROOM
from scenarios.soccer.network import FILE as SOCCER
from scenarios.warehouse.devices import FILE as COLD_STORE

KNOWN = schema()
TYPES: dict[str, Any] = {
    "object": dict, "array": list, "string": str, "integer": int, "number": (int, float),
    "boolean": bool,
}  # fmt: skip
READ = {
    "type", "properties", "additionalProperties", "required", "items", "anyOf", "$ref", "const",
    "enum", "pattern", "minimum", "maximum", "exclusiveMinimum", "description", "title", "$schema",
    "$defs",
}  # fmt: skip
"""Keywords that ``faults`` reads, or that say nothing of values."""


def faults(value: Any, asked: Mapping[str, Any], place: str = "") -> Iterator[str]:
    """Where ``value`` is not what a schema asks for."""
    assert set(asked) <= READ, sorted(set(asked) - READ)
    if "$ref" in asked:
        yield from faults(value, KNOWN["$defs"][asked["$ref"].rpartition("/")[2]], place)
    if "anyOf" in asked and all(list(faults(value, each, place)) for each in asked["anyOf"]):
        yield f"{place}: none of the kinds: {value!r}"
    if "const" in asked and value != asked["const"]:
        yield f"{place}: not {asked['const']!r}"
    if "enum" in asked and value not in asked["enum"]:
        yield f"{place}: none of {asked['enum']}"
    if "pattern" in asked and not re.search(asked["pattern"], str(value)):
        yield f"{place}: {value!r} is not {asked['pattern']}"
    names = asked.get("type", [])
    kinds = [TYPES[name] for name in ([names] if isinstance(names, str) else names)]
    if kinds and not any(isinstance(value, kind) for kind in kinds):
        yield f"{place}: {value!r} is not of type {names}"
        return
    if isinstance(value, (int, float)):
        low, high = asked.get("minimum", value), asked.get("maximum", value)
        if not low <= value <= high or value <= asked.get("exclusiveMinimum", value - 1):
            yield f"{place}: {value} is out of its range"
    if isinstance(value, list) and "items" in asked:
        for number, each in enumerate(value):
            yield from faults(each, asked["items"], f"{place}[{number}]")
    if isinstance(value, dict):
        known = asked.get("properties", {})
        yield from (f"{place}: no {key}" for key in asked.get("required", ()) if key not in value)
        for key, each in value.items():
            rest = asked.get("additionalProperties", True)
            if key in known or isinstance(rest, dict):
                yield from faults(each, known.get(key, rest), f"{place}.{key}")
            elif not rest:
                yield f"{place}: {key} is unknown"


@pytest.mark.parametrize(
    "path", [TEMPLATE, SOCCER, COLD_STORE, MACHINE_ROOM], ids=lambda path: path.name
)
def test_the_schema_takes_what_is_read(path: Path) -> None:
    assert list(faults(tomllib.loads(path.read_text("utf-8")), KNOWN)) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('sensor = "reader"', "sensor = 3"), ('gap = "3200 ms"', "gap = 3200"),
        ("in_pairs = true", 'in_pairs = "yes"'), ("hysteresis = 0.3", "histeresis = 0.3"),
        ('bands = ["LOW", 4,', 'bands = [["LOW"], 4,'), ("seed = 1", "seed = -1"),
        ('{ model = "cold-store"', '{ model = "warm-store"'),
    ],
)  # fmt: skip
def test_the_schema_refuses_slips(old: str, new: str) -> None:
    text = COLD_STORE.read_text("utf-8")
    assert old in text
    assert list(faults(tomllib.loads(text.replace(old, new, 1)), KNOWN))
