"""JSON objects as anybody writes them -> records: which key is which field, the rest attributes.

``{"ts": 5, "temp": 3}`` needs nothing. A mapping names the keys of other fields; keys within
objects are joined by points there (``header.stamp``) and by underscores in attribute names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from slackwater.edge_agent import records as r
from slackwater.edge_agent.errors import did_you_mean
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import ATTR_PREFIX
from slackwater.engine.log.input.row_import import FIELDS, check_target, time_hint
from slackwater.engine.log.record.trace_record import TEXT_FIELDS

_KNOWN: Final = frozenset(r.RECORD_FIELDS)
_TEXTS: Final = frozenset(TEXT_FIELDS) - {r.KIND}
_SHORT: Final = 3
"""So short a name is near many others: only ``ts``, which a record cannot do without, is minded."""
_STAMP: Final = re.compile(r"secs?|nsecs?|nanosecs?|seconds|nanoseconds|nanos")
_NS_PER_S: Final = 10**9


class Flat:
    """Makes records of objects, for one input.

    Args:
        name: the input, for messages.
        mapping: record field, or ``attrs.NAME``, -> key.
        attrs: keys that become attributes when not mapped; None = all that are no field.
        nulls: texts that are no values.

    Raises:
        UserError: a mapping to what is no field.
    """

    def __init__(
        self, name: str, mapping: Mapping[str, str], attrs: Sequence[str] | None = None,
        nulls: Sequence[str] = (),
    ) -> None:  # fmt: skip
        for target, key in mapping.items():
            check_target(target, key)
        self.name = name
        self._of_key: dict[str, list[str]] = {}
        for target, key in mapping.items():
            self._of_key.setdefault(key, []).append(target)
        self._targets = frozenset(mapping)
        self._attrs = None if attrs is None else frozenset(attrs)
        self._missing = dict(mapping)
        self._nulls = frozenset(nulls)

    def records(self, objects: list[Any], lines: np.ndarray) -> list[Any]:
        """Each object as a record; what is none, or has a misspelt field, stays as it is.

        Raises:
            UserError: a mapped key, or an event time, that is nowhere in the first objects.
        """
        if self._nulls:
            objects = [_without_words(each, self._nulls) for each in objects]
        found = [self.record(each) if type(each) is dict else each for each in objects]
        self._check_keys(objects, found, lines)
        return found

    def record(self, given: dict[str, Any]) -> dict[str, Any]:
        """One object as a record."""
        record: dict[str, Any] = {}
        own = given.get(r.ATTRS)
        attrs: dict[str, Any] = dict(own) if type(own) is dict else {}
        for key, value in given.items():
            if key in self._of_key:
                self._assign(key, value, record, attrs)
            elif key == r.ATTRS:
                if type(own) is not dict:
                    record[key] = value
            elif key in _KNOWN and key not in self._targets:
                record[key] = value
            elif type(value) is dict:
                self._nested(key, key, value, record, attrs)
            elif self._attrs is None and key not in _KNOWN and _misspelt(key, given):
                record[key] = value
            elif self._attrs is None or key in self._attrs:
                attrs.setdefault(key, value)
        if attrs:
            record[r.ATTRS] = attrs
        return record

    def _nested(self, path: str, name: str, value: dict[str, Any], record: dict[str, Any],
                attrs: dict[str, Any]) -> None:  # fmt: skip
        for key, inner in value.items():
            at, called = f"{path}.{key}", f"{name}_{key}"
            if at in self._of_key:
                self._assign(at, inner, record, attrs)
            elif type(inner) is dict:
                self._nested(at, called, inner, record, attrs)
            elif self._attrs is None or called in self._attrs or at in self._attrs:
                attrs.setdefault(called, inner)

    def _assign(self, key: str, value: Any, record: dict[str, Any], attrs: dict[str, Any]) -> None:
        for target in self._of_key[key]:
            self._missing.pop(target, None)
            if target.startswith(ATTR_PREFIX):
                attrs[target.removeprefix(ATTR_PREFIX)] = value
            elif target in _TEXTS and type(value) is int:
                record[target] = str(value)
            else:
                record[target] = _stamp(value) if type(value) is dict else value

    def _check_keys(self, objects: list[Any], records: list[Any], lines: np.ndarray) -> None:
        if not any(type(each) is dict for each in objects):
            return  # each line is reported as no object
        keys = list(dict.fromkeys(k for each in objects if type(each) is dict for k in _keys(each)))
        for target, key in self._missing.items():
            hint = did_you_mean(key, keys)
            raise UserError(
                f'{self.name}:{lines[-1]}: no record so far has "{key}" (wanted for {target}){hint}'
            )
        self._missing.clear()
        events = [
            each for each in records
            if type(each) is dict and each.get(r.KIND) in (None, "event") and r.ATTRS in each
            and not each.keys() - _KNOWN
        ]  # fmt: skip
        if events and len(events) == len(records) and not any(r.TS in each for each in records):
            raise UserError(
                f'{self.name}:{lines[0]}: no record has "ts", the event time; say which key is, as '
                f"in --map ts={time_hint(keys) or 'KEY'} (keys: {', '.join(keys)})"
            )


def _without_words(value: Any, nulls: frozenset[str]) -> Any:
    """``value`` with None for each of the words."""
    if type(value) is dict:
        return {key: _without_words(inner, nulls) for key, inner in value.items()}
    return None if type(value) is str and value in nulls else value


def values_by_path(given: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Keys of an object and of those in it, with points, and their values; instants are whole."""
    for key, value in given.items():
        inner = _stamp(value) if type(value) is dict else value
        if type(inner) is dict:
            yield from values_by_path(inner, f"{path}{key}.")
        else:
            yield path + key, inner


def _keys(given: dict[str, Any]) -> Iterator[str]:
    return (path for path, _ in values_by_path(given))


def _stamp(value: dict[str, Any]) -> Any:
    """``{"sec": 1, "nanosec": 2}``, as ROS writes instants, as ISO 8601; others as they are."""
    parts = {"n" if key.startswith("n") else "s": part for key, part in value.items()}
    if len(parts) == len(value) and all(
        _STAMP.fullmatch(key) and type(part) is int for key, part in value.items()
    ):
        ns = parts.get("s", 0) * _NS_PER_S + parts.get("n", 0)
        if abs(ns) < 2**63:
            return f"{np.datetime64(ns, 'ns')}Z"
    return value


def _misspelt(key: str, given: dict[str, Any]) -> bool:
    """Whether an unknown key is a slip of the pen for a field that the object lacks."""
    plain = key.lower().replace("-", "_")
    if plain == r.TS or (len(key) <= _SHORT and _one_off(plain, r.TS)):
        return r.TS not in given
    for field in (*FIELDS, r.ATTRS):
        if field in given or len(field) <= _SHORT:
            continue
        if plain.replace("_", "") == field.replace("_", "") or _one_off(plain, field):
            return True
    return False


def _one_off(word: str, wanted: str) -> bool:
    """One letter more, less, other, or two neighbours swapped."""
    if word == wanted or abs(len(word) - len(wanted)) > 1:
        return False
    short, long = sorted((word, wanted), key=len)
    at = next((i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if len(short) < len(long):
        return short[at:] == long[at + 1 :]
    swapped = short[at : at + 2] == long[at : at + 2][::-1] and short[at + 2 :] == long[at + 2 :]
    return short[at + 1 :] == long[at + 1 :] or swapped
