"""Released batches made from plain tuples, cut anywhere; and matches by definition."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from engine.pattern.alone import Alone
from engine.pattern.seq import SeqMatcher
from engine.query.plan import SeqPlan, Step
from engine.stream.clock_bound import ClockBound
from engine.stream.released import IN_ORDER, LATE_DROPPED, Progress, Promises, Released, Strings


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
    told = [s for s in steps if start <= s[0] < stop or (last and s[0] == stop)]
    table = np.array(told, np.int64).reshape(-1, 3)
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
    """All results; at every cut the operator is rebuilt from its pickled snapshot."""
    operator, strings, results = answering(make), Strings(), []
    borders = [0, *sorted({cut for cut in cuts if 0 < cut < len(events)}), len(events)]
    for place, (start, stop) in enumerate(itertools.pairwise(borders)):
        if place:
            state = pickle.loads(pickle.dumps(operator.snapshot()))
            operator = answering(make)
            operator.restore(state)
        released = batch(events, strings, start, stop, t_a=t_a, steps=steps, pogs=pogs)
        before = {name: column.tobytes() for name, column in released.columns.items()}
        results += operator.process(released)
        assert all(released.columns[name].tobytes() == before[name] for name in before)
        results += operator.advance(int(released.columns["release"][-1]) if released.n else -1)
    return [*results, *operator.finish(end)]


# ---- matches by definition ------------------------------------------------------------------


def pair(e: Event, f: Event, rule: str, t_a: int) -> int:
    """The bound b of SPEC 4.3; R19's rule knows no exemption for one source."""
    if rule == "max-delay":
        return t_a
    if e.source == f.source and e.epoch == f.epoch != -1:
        return 0
    return e.unc + f.unc


def verdict(chosen: Sequence[Event], within: int | None, rule: str, t_a: int) -> str | None:
    """confirmed, uncertain or None for one combination in step order."""
    doubts = False
    for e, f in itertools.combinations(chosen, 2):
        diff, b = f.ref - e.ref, pair(e, f, rule, t_a)
        if diff <= 0 and (b == 0 or diff < -b):
            return None
        doubts |= diff <= b
    for f in chosen[1:] if within is not None else ():
        diff, b = f.ref + f.long - chosen[0].ref, pair(chosen[0], f, rule, t_a)
        if diff > within + b:
            return None
        doubts |= diff > within - b
    if within is not None and max(event.long for event in chosen) > within:
        return None
    return "uncertain" if doubts else "confirmed"


FAR = 10**18


@dataclass(frozen=True)
class Truth:
    """What SPEC 4.1-4.3 say of a stream, row by row, for a plan with negated steps.

    ``satisfies`` the positive events; ``counts(chosen, event, step)``: whether an event satisfies
    the predicates of a negated step with the chosen ones.
    """

    plan: SeqPlan
    events: Sequence[Event]
    satisfies: Callable[[Sequence[Event]], bool]
    counts: Callable[[Sequence[Event], Event, int], bool]
    rule: str = "pairwise"
    t_a: int = 0
    keep: int | None = None
    steps: Steps = ()

    def frontiers(self) -> list[int]:
        """Progress less what three comparisons may be wrong by (SPEC 4.3)."""
        off = 3 * max(2 * widest(self.events), self.t_a)
        found, frontier = [], -FAR
        for row, event in enumerate(self.events):
            frontier = max([frontier, *(s[1] for s in self.steps if s[0] == row)])
            frontier = max(frontier, event.ref) if event.status == IN_ORDER else frontier
            found.append(frontier - off)
        return found

    def expires(self, event: Event) -> int:
        if self.keep is None:
            return FAR
        found = []
        for place, step in enumerate(self.plan.steps):
            if step.type != event.type:
                continue
            slack, more = event.unc, 0
            if step.negated:
                slack = max(event.unc, self.t_a)
                leading = all(s.negated for s in self.plan.steps[:place])
                more = (self.plan.within_ns or 0) if leading else 0
            found.append(event.ref + slack + self.keep + more)
        return max(found, default=-FAR)

    def combinations(self) -> list[tuple[int, ...]]:
        """Rows of the positive steps."""
        frontiers = self.frontiers()
        positive = [step for step in self.plan.steps if not step.negated]

        def usable(row: int, at: int) -> bool:
            return self.expires(self.events[row]) >= frontiers[at]

        by_step = [
            [r for r, e in enumerate(self.events)
             if e.type == step.type and e.status != LATE_DROPPED and usable(r, r)]
            for step in positive
        ]  # fmt: skip
        return [
            rows for rows in itertools.product(*by_step)
            if len(set(rows)) == len(rows) and all(usable(r, max(rows)) for r in rows)
            and verdict([self.events[r] for r in rows], self.plan.within_ns, self.rule, self.t_a)
            and self.satisfies([self.events[r] for r in rows])
        ]  # fmt: skip

    def before(self, e: Event, f: Event) -> tuple[bool, bool]:
        diff, b = f.ref - e.ref, pair(e, f, self.rule, self.t_a)
        return (diff > 0 if b == 0 else diff >= -b), diff > b

    def near(self, e: Event, f: Event) -> tuple[bool, bool]:
        diff, b = f.ref - e.ref, pair(e, f, self.rule, self.t_a)
        within = self.plan.within_ns
        assert within is not None
        return diff <= within + b, diff <= within - b

    def lies(self, rows: tuple[int, ...], row: int) -> tuple[bool, bool]:
        """(possible, certain) that the event of ``row`` lies in a scope of ``rows``."""
        chosen, event = [self.events[r] for r in rows], self.events[row]
        found = (False, False)
        done = 0
        for place, step in enumerate(self.plan.steps):
            if not step.negated:
                done += 1
            if not step.negated or step.type != event.type or row in rows:
                continue
            if event.status == LATE_DROPPED:
                continue
            if not self.counts(chosen, event, place):
                continue
            asked = []
            if done > 0:
                asked.append(self.before(chosen[done - 1], event))
            else:
                asked.append(self.near(event, chosen[-1]))
            if done < len(chosen):
                asked.append(self.before(event, chosen[done]))
            else:
                asked.append(self.near(chosen[0], event))
            found = (
                found[0] or all(may for may, _ in asked), found[1] or all(must for _, must in asked)
            )  # fmt: skip
        return found

    def meets(self, rows: tuple[int, ...], row: int) -> bool:
        """Whether both are still held when the later of them is there."""
        frontiers, last = self.frontiers(), max(rows)
        event = self.events[row]
        if self.expires(event) < frontiers[row]:
            return False
        if row < last:
            return self.expires(event) >= frontiers[last]
        if self.keep is None:
            return True
        chosen = [self.events[r] for r in rows]
        slack = max(max(e.unc, self.t_a) for e in chosen)
        return min(e.ref for e in chosen) - slack + self.keep >= frontiers[row]

    def changes(self, rows: tuple[int, ...]) -> list[tuple[int, str | None]]:
        """(row, standing from then on) of one combination: confirmed, uncertain, or None."""
        chosen = [self.events[r] for r in rows]
        positive = verdict(chosen, self.plan.within_ns, self.rule, self.t_a)
        found: list[tuple[int, str | None]] = []
        standing = positive
        for row in range(len(self.events)):
            may, must = self.lies(rows, row) if self.meets(rows, row) else (False, False)
            if must:
                standing = None
            elif may and standing is not None:
                standing = "uncertain"
            if row >= max(rows) and (not found or found[-1][1] != standing):
                found.append((row, standing))
            if standing is None:
                break
        return found


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
