"""Data items of a dataflow: as columns on their way, as events read, and as results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.operator import Result, ResultColumns
from slackwater.engine.core.released import Released, Strings
from slackwater.engine.operators.grouping.maps import dtype_of
from slackwater.engine.operators.grouping.operations import GroupingPlan
from slackwater.engine.output.schema import (
    ITEM_SCHEMA,
    ITEMS,
    POSITION,
    as_json,
    one_of,
    same_for_all,
)
from slackwater.engine.query.expression import View, column
from slackwater.engine.query.values import Value

# Data items on their way through a dataflow, as equally long columns (K18 II.A, V.A).
#
# The order of items is lexicographic: event time first, then the source, then the source's own
# number, then arrival, then the place among the items that one item was made into (K18 Fig 5). A
# tombstone is an item that says that another one, of the same number, is not valid.


@dataclass(frozen=True, slots=True)
class Items:
    """``n`` items, in the order in which they arrive at an operation.

    Attributes:
        ref: event time [ns], int64.
        source: code of the source, int64; ``rank`` of the dataflow says how codes are ordered.
        seq: the source's number of the event, int64; -1: none.
        origin: the event's place in order of arrival, int64: settles what is equal.
        child: place among what the event was made into, int64.
        number: which item it is, int64; a tombstone has that of the item that it takes back.
        tombstone: bool.
        row: of the batch, int64: the row that made it come up now.
        payload: what it carries: a structured array, or objects.
    """

    ref: np.ndarray
    source: np.ndarray
    seq: np.ndarray
    origin: np.ndarray
    child: np.ndarray
    number: np.ndarray
    tombstone: np.ndarray
    row: np.ndarray
    payload: np.ndarray

    def __len__(self) -> int:
        return len(self.ref)

    def take(self, which: np.ndarray | slice) -> Items:
        """Those of ``which``, places, a mask or a slice."""
        return Items(*(getattr(self, name)[which] for name in COLUMNS))


COLUMNS = tuple(field.name for field in fields(Items))


def regular(
    ref: np.ndarray, source: np.ndarray, seq: np.ndarray, payload: np.ndarray, first: int = 0
) -> Items:
    """Events as items, numbered from ``first`` on, in order of arrival."""
    n = len(ref)
    rows = np.arange(n)
    return Items(
        np.asarray(ref, np.int64), np.asarray(source, np.int64), np.asarray(seq, np.int64),
        first + rows, np.zeros(n, np.int64), first + rows, np.zeros(n, np.bool_), rows, payload,
    )  # fmt: skip


def joined(pieces: Sequence[Items]) -> Items:
    """``pieces``, at least one, one after another."""
    if len(pieces) == 1:
        return pieces[0]
    return Items(*(np.concatenate([getattr(each, name) for each in pieces]) for name in COLUMNS))


def objects(values: Sequence[Any]) -> np.ndarray:
    """Any Python objects as a payload."""
    return np.fromiter(values, object, len(values))


# Events as the items of a dataflow, and items as results show them.


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
        made = rows if found else ({} for _ in range(released.n))
        return np.fromiter(made, object, released.n), np.ones(released.n, np.bool_)
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


def payload_column(payload: np.ndarray) -> pa.Array:
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


# Results of a dataflow, as columns: its items.


_ORDER: Final = ITEM_SCHEMA.names


class ItemColumns(NamedTuple):
    """Equally long. ``back``: taken back; ``at`` and ``ts`` in ns; ``seq`` and ``certainty`` with
    nulls; ``item``: structs or JSON texts.
    """

    back: np.ndarray
    at: pa.Array
    ts: pa.Array
    source: pa.Array
    seq: pa.Array
    item: pa.Array
    certainty: pa.Array


class DerivedItems(ResultColumns):
    """Results of one query and site, of the kind ``items``."""

    kind = ITEMS

    def __init__(self, columns: ItemColumns, query: str, site: str) -> None:
        self.columns, self.query, self.site = columns, query, site

    @classmethod
    def tables(cls, pieces: Sequence[DerivedItems]) -> Iterator[pa.Table]:
        for piece in pieces:
            n = len(piece)
            columns = {
                **piece.columns._asdict(),
                POSITION: pa.array(np.arange(n)),
                "op": one_of(("+", "-"), piece.columns.back.astype(np.int32)),
                "query": same_for_all(piece.query, n),
                "site": same_for_all(piece.site, n),
            }
            yield pa.table({name: columns[name] for name in _ORDER})

    def __len__(self) -> int:
        return len(self.columns.at)

    def __iter__(self) -> Iterator[Result]:
        is_text = pa.types.is_string(self.columns.item.type)
        for table in self.tables([self]):
            for result in table.drop_columns(POSITION).to_pylist():
                if is_text:
                    result["item"] = json.loads(result["item"])
                if result["certainty"] is None:
                    del result["certainty"]
                yield result
