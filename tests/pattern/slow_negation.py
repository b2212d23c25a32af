"""SEQ with negated steps by definition: what stands after every row, and how certain it is."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Event(Protocol):
    """What a test's event has; ``dropped``: it came too late for its order."""

    @property
    def type(self) -> str: ...
    @property
    def ref(self) -> int: ...
    @property
    def unc(self) -> int: ...
    @property
    def source(self) -> str: ...
    @property
    def epoch(self) -> int: ...
    @property
    def long(self) -> int: ...
    @property
    def in_order(self) -> bool: ...
    @property
    def dropped(self) -> bool: ...


class Step(NamedTuple):
    type: str
    negated: bool


def pair(e: Event, f: Event, rule: str, t_a: int) -> int:
    """The bound b of SPEC 4.3; R19's rule knows no exemption for one source."""
    if rule == "max-delay-r19":
        return t_a
    if e.source == f.source and e.epoch == f.epoch != -1:
        return abs(e.unc - f.unc)
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
    """What SPEC 4.1-4.3 say of a stream, row by row, for a SEQ with negated steps.

    ``text``: ``a !c b2``, aliases; a type is its alias without digits, in upper case.
    ``satisfies`` the positive events; ``counts(chosen, event, step)``: whether an event satisfies
    the predicates of a negated step with the chosen ones.
    """

    text: str
    within: int | None
    events: Sequence[Event]
    satisfies: Callable[[Sequence[Event]], bool]
    counts: Callable[[Sequence[Event], Event, int], bool]
    rule: str = "pairwise"
    t_a: int = 0
    keep: int | None = None
    steps: Sequence[tuple[int, int, int]] = ()

    @property
    def asked(self) -> list[Step]:
        return [
            Step(word.strip("!0123456789").upper(), negated=word[0] == "!")
            for word in self.text.split()
        ]

    def frontiers(self) -> list[int]:
        """Progress less what three comparisons may be wrong by (SPEC 4.3)."""
        off = 3 * max([0, self.t_a, *(2 * event.unc for event in self.events)])
        found, frontier = [], -FAR
        for row, event in enumerate(self.events):
            frontier = max([frontier, *(s[1] for s in self.steps if s[0] == row)])
            frontier = max(frontier, event.ref) if event.in_order else frontier
            found.append(frontier - off)
        return found

    def expires(self, event: Event) -> int:
        if self.keep is None:
            return FAR
        found = []
        for place, step in enumerate(self.asked):
            if step.type != event.type:
                continue
            slack, more = event.unc, 0
            if step.negated:
                slack = max(event.unc, self.t_a)
                leading = all(s.negated for s in self.asked[:place])
                more = (self.within or 0) if leading else 0
            found.append(event.ref + slack + self.keep + more)
        return max(found, default=-FAR)

    def combinations(self) -> list[tuple[int, ...]]:
        """Rows of the positive steps."""
        frontiers = self.frontiers()
        positive = [step for step in self.asked if not step.negated]

        def usable(row: int, at: int) -> bool:
            return self.expires(self.events[row]) >= frontiers[at]

        by_step = [
            [r for r, e in enumerate(self.events)
             if e.type == step.type and not e.dropped and usable(r, r)]
            for step in positive
        ]  # fmt: skip
        return [
            rows for rows in itertools.product(*by_step)
            if len(set(rows)) == len(rows) and all(usable(r, max(rows)) for r in rows)
            and verdict([self.events[r] for r in rows], self.within, self.rule, self.t_a)
            and self.satisfies([self.events[r] for r in rows])
        ]  # fmt: skip

    def before(self, e: Event, f: Event) -> tuple[bool, bool]:
        diff, b = f.ref - e.ref, pair(e, f, self.rule, self.t_a)
        return (diff > 0 if b == 0 else diff >= -b), diff > b

    def near(self, e: Event, f: Event) -> tuple[bool, bool]:
        diff, b = f.ref - e.ref, pair(e, f, self.rule, self.t_a)
        within = self.within
        assert within is not None
        return diff <= within + b, diff <= within - b

    def lies(self, rows: tuple[int, ...], row: int) -> tuple[bool, bool]:
        """(possible, certain) that the event of ``row`` lies in a scope of ``rows``."""
        chosen, event = [self.events[r] for r in rows], self.events[row]
        found = (False, False)
        done = 0
        for place, step in enumerate(self.asked):
            if not step.negated:
                done += 1
            if not step.negated or step.type != event.type or row in rows:
                continue
            if event.dropped:
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
        positive = verdict(chosen, self.within, self.rule, self.t_a)
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
