"""Matches as JSON lines without a Python object per row: the same text as ``json.dumps`` makes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.results.float_texts import float_texts
from engine.results.schema import MORE

_AT_ONCE: Final = 1 << 14
"""Rows: bounds the texts in memory."""
_TIMES: Final = ("at", "known_at", "ts", "te", "ref")


def match_lines(table: pa.Table, unit: int) -> Iterator[str]:
    """A line, with its end, for each row of a table of ``MATCH_SCHEMA``.

    Args:
        table: the matches.
        unit: of the times [ns]; they are rounded down.
    """
    for start in range(0, table.num_rows, _AT_ONCE):
        part = table.slice(start, _AT_ONCE)
        yield from _lines(part, unit).to_pylist()


def _lines(table: pa.Table, unit: int) -> pa.Array:
    columns = {name: _one(table.column(name)) for name in table.column_names}
    names = ("op", "query", "site", "at", "known_at", "certainty", "probability")
    pairs = [_pair(name, columns[name], unit) for name in names]
    events = _joined(_events(columns["events"], unit), columns["events"])
    pairs.append(_around('"events": [', events, "]"))
    inner = pc.binary_join_element_wise(*pairs, ", ")
    return pc.binary_join_element_wise("{", inner, _rest(columns[MORE]), "}\n", "")


def _events(lists: pa.ListArray, unit: int) -> pa.Array:
    """Each event of every list."""
    events = lists.flatten()
    names = ("site", "stream", "source", "seq", "type", "ts", "te", "ref")
    pairs = [_pair(name, events.field(name), unit) for name in names]
    attrs = pc.coalesce(events.field("attrs"), "{}")
    pairs.append(_around('"attrs": ', attrs, ""))
    inner = pc.binary_join_element_wise(*pairs, ", ")
    return pc.binary_join_element_wise("{", inner, _rest(events.field(MORE)), "}", "")


def _joined(texts: pa.Array, lists: pa.ListArray) -> pa.Array:
    """The texts of each list, with commas."""
    offsets = lists.offsets.to_numpy()
    starts = pa.array(offsets - offsets[0], pa.int32())
    return pc.binary_join(pa.ListArray.from_arrays(starts, texts), ", ")


def _pair(name: str, values: pa.Array, unit: int) -> pa.Array:
    return _around(f"{json.dumps(name)}: ", _json(values, unit if name in _TIMES else 1), "")


def _around(begin: str, texts: pa.Array, end: str) -> pa.Array:
    return pc.binary_join_element_wise(begin, texts, end, "")


def _json(values: pa.Array, unit: int) -> pa.Array:
    """Values as JSON."""
    if pa.types.is_string(values.type):
        coded = values.dictionary_encode()
        known = [json.dumps(text, ensure_ascii=False) for text in coded.dictionary.to_pylist()]
        texts = pa.array(known, pa.string()).take(coded.indices)
    elif pa.types.is_floating(values.type):
        texts = float_texts(values.fill_null(0.0).to_numpy(zero_copy_only=False))
        texts = pc.if_else(values.is_valid(), texts, pa.scalar(None, pa.string()))
    else:
        numbers = values.fill_null(0).to_numpy(zero_copy_only=False) // unit
        texts = pc.cast(pa.array(numbers, mask=_missing(values)), pa.string())
    return texts.fill_null("null")


def _missing(values: pa.Array) -> np.ndarray:
    return np.asarray(values.is_null().to_numpy(zero_copy_only=False))


def _rest(more: pa.Array) -> pa.Array:
    """``, `` and the further fields, without their braces; nothing where there are none."""
    there = pc.fill_null(pc.greater(pc.binary_length(more), 2), False)
    inner = pc.utf8_slice_codeunits(pc.fill_null(more, "{}"), 1, -1)
    return pc.if_else(there, pc.binary_join_element_wise(", ", inner, ""), "")


def _one(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece, cut loose from what surrounds it."""
    return pa.concat_arrays(column.chunks)
