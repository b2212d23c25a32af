"""Matches as dicts, value by value: the slow twin of their tables and JSON lines."""

from __future__ import annotations

import json
import math
from typing import Any

from slackwater.engine.core.released import Strings
from slackwater.engine.core.timeline import UNKNOWN
from slackwater.engine.operators.match.match_results import Matches
from slackwater.engine.query.values import Value

STATUSES = (None, "free-running", "disrupted", "unknown")


def python_values(value: Value, n: int, strings: Strings) -> list[Any]:
    """``value`` of n matches as int, float, str or None."""
    if value.kind == "null":
        return [None] * n
    data = [strings.text(x) if value.kind == "str" else x for x in value.data.tolist()]
    valid = [True] * n if value.valid is None else value.valid.tolist()
    return [x if known else None for x, known in zip(data, valid, strict=True)]


def _event(matches: Matches, place: int, step: int) -> dict[str, Any]:
    columns = {name: column[place].item() for name, column in matches.columns.items()}
    event: dict[str, Any] = {"site": matches.site}
    for name in ("stream", "source", "seq", "type", "ts", "te", "ref"):
        value = columns[name]
        if name in ("stream", "source", "type"):
            value = matches.strings.text(value)
        lacks = name in matches.lacks and matches.lacks[name][place]
        event[name] = None if lacks or (name == "seq" and value < 0) else value
    names = matches.shown[step]
    attrs: dict[str, Any] = {}
    for name in sorted(matches.attr_types) if names is None else names:
        if name in matches.attr_types and columns[f"valid.{name}"]:
            value = columns[f"attrs.{name}"]
            attrs[name] = (
                matches.strings.text(value) if matches.attr_types[name] == "str" else value
            )
    return event | {"attrs": attrs} | json.loads(matches.further()[place].as_py() or "{}")


def match_dicts(matches: Matches) -> list[dict[str, Any]]:
    """Each match by itself."""
    given = matches.given
    computed: dict[int, dict[str, Any]] = {}
    for mine, columns in matches.value_columns():
        of = {name: python_values(v, len(mine), matches.strings) for name, v in columns.items()}
        for row, place in enumerate(mine.tolist()):
            computed[place] = {name: values[row] for name, values in of.items()}
    found = []
    for row, status in enumerate(matches.statuses().tolist()):
        chance = float(given.chance[row])
        unknown = chance == UNKNOWN
        sure = "confirmed" if given.confirmed[row] else "uncertain"
        result = {
            "op": "+" if given.plus[row] else "-", "query": matches.query, "site": matches.site,
            "at": int(given.at[row]), "known_at": int(given.known_at[row]),
            "certainty": "unknown" if unknown else sure,
            "probability": None if unknown or math.isnan(chance) else chance,
            "events": [
                _event(matches, place, step)
                for step, place in enumerate(matches.which[row].tolist()) if place >= 0
            ],
        }  # fmt: skip
        if row in computed:
            result["value"] = computed[row]
        found.append(result | ({"clock_status": STATUSES[status]} if status else {}))
    return found
