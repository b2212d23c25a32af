"""Matches by definition, and from when to when each stands in the order of arrival (SPEC 4.1)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    source: str
    type: str
    ts: int
    arrival: int
    id: int


@dataclass(frozen=True)
class Record:
    """``seq``: an event's number, or that after the last one before a promise or an end."""

    kind: str
    arrival: int
    source: str
    seq: int
    event: Event | None = None
    promised: int = 0
    type: str | None = None


@dataclass(frozen=True)
class PatternSpec:
    """``SEQ`` of ``steps`` (types; ``!`` before a negated one) on equal id within ``within``.

    No type stands in two steps.
    """

    steps: tuple[str, ...]
    within: int
    equal: bool = True

    @property
    def text(self) -> str:
        aliases = [step.strip("!").lower() for step in self.steps]
        named = [f"{step} {alias}" for step, alias in zip(self.steps, aliases, strict=True)]
        first = next(
            alias for step, alias in zip(self.steps, aliases, strict=True) if step[0] != "!"
        )
        same = " AND ".join(f"{alias}.id = {first}.id" for alias in aliases if alias != first)
        where = f"WHERE {same} " if self.equal else ""
        return f"EVENT SEQ({', '.join(named)}) {where}WITHIN {self.within} ns"

    @property
    def types(self) -> str:
        return "".join(step.strip("!") for step in self.steps)


@dataclass(frozen=True)
class Life:
    """A match: rows of its events, by arrival. It is ``known`` at a row and ``killed`` at the first
    row of a negative event, perhaps before; None: never. ``closes``: per negated step its type,
    the end of its scope, and whether that belongs to it.
    """

    rows: tuple[int, ...]
    known: int
    killed: int | None
    last_ts: int
    closes: tuple[tuple[str, int, bool], ...]

    def stands(self, row: int) -> bool:
        """After ``row``."""
        return self.known <= row and (self.killed is None or self.killed > row)

    @property
    def ever(self) -> bool:
        """Whether it stood at any time."""
        return self.stands(self.known)


def lives(events: Sequence[Event], asked: PatternSpec) -> list[Life]:
    """Of every combination of positive events that fits, in the order in which they are known."""
    positive = [step for step in asked.steps if step[0] != "!"]
    by_type = {
        kind: [row for row, event in enumerate(events) if event.type == kind]
        for kind in asked.types
    }
    found = []
    for rows in itertools.product(*(by_type[kind] for kind in positive)):
        chosen = [events[row] for row in rows]
        times = [event.ts for event in chosen]
        same = not asked.equal or len({event.id for event in chosen}) == 1
        rising = all(one < other for one, other in itertools.pairwise(times))
        if not (same and rising and times[-1] - times[0] <= asked.within):
            continue
        killers, closes = [], []
        for kind, low, high, in_front, at_end in _scopes(asked, times):
            closes.append((kind, high, at_end))
            killers += [
                row
                for row in by_type[kind]
                if (low < events[row].ts or (in_front and low == events[row].ts))
                and (events[row].ts < high or (at_end and events[row].ts == high))
                and (not asked.equal or events[row].id == chosen[0].id)
            ]
        found.append(Life(rows, max(rows), min(killers, default=None), times[-1], tuple(closes)))
    return sorted(found, key=lambda life: life.known)


def _scopes(asked: PatternSpec, times: Sequence[int]) -> list[tuple[str, int, int, bool, bool]]:
    """(type, lower end, upper end, in front, at the end) of each negated step.

    In front the lower end belongs to the scope, at the end the upper one; no other does.
    """
    found, done = [], 0
    for step in asked.steps:
        if step[0] != "!":
            done += 1
            continue
        low = times[done - 1] if done else times[-1] - asked.within
        at_end = done == len(times)
        high = times[0] + asked.within if at_end else times[done]
        found.append((step[1:], low, high, done == 0, at_end))
    return found
