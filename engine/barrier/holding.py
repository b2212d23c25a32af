"""Holds matches until they are due: what every barrier but ``immediate`` has in common.

A policy says when a match is due: when clocks have come to given values, or at an instant of the
arrival clock. A later row that invalidates a match which is held removes it without a word; one
that changes a match which was let go corrects it (``-`` and, if it still stands, ``+``). At one
instant records go before what is due, and a row's own changes before what it makes due.

``ordered``: what is due leaves by its last event's time, when no earlier match is held and none
can come, as the policy's clocks say.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from engine.barrier.base import Asked, corrections, result
from engine.barrier.timeline import Place, Steps, Timeline
from engine.operator import Result
from engine.pattern.matches import Change, Match

Key = tuple[int, ...]
Need = tuple[str, int]
"""A clock's name, and the value it must come to."""
# (arrival-clock instant, a deadline?, moment, what is due?, number): sorts as things happen.
_When = tuple[int, int, int, int, int]
_NO_DEADLINE = 2**63 - 1


class Policy(Protocol):
    """When matches are due."""

    def clocks(self, timeline: Timeline) -> dict[str, Steps]:
        """The clocks that the needs name."""

    def needs(self, change: Change) -> list[Need]:
        """What must come before a new match is due; none: it is due at once."""

    def deadline(self, match: Match) -> int | None:
        """Instant of the arrival clock at which it is due; None: no such."""

    def last_needs(self, change: Change) -> list[Need]:
        """What must come before no later match can have an earlier last event."""

    def violations(self, timeline: Timeline) -> int:
        """How many rows of a batch came later than a promise allowed."""

    def at_once(self) -> bool:
        """Whether a match that becomes known now need not wait."""

    def observe(self, *, spoilt: bool) -> None:
        """A match was let go or, ``spoilt``, changed by a later row."""

    def snapshot(self) -> dict[str, Any]:
        """State as plain data."""

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""


@dataclass(slots=True)
class _Held:
    """A match; ``open`` and ``last_open`` count its needs, ``due`` and ``last_due`` are reached."""

    number: int
    match: Match
    open: int
    last_open: int
    due: bool = False
    last_due: bool = False


