"""Rules for one trace line, and the message for the rule it breaks (DESIGN "Trace").

This check is exact but slow. ``log.input.trace`` accepts columns of a chunk in bulk, and checks
single records only if some column is invalid.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from itertools import repeat
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from slackwater.edge_agent import records as r
from slackwater.edge_agent.errors import did_you_mean
from slackwater.engine.core.frame import STRING
from slackwater.engine.core.units import INT64_MAX
from slackwater.engine.log.record.record_rules import Fault

INT_FIELDS: Final = (
    r.SEQ, r.INCARNATION, r.TS, r.TE, r.ARRIVAL,
    r.OFFSET, r.DELAY, r.FIRST_SEQ, r.PRECISION, r.SKEW_ERROR_PPB,
)  # fmt: skip
TEXT_FIELDS: Final = (r.KIND, r.SITE, r.STREAM, r.SOURCE, r.CLOCK, r.TYPE)
_TIMES: Final = frozenset({r.TS, r.TE, r.ARRIVAL, r.OFFSET, r.DELAY, r.PRECISION})
COUNTS: Final = frozenset(INT_FIELDS) - _TIMES
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")
BEYOND: Final = "is beyond 64 bits"
_NO_INTEGER: Final = "is not an integer"
INT64_MIN: Final = -(2**63)
EXAMPLE: Final = '{"type": "A", "ts": 3}'


class DuplicateKeyError(ValueError):
    """A JSON object names one key twice; the message names the key."""


class NotFiniteError(ValueError):
    """Infinity, which JSON does not have."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DuplicateKeyError(f"{quoted(twice)} is given twice")
    return found


def _constant(name: str) -> Any:
    """Convert NaN, as Python and pandas write it, to null (``engine.core.columns``)."""
    if name == "NaN":
        return None
    raise NotFiniteError(f"{name} is not a JSON number; leave the attribute out")


Scan = Callable[[str, int], tuple[Any, int]]
# ``raw_decode`` without its slow wrapper: (text, start) -> (value, end).
_scan: Final[Scan] = getattr(json.JSONDecoder(parse_constant=_constant), "scan_once")  # noqa: B009
_scan_strict: Final[Scan] = getattr(  # noqa: B009
    json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_constant), "scan_once"
)


def parse_all(texts: Sequence[str]) -> list[Any] | None:
    """Return the JSON values of ``texts`` if all are records without duplicate keys; else None.

    It is fast and may reject valid lines; ``parse`` then checks each line.
    """
    records: list[Any] = []
    try:
        for text in texts:
            value, end = _scan(text, 0)
            if end != len(text):
                return None
            records.append(value)
    except (ValueError, StopIteration, RecursionError):
        return None
    if not set(map(type, records)) <= {dict}:
        return None
    attrs = [record[r.ATTRS] for record in records if r.ATTRS in record]
    if not set(map(type, attrs)) <= {dict}:
        return None
    # Each key has one colon, so equal counts mean that no key occurs twice.
    keys = sum(map(len, records)) + sum(map(len, attrs))
    return records if keys == sum(map(str.count, texts, repeat(":"))) else None


LINES_OF_CR: Final = (
    "it has CR without LF; if all lines end so, as on old Macs: tr '\\r' '\\n' < FILE > NEW"
)


def parse(text: str) -> Any:
    """Return the JSON value of ``text``, which must contain nothing else.

    Raises:
        ValueError: the text is not valid; the message is for the user.
    """
    stripped = text.strip(" \t\r")
    try:
        value, end = _scan_strict(stripped, 0)
    except StopIteration as stop:
        raise ValueError(_not_json("expecting value", int(stop.value))) from None
    except json.JSONDecodeError as error:
        raise ValueError(_not_json(error.msg, error.pos)) from None
    except (DuplicateKeyError, NotFiniteError):
        raise
    except RecursionError:
        raise ValueError("not JSON that can be read: nested too deeply") from None
    except ValueError:
        # Python limits the digits of an integer (4300).
        raise ValueError("a number in it is beyond 64 bits: it has thousands of digits") from None
    if end != len(stripped):
        if stripped[end] == "\r":
            raise ValueError(f"more than one value in the line: {LINES_OF_CR}")
        raise ValueError(_not_json("extra text", end))
    return value


_GAP: Final = re.compile(r"[\s,]*")


