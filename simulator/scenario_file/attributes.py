"""Attributes of made-up events: one small law per class, found by name in ``ATTRIBUTES``.

A law draws a column: ``take(rows, generator)``. A bare value in a file is ``Constant``, a list
``Choice``.

>>> parse_attributes({"room": "ward 3", "v": {"model": "uniform", "low": 1, "high": 2}}, "attrs")
{'room': Constant(value='ward 3'), 'v': Uniform(low=1.0, high=2.0, whole=False)}
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np

from slackwater.edge_agent.messages import NAME_MAX, NAMES_MAX, TEXT_MAX
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.units import INT64_MAX
from slackwater.simulator.settings import check, parse_model, parsed_by, value_text

Value = int | float | bool | str
_KINDS: Final[dict[type, str]] = {bool: "bool", int: "int", float: "float", str: "str"}


class AttributeLaw(Protocol):
    """Settings of one attribute; adding one is this class and one line in ``ATTRIBUTES``."""

    @property
    def kind(self) -> str:
        """``int float bool str``, as streams announce it."""

    def take(self, rows: int, generator: np.random.Generator) -> np.ndarray:
        """The next ``rows`` values; texts as an array of objects."""


def _kind_of(value: object, place: str) -> str:
    kind = _KINDS.get(type(value))
    if kind is None:
        raise UserError(f"{place}: expected a number, a text, true or false, found {value!r}")
    if isinstance(value, int) and abs(value) > INT64_MAX:
        raise UserError(f"{place}: {value_text(value)} is beyond 64 bits")
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{place}: {value!r} is not a finite number")
    if isinstance(value, str) and len(value) > TEXT_MAX:
        raise UserError(f"{place}: a text has {len(value)} characters, and can have {TEXT_MAX}")
    return kind


def _column(values: Sequence[Value], kind: str) -> np.ndarray:
    types: dict[str, Any] = {"int": np.int64, "float": np.float64, "bool": np.bool_, "str": object}
    return np.array(values, types[kind])


@dataclass(frozen=True, slots=True)
class Constant:
    """The same ``value`` in every event."""

    value: Value = field(metadata=parsed_by(lambda value, _place: value))

    def __post_init__(self) -> None:
        _kind_of(self.value, "value")

    @property
    def kind(self) -> str:
        return _kind_of(self.value, "value")

    def take(self, rows: int, generator: np.random.Generator) -> np.ndarray:  # noqa: ARG002 - nothing is drawn
        return np.repeat(_column([self.value], self.kind), rows)


def _parse_options(values: object, place: str) -> tuple[Value, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise UserError(f"{place}: expected a list of values, found {value_text(values)}")
    check(len(values) <= NAMES_MAX, place, f"{len(values):,} values; at most {NAMES_MAX:,}")
    kinds = {_kind_of(value, f"{place}[{index}]") for index, value in enumerate(values)}
    if kinds == {"int", "float"}:
        return tuple(float(value) for value in values)
    if len(kinds) > 1:
        raise UserError(f"{place}: values of one kind, found {' and '.join(sorted(kinds))}")
    return tuple(values)


def parse_weights(value: object, place: str) -> tuple[float, ...]:
    """Chances as they stand in a file: not negative, not all 0.

    Raises:
        UserError: they are not.
    """
    numbers = isinstance(value, Sequence) and not isinstance(value, str)
    if not numbers or not all(type(each) in (int, float) for each in value):  # type: ignore[attr-defined]
        raise UserError(f"{place}: expected a list of numbers, found {value_text(value)}")
    found = tuple(float(each) for each in value)  # type: ignore[attr-defined]
    if not all(0 <= each < float("inf") for each in found) or not sum(found):
        raise UserError(f"{place}: weights must not be negative, nor all 0")
    return found


@dataclass(frozen=True, slots=True)
class Choice:
    """One ``of`` a list, each as likely, or as ``weights`` say."""

    of: tuple[Value, ...] = field(metadata=parsed_by(_parse_options))
    weights: tuple[float, ...] | None = field(default=None, metadata=parsed_by(parse_weights))

    def __post_init__(self) -> None:
        same = self.weights is None or len(self.weights) == len(self.of)
        check(same, "weights", "needs one number for each value")

    @property
    def kind(self) -> str:
        return _kind_of(self.of[0], "of")

    def take(self, rows: int, generator: np.random.Generator) -> np.ndarray:
        chances = None if self.weights is None else np.array(self.weights) / sum(self.weights)
        return _column(self.of, self.kind)[generator.choice(len(self.of), rows, p=chances)]


@dataclass(frozen=True, slots=True)
class Uniform:
    """Evenly spread from ``low`` to ``high``; ``whole``: whole numbers, both ends among them."""

    low: float
    high: float
    whole: bool = False

    def __post_init__(self) -> None:
        check(self.low <= self.high, "low", "must not lie above high")
        whole = not self.whole or (self.low.is_integer() and self.high.is_integer())
        check(whole, "whole", "goes with whole ends")
        check(max(abs(self.low), abs(self.high)) <= 2**53, "high", "must lie within 2**53")

    @property
    def kind(self) -> str:
        return "int" if self.whole else "float"

    def take(self, rows: int, generator: np.random.Generator) -> np.ndarray:
        if self.whole:
            return generator.integers(int(self.low), int(self.high) + 1, rows)
        return generator.uniform(self.low, self.high, rows)


@dataclass(frozen=True, slots=True)
class Normal:
    """A bell around ``mean`` with standard deviation ``sd``."""

    mean: float
    sd: float

    def __post_init__(self) -> None:
        check(self.sd >= 0, "sd", "must not be negative")

    @property
    def kind(self) -> str:
        return "float"

    def take(self, rows: int, generator: np.random.Generator) -> np.ndarray:
        return generator.normal(self.mean, self.sd, rows)


@dataclass(frozen=True, slots=True)
class Wave:
    """A swing between ``low`` and ``high``, one in every ``events`` events, with noise ``sd``."""

    low: float
    high: float
    events: int
    sd: float = 0.0

    def __post_init__(self) -> None:
        check(self.low <= self.high, "low", "must not lie above high")
        check(self.events > 0, "events", "must be positive")
        check(self.sd >= 0, "sd", "must not be negative")

    @property
    def kind(self) -> str:
        return "float"

    def take(self, rows: int, generator: np.random.Generator) -> np.ndarray:
        turns = (np.arange(rows) + generator.uniform(0, self.events)) / self.events
        middle, reach = (self.low + self.high) / 2, (self.high - self.low) / 2
        return middle + reach * np.sin(2 * np.pi * turns) + generator.normal(0, self.sd, rows)


ATTRIBUTES: Final[dict[str, type[Any]]] = {
    "constant": Constant,
    "choice": Choice,
    "uniform": Uniform,
    "normal": Normal,
    "wave": Wave,
}


def parse_attributes(tables: object, place: str) -> dict[str, AttributeLaw]:
    """Attributes by name from a table.

    Raises:
        UserError: not a table, a bad name, an unknown model or a value out of range.
    """
    if not isinstance(tables, Mapping):
        raise UserError(f"{place}: expected a table of attributes, found {value_text(tables)}")
    found: dict[str, AttributeLaw] = {}
    for name, value in tables.items():
        named = isinstance(name, str) and 1 <= len(name) <= NAME_MAX
        check(named, place, f"{name!r} is not a name of 1 to {NAME_MAX} characters")
        spot = f"{place}.{name}"
        if isinstance(value, Mapping):
            found[name] = parse_model(ATTRIBUTES, value, spot)
        elif isinstance(value, list):
            found[name] = Choice(_parse_options(value, spot))
        else:
            _kind_of(value, spot)
            found[name] = Constant(value)
    return found
