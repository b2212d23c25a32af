"""Turn the columns of a row-wise table (CSV, Parquet) or JSON objects into records.

A mapping and equal names assign columns to record fields; the other columns become attributes.
Tables are processed by column.
"""

from __future__ import annotations

import re
import shlex
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from slackwater.edge_agent import records as r
from slackwater.edge_agent.errors import did_you_mean
from slackwater.edge_agent.records import Kind
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import ATTR_PREFIX
from slackwater.engine.log.input.input_read import InputRead, Rows
from slackwater.engine.log.record.record_rules import FIELDS_OF_KIND, TIME_FIELDS, Fault
from slackwater.engine.log.record.times import NOT_TIME, Faults
from slackwater.engine.log.record.trace_record import COUNTS, INT_FIELDS, TEXT_FIELDS, is_count

_TIMELY: Final = re.compile(r"(?i)time|date|datum|zeit|stamp|^_?t$|_at$|index_level_0")
_OF_OTHER_KINDS: Final = FIELDS_OF_KIND[Kind.SYNC] - FIELDS_OF_KIND[Kind.EVENT]
"""Columns that are not record fields if every row is an event, such as a user's ``delay``."""
Converted = tuple[pa.Array, list[Fault]]
"""A converted column, and faults for the rows whose values do not fit."""
FIELDS: Final = tuple(name for name in r.RECORD_FIELDS if name != r.ATTRS)


class ColumnPlan(Struct, frozen=True):
    """``fields``: record field -> column; ``attrs``: attribute -> column."""

    fields: dict[str, str]
    attrs: dict[str, str]


def plan_columns(
    name: str,
    columns: Sequence[str],
    mapping: Mapping[str, str],
    attrs: Sequence[str] | None = None,
    foreign: Collection[str] = (),
    within: Collection[str] = (),
) -> ColumnPlan:
    """Assign columns to record fields and attributes.

    Args:
        name: the input, for messages.
        columns: names of its columns.
        mapping: record field, or ``attrs.NAME``, -> column.
        attrs: unmapped columns that become attributes; None: all others.
        foreign: columns that have the name of a field by coincidence.
        within: columns ``a.b`` of nested objects; their attributes are named ``a_b``.

    Raises:
        UserError: an unknown field or column, or two columns with one name or for one attribute.
    """
    places: dict[str, int] = {}
    for place, each in enumerate(columns, 1):
        if each in places:
            raise UserError(
                f'{name}:1: column "{each}" is there twice; rename one (columns {places[each]} and '
                f"{place}); of CSV, --header names all, and --skip-lines leaves out this line"
            )
        if each:  # a column without a name cannot be selected
            places[each] = place
    columns = list(places)
    fields: dict[str, str] = {}
    named: dict[str, str] = {}
    for target, column in mapping.items():
        if column not in columns and not set(column.split("+")) <= set(columns):
            hint = did_you_mean(column, columns)
            raise UserError(f'{name}:1: no column "{column}" (wanted for {target}){hint}')
        check_target(target, column)
        if target in FIELDS:
            fields[target] = column
        else:
            named[target.removeprefix(ATTR_PREFIX)] = column
    used = {part for column in mapping.values()
            for part in ([column] if column in columns else column.split("+"))}  # fmt: skip
    all_events = r.KIND not in fields and (r.KIND not in columns or r.KIND in foreign)
    for column in columns:
        if column in foreign or (all_events and column in _OF_OTHER_KINDS):
            continue
        if column in FIELDS and column not in fields and column not in used:
            fields[column] = column
            used.add(column)
    for column in columns if attrs is None else attrs:
        if column not in columns:
            raise UserError(f'{name}:1: no column "{column}"{did_you_mean(column, columns)}')
        if column in used:
            continue
        attribute = column.removeprefix(ATTR_PREFIX)
        attribute = attribute.replace(".", "_") if column in within else attribute
        if attribute in named:
            raise UserError(
                f'{name}:1: columns "{named[attribute]}" and "{column}" are both attribute '
                f'"{attribute}"; rename one'
            )
        named[attribute] = column
    if r.TS not in fields:
        raise UserError(
            f'{name}:1: no column is "ts", the event time; say which, as in '
            f"{_map_option(r.TS, time_hint(columns) or 'COLUMN')} (columns: {', '.join(columns)})"
        )
    return ColumnPlan(fields, named)


