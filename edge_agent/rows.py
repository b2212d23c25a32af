"""From records of a program or file, one by one, to the columns that ``emit`` takes.

Bad records are the input's fault: they are counted and told, and the others go on.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from edge_agent.columns import Codes, Column, Masked
from edge_agent.errors import AgentError
from edge_agent.limits import TIME_MAX_NS
from edge_agent.messages import NAME_MAX, NAMES_MAX, TEXT_MAX, StreamSchema

INT64_MAX: Final = 2**63 - 1
FLOAT_WHOLE_MAX: Final = 2**1023
"""A whole number from here on may have no float."""
_PYTHON: Final = {"int": int, "float": float, "bool": bool, "str": str}
_CODES: Final = {"int": "q", "float": "d", "bool": "B"}


class BadRecord(AgentError):  # noqa: N818 - of the input, not of the program
    """A record that is not an event of its stream; the message says why."""


class Row(NamedTuple):
    """One event. ``ts te`` in ns at the source's clock; ``attrs`` in the schema's order."""

    ts: int
    te: int
    id: int | None
    type: str | None
    attrs: tuple[int | float | bool | str | None, ...]
    clock: str | None = None
    """The clock that stamped it; None: the agent's own."""


class Columns(NamedTuple):
    """What ``emit`` takes of a batch."""

    ts: array[int]
    te: array[int] | None
    ids: array[int] | None
    types: Codes | None
    attrs: dict[str, Column]
    clocks: Codes | None


def checked_row(
    schema: StreamSchema, ts: int, te: int | None, id_: object, type_: object,
    attrs: Mapping[str, Any], clock: str | None = None,
) -> Row:  # fmt: skip
    """An event, if these are one; attributes that ``attrs`` lacks or has as None are null.

    Raises:
        BadRecord: names what is wrong.
    """
    end = ts if te is None else te
    if not -TIME_MAX_NS <= ts <= TIME_MAX_NS or not -TIME_MAX_NS <= end <= TIME_MAX_NS:
        raise BadRecord("a time beyond the years 1823 to 2116")
    if end < ts:
        raise BadRecord("te lies before ts")
    if id_ is not None and (type(id_) is not int or not -INT64_MAX - 1 <= id_ <= INT64_MAX):
        raise BadRecord(f"id {id_!r:.50} is not a whole number of 64 bits")
    if type_ is not None and (type(type_) is not str or not 1 <= len(type_) <= NAME_MAX):
        raise BadRecord(f"type {type_!r:.50} is not a text of 1 to {NAME_MAX} characters")
    values = tuple([_value(attrs.get(name), name, kind) for name, kind in schema.attrs.items()])
    return Row(ts, end, id_, type_, values, clock)


def columns_of(schema: StreamSchema, rows: Sequence[Row]) -> Columns:
    """The columns of ``rows``, which are at least one."""
    ts, te, ids, types, of_each, clocks = zip(*rows, strict=True)
    attrs: dict[str, Column] = {}
    for (name, kind), values in zip(schema.attrs.items(), zip(*of_each, strict=True), strict=False):
        if any(value is not None for value in values):
            attrs[name] = _column(values, kind)
    return Columns(
        array("q", ts),
        None if te == ts else array("q", te),
        array("q", [id_ or 0 for id_ in ids]) if ids[0] is not None else None,
        _codes(types) if any(types) else None,
        attrs,
        _codes(clocks) if any(clocks) else None,
    )


def fits(rows: Sequence[Row], row: Row) -> bool:
    """Whether ``row`` may be in one batch with ``rows``: ids are of all events of one, or of none,
    and a dictionary has an end.
    """
    return not rows or ((rows[0].id is None) == (row.id is None) and len(rows) < NAMES_MAX)


def _value(value: Any, name: str, kind: str) -> Any:
    if value is None:
        return None
    if kind == "float" and type(value) is int:
        value = float(value) if abs(value) < FLOAT_WHOLE_MAX else math.inf
    found = type(value)  # bool is an int for isinstance
    if found is not _PYTHON[kind]:
        raise BadRecord(f"attribute {name}: {value!r:.50} is not of type {kind}")
    if kind == "int" and not -INT64_MAX - 1 <= value <= INT64_MAX:
        raise BadRecord(f"attribute {name}: {value} does not fit into 64 bits")
    if kind == "float" and math.isinf(value):
        raise BadRecord(f"attribute {name}: an infinite value")
    if kind == "str" and len(value) > TEXT_MAX:
        raise BadRecord(f"attribute {name}: a text of {len(value)} characters")
    return value


def _column(values: Sequence[Any], kind: str) -> Column:
    if kind == "str":
        return _codes(values)
    if None not in values:
        return array(_CODES[kind], values)
    valid = array("B", [value is not None for value in values])
    return Masked(array(_CODES[kind], [value or 0 for value in values]), valid)


def _codes(values: Sequence[str | None]) -> Codes:
    names = [name for name in dict.fromkeys(values) if name is not None]
    places: dict[str | None, int] = {name: place for place, name in enumerate(names)}
    places[None] = -1
    return Codes(names, array("i", map(places.__getitem__, values)))
