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
    columns, texts = columns_in_one(table), Texts(unit)
    lists = columns["events"]
    events = lists.flatten()
    of_event = {field.name: events.field(place) for place, field in enumerate(events.type)}
    plain = texts.fields({n: of_event[n] for n in EVENT_FIELDS if n != _ATTRS}, _TIMES)
    attrs = texts.attributes(of_event[_ATTRS])
    each = woven("{", *plain, ', "attrs": ', attrs, rest(of_event[MORE]), "}")
    facts = texts.fields({name: columns[name] for name in _FACTS}, _TIMES)
    parts = ["{", *facts, ', "events": [', joined(each, lists), "]"]
    value = columns["value"]
    if value.null_count < len(value):
        parts.append(where_there(value, around(', "value": ', texts.objects(value), "")))
    return woven(*parts, rest(columns[MORE]), "}\n")