def check_target(target: str, column: str) -> None:
    """Refuse a mapping to a name that is neither a field nor an attribute.

    Raises:
        UserError: the message names the fields.
    """
    if target not in FIELDS and not target.removeprefix(ATTR_PREFIX) != target:
        raise UserError(
            f'cannot map "{column}" to "{target}": not a record field'
            f"{did_you_mean(target, FIELDS)} (or attrs.NAME)"
        )


def _map_option(target: str, column: str) -> str:
    """Return a ``--map`` option, quoted for a shell."""
    return f"--map {shlex.quote(f'{target}={column}')}"


def time_hint(columns: Sequence[str]) -> str | None:
    """Return the column whose name most likely denotes the event time, or None."""
    named = [each for each in columns if _TIMELY.search(each)]
    return min(named, key=len) if named else None


class RowBatch(Struct):
    """Rows of a table: typed columns of record fields and attributes.

    Attributes:
        lines: row numbers, ascending; a header is row 1.
        faults: rows that could not be converted or read; their values are ignored.
        text_of: returns a row as text, for the dead-letter file.
    """

    lines: np.ndarray
    fields: dict[str, pa.Array]
    attrs: dict[str, pa.Array]
    faults: list[Fault]
    text_of: Callable[[int], str]


class RowRead(InputRead):
    """A reader of a table, one record a row."""

    def _read(self) -> Iterator[Rows]:
        for batch in self._batches():
            self._check(batch)
            yield batch.fields, batch.attrs, batch.lines

    def _nothing(self) -> Exception:
        some = f"none of its {self.bad_count} rows is a record"
        what = some if self.bad_count else "no rows; an input has one event at least"
        return UserError(f"{self.path}: {what}")

    @abstractmethod
    def _batches(self) -> Iterator[RowBatch]:
        """Yield the table in parts of bounded size."""

    @abstractmethod
    def _time(self, field: str, column: pa.Array, lines: np.ndarray) -> tuple[pa.Array, Faults]:
        """Return times [ns], and the reason for each row without one
        (``engine.log.record.times``).
        """

    @abstractmethod
    def _whole(self, column: pa.Array, lines: np.ndarray, name: str) -> Converted:
        """Return whole numbers of 64 bits."""

    @abstractmethod
    def _value(self, column: pa.Array, lines: np.ndarray, name: str) -> Converted:
        """Return values in a type of attributes and ids."""

    def _typed(
        self, columns: Mapping[str, pa.Array], plan: ColumnPlan, lines: np.ndarray,
        faults: list[Fault], text_of: Callable[[int], str],
    ) -> RowBatch:  # fmt: skip
        """Return the rows as typed columns; values that do not fit are added to ``faults``."""
        fields: dict[str, pa.Array] = {}
        attrs: dict[str, pa.Array] = {}
        for field in (each for each in FIELDS if each in plan.fields):
            name = plan.fields[field]
            column = columns[name]
            bad: list[Fault] = []
            if field == r.KIND:
                fields[field], unknown = kind_codes(column.cast(pa.string()))
                why = f"is no kind of record; known are {', '.join(r.KIND_NAMES)}"
                bad = column_faults(unknown, lines, name, column, f"{why}; {as_attribute(name)}")
            elif field in TIME_FIELDS:
                fields[field], why_not = self._time(field, column, lines)
                bad = time_faults(why_not, lines, name, column)
            elif field in INT_FIELDS:
                fields[field], bad = self._whole(column, lines, name)
            elif field == r.ID:
                fields[field], bad = self._value(column, lines, name)
            else:
                fields[field] = column.cast(pa.string())
            faults += bad
        for attribute, name in plan.attrs.items():
            attrs[attribute], bad = self._value(columns[name], lines, name)
            faults += bad
        return RowBatch(lines, fields, attrs, faults, text_of)

    def _check(self, batch: RowBatch) -> None:
        """Remove the rows with faults, and report these."""
        faults = list({fault.line: fault for fault in reversed(batch.faults)}.values())
        batch.faults = []
        _drop(batch, faults)
        if len(batch.lines):
            found = self._intake.check(batch.fields, batch.lines, ordered=self._sorter is None)
            faults += found
            _drop(batch, found)
        self._bad.report(faults, batch.text_of)


def _drop(batch: RowBatch, faults: list[Fault]) -> None:
    keep = ~np.isin(batch.lines, [fault.line for fault in faults])
    if keep.all():
        return
    kept = pa.array(keep)
    batch.lines = batch.lines[keep]
    batch.fields = {name: column.filter(kept) for name, column in batch.fields.items()}
    batch.attrs = {name: column.filter(kept) for name, column in batch.attrs.items()}