class Holding:
    """A barrier made of a policy.

    Args:
        policy: when matches are due.
        asked: of the query.
        ordered: whether they leave by their last event's time.
    """

    def __init__(self, policy: Policy, asked: Asked, *, ordered: bool) -> None:
        self._policy = policy
        self._ordered = ordered
        self._query, self._site = asked.query, asked.site
        self._held: dict[Key, _Held] = {}
        # (value, number, 1 = of the order by last event, key) by clock; (instant, ...); (last, ...)
        self._waiting: dict[str, list[tuple[int, int, int, Key]]] = {}
        self._deadlines: list[tuple[int, int, Key]] = []
        self._by_last: list[tuple[int, int, Key]] = []
        self._number = 0
        self._counts = {"promises_broken": 0, "matches_dropped": 0, "matches_corrected": 0}

    def counters(self) -> dict[str, int]:
        """``promises_broken``: rows below what was promised. ``matches_dropped``: invalidated while
        they were held; ``matches_corrected``: after they had been let go; ``matches_held``: now.
        """
        return {**self._counts, "matches_held": len(self._held)}

    def process(self, changes: list[Change], timeline: Timeline) -> list[Result]:
        self._counts["promises_broken"] += self._policy.violations(timeline)
        clocks = self._policy.clocks(timeline)
        happens: list[tuple[_When, Key, Change | None, bool]] = []
        for place, change in enumerate(changes):
            when = (change.at, 0, 2 * change.row + 1, 0, place)
            of = change.after or change.before
            assert of is not None
            happens.append((when, of.key, change, False))
            if change.before is None:
                self._take_in(change, clocks, happens)
        for name, steps in clocks.items():
            waiting = self._waiting.get(name, [])
            while waiting and waiting[0][0] <= steps.value[-1]:
                value, number, last, key = heapq.heappop(waiting)
                reached = steps.reached(value)
                assert reached is not None
                happens.append((_due(reached, number), key, None, bool(last)))
        happens += self._past(timeline.now)
        happens.sort(key=lambda entry: entry[0])
        return list(self._replay(happens))

    def advance(self, now: int) -> list[Result]:
        return list(self._replay(self._past(now)))

    def _past(self, now: int) -> list[tuple[_When, Key, Change | None, bool]]:
        """The deadlines before ``now``, in order."""
        found: list[tuple[_When, Key, Change | None, bool]] = []
        while self._deadlines and self._deadlines[0][0] < now:
            at, number, key = heapq.heappop(self._deadlines)
            found.append(((at, 1, 0, 1, number), key, None, False))
        return found

    def finish(self, at: int) -> list[Result]:
        """Everything is due: what has a deadline until then at that, the rest at the end."""
        happens: list[tuple[_When, Key, Change | None, bool]] = [
            ((min(due, at), 1, 0, 1, number), key, None, False)
            for due, number, key in self._deadlines
        ]
        happens.sort(key=lambda entry: entry[0])
        given = list(self._replay(happens))
        for entry in self._held.values():
            entry.due = entry.last_due = True
        given += list(self._let_go_ordered(at))
        for key in sorted(self._held, key=lambda key: self._held[key].number):
            given.append(self._let_go(key, at))
        return given

    def _take_in(
        self, change: Change, clocks: dict[str, Steps],
        happens: list[tuple[_When, Key, Change | None, bool]],
    ) -> None:  # fmt: skip
        """Numbers a new match, and notes or awaits what it needs."""
        match = change.after
        assert match is not None
        number = self._number
        self._number += 1
        known = (change.at, 2 * change.row + 1)
        deadline = self._policy.deadline(match)
        if deadline is not None:
            heapq.heappush(self._deadlines, (max(deadline, change.at), number, match.key))
        needs = self._policy.needs(change)
        last_needs = self._policy.last_needs(change) if self._ordered else []
        for last, some in ((0, needs), (1, last_needs)):
            if not some and (last or deadline is None):
                happens.append((_due(known, number), match.key, None, bool(last)))
            for name, value in some:
                reached = clocks[name].reached(value) if name in clocks else None
                if reached is None:
                    waiting = self._waiting.setdefault(name, [])
                    heapq.heappush(waiting, (value, number, last, match.key))
                else:
                    happens.append((_due(max(reached, known), number), match.key, None, bool(last)))
        # It becomes one of those held when its row is replayed.
        self._held[match.key] = _Held(number, match, max(1, len(needs)), max(1, len(last_needs)))

    def _replay(self, happens: list[tuple[_When, Key, Change | None, bool]]) -> Iterator[Result]:
        for when, key, change, last in happens:
            at, number = when[0], when[4]
            entry = self._held.get(key)
            if change is not None:
                if change.before is None:
                    assert entry is not None
                    if self._ordered:
                        heapq.heappush(self._by_last, (entry.match.last_ns, entry.number, key))
                    if self._policy.at_once():
                        entry.due, entry.open = True, 0
                        if not self._ordered:
                            yield self._let_go(key, at)
                else:
                    yield from self._changed(key, change)
            elif entry is not None and entry.number == number:
                if last:
                    entry.last_open -= 1
                    entry.last_due = entry.last_open == 0
                elif not entry.due:
                    entry.open -= 1
                    entry.due = entry.open == 0
                if entry.due and not self._ordered:
                    yield self._let_go(key, at)
            if self._ordered:
                yield from self._let_go_ordered(at)

    def _changed(self, key: Key, change: Change) -> Iterator[Result]:
        """A later row spoils a match: quietly while it is held."""
        self._policy.observe(spoilt=True)
        entry = self._held.get(key)
        if entry is None:
            self._counts["matches_corrected"] += 1
            yield from corrections(change, self._query, self._site)
            return
        self._counts["matches_dropped"] += change.after is None
        if change.after is None:
            del self._held[key]
        else:
            entry.match = change.after

    def _let_go(self, key: Key, at: int) -> Result:
        self._policy.observe(spoilt=False)
        return result("+", self._held.pop(key).match, at, self._query, self._site)

    def _let_go_ordered(self, at: int) -> Iterator[Result]:
        while self._by_last:
            _, number, key = self._by_last[0]
            entry = self._held.get(key)
            if entry is not None and entry.number == number:
                if not (entry.due and entry.last_due):
                    return
                yield self._let_go(key, at)
            heapq.heappop(self._by_last)

    def snapshot(self) -> dict[str, Any]:
        return {
            "held": [
                (e.number, e.match, e.open, e.last_open, e.due, e.last_due)
                for e in self._held.values()
            ],
            "waiting": {name: list(heap) for name, heap in self._waiting.items()},
            "deadlines": list(self._deadlines),
            "by_last": list(self._by_last),
            "number": self._number,
            "counts": dict(self._counts),
            "policy": self._policy.snapshot(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self._held = {entry[1].key: _Held(*entry) for entry in state["held"]}
        self._waiting = {name: list(heap) for name, heap in state["waiting"].items()}
        self._deadlines = list(state["deadlines"])
        self._by_last = list(state["by_last"])
        self._number = state["number"]
        self._counts = dict(state["counts"])
        self._policy.restore(state["policy"])


def _due(place: Place, number: int) -> _When:
    at, moment = place
    return at, 0, moment, 1, number
