"""Matches as rows of ``MATCH_SCHEMA`` without a Python object per row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from engine.errors import ContractViolation
from engine.results.schema import (
    EVENT_FIELDS,
    MATCH_SCHEMA,
    MORE,
    as_json,
    decoded,
    one_of,
    same_for_all,
)
from engine.stream.columns import VALID_PREFIX
from engine.stream.frame import ATTR_PREFIX

if TYPE_CHECKING:
    from engine.pattern.match_results import Matches

_CODED: Final = ("stream", "source", "type")
_TIMES: Final = ("ts", "te", "ref")


def columns_table(matches: Matches) -> pa.Table:
    """The results as a table; ``position`` counts from 0.

    Raises:
        ContractViolation: an attribute is a NaN or an infinity, which JSON does not have.
    """
    given = matches.given
    n = len(given.at)
    more = pa.nulls(n, pa.string())
    if any(plan.computed for plan in matches.layout.branches):
        values = matches.values()
        texts = [None if value is None else as_json({"value": value}) for value in values]
        more = pa.array(texts, pa.string())
    columns = [
        pa.array(np.arange(n)),
        one_of(("-", "+"), given.plus),
        same_for_all(matches.query, n),
        same_for_all(matches.site, n),
        pa.array(given.at),
        pa.array(given.known_at),
        one_of(("uncertain", "confirmed"), given.confirmed),
        pa.array(given.chance),
        _events(matches),
        more,
    ]
    return pa.table(columns, names=MATCH_SCHEMA.names)


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
        for name in _TIMES
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
