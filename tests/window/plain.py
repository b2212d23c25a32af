"""Windows worked out from plain lists of events, for every kind and clause there is.

Nothing of the engine is used: a query is a ``Product`` of clauses, of which each is a text and a
plain function.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

Event = dict[str, Any]
"""``ts``, its own attributes, and ``n``: its number as it arrived."""
Key = tuple[Any, ...]


def _values(name: str, events: Sequence[Event]) -> list[Any]:
    return [event[name] for event in events if event[name] is not None]


def _by(x: str, y: str, sign: int, events: Sequence[Event]) -> Any:
    there = [event for event in events if event[y] is not None and event[x] is not None]
    return min(there, key=lambda event: sign * event[y])[x] if there else None


def _quantile(values: list[float], share: float) -> float:
    ordered, rank = sorted(values), (len(values) - 1) * share
    low = int(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)


def _some(of: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    return lambda values: of(values) if values else None


def _of(name: str, of: Callable[[list[Any]], Any]) -> Callable[[Sequence[Event]], Any]:
    return lambda events: of(_values(name, events))


AGGREGATES: dict[str, Callable[[Sequence[Event]], Any]] = {
    "count(*)": len,
    "count(v)": _of("v", len),
    "sum(v)": _of("v", _some(sum)),
    "avg(v)": _of("v", _some(statistics.fmean)),
    "min(w)": _of("w", _some(min)),
    "max(v)": _of("v", _some(max)),
    "median(v)": _of("v", _some(statistics.median)),
    "quantile(w, 0.3)": _of("w", _some(lambda values: _quantile(values, 0.3))),
    "stddev(v)": _of("v", _some(statistics.pstdev)),
    "var(w)": _of("w", _some(statistics.pvariance)),
    "count(DISTINCT h)": _of("h", lambda values: len(set(values))),
    "count(DISTINCT v)": _of("v", lambda values: len(set(values))),
    "first(v)": _of("v", _some(lambda values: values[0])),
    "last(h)": _of("h", _some(lambda values: values[-1])),
    "min_by(v, w)": lambda events: _by("v", "w", 1, events),
    "max_by(h, v)": lambda events: _by("h", "v", -1, events),
    "max(v) - min(v)": _of("v", _some(lambda values: max(values) - min(values))),
    "sum(v) / count(*)": lambda events: (
        sum(_values("v", events)) / len(events) if _values("v", events) else None
    ),
    "abs(sum(w)) * 2 + count(v)": lambda events: (
        abs(sum(_values("w", events))) * 2 + len(_values("v", events))
        if _values("w", events) else None
    ),
    "sum(v * 2 + 1)": _of("v", _some(lambda values: sum(2 * v + 1 for v in values))),
}  # fmt: skip
OF_ONE_EVENT = {"first(v)", "last(h)", "min_by(v, w)", "max_by(h, v)"}
"""Those of LOW, MIDDLE and HIGH have no mean."""
WHERE: dict[str, Callable[[Event], bool]] = {
    "": lambda _: True,
    "v > 0": lambda e: e["v"] is not None and e["v"] > 0,
    "v IS NULL OR h = 'a'": lambda e: e["v"] is None or e["h"] == "a",
    "w BETWEEN -1 AND 2 AND g <> 1": lambda e: (
        e["w"] is not None and -1 <= e["w"] <= 2 and e["g"] != 1
    ),
}
STAGES = ("low", "middle", "high")
HAVING: dict[str, Callable[[dict[str, Any]], bool]] = {
    "": lambda _: True,
    "n > 1": lambda value: value["n"] > 1,
    "n <= 2 AND t IS NOT NULL": lambda value: value["n"] <= 2 and value["t"] is not None,
    "t > 1 OR n = 1": lambda value: (value["t"] is not None and value["t"] > 1) or value["n"] == 1,
}
"""Of ``count(*) AS n`` and ``sum(v) AS t``, which every product selects."""


@dataclass(frozen=True)
class Product:
    """``kind`` and its lengths; ``group``: attributes; ``asked``: of ``AGGREGATES``; ``best``: of
    each window so many groups, by n descending, then t; ``drift``: "", EACH or TOGETHER; ``emit``.
    """

    kind: tuple[str, int, int]
    group: tuple[str, ...]
    asked: tuple[str, ...]
    where: str
    having: str
    best: int | None
    drift: str
    emit: str

    @property
    def text(self) -> str:
        """Of the query."""
        kind, size, step = self.kind
        every = f" EVERY {step}" if kind in {"SLIDING", "ROWS"} else ""
        clauses = [
            "SELECT " + ", ".join(["count(*) AS n", "sum(v) AS t", *self.asked]),
            f"WHERE {self.where}" * bool(self.where),
            f"GROUP BY {', '.join(self.group)}" * bool(self.group),
            f"HAVING {self.having}" * bool(self.having),
            "" if self.best is None else f"ORDER BY n DESC, t LIMIT {self.best}",
            f"WINDOW {kind} {size}{every}",
            f"DRIFT {self.drift}" * bool(self.drift),
            self.emit,
        ]
        return " ".join(filter(None, clauses))

    def answers(self, events: Sequence[Event], error: int) -> list[dict[str, Any]]:
        """What stands at the end, if clocks err by up to ``error`` and DRIFT shifts by as much."""
        taken = sorted(
            filter(WHERE[self.where], events), key=lambda event: (event["ts"], event["n"])
        )
        by_key: dict[Key, list[Event]] = {}
        for event in taken:
            by_key.setdefault(tuple(event[name] for name in self.group), []).append(event)
        found: dict[Any, list[dict[str, Any]]] = {}
        for key, mine in by_key.items():
            for start, end, inside in self._windows(mine, error):
                emitted = [self._value(some) for some in inside]
                place = {"start": start, "end": end, "key": dict(zip(self.group, key, strict=True))}
                for stage, result in self._emitted(emitted, inside):
                    if HAVING[self.having](result["value"]):
                        found.setdefault((start, end, stage), []).append(place | result)
        if self.best is not None:
            for window, results in found.items():
                found[window] = sorted(results, key=self._rank)[: self.best]
        return [result for results in found.values() for result in results]

    def _emitted(
        self, emitted: list[dict[str, Any]], inside: list[list[Event]]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """(stage, result) of a window by its values and events; with EACH a result for each of the
        three, the first ones if they, or one before, hold anything.
        """
        if not self.drift:
            yield "", {"value": emitted[0]}
            return
        all_three = dict(zip(STAGES, emitted, strict=True))
        if self.drift == "TOGETHER":
            yield "", {"value": mean(emitted), **all_three}
            return
        for number, stage in enumerate(STAGES):
            if stage == STAGES[-1]:
                yield stage, {"drift": stage, "value": emitted[number], **all_three}
            elif any(inside[: number + 1]):
                yield stage, {"drift": stage, "value": emitted[number], stage: emitted[number]}

    def _rank(self, result: dict[str, Any]) -> Any:
        n, t = result["value"]["n"], result["value"]["t"]
        return (-n, t is None, t or 0, tuple(result["key"].values()))

    def _value(self, events: Sequence[Event]) -> dict[str, Any]:
        value = {"n": len(events), "t": AGGREGATES["sum(v)"](events)}
        return value | {name: AGGREGATES[name](events) for name in self.asked}

    def _windows(
        self, events: list[Event], error: int
    ) -> Iterator[tuple[int, int, list[list[Event]]]]:
        """Start, end, and the events: once, or with DRIFT those of LOW, MIDDLE and HIGH."""
        kind, size, step = self.kind
        if kind == "ROWS":
            for first in range(0, len(events) - size + 1, step):
                some = events[first : first + size]
                yield some[0]["ts"], some[-1]["ts"], [some]
            return
        if kind == "SESSION":
            borders = [
                place for place, (one, other) in enumerate(itertools.pairwise(events), 1)
                if other["ts"] - one["ts"] >= size
            ]  # fmt: skip
            for first, stop in itertools.pairwise([0, *borders, len(events)]):
                some = events[first:stop]
                yield some[0]["ts"], some[-1]["ts"] + size, [some]
            return
        step = size if kind == "TUMBLING" else step
        numbers = {
            k for at in (event["ts"] for event in events)
            for k in range((at - error - size) // step + 1, (at + error) // step + 1)
        }  # fmt: skip
        for k in sorted(numbers):
            start, end = k * step, k * step + size
            shifts = (-error, 0, error) if self.drift else (0,)
            yield start, end, [
                [event for event in events if start + shift <= event["ts"] < end + shift]
                for shift in shifts
            ]  # fmt: skip


def mean(emitted: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of those of three that are known."""
    found = {}
    for name in emitted[0]:
        known = [value[name] for value in emitted if value[name] is not None]
        found[name] = sum(known) / len(known) if known else None
    return found


