"""Events of two streams as released batches, and the rows of a join by definition."""

from __future__ import annotations

import itertools
import pickle
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.pattern.alone import Alone
from engine.stream.released import Released, Strings
from tests.pattern import conftest as released

Row = tuple[int | None, int | None]
"""Which events it joins, by their places in the stream; None: no partner."""


@dataclass(frozen=True)
class Sided(released.Event):
    """A released event of a stream."""

    stream: str = "a"


def batch(
    events: Sequence[Sided], strings: Strings, start: int, stop: int, **more: Any
) -> Released:
    """Rows [start, stop), which are numbered by their places."""
    made = released.batch(events, strings, start, stop, **more)
    codes = [strings.code(event.stream) for event in events[start:stop]]
    made.columns["stream"] = np.array(codes, np.int32)
    return made


def run(
    make: Callable[[], Alone], events: Sequence[Sided], cuts: Sequence[int] = (), **more: Any
) -> list[dict[str, Any]]:
    """All results; at every cut the operator is rebuilt from its pickled snapshot."""
    operator, strings, results = make(), Strings(), list[dict[str, Any]]()
    borders = [0, *sorted({cut for cut in cuts if 0 < cut < len(events)}), len(events)]
    for place, (start, stop) in enumerate(itertools.pairwise(borders)):
        if place:
            state = pickle.loads(pickle.dumps(operator.snapshot()))
            operator = make()
            operator.restore(state)
        now = batch(events, strings, start, stop, **more)
        results += operator.process(now)
        results += operator.advance(int(now.columns["release"][-1]) if now.n else -1)
    return [*results, *operator.finish(10**9)]


def row_of(result: dict[str, Any], left: str, right: str) -> Row:
    """Of sides of different streams."""
    seq = {event["stream"]: event["seq"] for event in result["events"]}
    return seq.get(left), seq.get(right)


def net(results: Sequence[dict[str, Any]], row: Callable[[dict[str, Any]], Any]) -> Counter[Any]:
    """What is left of rows that were given and taken back; never less than nothing."""
    left: Counter[Any] = Counter()
    for result in results:
        left[row(result)] += 1 if result["op"] == "+" else -1
        assert left[row(result)] in (0, 1)
    return Counter({row: n for row, n in left.items() if n})


@dataclass(frozen=True)
class Definition:
    """``kind``: inner, left, right, full, anti. ``near``: whether two events' times are near
    enough; ``on``: what is asked of them besides; ``sides``: of which stream each side is.
    """

    kind: str
    near: Callable[[int, int], bool]
    on: Callable[[Sided, Sided], bool]
    where: Callable[[Sided], bool] = lambda _event: True
    sides: tuple[str, str] = ("a", "b")

    def rows(self, events: Sequence[Sided], times: Sequence[int] | None = None) -> set[Row]:
        """``times``: the true ones; None: the refs."""
        at = [event.ref for event in events] if times is None else times
        left, right = (
            [n for n, event in enumerate(events) if event.stream == side] for side in self.sides
        )
        if self.kind in {"left", "anti"}:
            left = [n for n in left if self.where(events[n])]
        if self.kind == "right":
            right = [n for n in right if self.where(events[n])]
        pairs = {
            (x, y) for x in left for y in right
            if x != y and self.near(at[x], at[y]) and self.on(events[x], events[y])
        }  # fmt: skip
        found: set[Row] = set() if self.kind == "anti" else set(pairs)
        if self.kind in {"left", "full", "anti"}:
            found |= {(x, None) for x in left if all(x != pair[0] for pair in pairs)}
        if self.kind in {"right", "full"}:
            found |= {(None, y) for y in right if all(y != pair[1] for pair in pairs)}
        return found


def within(length: int) -> Callable[[int, int], bool]:
    return lambda x, y: abs(x - y) <= length


def tumbling(length: int) -> Callable[[int, int], bool]:
    return lambda x, y: x // length == y // length
