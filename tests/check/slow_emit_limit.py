"""EMIT AT MOST by its definition: the final results, sorted; of each key one after another."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

Result = dict[str, Any]
Key = Callable[[Result], Any]


def standing(changes: Iterable[Result]) -> list[Result]:
    """What the ``+`` and ``-`` of a log leave; a ``-`` without its ``+`` is an error."""
    found: dict[str, list[Result]] = {}
    for change in changes:
        content = {
            name: value for name, value in change.items() if name not in ("op", "query", "at")
        }
        same = found.setdefault(json.dumps(content, ensure_ascii=False), [])
        if change["op"] == "+":
            same.append(content)
        else:
            same.pop()
    return [one for same in found.values() for one in same]


def _order(result: Result) -> tuple[int, int, str]:
    """The end, the start, the text without what depends on the arrival."""
    text = {name: value for name, value in result.items() if name != "known_at"}
    if "window" in result:
        end, start = result["window"]["end"], result["window"]["start"]
    else:
        end = max(event["te"] - event["ts"] + event["ref"] for event in result["events"])
        start = min(event["ref"] for event in result["events"])
    return end, start, json.dumps(text, ensure_ascii=False)


def shown(results: Iterable[Result], most: int, every: int, key: Key) -> list[Result]:
    """Those of the final ``results`` that are shown."""
    ends: dict[Any, list[int]] = {}
    found = []
    for result in sorted(results, key=_order):
        end = _order(result)[0]
        of_key = ends.setdefault(json.dumps(key(result)), [])
        if sum(end - every < one <= end for one in of_key) < most:
            of_key.append(end)
            found.append(result)
    return found