def kind_codes(words: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Return codes (int8) of kind names, and which rows have no known kind."""
    names = pa.array(list(r.KIND_NAMES))
    place = pc.index_in(words, names, skip_nulls=True)
    codes = pa.array([int(kind) for kind in r.KIND_NAMES.values()], pa.int8()).take(place)
    unknown = pc.and_(words.is_valid(), place.is_null())
    return codes, unknown.to_numpy(zero_copy_only=False)


def time_faults(
    reasons: Mapping[int, str], lines: np.ndarray, column: str, values: pa.Array
) -> list[Fault]:
    """Return faults of ``engine.log.record.times`` with the column and the value."""
    faults = []
    for row, why in reasons.items():
        said = why
        if not why.startswith('"'):
            said = f'column "{column}": {_excerpt(values[row].as_py())} {why}'
            if column != r.TS and why == NOT_TIME:
                said += f"; {as_attribute(column)}"
        faults.append(Fault(int(lines[row]), said))
    return faults


def as_attribute(column: str) -> str:
    """Return the remedy for a column that has the name of a field by coincidence."""
    return f"--map attrs.{column}={column} makes it an attribute"


def column_faults(
    rows: np.ndarray, lines: np.ndarray, column: str, values: pa.Array, why: str
) -> list[Fault]:
    """Return one fault per marked row with the column and the value; ``why`` follows the value."""
    return [
        Fault(int(lines[row]), f'column "{column}": {_excerpt(values[int(row)].as_py())} {why}')
        for row in np.flatnonzero(rows)
    ]


def _excerpt(value: object) -> str:
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


# JSON objects in any layout -> records: keys become fields or attributes.
#
# ``{"ts": 5, "temp": 3}`` needs no mapping. A mapping names the keys of other fields; keys of
# nested objects are joined by dots there (``header.stamp``) and by underscores in attribute names.


_KNOWN: Final = frozenset(r.RECORD_FIELDS)
_TEXTS: Final = frozenset(TEXT_FIELDS) - {r.KIND}
_SHORT: Final = 3
"""Names up to this length are close to many others, so only ``ts`` is checked for typos."""
_STAMP: Final = re.compile(r"secs?|nsecs?|nanosecs?|seconds|nanoseconds|nanos")
_NS_PER_S: Final = 10**9


class Flat:
    """Turns the objects of one input into records.

    Args:
        name: the input, for messages.
        mapping: record field, or ``attrs.NAME``, -> key.
        attrs: unmapped keys that become attributes; None: all that are not fields.
        nulls: texts that mean null.

    Raises:
        UserError: a mapping to a name that is not a field.
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
        self._line = 0

    def records(self, objects: list[Any], lines: np.ndarray) -> list[Any]:
        """Return each object as a record; non-objects and misspelt fields stay unchanged.

        Raises:
            UserError: the first objects lack a mapped key or an event time; or as for ``record``.
        """
        if self._nulls:
            objects = [_without_words(each, self._nulls) for each in objects]
        found = [
            self.record(each, line) if type(each) is dict else each
            for each, line in zip(objects, lines, strict=True)
        ]
        self._check_keys(objects, found, lines)
        return found

    def record(self, fields: dict[str, Any], line: int) -> dict[str, Any]:
        """Return one object, of the given line, as a record.

        Raises:
            UserError: two keys with different values map to one attribute.
        """
        record: dict[str, Any] = {}
        self._line = line
        attrs_value = fields.get(r.ATTRS)
        attrs: dict[str, Any] = dict(attrs_value) if type(attrs_value) is dict else {}
        for key, value in fields.items():
            if key in self._of_key:
                self._assign(key, value, record, attrs)
            elif key == r.ATTRS:
                if type(attrs_value) is not dict:
                    record[key] = value
            elif key in _KNOWN and key not in self._targets:
                record[key] = value
            elif type(value) is dict:
                self._nested(key, key, value, record, attrs)
            elif self._attrs is None and key not in _KNOWN and _misspelt(key, fields):
                record[key] = value
            elif self._attrs is None or key in self._attrs:
                self._put(key, key, value, attrs)
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
                self._put(called, at, inner, attrs)

    def _put(self, name: str, key: str, value: Any, attrs: dict[str, Any]) -> None:
        """Set the attribute ``name`` from ``key``; refuse a second, different value."""
        known = attrs.get(name)
        if known is None:
            attrs[name] = value
        elif value is not None and value != known:
            raise UserError(
                f'{self.name}:{self._line}: the key "{key}" and another one are both attribute '
                f'"{name}"; {_map_option(ATTR_PREFIX + "NAME", key)} gives it another name'
            )

    def _assign(self, key: str, value: Any, record: dict[str, Any], attrs: dict[str, Any]) -> None:
        for target in self._of_key[key]:
            self._missing.pop(target, None)
            if target.startswith(ATTR_PREFIX):
                self._put(target.removeprefix(ATTR_PREFIX), key, value, attrs)
            elif target in _TEXTS and type(value) is int:
                record[target] = str(value)
            elif target in COUNTS and is_count(value):
                record[target] = int(value)
            else:
                record[target] = _stamp(value) if type(value) is dict else value

    def _check_keys(self, objects: list[Any], records: list[Any], lines: np.ndarray) -> None:
        if not any(type(each) is dict for each in objects):
            return  # each line is reported as not an object
        keys = list(dict.fromkeys(k for each in objects if type(each) is dict for k in _keys(each)))
        for target, key in self._missing.items():
            hint = did_you_mean(key, keys)
            raise UserError(
                f'{self.name}:{lines[-1]}: no record so far has "{key}" (wanted for {target}){hint}'
            )
        self._missing.clear()
        if len(objects) == 1 and r.TS not in records[0]:
            within = [key for key, value in objects[0].items() if _are_objects(value)]
            if len(within) == 1:
                raise UserError(
                    f'{self.name}:{lines[0]}: no record has "ts", the event time; "{within[0]}" '
                    "has objects of its own: --format json reads these"
                )
        events = [
            each for each in records
            if type(each) is dict and each.get(r.KIND) in (None, "event") and r.ATTRS in each
            and not each.keys() - _KNOWN
        ]  # fmt: skip
        if events and len(events) == len(records) and not any(r.TS in each for each in records):
            raise UserError(
                f'{self.name}:{lines[0]}: no record has "ts", the event time; say which key is, as '
                f"in {_map_option(r.TS, time_hint(keys) or 'KEY')} (keys: {', '.join(keys)})"
            )


def _are_objects(value: Any) -> bool:
    return type(value) is list and bool(value) and all(type(each) is dict for each in value)


def _without_words(value: Any, nulls: frozenset[str]) -> Any:
    """Return ``value`` with None in place of each text in ``nulls``."""
    if type(value) is dict:
        return {key: _without_words(inner, nulls) for key, inner in value.items()}
    return None if type(value) is str and value in nulls else value


def values_by_path(fields: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted keys of an object and its nested objects, with values; instants are scalars."""
    for key, value in fields.items():
        inner = _stamp(value) if type(value) is dict else value
        if type(inner) is dict:
            yield from values_by_path(inner, f"{path}{key}.")
        else:
            yield path + key, inner


def _keys(fields: dict[str, Any]) -> Iterator[str]:
    return (path for path, _ in values_by_path(fields))


def _stamp(value: dict[str, Any]) -> Any:
    """Return ``{"sec": 1, "nanosec": 2}``, an instant of ROS, as ISO 8601; others unchanged."""
    parts = {"n" if key.startswith("n") else "s": part for key, part in value.items()}
    if len(parts) == len(value) and all(
        _STAMP.fullmatch(key) and type(part) is int for key, part in value.items()
    ):
        ns = parts.get("s", 0) * _NS_PER_S + parts.get("n", 0)
        if abs(ns) < 2**63:
            return f"{np.datetime64(ns, 'ns')}Z"
    return value


def _misspelt(key: str, fields: dict[str, Any]) -> bool:
    """Whether an unknown key is a misspelling of a field that the object lacks."""
    plain = key.lower().replace("-", "_")
    if plain == r.TS or (len(key) <= _SHORT and _one_off(plain, r.TS)):
        return r.TS not in fields
    for field in (*FIELDS, r.ATTRS):
        if field in fields or len(field) <= _SHORT:
            continue
        if plain.replace("_", "") == field.replace("_", "") or _one_off(plain, field):
            return True
    return False


def _one_off(word: str, target: str) -> bool:
    """Whether the words differ by one letter or by two swapped neighbours."""
    if word == target or abs(len(word) - len(target)) > 1:
        return False
    short, long = sorted((word, target), key=len)
    at = next((i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if len(short) < len(long):
        return short[at:] == long[at + 1 :]
    swapped = short[at : at + 2] == long[at : at + 2][::-1] and short[at + 2 :] == long[at + 2 :]
    return short[at + 1 :] == long[at + 1 :] or swapped
