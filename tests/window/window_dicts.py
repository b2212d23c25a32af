"""Results of windows as dicts, value by value: the slow twin of their tables and JSON lines."""

from __future__ import annotations

import struct
from typing import Any

from slackwater.engine.operators.window.keys import GroupKeys
from slackwater.engine.operators.window.output.results import WindowResults
from slackwater.engine.operators.window.state.content import (
    HIGH_ONE,
    LEAST,
    LOW_ONE,
    MIDDLE_ONE,
    MOST,
    VALUE,
)
from slackwater.engine.operators.window.state.number import FLOAT, INT, NULL, TEXT
from slackwater.engine.query.plan import Drift
from tests.results.dicts import STATUSES


def _number(results: WindowResults, row: int, aggregate: int, place: int) -> Any:
    kinds, words = results.numbers(aggregate, place)
    high, low = words[row].tolist()
    of_kind = {
        NULL: lambda: None, INT: lambda: (high << 32) + low, TEXT: lambda: results.keys.text(low),
        FLOAT: lambda: struct.unpack("<d", struct.pack("<q", high))[0],
    }  # fmt: skip
    return of_kind[int(kinds[row])]()


def _key(keys: GroupKeys, nulls: int, codes: list[int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for place, (attribute, kind, code) in enumerate(
        zip(keys.attributes, keys.types, codes, strict=True)
    ):
        value: Any = code
        if nulls >> place & 1:
            value = None
        elif kind == "str":
            value = keys.text(code)
        elif kind == "float":
            value = struct.unpack("<d", struct.pack("<q", code))[0]
        elif kind == "bool":
            value = bool(code)
        found[attribute.name] = value
    return found


def window_dicts(results: WindowResults) -> list[dict[str, Any]]:
    """Each result of a window by itself; ``bounds`` and ``drift`` only where there are some."""
    columns, plan, found = results.columns, results.plan, []
    start, end = results.extent()
    certainty, says = results.certainty()
    places = {"value": VALUE, "low": LOW_ONE, "middle": MIDDLE_ONE, "high": HIGH_ONE}
    for row, status in enumerate(results.statuses().tolist()):
        result: dict[str, Any] = {
            "op": "+" if columns.plus[row] else "-", "query": plan.name, "site": results.site,
            "at": int(columns.at[row]), "window": {"start": int(start[row]), "end": int(end[row])},
            "key": _key(results.keys, int(columns.nulls[row]), columns.keys[row].tolist()),
        }  # fmt: skip
        for name, place in places.items():
            shows = results.bounds_shown if name in ("low", "high") else results.shows
            values = {
                label: _number(results, row, a, place) for a, label in enumerate(results.labels)
            }
            result[name] = values if shows(name)[row] else None
        for place, name in enumerate(("certain", "ambiguous", "missing")):
            count = int(columns.counts[row, place])
            result[name] = None if count == -1 else count
        if plan.drift is Drift.EACH:
            result["drift"] = ("low", "middle", "high")[int(columns.stage[row])]
        if results.bounds_shown("bounds")[row]:
            result["bounds"] = {
                label: [_number(results, row, a, place) for place in (LEAST, MOST)]
                for a, label in enumerate(results.labels) if results.bounded[a]
            }  # fmt: skip
        if says[row]:
            result["certainty"] = ("confirmed", "uncertain", "unknown")[int(certainty[row])]
        found.append(result | ({"clock_status": STATUSES[status]} if status else {}))
    return found