def objects_of(text: str) -> Iterator[tuple[int, Any]]:
    """Yield the places and values of a JSON document: the items of its array, of the only array in
    its object, or a sequence of values. Nested arrays are flattened by one level.

    Raises:
        json.JSONDecodeError: the text is not JSON.
    """
    place = _gap(text, 0)
    if text.startswith("[", place):
        yield from _items(text, place)
        return
    first = True
    while place < len(text):
        value, end = _scanned(text, place)
        if first and _gap(text, end) == len(text) and isinstance(value, dict):
            lists = [key for key, each in value.items() if each and isinstance(each, list)
                     and all(isinstance(one, dict) for one in each)]  # fmt: skip
            key = (
                re.search(rf"{re.escape(json.dumps(lists[0]))}\s*:\s*(?=\[)", text)
                if lists
                else None
            )
            if len(lists) == 1 and key is not None:
                yield from _items(text, key.end())
                return
        yield place, value
        first, place = False, _gap(text, end)


def _items(text: str, place: int) -> Iterator[tuple[int, Any]]:
    """Yield the places and values of the array that begins at ``place``."""
    place = _gap(text, place + 1)
    while not text.startswith("]", place):
        value, end = _scanned(text, place)
        for each in value if isinstance(value, list) else [value]:
            yield place, each
        place = _gap(text, end)


def _gap(text: str, place: int) -> int:
    found = _GAP.match(text, place)
    return place if found is None else found.end()


def _scanned(text: str, place: int) -> tuple[Any, int]:
    try:
        return _scan(text, place)
    except StopIteration as stop:
        raise json.JSONDecodeError("expecting value", text, int(stop.value)) from None


def _not_json(what: str, position: int) -> str:
    return (
        f"not JSON ({what[:1].lower()}{what[1:]} at column {position + 1}); "
        f"write one object a line, such as {EXAMPLE}"
    )


