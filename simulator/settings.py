"""From plain dicts to frozen dataclasses of settings, with errors that name the key.

A field whose name ends in ``_ns`` may be written as it is, in nanoseconds (``mean_ns: 5000000``),
or without the ending as a duration with its unit (``mean: "5 ms"``). In files that people write
(``units_needed``) a number without a unit, but 0, is refused there: ``mean = 5`` means no ns.

>>> from dataclasses import dataclass
>>> @dataclass(frozen=True)
... class Pause:
...     length_ns: int
>>> parse(Pause, {"length": "5 ms"}, "pause")
Pause(length_ns=5000000)
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from slackwater.edge_agent.errors import near_miss
from slackwater.engine.core.errors import ContractViolation, UserError
from slackwater.engine.core.units import INT64_MAX, parse_duration

T = TypeVar("T")
Parser = Callable[[object, str], Any]
PARSER: Final = "parser"
_TEXT_MAX: Final = 60
_NS: Final = "_ns"
_KINDS: Final[dict[Any, str]] = {
    int: "a whole number", float: "a number", bool: "true or false", str: "a text",
}  # fmt: skip
_NUMBER: Final = re.compile(r"\[\d+\]")
_PERCENT: Final = re.compile(r"\s*([0-9]{1,20}(?:\.[0-9]{1,20})?)\s*%\s*")
_UNITS_NEEDED: Final = ContextVar("units_needed", default=False)


@contextmanager
def units_needed() -> Iterator[None]:
    """Within it durations need their units."""
    token = _UNITS_NEEDED.set(True)
    try:
        yield
    finally:
        _UNITS_NEEDED.reset(token)


def parsed_by(parser: Parser) -> dict[str, Parser]:
    """Metadata of a dataclass field that ``parser(value, place)`` reads from a dict."""
    return {PARSER: parser}


def parse(cls: type[T], settings: object, place: str) -> T:
    """An instance of the dataclass ``cls`` from a mapping; an instance passes as it is.

    Raises:
        UserError: not a mapping, an unknown or missing key, or a value out of its range; the
            message begins with ``place`` and the key.
    """
    if isinstance(settings, cls):
        return settings
    if not isinstance(settings, Mapping):
        raise UserError(f"{place}: expected a table of settings, found {value_text(settings)}")
    assert dataclasses.is_dataclass(cls)
    hints = _hints_of(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}
    values: dict[str, Any] = {}
    for key, value in settings.items():
        name = _field_name(key, fields, place)
        if name in values:
            raise UserError(f"{place}.{key}: given twice, with and without its unit")
        parser = fields[name].metadata.get(PARSER)
        spot = f"{place}.{key}"
        values[name] = parser(value, spot) if parser else _plain(value, hints[name], name, spot)
    missing = [name for name, field in fields.items() if _required(field) and name not in values]
    if missing:
        raise UserError(f"{place}: {missing[0].removesuffix('_ns')} is missing")
    try:
        return cls(**values)
    except UserError as error:
        raise UserError(f"{place}.{error}") from error


@functools.cache  # a file may have thousands of sources
def _hints_of(cls: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def parse_model(registry: Mapping[str, type[Any]], settings: object, place: str) -> Any:
    """One of several dataclasses, chosen by the key ``model``.

    Raises:
        UserError: no or an unknown model (the message lists the known ones), or as ``parse``.
    """
    if isinstance(settings, tuple(registry.values())):
        return settings
    if not isinstance(settings, Mapping) or "model" not in settings:
        raise UserError(f"{place}: write a table with model = one of {', '.join(registry)}")
    name = settings["model"]
    if not isinstance(name, str) or name not in registry:
        how = near_miss(name, registry) if isinstance(name, str) else ""
        known = ", ".join(registry)
        raise UserError(f"{place}.model: unknown {value_text(name)}; use one of {known}{how}")
    rest = {key: value for key, value in settings.items() if key != "model"}
    return parse(registry[name], rest, place)


def parse_many(cls: type[T], value: object, place: str) -> tuple[T, ...]:
    """A tuple of ``cls`` from a list of mappings; errors name the index."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        table = _NUMBER.sub("", place.partition(".")[2] or place)
        how = f"; write [[{table}]]" if isinstance(value, Mapping) else ""
        raise UserError(f"{place}: expected a list, found {value_text(value)}{how}")
    return tuple(parse(cls, item, f"{place}[{index}]") for index, item in enumerate(value))


