"""The JSON schema of a scenario file, made from the very classes that read it.

Editors complete and check with it: the first line of a file says ``#:schema PATH``.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, Final

from slackwater.simulator.delays import DELAY_MODELS
from slackwater.simulator.links import LinkSettings
from slackwater.simulator.losses import LOSS_MODELS
from slackwater.simulator.recorded import RecordedSettings
from slackwater.simulator.scenario import GatewayPlace, SourceSettings
from slackwater.simulator.scenario_file.attributes import ATTRIBUTES
from slackwater.simulator.scenario_file.generated import GENERATED
from slackwater.simulator.scenario_file.machine import Machine, State
from slackwater.simulator.scenario_file.settings import AnswerSettings, GroupClock
from slackwater.simulator.settings import PARSER, parse_share

Schema = dict[str, Any]
DURATION: Final[Schema] = {
    "anyOf": [
        {"type": "string", "pattern": r"^\s*-?[0-9.]+\s*(ns|us|ms|s|m|min|h|d)\s*$"},
        {"const": 0},
    ],
    "description": 'a duration with its unit, such as "20 ms"',
}
_TYPES: Final[dict[Any, Schema]] = {
    int: {"type": "integer"}, float: {"type": "number"}, bool: {"type": "boolean"},
    str: {"type": "string"},
}  # fmt: skip
_TEXTS: Final[Schema] = {"type": "array", "items": {"type": "string"}}
_NUMBERS: Final[Schema] = {"type": "array", "items": {"type": "number"}}
_CHANCES: Final[Schema] = {"type": "object", "additionalProperties": {"type": "number"}}
_SHARE: Final[Schema] = {
    "anyOf": [
        {"type": "number", "minimum": 0, "maximum": 1},
        {"type": "string", "pattern": r"^\s*[0-9.]+\s*%\s*$"},
    ],
}
_VALUE: Final[Schema] = {"type": ["number", "string", "boolean"]}
_BY_NAME: Final[dict[str, Schema]] = {
    "attrs": {"type": "object", "additionalProperties": {"$ref": "#/$defs/attribute"}},
    "type": {"anyOf": [{"type": "string"}, _TEXTS, _CHANCES]},
    "value": _VALUE,
    "of": {"type": "array", "items": _VALUE},
    "weights": _NUMBERS,
    "bands": {"type": "array", "items": {"type": ["string", "number"]}},
    "promise_first": _TEXTS,
}
_OF_MACHINES: Final[dict[str, Schema]] = {
    "stay": {"$ref": "#/$defs/law"},
    "next": {"type": "object", "additionalProperties": _SHARE},
    "type": {"type": "string"},
    "states": {"type": "object", "additionalProperties": {"$ref": "#/$defs/state"}},
}
_OF_SOURCE: Final = ("up", "down", "clock", "workload", "name")
"""Fields of ``SourceSettings`` that a file writes otherwise."""


def schema(worlds: Mapping[str, type[Any]]) -> Schema:
    """JSON schema (2020-12) of a whole file; ``worlds``: as of ``building.build``."""
    made: Schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A slackwater scenario",
        "description": "slackwater run FILE.toml",
        "type": "object",
        "additionalProperties": False,
        "required": ["sources"],
        "properties": {
            "title": {"type": "string"},
            "seed": {"type": "integer", "minimum": 0},
            "duration": DURATION,
            "warm_up": DURATION,
            "drain": DURATION,
            "clock": {"$ref": "#/$defs/clock"},
            "link": {"$ref": "#/$defs/link"},
            "sources": {"type": "array", "items": {"$ref": "#/$defs/source"}},
            "machines": {"type": "array", "items": _of_class(Machine)},
            "gateway": _of_class(GatewayPlace),
            "queries": {"type": "object", "additionalProperties": {"type": "string"}},
            "tables": {"type": "object", "additionalProperties": {"type": "string"}},
            "engine": _of_class(AnswerSettings),
            "thresholds": _TEXTS,
        },
        "$defs": {
            "clock": _of_class(GroupClock),
            "link": _link(),
            "source": _source(worlds),
            "attribute": {
                "anyOf": [_VALUE, {"type": "array", "items": _VALUE}, *_models(ATTRIBUTES)]
            },
            "state": _of_class(State),
            "law": {"anyOf": [DURATION, *_models(DELAY_MODELS)]},
        },
    }
    return made


def _source(worlds: Mapping[str, type[Any]]) -> Schema:
    made = _of_class(SourceSettings, leave_out=_OF_SOURCE)
    made["properties"] |= {
        "name": {"type": "string"},
        "count": {"type": "integer", "minimum": 1},
        "workload": {"anyOf": _models({**GENERATED, **worlds})},
        "recording": {
            "type": "object",
            "additionalProperties": False,
            "required": ["file"],
            "properties": {
                "file": {"type": "string"},
                "time_unit": {"enum": ["ns", "us", "ms", "s", "min", "h", "d"]},
                "mapping": {"type": "object", "additionalProperties": {"type": "string"}},
                "attrs": _TEXTS,
                "delimiter": {"type": "string"},
                "header": _TEXTS,
                "timezone": {"type": "string"},
                "only": _TEXTS,
                "speed": {"type": "number", "exclusiveMinimum": 0},
                "on_around": DURATION,
            },
        },
        "clock": {"$ref": "#/$defs/clock"},
        "link": {"$ref": "#/$defs/link"},
    }
    made.pop("required", None)
    return made


def _link() -> Schema:
    one = _of_class(LinkSettings)
    one["properties"]["jitter"] = DURATION
    return {**one, "properties": {**one["properties"], "up": one, "down": one}}


def _models(registry: Mapping[str, type[Any]]) -> list[Schema]:
    """One of several classes, chosen by ``model``."""
    found = []
    for name, cls in registry.items():
        made = _of_class(cls)
        made["properties"] = {"model": {"const": name}, **made["properties"]}
        made["required"] = ["model", *made.get("required", [])]
        found.append(made)
    return found


def _of_class(cls: type[Any], leave_out: tuple[str, ...] = ()) -> Schema:
    hints = typing.get_type_hints(cls)
    texts = _descriptions(cls)
    properties, required = {}, []
    for field in dataclasses.fields(cls):
        if field.name in leave_out:
            continue
        key = field.name.removesuffix("_ns")
        made = dict(_of_field(cls, field.name, hints[field.name]))
        if field.name in texts:
            made["description"] = texts[field.name]
        properties[key] = made
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            required.append(key)
    made = {"type": "object", "additionalProperties": False, "properties": properties}
    return {**made, "required": required} if required else made


def _of_field(cls: type[Any], name: str, hint: Any) -> Schema:
    if cls is LinkSettings and name == "delay":
        return {"anyOf": [DURATION, *_models({**DELAY_MODELS, "recorded": RecordedSettings})]}
    if cls is LinkSettings and name == "loss":
        return {"anyOf": [_SHARE, *_models(LOSS_MODELS)]}
    if cls in (State, Machine) and name in _OF_MACHINES:
        return _OF_MACHINES[name]
    share = cls.__dataclass_fields__[name].metadata.get(PARSER) is parse_share
    return _SHARE if share else _BY_NAME.get(name) or _of_hint(name, hint)


def _of_hint(name: str, hint: Any) -> Schema:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _of_hint(name, next(each for each in inner if each is not type(None)))
    if hint is int and name.endswith("_ns"):
        return DURATION
    if origin is tuple:
        return {"type": "array", "items": _of_hint(name, inner[0])}
    if hint in _TYPES:
        return _TYPES[hint]
    return _of_class(hint)


def _descriptions(cls: type[Any]) -> dict[str, str]:
    """Descriptions of attributes in a class's docstring."""
    found: dict[str, str] = {}
    name = ""
    for line in (cls.__doc__ or "").partition("Attributes:")[2].splitlines():
        begin, colon, rest = line.strip().partition(": ")
        if line.startswith(" " * 8) and not line.startswith(" " * 9) and colon:
            name, found[begin] = begin, rest
        elif name and line.strip():
            found[name] += " " + line.strip()
    return found
