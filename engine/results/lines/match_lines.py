"""Matches as JSON lines without a Python object per row: the same text as ``json.dumps`` makes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import pyarrow as pa

from engine.results.lines.json_texts import (
    Texts,
    around,
    columns_in_one,
    joined,
    rest,
    where_there,
    woven,
)
from engine.results.schema import EVENT_FIELDS, MORE

_TIMES: Final = frozenset({"at", "known_at", "ts", "te", "ref"})
_FACTS: Final = ("op", "query", "site", "at", "known_at", "certainty", "probability")
_ATTRS: Final = "attrs"


def match_lines(table: pa.Table, unit: int, _times: Collection[str] = ()) -> pa.Array:
    """A line, with its end, for each row of a table of matches.

    Args:
        table: the matches.
        unit: of the times [ns]; they are rounded down.
    """
    columns = columns_in_one(table)
    texts = Texts(unit)
    lists = columns["events"]
    events = joined(_events(lists.flatten(), texts), lists)
    facts = texts.fields({name: columns[name] for name in _FACTS}, _TIMES)
    parts = ["{", *facts, ', "events": [', events, "]"]
    value = columns["value"]
    if value.null_count < len(value):
        parts.append(where_there(value, around(', "value": ', texts.objects(value), "")))
    return woven(*parts, rest(columns[MORE]), "}\n")


def _events(events: pa.StructArray, texts: Texts) -> pa.Array:
    """Each event of every list."""
    columns = {field.name: events.field(place) for place, field in enumerate(events.type)}
    facts = texts.fields({n: columns[n] for n in EVENT_FIELDS if n != _ATTRS}, _TIMES)
    attrs = texts.attributes(columns[_ATTRS])
    return woven("{", *facts, ', "attrs": ', attrs, rest(columns[MORE]), "}")
