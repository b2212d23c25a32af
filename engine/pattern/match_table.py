"""Matches as an Arrow table, of the fields that ``engine.results.schema`` lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from engine.barrier.changes import Given
from engine.errors import ContractViolation
from engine.query.values import Value
from engine.results.lines.json_texts import json_object, json_text
from engine.results.schema import (
    EVENT_FIELDS,
    MATCH_SCHEMA,
    MORE,
    decoded,
    one_of,
    same_for_all,
)
from engine.stream.columns import VALID_PREFIX
from engine.stream.frame import ATTR_PREFIX

if TYPE_CHECKING:
    from engine.pattern.match_results import Matches


def columns_table(matches: Matches) -> pa.Table:
    """The results as a table; ``position`` counts from 0.

    Raises:
        ContractViolation: an attribute is a NaN or an infinity, which JSON does not have.
    """
    given = matches.given
    n = len(given.at)
    computes = any(plan.computed for plan in matches.layout.branches)
    columns = [
        pa.array(np.arange(n)),
        one_of(("-", "+"), given.plus),
        same_for_all(matches.query, n),
        same_for_all(matches.site, n),
        pa.array(given.at),
        pa.array(given.known_at),
        one_of(("uncertain", "confirmed"), given.confirmed),
        chances(given),
        _events(matches),
        _computed(matches) if computes else pa.nulls(n, pa.string()),
        pa.nulls(n, pa.string()),
    ]
    return pa.table(columns, names=MATCH_SCHEMA.names)


def chances(given: Given) -> pa.Array:
    """The probabilities; null where nobody knows."""
    unknown = np.isnan(given.chance)
    return pa.array(given.chance, mask=unknown if unknown.any() else None)


def values_of(value: Value, n: int, matches: Matches) -> pa.Array:
    """A value of ``n`` matches."""
    if value.kind == "null":
        return pa.nulls(n)
    absent = None if value.valid is None else ~value.valid
    if value.kind == "str":
        none = np.zeros(n, np.bool_)
        return decoded(value.data, none if absent is None else absent, matches.strings.text)
    return pa.array(value.data, mask=absent)


def _computed(matches: Matches) -> pa.Array:
    """What RETURN computes; null where it computes nothing."""
    rows, told = np.full(len(matches), -1), 0
    parts = []
    for mine, columns in matches.value_columns():
        n = len(mine)
        parts.append({name: values_of(one, n, matches) for name, one in columns.items()})
        rows[mine] = np.arange(told, told + n)
        told += n
    if not parts:
        return pa.nulls(len(matches), pa.string())
    found = pa.concat_arrays(_objects(parts))
    in_order = len(parts) == 1 and told == len(matches)
    return found if in_order else found.take(pa.array(rows, mask=rows < 0))


def _objects(parts: Sequence[Mapping[str, pa.Array]]) -> list[pa.Array]:
    """The columns of each part as objects: structs, or JSON texts where parts differ in type."""
    schemas = [[pa.field(name, values.type) for name, values in part.items()] for part in parts]
    try:
        fields = list(pa.unify_schemas(map(pa.schema, schemas)))
    except pa.ArrowTypeError:
        fields = []
    if any(len(each) != len(fields) for each in schemas):
        return [
            json_object({name: json_text(values) for name, values in part.items()})
            for part in parts
        ]
    return [
        pa.StructArray.from_arrays([part[f.name].cast(f.type) for f in fields], fields=fields)
        for part in parts
    ]


def _events(matches: Matches) -> pa.Array:
    """One list of structs per result, of the steps that its match has."""
    present = matches.which >= 0
    row = pa.array(matches.which[present])
    n, text = len(row), matches.strings.texts.__getitem__
    fields = {
        name: decoded(matches.columns[name], matches.columns[name] < 0, text).take(row)
        for name in ("stream", "source", "type")
    }
    fields |= {
        name: pa.array(matches.columns[name], mask=matches.lacks.get(name)).take(row)
        for name in ("ts", "te", "ref")
    }
    seq = matches.columns["seq"]
    fields["seq"] = pa.array(seq, mask=seq < 0).take(row)
    fields["site"] = same_for_all(matches.site, n)
    fields["attrs"] = _attrs(matches, present, row)
    fields[MORE] = pa.nulls(n, pa.string())
    names = [*EVENT_FIELDS, MORE]
    events = pa.StructArray.from_arrays([fields[name] for name in names], names)
    ends = np.concatenate(([0], np.cumsum(present.sum(axis=1)))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), events)


def _attrs(matches: Matches, present: np.ndarray, row: pa.Array) -> pa.Array:
    """Each event's attributes as a struct: those that its step shows, null where it lacks one."""
    shown = [matches.attr_types.keys() if names is None else names for names in matches.shown]
    fields = {}
    for name in sorted(set[str]().union(*shown) & matches.attr_types.keys()):
        of_step = np.array([name in names for names in shown])
        values = _values(matches, name)
        if of_step.all():
            fields[name] = values.take(row)
        else:
            hidden = ~np.broadcast_to(of_step, present.shape)[present]
            fields[name] = values.take(pa.array(np.asarray(row), mask=hidden))
    if not fields:
        return same_for_all("{}", len(row))
    return pa.StructArray.from_arrays(list(fields.values()), names=list(fields))


def _values(matches: Matches, name: str) -> pa.Array:
    """An attribute of every event; null where it is lacking."""
    values = matches.columns[ATTR_PREFIX + name]
    valid = matches.columns[VALID_PREFIX + name]
    if matches.attr_types[name] == "str":
        return decoded(values, ~valid, matches.strings.texts.__getitem__)
    if values.dtype.kind == "f" and not np.isfinite(values[valid]).all():
        raise ContractViolation(f"a result holds a NaN or an infinity as {name!r}")
    return pa.array(values, mask=~valid)
