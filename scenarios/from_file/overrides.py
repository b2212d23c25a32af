"""Settings of a file said otherwise for one run: ``--set link.delay=20ms``.

A path has a word for each table; one of a list of tables is named by its ``name``:
``sources.shelf.link.up.loss``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from slackwater.scenario import UserError


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
            named = [each for each in place if isinstance(each, dict) and each.get("name") == word]
            if not named:
                known = ", ".join(str(each.get("name")) for each in place if isinstance(each, dict))
                raise UserError(f"--set {path}: none is named {word!r}; there are {known}")
            place = named[0]
        elif isinstance(place, dict):
            place = place.setdefault(word, {})
        else:
            raise UserError(f"--set {path}: {word!r} leads through a value, not a table")
    if not isinstance(place, dict):
        raise UserError(f"--set {path}: {last!r} must follow the name of one of them")
    place[last] = value


def found_at(tables: Mapping[str, Any], path: str) -> Any:
    """What stands at ``path``; None: nothing.

    >>> found_at({"sources": [{"name": "a", "count": 3}]}, "sources.a.count")
    3
    """
    place: Any = tables
    for word in path.split("."):
        if isinstance(place, list):
            place = next(
                (each for each in place if isinstance(each, dict) and each.get("name") == word),
                None,
            )
        else:
            place = place.get(word) if isinstance(place, Mapping) else None
    return place
