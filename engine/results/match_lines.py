"""Matches as JSON lines without a Python object per row: the same text as ``json.dumps`` makes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from engine.results.json_texts import around, in_one, pair, rest
from engine.results.schema import MORE

_AT_ONCE: Final = 1 << 14
"""Rows: bounds the texts in memory."""
_TIMES: Final = frozenset({"at", "known_at", "ts", "te", "ref"})


def match_lines(table: pa.Table, unit: int) -> Iterator[str]:
    """The lines of ``match_pieces``, one by one."""
    for piece in match_pieces(table, unit):
        yield from piece.to_pylist()


def match_pieces(table: pa.Table, unit: int) -> Iterator[pa.Array]:
    """A line, with its end, for each row of a table of ``MATCH_SCHEMA``; some rows at a time.

    Args:
        table: the matches.
        unit: of the times [ns]; they are rounded down.
    """
    for start in range(0, table.num_rows, _AT_ONCE):
        yield _lines(table.slice(start, _AT_ONCE), unit)


def _lines(table: pa.Table, unit: int) -> pa.Array:
    columns = {name: in_one(table.column(name)) for name in table.column_names}
    names = ("op", "query", "site", "at", "known_at", "certainty", "probability")
    pairs = [pair(name, columns[name], unit if name in _TIMES else 1) for name in names]
    events = _joined(_events(columns["events"], unit), columns["events"])
    pairs.append(around('"events": [', events, "]"))
    inner = pc.binary_join_element_wise(*pairs, ", ")
    return pc.binary_join_element_wise("{", inner, rest(columns[MORE]), "}\n", "")


def _events(lists: pa.ListArray, unit: int) -> pa.Array:
    """Each event of every list."""
    events = lists.flatten()
    names = ("site", "stream", "source", "seq", "type", "ts", "te", "ref")
    pairs = [pair(name, events.field(name), unit if name in _TIMES else 1) for name in names]
    attrs = pc.coalesce(events.field("attrs"), "{}")
    pairs.append(around('"attrs": ', attrs, ""))
    inner = pc.binary_join_element_wise(*pairs, ", ")
    return pc.binary_join_element_wise("{", inner, rest(events.field(MORE)), "}", "")


def _joined(texts: pa.Array, lists: pa.ListArray) -> pa.Array:
    """The texts of each list, with commas."""
    offsets = lists.offsets.to_numpy()
    starts = pa.array(offsets - offsets[0], pa.int32())
    return pc.binary_join(pa.ListArray.from_arrays(starts, texts), ", ")