def parse_times(value: object, place: str) -> tuple[int, ...]:
    """A tuple of times [ns] from a list of nanoseconds or durations; errors name the index."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise UserError(f"{place}: expected a list, found {value_text(value)}")
    return tuple(_time_ns(item, f"{place}[{index}]", place) for index, item in enumerate(value))


def parse_share(value: object, place: str) -> float:
    """A share from 0 to 1: a number, or a text with its percentage.

    >>> parse_share(0.02, "loss"), parse_share("2 %", "loss")
    (0.02, 0.02)

    Raises:
        UserError: neither, or not from 0 to 1.
    """
    percent = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    share = float(percent[1]) / 100 if percent else value
    if type(share) not in (int, float) or not 0 <= share <= 1:  # type: ignore[operator]
        raise UserError(
            f'{place}: expected a share from 0 to 1, as in 0.02 or "2 %", found {value_text(value)}'
        )
    return float(share)  # type: ignore[arg-type]


def parse_plain(kind: type[T], setting: object, place: str) -> T:
    """A single value: ``int float bool str``, as a field of that type is read."""
    value: T = _plain(setting, kind, "", place)
    return value


def value_text(value: object) -> str:
    """A wrong value in a message: its beginning, if it is long."""
    text = repr(value)
    return text if len(text) <= _TEXT_MAX else f"{text[: _TEXT_MAX - 3]}..."


def check(holds: bool, key: str, what: str) -> None:
    """Raises a ``UserError`` ``key: what`` unless ``holds``; for ``__post_init__``."""
    if not holds:
        raise UserError(f"{key}: {what}")


def _field_name(key: object, fields: Mapping[str, Any], place: str) -> str:
    for name in (key, f"{key}_ns"):
        if isinstance(name, str) and name in fields:
            return name
    known = ", ".join(name.removesuffix("_ns") for name in fields)
    how = near_miss(str(key), known.split(", "))
    raise UserError(f"{place}.{key}: unknown setting; known are {known}{how}")


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _plain(value: object, hint: object, name: str, spot: str) -> Any:
    options = typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        return _plain_list(value, typing.get_args(options[0]) or (options[0],), spot)
    if value is None and type(None) in options:
        return None
    expected: Any = next((kind for kind in options if kind is not type(None)), hint)
    if expected is int and name.endswith("_ns"):
        return _time_ns(value, spot, spot)
    if expected is float and isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise UserError(f"{spot}: {value!r} is not a finite number")
        return float(value)
    if expected not in _KINDS:
        raise ContractViolation(f"{spot}: no parser for settings of type {hint}")
    if isinstance(value, bool) != (expected is bool) or not isinstance(value, expected):
        raise UserError(f"{spot}: expected {_KINDS[expected]}, found {value_text(value)}")
    return value


def _plain_list(value: object, kinds: tuple[type, ...], spot: str) -> tuple[Any, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise UserError(f"{spot}: expected a list, found {value_text(value)}")
    allowed = (*kinds, int) if float in kinds else kinds
    for item in value:
        if isinstance(item, bool) or not isinstance(item, allowed):
            names = " or ".join(_KINDS[kind] for kind in kinds)
            raise UserError(
                f"{spot}: expected a list, each {names}, found {value_text(item)} in it"
            )
    return tuple(value)


def _time_ns(value: object, spot: str, key: str) -> int:
    """``key``: its name; only one that ends in ``_ns`` says the unit of a number."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        what = "a duration" if _UNITS_NEEDED.get() else "nanoseconds or a duration"
        raise UserError(f'{spot}: expected {what} as "20 ms", found {value_text(value)}')
    if isinstance(value, int):
        if value and not key.endswith(_NS) and _UNITS_NEEDED.get():
            raise UserError(f'{spot}: {value}: give a unit, as in "{value} ms"')
        if abs(value) > INT64_MAX:
            raise UserError(f"{spot}: {value} is longer than 292 years")
        return value
    text = value.strip()
    if text.lstrip("-").isdecimal() and int(text):
        raise UserError(f"{spot}: {value!r}: give a unit, as in {text} ms")
    try:
        return -parse_duration(text[1:]) if text.startswith("-") else parse_duration(text)
    except UserError as error:
        raise UserError(f"{spot}: {error}") from error
