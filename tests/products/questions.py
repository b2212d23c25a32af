"""Statements of every kind, each with what it answers to a list of events: in plain Python, by the
words of the reference, every combination of events looked at one by one.

Nothing of the engine is used here but what tells the texts apart.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from tests.join.definition import Definition, tumbling, within
from tests.products.worlds import Event

Result = dict[str, Any]
Key = str
"""Of a result: what it says of the stream, but neither how certain nor when."""
Answers = Counter[Key]
Bound = dict[str, Event]
"""By alias."""


@dataclass(frozen=True)
class Question:
    """``plain``: from events in any order to what stands; ``key``: of our result. ``instants``: it
    asks for events without length. ``settled``: what is true of it as measured is emitted, however
    clocks err: no result depends on the number of others.
    """

    text: str
    plain: Callable[[Sequence[Event]], Answers] = field(repr=False)
    key: Callable[[Result], Key] = field(repr=False)
    instants: bool = False
    settled: bool = True
    kind: str = "match"


def keyed(*parts: Any) -> Key:
    return json.dumps(parts, sort_keys=True)


# ---- patterns ----------------------------------------------------------------------------------
def named(event: Event) -> list[Any]:
    """Which one it is: of the log by its number, of results by its time and what it says."""
    if event.get("seq") is not None:
        return [event["source"], event["stream"], event["seq"]]
    return [event["type"], event["ref"] if "ref" in event else event["ts"],
            event["te"] - event["ts"]]  # fmt: skip


def of_match(result: Result) -> Key:
    return keyed([named(event) for event in result["events"]], result.get("value"))


def known(*values: Any) -> bool:
    return all(value is not None for value in values)


def before(one: Event, other: Event) -> bool:
    return one["te"] < other["ts"]


def span(events: Iterable[Event]) -> int:
    some = list(events)
    return max(event["te"] for event in some) - min(event["ts"] for event in some)


@dataclass(frozen=True)
class Pattern:
    """``steps``: alias to types; ``holds``: of the bound events; ``without``: (types, whether such
    an event takes the match away); ``shows``: the ``RETURN``.
    """

    steps: dict[str, str]
    length: int
    holds: Callable[[Bound], bool]
    without: Sequence[tuple[str, Callable[[Bound, Event], bool]]] = ()
    shows: Callable[[Bound], dict[str, Any]] | None = None

    def bound(self, events: Sequence[Event]) -> Iterator[Bound]:
        fitting = [[e for e in events if e["type"] in types] for types in self.steps.values()]
        for some in itertools.product(*fitting):
            if len({id(event) for event in some}) < len(some) or span(some) > self.length:
                continue
            bound = dict(zip(self.steps, some, strict=True))
            if self.holds(bound) and not any(
                away(bound, event)
                for types, away in self.without
                for event in events
                if event["type"] in types and all(event is not one for one in some)
            ):
                yield bound

    def answers(self, events: Sequence[Event]) -> Answers:
        return Counter(
            keyed([named(e) for e in bound.values()], self.shows(bound) if self.shows else None)
            for bound in self.bound(events)
        )


def pattern(text: str, *alternatives: Pattern, instants: bool = False) -> Question:
    def plain(events: Sequence[Event]) -> Answers:
        return sum((each.answers(events) for each in alternatives), Counter())

    return Question(text, plain, of_match, instants)


def _in_order(*aliases: str) -> Callable[[Bound], bool]:
    return lambda b: all(before(b[x], b[y]) for x, y in itertools.pairwise(aliases))


def _lies(left: str | None, right: str | None) -> Callable[[Bound, Event], bool]:
    return lambda b, n: (
        (not left or b[left]["ts"] < n["ts"]) and (not right or n["ts"] < b[right]["ts"])
    )


PATTERNS = {
    "sequence": pattern(
        "EVENT SEQ(A a, B b) WITHIN 9", Pattern({"a": "A", "b": "B"}, 9, _in_order("a", "b"))
    ),
    "three": pattern(
        "EVENT SEQ(A a, B b, C c) WHERE a.g = c.g AND b.v > a.v WITHIN 25 RETURN a.v + b.v AS s",
        Pattern(
            {"a": "A", "b": "B", "c": "C"}, 25,
            lambda b: _in_order("a", "b", "c")(b) and b["a"]["g"] == b["c"]["g"]
            and known(b["a"]["v"], b["b"]["v"]) and b["b"]["v"] > b["a"]["v"],
            shows=lambda b: {"s": b["a"]["v"] + b["b"]["v"]},
        ),
    ),
    "negated": pattern(
        "EVENT SEQ(A a, !N n, C c) WHERE a.g = c.g AND n.g = a.g WITHIN 20",
        Pattern(
            {"a": "A", "c": "C"}, 20,
            lambda b: _in_order("a", "c")(b) and b["a"]["g"] == b["c"]["g"],
            [("N", lambda b, n: _lies("a", "c")(b, n) and n["g"] == b["a"]["g"])],
        ), instants=True,
    ),
    "negated in front": pattern(
        "EVENT SEQ(!N n, A a, B b) WITHIN 8",
        Pattern(
            {"a": "A", "b": "B"}, 8, _in_order("a", "b"),
            [("N", lambda b, n: b["b"]["ts"] - 8 <= n["ts"] < b["a"]["ts"])],
        ), instants=True,
    ),
    "negated at the end": pattern(
        "EVENT SEQ(A a, C c, !OR(N n, B m)) WITHIN 8",
        Pattern(
            {"a": "A", "c": "C"}, 8, _in_order("a", "c"),
            [("NB", lambda b, n: b["c"]["ts"] < n["ts"] <= b["a"]["ts"] + 8)],
        ), instants=True,
    ),
    "any order": pattern(
        "EVENT AND(A a, B b, C c) WHERE a.h = b.h WITHIN 12",
        Pattern(
            {"a": "A", "b": "B", "c": "C"}, 12,
            lambda b: known(b["a"]["h"]) and b["a"]["h"] == b["b"]["h"],
        ),
    ),
    "alternatives": pattern(
        "EVENT SEQ(A a, OR(B b, SEQ(C c, C d))) WITHIN 15",
        Pattern({"a": "A", "b": "B"}, 15, _in_order("a", "b")),
        Pattern({"a": "A", "c": "C", "d": "C"}, 15, _in_order("a", "c", "d")),
    ),
    "times": pattern(
        "EVENT SEQ(A a, B b) WHERE b.ts - a.ts <= 4 AND a.ref > 70 WITHIN 30",
        Pattern(
            {"a": "A", "b": "B"}, 30,
            lambda b: before(b["a"], b["b"]) and b["b"]["ts"] - b["a"]["ts"] <= 4
            and b["a"]["ts"] > 70,
        ),
    ),
    "of a stream, by parts": pattern(
        "EVENT SEQ(A x, OR(B, C) y) FROM a PARTITION BY g, h WITHIN 30",
        Pattern(
            {"x": "A", "y": "BC"}, 30,
            lambda b: before(b["x"], b["y"]) and b["x"]["g"] == b["y"]["g"]
            and b["x"]["stream"] == b["y"]["stream"] == "a"
            and known(b["x"]["h"]) and b["x"]["h"] == b["y"]["h"],
        ),
    ),
    "intervals": pattern(
        "EVENT ISEQ[a CONTAINS b](A a, B b) WITHIN 30",
        Pattern(
            {"a": "A", "b": "B"}, 30,
            lambda b: b["a"]["ts"] < b["b"]["ts"] and b["b"]["te"] < b["a"]["te"],
        ),
    ),
    "intervals without": pattern(
        "EVENT ISEQ[a.ts < b.ts, b.ts < a.te, a.ts < n.te, n.te < b.te](A a, B b, !N n) WITHIN 30",
        Pattern(
            {"a": "A", "b": "B"}, 30, lambda b: b["a"]["ts"] < b["b"]["ts"] < b["a"]["te"],
            [("N", lambda b, n: b["a"]["ts"] < n["te"] < b["b"]["te"]
              and span([*b.values(), n]) <= 30)],
        ),
    ),
    "tree": pattern(
        "EVENT SEQ(A a OVERLAP B b, C c) WITHIN 30",
        Pattern(
            {"a": "A", "b": "B", "c": "C"}, 30,
            lambda b: b["a"]["ts"] < b["b"]["ts"] < b["a"]["te"] < b["b"]["te"] < b["c"]["ts"],
        ),
    ),
    "parallel": pattern(
        "EVENT SEQ(PAL(A a, B b), C c) WHERE a.g = b.g AND b.g = c.g WITHIN 30",
        Pattern(
            {"a": "A", "b": "B", "c": "C"}, 30,
            lambda b: before(b["a"], b["c"]) and before(b["b"], b["c"])
            and b["a"]["g"] == b["b"]["g"] == b["c"]["g"],
        ),
    ),
    "rows": pattern(
        "SELECT v, te - ts AS long FROM a WHERE v > 0 AND ts > 60",
        Pattern(
            {"e": "ABCDN"}, 10**9,
            lambda b: b["e"]["stream"] == "a" and known(b["e"]["v"]) and b["e"]["v"] > 0
            and b["e"]["ts"] > 60,
            shows=lambda b: {"v": b["e"]["v"], "long": b["e"]["te"] - b["e"]["ts"]},
        ),
    ),
    "all rows": pattern("SELECT *", Pattern({"e": "ABCDN"}, 10**9, lambda _: True)),
}  # fmt: skip

# ---- joins -------------------------------------------------------------------------------------
_ON: dict[str, Callable[[Any, Any], bool]] = {
    "ON a.g = b.g": lambda x, y: x.attrs["g"] == y.attrs["g"],
    "ON a.g = b.g AND a.v < b.v": lambda x, y: (
        x.attrs["g"] == y.attrs["g"] and known(x.attrs["v"], y.attrs["v"])
        and x.attrs["v"] < y.attrs["v"]
    ),
    "ON a.v <= b.v AND a.h = 'a'": lambda x, y: (
        known(x.attrs["v"], y.attrs["v"]) and x.attrs["v"] <= y.attrs["v"] and x.attrs["h"] == "a"
    ),
}  # fmt: skip
_NEAR = {"WITHIN 6": within(6), "WINDOW TUMBLING 8": tumbling(8)}
_WORDS = {"inner": "", "left": "LEFT", "right": "RIGHT", "full": "FULL", "anti": "ANTI"}


def join(kind: str, on: str, near: str) -> Question:
    sides = "a.v AS x" if kind == "anti" else "a.v AS x, b.v AS y"

    def plain(events: Sequence[Event]) -> Answers:
        sided = [
            SimpleNamespace(
                ref=e["ts"], stream=e["stream"], attrs={n: e[n] for n in ("v", "g", "h")}
            )
            for e in events
        ]
        rows = Definition(kind, _NEAR[near], _ON[on]).rows(sided)
        found: Answers = Counter()
        for row in rows:
            two = [None if place is None else events[place] for place in row]
            v = [None if one is None else one["v"] for one in two]
            value = {"x": v[0]} if kind == "anti" else {"x": v[0], "y": v[1]}
            found[keyed([named(one) for one in two if one is not None], value)] += 1
        return found

    return Question(f"SELECT {sides} FROM a {_WORDS[kind]} JOIN b {on} {near}", plain, of_match)


JOINS = {
    f"{kind}, {on}, {near}": join(kind, on, near)
    for kind, on, near in itertools.product(_WORDS, _ON, _NEAR)
}


def counted(events: Sequence[Event]) -> list[Event]:
    """As windows count them: an interval when it ends."""
    return [event | {"ts": event["te"]} for event in events]
