"""Options of a scenario: ``--set NAME=VALUE`` against names, defaults and types."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from slackwater.scenario import NS_PER, UserError, parse_duration


def read_options(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Every option with its value; texts become the type of the default.

    >>> read_options({"seed": "7"}, {"seed": 1, "duration": "60 s"})
    {'seed': 7, 'duration': '60 s'}

    Raises:
        UserError: an unknown name (the message lists the known ones), or not such a value.
    """
    for name in values:
        if name not in defaults:
            near = difflib.get_close_matches(name, defaults, n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            known = ", ".join(defaults)
            raise UserError(f"--set {name}: unknown option{meant} (known are {known})")
    return {name: _value(name, values.get(name, kept), kept) for name, kept in defaults.items()}


def tables_of(file: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of a scenario's own file, with the ``options`` that all such scenarios have:
    ``seed``, ``duration``, and ``offset``, how far apart the clocks are.
    """
    tables = tomllib.loads(file.read_text("utf-8"))
    tables |= {name: options[name] for name in ("seed", "duration")}
    tables["clock"]["offset_spread"] = options["offset"]
    return tables


def _value(name: str, value: Any, default: Any) -> Any:
    kind = type(default)
    if kind is str:
        return str(value).strip()
    try:
        return kind(value)
    except (TypeError, ValueError) as error:
        what = "a whole number" if kind is int else "a number"
        raise UserError(f"--set {name}={value}: expected {what}, such as {default}") from error


def duration_ns(options: Mapping[str, Any], name: str) -> int:
    """The option ``name``, a duration with its unit, as ns.

    Raises:
        UserError: not a duration; a bare number other than 0 has no unit.
    """
    text = str(options[name])
    try:
        length_ns = parse_duration(text)
    except UserError as error:
        raise UserError(f"--set {name}={text}: {error}") from error
    if text.replace(".", "").isdigit() and length_ns:
        raise UserError(f"--set {name}={text}: give a unit, as in {name}={text}s")
    return length_ns


def in_seconds(duration_ns: int) -> str:
    """A duration as orders and queries take it, exact.

    >>> in_seconds(144_000_000_000), in_seconds(1_500_000_001)
    ('144s', '1.500000001s')
    """
    return f"{Decimal(duration_ns) / NS_PER['s']:f}s"
