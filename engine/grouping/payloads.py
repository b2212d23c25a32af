"""Events as the items of a dataflow, and items as results show them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from engine.errors import UserError
from engine.grouping.maps import dtype_of
from engine.grouping.plan import GroupingPlan
from engine.query.expression import View, column
from engine.query.values import Value
from engine.results.schema import as_json
from engine.stream.released import Released, Strings


def payloads(plan: GroupingPlan, released: Released) -> tuple[np.ndarray, np.ndarray]:
    """(payload, which rows have one): records that lack an attribute are of no use.

    Raises:
        UserError: a compiled map is to read text.
    """
    view = View.of(released.columns, released.attr_types, released.strings)
    found = {attribute.name: column(attribute.name, view) for attribute in plan.attributes}
    if plan.flow.item is None:
        columns = [_objects(value, released.n, released.strings) for value in found.values()]
        rows = (dict(zip(found, row, strict=True)) for row in zip(*columns, strict=True))
        made = np.fromiter(rows, object, released.n) if found else _empty_dicts(released.n)
        return made, np.ones(released.n, np.bool_)
    records = np.zeros(released.n, dtype_of(plan.flow.item))
    known = np.ones(released.n, np.bool_)
    for name, value in found.items():
        if value.kind == "str":
            raise UserError(
                f"query {plan.name!r}: {name!r} is text, and compiled maps read numbers: leave it "
                "out of the items, or use maps in plain Python"
            )
        if value.kind == "null":
            known[:] = False
            continue
        records[name] = value.data
        if value.valid is not None:
            known &= value.valid
    return records, known


def _empty_dicts(n: int) -> np.ndarray:
    return np.fromiter(({} for _ in range(n)), object, n)


def _objects(value: Value, n: int, strings: Strings) -> list[Any]:
    """A column as Python objects; None for nulls."""
    if value.kind == "null":
        return [None] * n
    listed: list[Any] = np.broadcast_to(value.data, n).tolist()
    if value.kind == "str":
        listed = [strings.text(code) for code in listed]
    if value.valid is not None:
        valid = np.broadcast_to(value.valid, n).tolist()
        listed = [each if there else None for each, there in zip(listed, valid, strict=True)]
    return listed


def shown(payload: np.ndarray) -> pa.Array:
    """Items as results show them: structs of records, else JSON texts."""
    names = payload.dtype.names
    if names is None:
        return pa.array([as_json(each) for each in payload.tolist()], pa.string())
    columns = [
        pa.array(np.ascontiguousarray(payload[name]) if payload[name].ndim == 1
                 else payload[name].tolist())
        for name in names
    ]  # fmt: skip
    return pa.StructArray.from_arrays(columns, names=list(names))