# ---- drawn
KINDS = [
    ("TUMBLING", 8, 8), ("SLIDING", 9, 3), ("SLIDING", 10, 4), ("ROWS", 3, 2), ("ROWS", 2, 2),
    ("SESSION", 6, 6),
]  # fmt: skip
DRIFTS = ("", "EACH", "TOGETHER")
EMITS = ("", "EMIT ON CLOSE", "EMIT EARLY EVERY 5", "EMIT ON CHANGE")


@st.composite
def products(draw: st.DrawFn) -> Product:
    kind = draw(st.sampled_from(KINDS))
    on_clock = kind[0] in {"TUMBLING", "SLIDING"}
    group = draw(st.sampled_from([(), ("g",), ("h",), ("g", "h")]))
    drift = draw(st.sampled_from(DRIFTS)) if on_clock else ""
    best_too = on_clock and bool(group) and "h" not in group
    asked = draw(st.lists(st.sampled_from(sorted(AGGREGATES)), max_size=4, unique=True))
    return Product(
        kind, group, tuple(n for n in asked if drift != "TOGETHER" or n not in OF_ONE_EVENT),
        draw(st.sampled_from(sorted(WHERE))), draw(st.sampled_from(sorted(HAVING))),
        draw(st.sampled_from([None, 1, 2])) if best_too else None, drift,
        draw(st.sampled_from(EMITS)),
    )  # fmt: skip
