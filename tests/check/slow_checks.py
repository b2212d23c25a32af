"""What CHECK means, one result after another, by its definition in docs/reference/checks.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Result = dict[str, Any]
Look = Callable[[str, str | None, int], int | None]
"""(function, query, how far back) -> what the history says."""


@dataclass(frozen=True)
class Rule:
    """``agrees`` of (result, look): True, False, or None where it is unknown."""

    name: str
    agrees: Callable[[Result, Look], bool | None]
    hold: int = 0
    drop: bool = False


@dataclass(frozen=True)
class CheckedQuery:
    """The results of a query, all that it gives without a CHECK, and what is asked of them."""

    results: Sequence[Result]
    key: Callable[[Result], Any]
    rules: Sequence[Rule] = ()


def identity(result: Result) -> str:
    return json.dumps({k: v for k, v in result.items() if k not in {"op", "at", "known_at"}})


def partners(results: Sequence[Result]) -> dict[int, int]:
    """By number of a ``-``, that of the ``+`` that it takes back."""
    stands: dict[str, int] = {}
    found = {}
    for number, result in enumerate(results):
        if result["op"] == "+":
            stands[identity(result)] = number
        else:
            found[number] = stands.pop(identity(result))
    return found


class History:
    def __init__(self, queries: dict[str, CheckedQuery]) -> None:
        self.queries = queries
        self.gone = {
            name: {plus: minus for minus, plus in partners(asked.results).items()}
            for name, asked in queries.items()
        }

    def look(self, own: str, number: int, until: int | None) -> Look:
        """For the result ``number`` of ``own``; ``until``: when it is judged again."""
        asked = self.queries[own]
        at, key = asked.results[number]["at"], asked.key(asked.results[number])

        def looked(function: str, query: str | None, within: int) -> int | None:
            name = own if query is None else query
            other = self.queries[name]
            times = []
            for place, one in enumerate(other.results):
                if one["op"] == "-" or other.key(one) != key or one["at"] < at - within:
                    continue
                near = function == "near_count" and until is not None
                if near and until is not None:
                    counts = one["at"] < until and (query is not None or place != number)
                elif query is None:
                    counts = place < number
                else:
                    counts = one["at"] < at
                minus = self.gone[name].get(place)
                if minus is not None:
                    if query is None and until is None:
                        counts &= minus > number
                    else:
                        counts &= other.results[minus]["at"] >= (at if until is None else until)
                if counts:
                    times.append(one["at"])
            if function == "since_last":
                return at - max(times) if times else None
            return len(times)

        return looked


def judged(queries: dict[str, CheckedQuery], name: str, end: int) -> list[Result]:
    """What goes out of the results of ``name``; ``end``: the last arrival."""
    history, asked = History(queries), queries[name]
    back = partners(asked.results)
    taken = {plus: asked.results[minus]["at"] for minus, plus in back.items()}
    out: list[tuple[int, int, int, Result]] = []
    fate: dict[int, list[str] | None] = {}  # the rules that it breaks; None: it is not shown

    def verdict(number: int, until: int | None) -> list[Rule]:
        look, result = history.look(name, number, until), asked.results[number]
        return [rule for rule in asked.rules if rule.agrees(result, look) is False]

    for number, result in enumerate(asked.results):
        if result["op"] == "-":
            continue
        at, broken = result["at"], verdict(number, None)
        hold = max((rule.hold for rule in broken), default=0)
        first = 1
        if hold:
            deadline = at + hold
            if taken.get(number, deadline) < deadline:
                fate[number] = None
                continue
            until = deadline if deadline <= end else max(end, at + 1)
            broken, at = verdict(number, until), min(deadline, end)
            first = 0 if deadline <= end else 2  # what is held until the end goes last
        dropped = any(rule.drop for rule in broken)
        fate[number] = None if dropped else [rule.name for rule in broken]
        if not dropped:
            out.append((at, first, number, result | {"at": at}))
    for minus, plus in back.items():
        if fate[plus] is not None:
            result = asked.results[minus]
            out.append((result["at"], 1, minus, result))
            fate[minus] = fate[plus]
    out.sort(key=lambda each: each[:3])
    return [
        result | ({"doubtful": fate[number]} if fate[number] else {})
        for _, _, number, result in out
    ]