def quoted(value: Any) -> str:
    """Return ``value`` as JSON, shortened to 60 characters."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def fault(record: Any) -> str | None:
    """Return why ``record`` (a parsed line) is refused, by names, types and ranges; or None."""
    if not isinstance(record, dict):
        remedy = "; --format json reads such" if isinstance(record, list) else ""
        return f"a record is an object such as {EXAMPLE}, not {quoted(record)}{remedy}"
    for name, value in record.items():
        if name not in r.RECORD_FIELDS:
            hint = did_you_mean(name, r.RECORD_FIELDS)
            near = hint.split('"')[1] if "?" in hint else "FIELD"
            return (
                f"unknown field {quoted(name)}{hint} (an event's own values go in attrs; --map "
                f"{near}={name} takes it as that, --map attrs.{name}={name} as an attribute)"
            )
        reason = None if value is None else _field_fault(name, value)
        if reason is not None:
            return reason
    return None


def _field_fault(name: str, value: Any) -> str | None:
    if name in _TIMES:
        return None  # engine.log.record.times judges it
    if name in INT_FIELDS:
        return _int_fault(name, value)
    if name == r.ID:
        if type(value) is int or isinstance(value, str):
            return _scalar_fault('"id"', value)
        return f'"id" must be an integer or text, not {quoted(value)}'
    if name == r.ATTRS:
        return _attrs_fault(value)
    if not isinstance(value, str):
        remedy = f"; --map {name}={name} takes it as text" if type(value) is int else ""
        return f"{quoted(name)} must be text, not {quoted(value)}{remedy}"
    if name == r.KIND and value not in r.KIND_NAMES:
        hint = did_you_mean(value, r.KIND_NAMES)
        return f"unknown kind {quoted(value)}{hint} (--map attrs.kind=kind makes it an attribute)"
    return _scalar_fault(quoted(name), value)


def is_count(value: Any) -> bool:
    """Whether a text or float is a whole number, for a field with a mapping."""
    if type(value) is float:
        return value.is_integer()
    return type(value) is str and _INTEGER.fullmatch(value) is not None


def _int_fault(name: str, value: Any) -> str | None:
    if type(value) is not int:
        whole = is_count(value)
        remedy = "takes it as a number" if whole else "makes it an attribute"
        remedy = f"; --map {'' if whole else 'attrs.'}{name}={name} {remedy}"
        return f"{quoted(name)} must be an integer, not {quoted(value)}{remedy}"
    return _scalar_fault(quoted(name), value)


def time_fault(name: str, value: Any, why: str) -> str:
    """Return the message for a time that ``log.record.times`` refuses for the reason ``why``."""
    if why.startswith('"'):
        return why
    if why.startswith(_NO_INTEGER):
        rest = why.removeprefix(_NO_INTEGER)
        return f"{quoted(name)} must be an integer, not {quoted(value)}{rest}"
    if why == BEYOND:
        return f"{quoted(name)} {BEYOND}: {quoted(value)}"
    return f"{quoted(name)} {quoted(value)} {why}"


def _attrs_fault(value: Any) -> str | None:
    if not isinstance(value, dict):
        return f'"attrs" must be an object such as {{"v": 1.5}}, not {quoted(value)}'
    for name, item in value.items():
        if not isinstance(item, int | float | str | None):
            allowed = "must be a number, text, true or false"
            return f"attribute {quoted(name)} {allowed}, not {quoted(item)}{_parted(name, item)}"
        reason = _scalar_fault("an attribute's name", name) or _scalar_fault(
            f"attribute {quoted(name)}", item
        )
        if reason is not None:
            return reason
    return None


def _parted(name: str, item: Any) -> str:
    """Return a hint for a value that is an object or an array."""
    parts = item.items() if isinstance(item, dict) else enumerate(item)
    quotation = next((f"{quoted(f'{name}_{key}')}: {quoted(each)}" for key, each in parts), None)
    example = "" if quotation is None else f", as in {quotation}"
    return f"; make each of its values an attribute{example}, or leave it out"


def _scalar_fault(what: str, value: int | float | str | None) -> str | None:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return f"{what} holds half of a surrogate pair, which is not a character"
    elif isinstance(value, float):
        if not math.isfinite(value):
            return f"{what} is beyond what a float holds"
    elif value is not None and not INT64_MIN <= value <= INT64_MAX:
        return f"{what} {BEYOND}: {quoted(value)}"
    return None


# One type per attribute for each site of a trace: int, float, bool or text.
#
# Integers and floats mix (the column becomes float); any other mix is a fault, whose message names
# the line that set the type.


_WORDS: Final[dict[type, str]] = {
    int: "a number",
    float: "a number",
    str: "text",
    bool: "true or false",
}
_ARROW: Final[dict[type, pa.DataType]] = {
    int: pa.int64(),
    float: pa.float64(),
    str: STRING,
    bool: pa.bool_(),
}
_EXACT_MAX: Final = 2**53


class KnownType(NamedTuple):
    """A type, and the number of the line that set it."""

    type: type
    line: int


class AttrTypes(Struct):
    """The types of values in one trace so far, by name."""

    known: dict[Hashable, KnownType] = field(default_factory=dict)

    def column(
        self, names: Collection[Hashable], values: Sequence[Any], lines: np.ndarray, label: str
    ) -> tuple[pa.Array | None, list[Fault]]:
        """Return the Arrow column of ``values`` (None: absent), or the faults that prevent it.

        Args:
            names: names under which the type is stored; they share one type.
            values: int, float, bool, str or None, checked by ``fault``.
            lines: line numbers, ascending.
            label: name of the value in messages.
        """
        known = next((self.known[name] for name in names if name in self.known), None)
        types = set(map(type, values)) - {type(None)}
        if known is not None:
            types.add(known.type)
        if not types:
            return None, []
        if len(types) == 1 or types == {int, float}:
            kind = float if float in types else types.pop()
            faults = self._inexact(values, lines, label, known) if kind is float else []
            if faults:
                return None, faults
            if known is None:
                first = next((row for row, value in enumerate(values) if value is not None), 0)
                known = KnownType(kind, int(lines[first]))
            for name in names:
                line = self.known.get(name, known).line
                self.known[name] = KnownType(kind, line)
            if (
                kind is float and int in types
            ):  # Arrow refuses integers beyond 2**53, even exact ones
                values = [None if value is None else float(value) for value in values]
            return pa.array(values, type=_ARROW[kind]), []
        return None, self._mixed(values, lines, label, known)

    def _mixed(
        self, values: Sequence[Any], lines: np.ndarray, label: str, known: KnownType | None
    ) -> list[Fault]:
        faults = []
        for value, line in zip(values, lines, strict=True):
            if value is None:
                continue
            if known is None:
                known = KnownType(type(value), int(line))
            elif _WORDS[type(value)] != _WORDS[known.type]:
                faults.append(Fault(int(line), (
                    f"{label} is {_WORDS[type(value)]} here ({quoted(value)}) but "
                    f"{_WORDS[known.type]} on line {known.line}; give it one type throughout"
                )))  # fmt: skip
        return faults

    def _inexact(
        self, values: Sequence[Any], lines: np.ndarray, label: str, known: KnownType | None
    ) -> list[Fault]:
        """Return faults for integers that a float column cannot represent exactly."""
        column = np.array([0 if value is None else value for value in values], np.float64)
        faults = []
        for row in map(int, np.flatnonzero(np.abs(column) >= _EXACT_MAX)):
            value = values[row]
            if type(value) is int and int(float(value)) != value:
                since = "" if known is None or known.type is int else f" (since line {known.line})"
                faults.append(Fault(int(lines[row]), (
                    f"{label} {value} cannot be held exactly, as {label} also has fractions{since}"
                )))  # fmt: skip
        return faults
