"""Released batches made from plain tuples, cut anywhere; and matches by definition."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from slackwater.engine.core.released import (
    IN_ORDER,
    LATE_DROPPED,
    ClockBound,
    Progress,
    Promises,
    Released,
    Strings,
)
from slackwater.engine.hosts.chain.state_bytes import from_bytes, to_bytes
from slackwater.engine.operators.match.seq import Alone, SeqMatcher
from slackwater.engine.query.plan import SeqPlan, Step
from tests.pattern.slow_negation import Truth, pair, verdict


@dataclass(frozen=True)
class Event:
    """One released event; ``seq`` defaults to its row. ``attrs``: name -> value. ``long``: from its
    start to its end.
    """

    type: str
    ref: int
    unc: int = 0
    source: str = "s0"
    epoch: int = -1
    status: int = IN_ORDER
    attrs: dict[str, Any] = field(default_factory=dict)
    release: int | None = None
    arrival: int | None = None
    seq: int | None = None
    long: int = 0

    @property
    def in_order(self) -> bool:
        return self.status == IN_ORDER

    @property
    def dropped(self) -> bool:
        return self.status == LATE_DROPPED


Steps = Sequence[tuple[int, int, int]]
Pogs = Sequence[tuple[int, str | None, str | None, int]]
"""(row before which it comes, type, source, ref); it comes at the instant of that row."""


def _attribute(
    events: Sequence[Event], name: str, strings: Strings
) -> tuple[np.ndarray, np.ndarray, str]:
    raw = [event.attrs.get(name) for event in events]
    valid = np.array([value is not None for value in raw], bool)
    known = [value for value in raw if value is not None]
    if any(isinstance(value, str) for value in known):
        codes = [-1 if value is None else strings.code(value) for value in raw]
        return np.array(codes, np.int32), valid, "str"
    if known and all(isinstance(value, bool) for value in known):
        return np.array([bool(value) for value in raw]), valid, "bool"
    kind = "float" if any(isinstance(value, float) for value in known) else "int"
    dtype = np.float64 if kind == "float" else np.int64
    return np.array([0 if value is None else value for value in raw], dtype), valid, kind


def batch(
    events: Sequence[Event], strings: Strings, start: int, stop: int, *, t_a: int = 0,
    steps: Steps = (), pogs: Pogs | None = None,
) -> Released:  # fmt: skip
    """Rows [start, stop) of the stream, with the progress steps (or punctuations) before them.

    Every source is known to be synchronised from the first row on.
    """
    mine = events[start:stop]
    rows = range(start, stop)
    columns = {
        name: np.array([getattr(event, name) for event in mine], np.int64)
        for name in ("ref", "unc", "epoch")
    }
    for name in ("release", "arrival", "seq"):
        given = [getattr(event, name) for event in mine]
        filled = [row if value is None else value for row, value in zip(rows, given, strict=True)]
        columns[name] = np.array(filled, np.int64)
    columns["ts"] = columns["ref"] - 1000
    columns["te"] = columns["ts"] + np.array([event.long for event in mine], np.int64)
    columns["status"] = np.array([event.status for event in mine], np.int8)
    columns["stream"] = np.full(len(mine), strings.code("events"), np.int32)
    for name in ("source", "type"):
        codes = [strings.code(getattr(event, name)) for event in mine]
        columns[name] = np.array(codes, np.int32)
    types = {}
    for name in sorted({name for event in mine for name in event.attrs}):
        columns["attrs." + name], valid, types[name] = _attribute(mine, name, strings)
        if not valid.all():
            columns["valid." + name] = valid
    last = stop == len(events)
    emitted = [s for s in steps if start <= s[0] < stop or (last and s[0] == stop)]
    table = np.array(emitted, np.int64).reshape(-1, 3)
    progress = Progress(table[:, 0] - start, table[:, 1], table[:, 2])
    promises = None
    if pogs is not None:
        said = [p for p in pogs if start <= p[0] < stop or (last and p[0] == stop)]
        promises = Promises(
            np.array([p[0] for p in said], np.int64) - start,
            np.array([-1 if p[1] is None else strings.code(p[1]) for p in said], np.int64),
            np.array([-1 if p[2] is None else strings.code(p[2]) for p in said], np.int64),
            np.array([p[3] for p in said], np.int64),
            np.array([p[0] for p in said], np.int64),
        )
    bound = ClockBound(widest(events))
    return Released(
        len(mine), columns, types, strings, t_a, progress, promises=promises, bound=bound
    )


def widest(events: Sequence[Event]) -> int:
    """The largest uncertainty of the stream."""
    return max((event.unc for event in events), default=0)


def plan(text: str, within: int | None = None, **more: Any) -> SeqPlan:
    """``a !c b2``: aliases; a type is its alias without digits, in upper case."""
    steps = tuple(
        Step(word.strip("!"), word.strip("!0123456789").upper(), negated=word[0] == "!")
        for word in text.split()
    )
    return SeqPlan("q", "", steps, within_ns=within, **more)


def stream(text: str, status: int = IN_ORDER) -> list[Event]:
    """``a3 c5``: type A at 3, then type C at 5."""
    return [Event(word[0].upper(), int(word[1:]), status=status) for word in text.split()]


FIG = "a3 c5 b6 a7 d10 b11 c13 d15 f16"
"""The stream of L10 Fig 4.2 and L09 Fig 2."""


def answering(make: Callable[[], SeqMatcher | Alone]) -> Alone:
    """With the barrier of its query, unless it has another."""
    made = make()
    return Alone(made) if isinstance(made, SeqMatcher) else made


def run(
    make: Callable[[], SeqMatcher | Alone], events: Sequence[Event], cuts: Sequence[int] = (), *,
    t_a: int = 0, steps: Steps = (), pogs: Pogs | None = None, end: int = 10**9,
) -> list[dict[str, Any]]:  # fmt: skip
    """All results; at every cut the operator is rebuilt from its encoded snapshot."""
    operator, strings, results = answering(make), Strings(), []
    borders = [0, *sorted({cut for cut in cuts if 0 < cut < len(events)}), len(events)]
    for place, (start, stop) in enumerate(itertools.pairwise(borders)):
        if place:
            state = from_bytes(to_bytes(operator.snapshot()))
            operator = answering(make)
            operator.restore(state)
        released = batch(events, strings, start, stop, t_a=t_a, steps=steps, pogs=pogs)
        before = {name: column.tobytes() for name, column in released.columns.items()}
        results += operator.process(released)
        assert all(released.columns[name].tobytes() == before[name] for name in before)
        results += operator.advance(int(released.columns["release"][-1]) if released.n else -1)
    return [*results, *operator.finish(end)]


@pytest.fixture(scope="session")
def tools() -> Any:
    """Event, batch, run, verdict and Truth, for test modules."""

    class Tools:
        pass

    found: Any = Tools()
    found.Event, found.batch, found.run, found.replace = Event, batch, run, replace
    found.pair = pair
    found.verdict, found.Truth = verdict, Truth
    return found
