"""Typed results as columns of plain values, for CSV.

Names of nested fields are joined with dots: ``window.start``, ``key.sid``, ``value.avg(v)``; bounds
are ``bounds.avg(v).least`` and ``.most``. A match is one row: its first event is ``event1.site``,
``event1.ts``, ``event1.attrs.tag`` and so on, in the order of its JSON line; likewise an alert's
``so_far1.type``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.results.lines.json_texts import in_one

_BOUNDS: Final = ("least", "most")
_EVENTS: Final = "events"
_EVENT: Final = "event"


def most_listed(table: pa.Table) -> int:
    """The most events that one row of ``table`` lists; 0 where none does."""
    listed = [table[field.name] for field in table.schema if _lists_events(field.type)]
    return max((pc.max(pc.list_value_length(of)).as_py() or 0 for of in listed), default=0)


def flat(table: pa.Table, events: int) -> pa.Table:
    """``table`` (of ``TypedColumns``) with plain columns alone; ``events`` per row at most."""
    columns = [
        each for name in table.column_names for each in _flat(name, in_one(table[name]), events)
    ]
    return pa.table([values for _, values in columns], names=[name for name, _ in columns])


def _lists_events(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) and pa.types.is_struct(kind.value_type))


def _flat(name: str, values: pa.Array, events: int) -> Iterator[tuple[str, pa.Array]]:
    if pa.types.is_struct(values.type):
        for field, inner in zip(values.type, values.flatten(), strict=True):
            yield from _flat(f"{name}.{field.name}", inner, events)
    elif pa.types.is_dictionary(values.type):
        yield name, values.dictionary_decode()
    elif not pa.types.is_list(values.type):
        yield name, values
    elif _lists_events(values.type):
        one = _EVENT if name == _EVENTS else name
        for place in range(events):
            yield from _flat(f"{one}{place + 1}", _element(values, place), events)
    else:
        for place, end in enumerate(_BOUNDS):
            yield f"{name}.{end}", _element(values, place)


def _element(lists: pa.ListArray, place: int) -> pa.Array:
    """Of each list the one at ``place``; null where it is shorter."""
    starts = lists.offsets.to_numpy()[:-1]
    lengths = np.asarray(pc.list_value_length(lists).fill_null(0))
    return lists.values.take(pa.array(starts + place, mask=lengths <= place))
