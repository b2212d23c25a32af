"""Settings of a file overridden for one run: ``--set link.delay=20ms``.

A path has a word for each table; in a list of tables this is the table's ``name``:
``sources.shelf.link.up.loss``.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, Final

from slackwater.scenario import UserError, did_you_mean

RECORDING: Final = "recording"


def read_pairs(pairs: list[str], option: str = "--set") -> dict[str, Any]:
    """Path -> value of each ``PATH=VALUE``.

    >>> read_pairs(["seed=2", "link.delay=5 ms", "clock.skew_ppm = 1.5"])
    {'seed': 2, 'link.delay': '5 ms', 'clock.skew_ppm': 1.5}

    Raises:
        UserError: one has no ``=``, or no path.
    """
    found = {}
    for pair in pairs:
        path, equals, value = pair.partition("=")
        if not equals or not all(path.strip().split(".")):
            raise UserError(f"{option} {pair}: write PATH=VALUE, such as link.delay=20ms")
        found[path.strip()] = read_value(value)
    return found


def read_value(text: str) -> Any:
    """A number, true or false as in TOML; anything else is a text."""
    text = text.strip()
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return value if isinstance(value, int | float | bool | list | dict | str) else text


def overridden(tables: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """``tables`` with ``values`` at their paths.

    Raises:
        UserError: a path leads through something that is no table.
    """
    found = deepcopy(dict(tables))
    for path, value in values.items():
        _put(found, path, value)
    return found


def _put(tables: dict[str, Any], path: str, value: Any) -> None:
    *way, last = path.split(".")
    place: Any = tables
    for word in way:
        if isinstance(place, list):
            named = {name: place[number] for name, number in _named(place)}
            if word not in named:
                raise UserError(f"--set {path}: none is named {word!r}{did_you_mean(word, named)}")
            place = named[word]
        elif isinstance(place, dict):
            place = place.setdefault(word, {})
        else:
            raise UserError(f"--set {path}: {word!r} leads through a value, not a table")
    if isinstance(place, list):
        names = ", ".join(name for name, _ in _named(place))
        raise UserError(f"--set {path}: {last!r} must follow the name of one of {names}")
    if not isinstance(place, dict):
        raise UserError(f"--set {path}: {'.'.join(way)} is {place!r}, which is no table")
    place[last] = value


def found_at(tables: Mapping[str, Any], path: str) -> Any:
    """The value at ``path``; None: there is none.

    >>> found_at({"sources": [{"name": "a", "count": 3}]}, "sources.a.count")
    3
    """
    place: Any = tables
    for word in path.split("."):
        if isinstance(place, list):
            place = {name: place[number] for name, number in _named(place)}.get(word)
        else:
            place = place.get(word) if isinstance(place, Mapping) else None
    return place


def blamed(tables: Mapping[str, Any], values: Mapping[str, Any], place: str) -> str | None:
    """The path of ``values`` that caused an error at ``place``; None: none did.

    >>> tables = {"sources": [{"name": "a", "count": 0}]}
    >>> blamed(tables, {"seed": 2, "sources.a.count": 0}, "sources[0].count")
    'sources.a.count'
    """
    for path in values:
        setting_place = place_of(tables, path)
        if setting_place == place or _within(setting_place, place) or _within(place, setting_place):
            return path
    return None


def place_of(tables: Mapping[str, Any], path: str) -> str:
    """The place of ``path`` in messages: tables of a list have numbers.

    >>> place_of({"sources": [{"name": "a"}, {"name": "b"}]}, "sources.b.link.loss")
    'sources[1].link.loss'
    """
    found = ""
    place: Any = tables
    for word in path.split("."):
        if isinstance(place, list):
            number = dict(_named(place)).get(word)
            found += f"[{number}]"
            place = {} if number is None else place[number]
        else:
            found += f".{word}"
            place = place.get(word, {}) if isinstance(place, Mapping) else {}
    return found.removeprefix(".")


def as_option(path: str, value: object) -> str:
    """The option that sets ``value`` at ``path``; without the value of a table or list.

    >>> as_option("link.reliable", False), as_option("link.delay", "5 ms")
    ('--set link.reliable=false', '--set link.delay=5 ms')
    """
    if isinstance(value, dict | list):
        return f"--set {path}"
    return f"--set {path}={value if isinstance(value, str) else json.dumps(value)}"


def _within(place: str, around: str) -> bool:
    return place.startswith((f"{around}.", f"{around}[")) if around else False


def _named(tables: list[Any]) -> Iterator[tuple[str, int]]:
    """Names of a list of tables, with their numbers; a recording has one of its own."""
    for number, each in enumerate(tables):
        if isinstance(each, dict):
            name = each.get("name", RECORDING if RECORDING in each else None)
            if isinstance(name, str):
                yield name, number
