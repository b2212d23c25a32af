"""Alerts as JSON lines without a Python object per row: the same text as ``json.dumps`` makes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import pyarrow as pa

from engine.results.lines.json_texts import Texts, columns_in_one, joined, woven
from engine.results.schema import ALERT_FIELDS, SHARED_FIELDS, SO_FAR, SO_FAR_FIELDS

_TIMES: Final = frozenset({"at", "ts"})


def alert_lines(table: pa.Table, unit: int, _times: Collection[str] = ()) -> pa.Array:
    """A line, with its end, for each row of a table of alerts.

    Args:
        table: the alerts.
        unit: of the times [ns]; they are rounded down.
    """
    columns = columns_in_one(table)
    texts = Texts(unit)
    lists = columns[SO_FAR]
    events = lists.flatten()
    each = {name: events.field(place) for place, name in enumerate(SO_FAR_FIELDS)}
    told = joined(woven("{", *texts.fields(each, _TIMES), "}"), lists)
    names = [name for name in (*SHARED_FIELDS, *ALERT_FIELDS) if name != SO_FAR]
    facts = texts.fields({name: columns[name] for name in names}, _TIMES)
    return woven("{", *facts, f', "{SO_FAR}": [', told, "]}\n")
