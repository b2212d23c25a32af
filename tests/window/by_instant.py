"""What stands of windows at every instant, by definition, from plain lists of events.

Clocks are right here, and nothing is missing; corrections never end. Windows are emitted as these
definitions say, and each is counted again from all its events whenever it is emitted.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

Content = tuple[int, int, int, int]
"""Start, end, count(*), sum(v)."""
KINDS = (
    "TUMBLING 8", "SLIDING 8 EVERY 3", "SLIDING 9 EVERY 3", "SESSION 5", "ROWS 2",
    "ROWS 3 EVERY 2", "ROWS 3 EVERY 1",
)  # fmt: skip


class Event(Protocol):
    """What a test's event has; ``v`` is a number or null."""

    @property
    def ref(self) -> int: ...
    @property
    def v(self) -> Any: ...
    @property
    def key(self) -> Any: ...
    @property
    def in_order(self) -> bool: ...


class Stream(Protocol):
    """Events in the order of their release, each at an instant, and (row, frontier, instant)."""

    @property
    def events(self) -> tuple[Any, ...]: ...
    @property
    def steps(self) -> tuple[tuple[int, int, int], ...]: ...
    def at(self, row: int) -> int: ...


@dataclass
class Time:
    """Windows [k * step, k * step + size)."""

    size: int
    step: int
    inside: dict[tuple[int, Any], list[Event]] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        for k in range((event.ref - self.size) // self.step + 1, event.ref // self.step + 1):
            self.inside.setdefault((k, event.key), []).append(event)

    def windows(self, frontier: float) -> Iterator[tuple[Hashable, bool, Content]]:
        """Per window and key what it is called, whether it is closed, and what it says."""
        for (k, key), events in self.inside.items():
            start = k * self.step
            end = start + self.size
            yield (k, key), end <= frontier, (start, end, len(events), total(events))


@dataclass
class Silent:
    """Sessions, by the number under which each began; the earlier of two keeps its name."""

    gap: int
    began: int = 0
    sessions: dict[tuple[int, Any], list[Event]] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        near = [
            name for name, events in self.sessions.items() if name[1] == event.key
            and any(abs(one.ref - event.ref) < self.gap for one in events)
        ]  # fmt: skip
        if not near:
            self.began += 1
            self.sessions[self.began, event.key] = [event]
            return
        first, *others = sorted(near, key=lambda name: min(e.ref for e in self.sessions[name]))
        for other in others:
            self.sessions[first] += self.sessions.pop(other)
        self.sessions[first].append(event)

    def windows(self, frontier: float) -> Iterator[tuple[Hashable, bool, Content]]:
        for name, events in self.sessions.items():
            start, end = min(e.ref for e in events), max(e.ref for e in events) + self.gap
            yield name, end <= frontier, (start, end, len(events), total(events))


@dataclass
class Numbered:
    """Windows of so many events, from every so many on; one that is not full is open."""

    rows: int
    every: int
    groups: dict[Any, list[Event]] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        mine = self.groups.setdefault(event.key, [])
        mine.append(event)
        mine.sort(key=lambda one: one.ref)

    def windows(self, frontier: float) -> Iterator[tuple[Hashable, bool, Content]]:
        for key, events in self.groups.items():
            for k, first in enumerate(range(0, len(events), self.every)):
                some = events[first : first + self.rows]
                closed = len(some) == self.rows and some[-1].ref <= frontier
                yield (k, key), closed, (some[0].ref, some[-1].ref, len(some), total(some))


def total(events: Iterable[Event]) -> int:
    return sum(int(event.v or 0) for event in events)


def by_definition(kind: str) -> Time | Silent | Numbered:
    numbers = [int(word) for word in kind.split() if word.isdecimal()]
    if kind.startswith("SESSION"):
        return Silent(numbers[0])
    if kind.startswith("ROWS"):
        return Numbered(numbers[0], numbers[-1])
    return Time(numbers[0], numbers[-1])


def moved(stream: Stream) -> list[tuple[int, int]]:
    """Progress of the order: (instant, where it comes to)."""
    found = [(at, frontier) for _, frontier, at in stream.steps]
    for row, event in enumerate(stream.events):
        if event.in_order:
            found.append((stream.at(row), event.ref))
    return found


def frontier_at(now: int, stream: Stream, barrier: str, *, done: bool) -> float:
    """Where progress is just before ``now``, or ``done`` with what happens then."""
    name, _, span = barrier.partition(":")
    if name == "bounded":
        come = [e.ref for row, e in enumerate(stream.events) if stream.at(row) < now + done]
        return max(come, default=-(10**9)) - int(span)
    if name == "hold":
        due = [to for at, to in moved(stream) if at + int(span) < now + done]
    else:
        due = [to for at, to in moved(stream) if at < now + done]
    return max(due, default=-(10**9))


def standing_at_every_instant(
    kind: str, stream: Stream, early: int, barrier: str
) -> list[tuple[int, list[Any]]]:
    """(instant, what stands, sorted) after every row and step, each of which has an instant of its
    own. ``early``: 0: emitted when it closes; -1: at every change; else every so much of time.
    """
    model, found = by_definition(kind), []
    emitted: dict[Hashable, Content] = {}
    closed_before: set[Hashable] = set()
    clock: int | None = None
    for now, row, time in moments(stream):
        for event in (None, stream.events[row - 1]) if row else (None,):
            if event is not None:
                model.take(event)
            tick, last = False, row == 0 or event is not None
            if last:
                tick = early > 0 and clock is not None and time // early > clock // early
                clock = time if clock is None else max(clock, time)
            windows = list(model.windows(frontier_at(now, stream, barrier, done=last)))
            names = {name for name, _, _ in windows}
            emitted = {name: said for name, said in emitted.items() if name in names}
            for name, closed, content in windows:
                if closed or (last and (early < 0 or tick)):
                    emitted[name] = content
                elif name in closed_before:  # it has become another one, which is open
                    emitted.pop(name, None)
            closed_before = {name for name, closed, _ in windows if closed}
        found.append((now, sorted(emitted.values())))
    return found


def moments(stream: Stream) -> Iterator[tuple[int, int, int]]:
    """(instant, how many rows have come if one comes now, else 0, what it moves the clock to)."""
    for row in range(len(stream.events) + 1):
        yield from ((at, 0, f) for where, f, at in stream.steps if where == row)
        if row < len(stream.events):
            yield stream.at(row), row + 1, stream.events[row].ref
