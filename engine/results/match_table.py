"""Matches as rows of ``MATCH_SCHEMA`` without a Python object per row."""

from __future__ import annotations

import json
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import ContractViolation
from engine.pattern.match_results import Matches
from engine.results.float_texts import float_texts
from engine.results.schema import EVENT_FIELDS, MATCH_SCHEMA, MORE, as_json
from engine.stream.columns import VALID_PREFIX
from engine.stream.frame import ATTR_PREFIX

_CODED: Final = ("stream", "source", "type")
_TIMES: Final = ("ts", "te", "ref")


def columns_table(matches: Matches) -> pa.Table:
    """The results as a table; ``position`` counts from 0.

    Raises:
        ContractViolation: an attribute is a NaN or an infinity, which JSON does not have.
    """
    n, given = len(matches), matches.given
    more = pa.nulls(n, pa.string())
    if matches.computes:
        values = matches.values()
        texts = [None if value is None else as_json({"value": value}) for value in values]
        more = pa.array(texts, pa.string())
    columns = [
        pa.array(np.arange(n)),
        _either(given.plus, "+", "-"),
        _one(matches.query, n),
        _one(matches.site, n),
        pa.array(given.at),
        pa.array(given.known_at),
        _either(given.confirmed, "confirmed", "uncertain"),
        pa.array(given.chance),
        _events(matches),
        more,
    ]
    return pa.Table.from_arrays(columns, schema=MATCH_SCHEMA)


def _either(which: np.ndarray, yes: str, no: str) -> pa.Array:
    return pc.if_else(pa.array(which), yes, no)


def _one(text: str, n: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), n)


def _events(matches: Matches) -> pa.Array:
    """One list of structs per result, of the steps that its match has."""
    present = matches.which >= 0
    row = pa.array(matches.which[present])
    n = len(row)
    fields = {name: _column(matches, name).take(row) for name in ("stream", "source", "type")}
    fields |= {name: pa.array(matches.columns[name]).take(row) for name in _TIMES}
    seq = matches.columns["seq"]
    fields["seq"] = pa.array(seq, mask=seq < 0).take(row)
    fields["site"] = _one(matches.site, n)
    fields["attrs"] = _attrs(matches, present, row)
    fields[MORE] = pa.nulls(n, pa.string())
    names = [*EVENT_FIELDS, MORE]
    events = pa.StructArray.from_arrays([fields[name] for name in names], names)
    ends = np.concatenate(([0], np.cumsum(present.sum(axis=1)))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), events)


def _column(matches: Matches, name: str) -> pa.Array:
    return _texts(matches, matches.columns[name])


def _texts(matches: Matches, codes: np.ndarray) -> pa.Array:
    """Codes as texts; -1 as null."""
    found, which = np.unique(codes, return_inverse=True)
    texts = pa.array([matches.strings.text(code) for code in found.tolist()], pa.string())
    return texts.take(pa.array(which.reshape(-1)))


def _attrs(matches: Matches, present: np.ndarray, row: pa.Array) -> pa.Array:
    """Each event's attributes as a JSON object: those that its step shows."""
    kinds = list(dict.fromkeys(matches.shown))
    made = [_objects(matches, shown).take(row) for shown in kinds]
    if len(kinds) == 1:
        return made[0]
    kind_of_step = np.array([kinds.index(shown) for shown in matches.shown])
    chosen = np.broadcast_to(kind_of_step, present.shape)[present]
    return pc.choose(pa.array(chosen), *made)


def _objects(matches: Matches, shown: tuple[str, ...] | None) -> pa.Array:
    """Per event the attributes ``shown`` (None: all) in JSON; what it lacks is left out."""
    n = len(matches.columns["ref"])
    names = sorted(matches.attr_types) if shown is None else shown
    pairs = []
    for name in names:
        if name in matches.attr_types:
            text = _values(matches, name)
            pairs.append(pc.binary_join_element_wise(as_json(name), text, ": "))
    if not pairs:
        return _one("{}", n)
    # "skip" leaves out the rows of which no pair is there, instead of giving them an empty text.
    absent = reduce(pc.and_, [pair.is_null() for pair in pairs])
    pairs[0] = pc.if_else(absent, "", pairs[0])
    inner = pairs[0]
    if len(pairs) > 1:
        inner = pc.binary_join_element_wise(*pairs, ", ", null_handling="skip")
    return pc.binary_join_element_wise("{", inner, "}", "")


def _values(matches: Matches, name: str) -> pa.Array:
    """An attribute's values as JSON texts; null where an event lacks it."""
    values = matches.columns[ATTR_PREFIX + name]
    valid = matches.columns[VALID_PREFIX + name]
    if matches.attr_types[name] == "str":
        found, which = np.unique(np.where(valid, values, -1), return_inverse=True)
        texts = [json.dumps(matches.strings.text(c), ensure_ascii=False) for c in found.tolist()]
        text = pa.array(texts, pa.string()).take(pa.array(which.reshape(-1)))
    elif values.dtype == np.bool_:
        text = _either(values, "true", "false")
    elif values.dtype.kind == "f":
        if not np.isfinite(values[valid]).all():
            raise ContractViolation(f"a result holds a NaN or an infinity as {name!r}")
        text = float_texts(values)
    else:
        text = pc.cast(pa.array(values), pa.string())
    return pc.if_else(pa.array(valid), text, pa.scalar(None, pa.string()))
