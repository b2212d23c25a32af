"""Events of two streams as released batches, and the rows that a join gives of them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slackwater.engine.core.released import Released, Strings
from slackwater.engine.hosts.chain.state_bytes import from_bytes, to_bytes
from slackwater.engine.operators.match.seq import Alone
from tests.join.definition import Row
from tests.pattern import conftest as released


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
    """All results; at every cut the operator is rebuilt from its encoded snapshot."""
    operator, strings, results = make(), Strings(), list[dict[str, Any]]()
    borders = [0, *sorted({cut for cut in cuts if 0 < cut < len(events)}), len(events)]
    for place, (start, stop) in enumerate(itertools.pairwise(borders)):
        if place:
            state = from_bytes(to_bytes(operator.snapshot()))
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
