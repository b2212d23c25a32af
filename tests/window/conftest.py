"""Released batches made from plain tuples, cut anywhere; and windows by definition."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from slackwater.engine.core.released import IN_ORDER, LATE, Gaps, Progress, Released, Strings
from slackwater.engine.core.timeline import CHANCE
from slackwater.engine.hosts.chain.state_bytes import from_bytes, to_bytes
from slackwater.engine.operators.window.time_windows import TimeWindows
from slackwater.engine.query.plan import Drift, WindowPlan


@dataclass(frozen=True)
class Event:
    """One released event; ``key`` is the attribute g, ``v`` the attribute v (None = null)."""

    ref: int
    v: int | float | None = 1
    key: int | str | None = 0
    unc: int = 0
    status: int = IN_ORDER
    release: int | None = None
    source: str = "s0"
    stream: str = "events"
    seq: int = 0
    epoch: int = -1
    chance: float = 1.0

    @property
    def in_order(self) -> bool:
        return self.status == IN_ORDER


@dataclass(frozen=True)
class Stream:
    """Events in release order; steps (row, frontier, at); gaps (row, source, first, count, low,
    high), all of stream ``events``. Gaps with an odd first number come before the steps of their
    row, the others after them."""

    events: tuple[Event, ...]
    steps: tuple[tuple[int, int, int], ...] = ()
    gaps: tuple[tuple[int, str, int, int, int, int], ...] = ()
    t_a: int = 0

    def at(self, row: int) -> int:
        release = self.events[row].release
        return row if release is None else release


def _values(events: Sequence[Event], name: str, strings: Strings) -> tuple[np.ndarray, Any, str]:
    raw = [getattr(event, name) for event in events]
    valid = np.array([value is not None for value in raw], bool)
    if any(isinstance(value, str) for value in raw):
        codes = [-1 if value is None else strings.code(value) for value in raw]
        return np.array(codes, np.int32), valid, "str"
    kind = "float" if any(isinstance(value, float) for value in raw) else "int"
    dtype = np.float64 if kind == "float" else np.int64
    return np.array([0 if value is None else value for value in raw], dtype), valid, kind


def batch(stream: Stream, strings: Strings, start: int = 0, stop: int | None = None) -> Released:
    """Rows [start, stop) with the steps and gaps before them; the last batch has those after."""
    n_all = len(stream.events)
    stop = n_all if stop is None else stop
    events = stream.events[start:stop]
    columns: dict[str, np.ndarray] = {
        name: np.array([getattr(event, name) for event in events], np.int64)
        for name in ("ref", "unc", "seq", "epoch")
    }
    columns["release"] = np.array([stream.at(row) for row in range(start, stop)], np.int64)
    columns["status"] = np.array([event.status for event in events], np.int8)
    columns["ts"] = columns["te"] = columns["ref"]
    for name in ("source", "stream"):
        columns[name] = np.array([strings.code(getattr(event, name)) for event in events], np.int32)
    columns[CHANCE] = np.array([event.chance for event in events])
    types = {}
    for attr, name in (("g", "key"), ("v", "v")):
        columns["attrs." + attr], valid, types[attr] = _values(events, name, strings)
        if not valid.all():
            columns["valid." + attr] = valid
    mine = [
        [entry for entry in entries if start <= entry[0] < stop or (stop == n_all == entry[0])]
        for entries in (stream.steps, stream.gaps)
    ]
    steps = np.array(mine[0], np.int64).reshape(-1, 3)
    gaps = [np.array(column, np.int64) for column in zip(*(
        (row - start, strings.code(source), strings.code("events"), 0, first, count, low, high,
         sum(step[0] < row or (step[0] == row and first % 2 == 0) for step in mine[0]))
        for row, source, first, count, low, high in mine[1]
    ), strict=True)] or [np.empty(0, np.int64)] * 9  # fmt: skip
    return Released(
        len(events), columns, types, strings, stream.t_a,
        Progress(steps[:, 0] - start, steps[:, 1], steps[:, 2]), Gaps(*gaps),
    )  # fmt: skip


def run(
    make: Callable[[], TimeWindows], stream: Stream, cuts: Sequence[int] = (),
    finish_at: int | None = None,
) -> list[dict[str, Any]]:  # fmt: skip
    """All results; at every cut the operator is rebuilt from its encoded snapshot."""
    operator, strings, results = make(), Strings(), []
    inner = {cut for cut in cuts if 0 < cut < len(stream.events)}
    borders = [0, *sorted(inner), len(stream.events)]
    for place, (start, stop) in enumerate(itertools.pairwise(borders)):
        if place:
            state = from_bytes(to_bytes(operator.snapshot()))
            operator = make()
            operator.restore(state)
        released = batch(stream, strings, start, stop)
        before = {name: column.copy() for name, column in released.columns.items()}
        results += operator.process(released)
        for name, column in released.columns.items():
            assert np.array_equal(column, before[name], equal_nan=column.dtype.kind == "f")
    if finish_at is not None:
        results += operator.finish(finish_at)
    return results


# ---- windows by definition ------------------------------------------------------------------


def aggregate(function: str, values: list[Any]) -> Any:
    """By definition, in exact arithmetic."""
    if function == "count":
        return len(values)
    if not values:
        return None
    exact = [Fraction(value) for value in values]
    if function == "sum":
        total = sum(exact)
        return int(total) if all(isinstance(value, int) for value in values) else float(total)
    if function == "avg":
        return float(sum(exact) / len(exact))
    return {"min": min, "max": max}[function](values)


NOBODY = "nobody"
"""In place of a key: of a window of which nothing is known but that something is missing."""


@dataclass
class Twin:
    """Everything recomputed from the raw list of events after each event."""

    plan: WindowPlan
    stream: Stream
    horizon: int
    frontier: int | None = None
    inside: dict[int, list[Event]] = field(default_factory=dict)
    emitted: dict[Any, dict[str, Any]] = field(default_factory=dict)
    results: list[dict[str, Any]] = field(default_factory=list)
    gaps: list[list[Any]] = field(default_factory=list)
    too_late: int = 0

    def __post_init__(self) -> None:
        self.stages = ("low", "middle", "last") if self.plan.drift is Drift.EACH else ("last",)
        self.closed = dict.fromkeys(self.stages, -1000)
        self.low, self.high = self.stream.t_a // 2, (self.stream.t_a + 1) // 2
        drifts = self.plan.drift is not Drift.NONE
        self.shifts = (self.low, self.high) if drifts else (0, 0)

    def run(self, finish_at: int | None) -> list[dict[str, Any]]:
        for row in range(len(self.stream.events) + 1):
            here = [[*gap, gap[3]] for gap in self.stream.gaps if gap[0] == row]
            self.know(gap for gap in here if gap[2] % 2)
            for where, frontier, at in self.stream.steps:
                if where == row:
                    self.progress(frontier, at)
            self.know(gap for gap in here if not gap[2] % 2)
            if row < len(self.stream.events):
                self.take(self.stream.events[row], self.stream.at(row))
        if finish_at is not None:
            self.settle(finish_at)
            due = [
                (k, place)
                for place, stage in enumerate(self.stages)
                for k in self.inside
                if k > self.closed[stage]
            ]
            for k, place in sorted(due):
                self.emit(k, self.stages[place], finish_at)
        return self.results

    def part(self, k: int, event: Event) -> set[str]:
        start, end = self.span(k)
        u = event.unc
        names = set()
        shifts = {"low": -self.low, "middle": 0, "high": self.high}
        names = {n for n, shift in shifts.items() if start + shift <= event.ref < end + shift}
        if start <= event.ref - u and event.ref + u < end:
            names.add("certain")
        elif event.ref + u >= start and event.ref - u < end:
            names.add("ambiguous")
        return names

    def over(self, k: int) -> bool:
        """Window ``k`` is corrected no more."""
        passed = self.frontier is not None and (self.frontier - self.horizon >= self.span(k)[1])
        return passed and k <= self.closed["last"]

    def know(self, gaps: Any) -> None:
        for gap in gaps:
            self.gaps.append(gap)
            touched = self.touched(gap[4], gap[5])
            self.inside |= {k: self.inside.get(k, []) for k in touched if not self.over(k)}

    def span(self, k: int) -> tuple[int, int]:
        return k * self.plan.step_ns, k * self.plan.step_ns + self.plan.size_ns

    def near(self, low: int, high: int) -> range:
        """Windows that touch [low, high]."""
        step, size = self.plan.step_ns, self.plan.size_ns
        return range((low - size) // step + 1, high // step + 1)

    def touched(self, low: int, high: int) -> range:
        """Windows, and R19's beside them, that touch [low, high]."""
        return self.near(low - self.shifts[1], high + self.shifts[0])

    def missing(self, k: int) -> int:
        return sum(left for *_, low, high, left in self.gaps if k in self.touched(low, high))

    def take(self, event: Event, at: int) -> None:
        if event.status >= LATE:
            for place in reversed(range(len(self.gaps))):
                gap = self.gaps[place]
                fits = gap[1] == event.source and gap[2] <= event.seq < gap[2] + gap[3]
                if fits and event.stream == "events" and gap[6] > 0:
                    self.gaps[place : place + 1] = self.parted(gap, event)
                    break
        lost, changed = False, []
        far = 5 * self.plan.size_ns + event.unc
        for k in self.near(event.ref - far, event.ref + far):
            if not self.part(k, event):
                continue
            if self.over(k):
                lost = True
                continue
            self.inside.setdefault(k, []).append(event)
            changed += [(k, stage) for stage in self.stages if k <= self.closed[stage]]
        self.too_late += lost
        for k, stage in changed:
            if stage == "last" and self.result(k, stage, event.key, at):
                self.tell(k, stage, NOBODY, None, at)
            self.tell(k, stage, event.key, self.result(k, stage, event.key, at), at)
        if event.status == IN_ORDER:
            self.progress(event.ref, at)

    def parted(self, gap: list[Any], event: Event) -> list[list[Any]]:
        """What is left of a gap: before and behind the event, if it happened between both ends."""
        row, source, first, _, low, high, left = gap
        mine = self.touched(event.ref - event.unc, event.ref + event.unc)
        outer = self.touched(low, high)
        if not (outer.start <= mine.start and mine.stop <= outer.stop):
            return [[*gap[:6], left - 1]]
        before, behind = event.seq - first, first + gap[3] - event.seq - 1
        return [
            [row, source, first, before, low, event.ref + event.unc, min(before, left - 1)],
            [row, source, event.seq + 1, behind, event.ref - event.unc, high,
             min(behind, left - 1)],
        ]  # fmt: skip

    def progress(self, frontier: int, at: int) -> None:
        self.frontier = frontier if self.frontier is None else max(self.frontier, frontier)
        due, before = [], self.closed["last"]
        for place, stage in enumerate(self.stages):
            while True:
                k = self.closed[stage] + 1
                unc = max((e.unc for e in self.inside.get(k, ())), default=0)
                margin = {"low": -self.low, "middle": 0, "last": max(self.high, unc)}[stage]
                if self.frontier < self.span(k)[1] + margin:
                    break
                self.closed[stage] = k
                if k in self.inside:
                    due.append((k, place))
        if self.closed["last"] > before:
            self.settle(at, before)
        for k, place in sorted(due):
            self.emit(k, self.stages[place], at)
        if self.closed["last"] > before:
            self.inside = {k: events for k, events in self.inside.items() if not self.over(k)}

    def settle(self, at: int, upto: int | None = None) -> None:
        """What ``missing`` says of closed windows is brought up to date."""
        for k in sorted(self.inside):
            if k <= (self.closed["last"] if upto is None else upto):
                self.emit(k, "last", at)

    def emit(self, k: int, stage: str, at: int) -> None:
        keys = {event.key for event in self.inside[k]}
        made = {key: self.result(k, stage, key, at) for key in keys}
        if stage == "last":
            alone = not any(made.values()) and self.missing(k) > 0
            self.tell(k, stage, NOBODY, self.result(k, stage, NOBODY, at) if alone else None, at)
        for key in sorted(keys, key=lambda key: (key is not None, key)):
            self.tell(k, stage, key, made[key], at)

    def tell(self, k: int, stage: str, key: Any, new: dict[str, Any] | None, at: int) -> None:
        old = self.emitted.pop((k, stage, key), None)
        if new is not None:
            self.emitted[k, stage, key] = new
        if old and new and {**old, "at": at} == new:
            self.emitted[k, stage, key] = old
            return
        if old:
            self.results.append({**old, "op": "-", "at": at})
        if new:
            self.results.append(new)

    def result(self, k: int, stage: str, key: Any, at: int) -> dict[str, Any] | None:
        mine = [(self.part(k, e), e) for e in self.inside[k] if e.key == key]
        counted = {"low": {"low"}, "middle": {"low", "middle"}, "last": {"low", "middle", "high"}}
        makes = {"middle"} if self.plan.drift is Drift.NONE else set(counted[stage])
        if stage == "last":
            makes |= {"certain", "ambiguous"}
        if key != NOBODY and not any(part & makes for part, _ in mine):
            return None
        start, end = self.span(k)
        of = {
            name: self.values([event for part, event in mine if name in part])
            for name in ("low", "middle", "high")
        }
        shown = None if key == NOBODY else key
        result: dict[str, Any] = {
            "op": "+", "query": self.plan.name, "site": "main", "at": at,
            "window": {"start": start, "end": end},
            "key": {"g": shown} if self.plan.group_by else {},
            "value": of["middle"], **of,
            "certain": sum("certain" in part for part, _ in mine),
            "ambiguous": sum("ambiguous" in part for part, _ in mine),
            "missing": self.missing(k),
            "bounds": self.bounds(mine, start, end),
        }  # fmt: skip
        if self.plan.drift is Drift.TOGETHER:
            result["value"] = {label: mean([of[n][label] for n in of]) for label in of["low"]}
        elif self.plan.drift is Drift.EACH:
            name = {"last": "high"}.get(stage, stage)
            result |= {"drift": name, "value": of[name]}
            if stage != "last":
                result |= dict.fromkeys(
                    ("low", "middle", "high", "certain", "ambiguous", "missing", "bounds")
                )
                result[name] = of[name]
        return result

    def values(self, events: list[Event]) -> dict[str, Any]:
        return {
            one.label: aggregate(
                one.function,
                [e.v for e in events if e.v is not None] if one.argument else events,
            )
            for one in self.plan.aggregates
        }

    def bounds(self, mine: list[tuple[set[str], Event]], start: int, end: int) -> dict[str, Any]:
        """Over every assignment of clock errors; a clock's events move together."""
        sure = [event for part, event in mine if "certain" in part]
        clocks: dict[Any, list[Event]] = {}
        for number, (part, event) in enumerate(mine):
            if "ambiguous" in part:
                shared = event.epoch >= 0
                clock = (event.source, event.epoch) if shared else number
                clocks.setdefault(clock, []).append(event)
        choices = [together(events, start, end) for events in clocks.values()]
        subsets = [
            self.values(sure + [event for chosen in picked for event in chosen])
            for picked in itertools.product(*choices)
        ]
        found = {}
        for one in self.plan.aggregates:
            known = [values[one.label] for values in subsets if values[one.label] is not None]
            found[one.label] = [min(known), max(known)] if known else [None, None]
        return found


def together(events: list[Event], start: int, end: int) -> list[list[Event]]:
    """The sets of one clock's events that can be in [start, end), by trying every error.

    The errors of two events differ by at most what their uncertainties do.
    """
    if len(events) == 1:  # which may be in or out, as it is ambiguous
        return [[], events]
    events = sorted(events, key=lambda event: (event.unc, event.ref))
    states: set[tuple[int, tuple[int, ...]]] = {(0, ())}
    for place, event in enumerate(events):
        slack = event.unc - (events[place - 1].unc if place else 0)
        states = {
            (error, (*chosen, place) if start <= event.ref + error < end else chosen)
            for before, chosen in states
            for error in range(before - slack, before + slack + 1)
        }
    return [[events[place] for place in chosen] for chosen in {chosen for _, chosen in states}]


def mean(values: list[Any]) -> float | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return float(known[0]) if len(set(known)) == 1 else math.fsum(known) / len(known)
