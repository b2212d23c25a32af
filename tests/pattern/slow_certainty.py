"""Which matches there are and how certain they are, by the words of SPEC 4.1-4.3, pair by pair.

A pattern is a tree: ``("SEQ", "a", "!c", ("AND", "b", "d"))``, where a step's type is its alias in
upper case without digits. Groups below others hold single steps only, so that every pair is plain.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Tree = Any
IMPOSSIBLE, POSSIBLE, CERTAIN = 0, 1, 2


@dataclass(frozen=True)
class UncertainEvent:
    """An event with what its source's clock is wrong by; equal ``clock``: by the same error."""

    type: str
    ref: int
    unc: int
    clock: int


def text_of(part: Tree) -> str:
    if isinstance(part, str):
        return f"{'!' * part.startswith('!')}{type_of(part)} {part.strip('!')}"
    return f"{part[0]}({', '.join(text_of(inner) for inner in part[1:])})"


def type_of(step: str) -> str:
    return step.strip("!0123456789").upper()


def steps_of(part: Tree) -> list[str]:
    """Positive ones, as written."""
    if isinstance(part, str):
        return [] if part.startswith("!") else [part]
    return [step for inner in part[1:] for step in steps_of(inner)]


def all_steps(part: Tree) -> list[str]:
    return [part] if isinstance(part, str) else [s for p in part[1:] for s in all_steps(p)]


def ordered_pairs(part: Tree) -> set[tuple[str, str]]:
    """(x, y): x must be before y."""
    if isinstance(part, str):
        return set()
    found = set().union(*(ordered_pairs(inner) for inner in part[1:]))
    if part[0] == "SEQ":
        for earlier, later in itertools.combinations(part[1:], 2):
            found |= set(itertools.product(steps_of(earlier), steps_of(later)))
    return found


def lasts_of(tree: Tree) -> list[str]:
    """Steps that none must follow."""
    return [s for s in steps_of(tree) if not any(x == s for x, _ in ordered_pairs(tree))]


def negated(part: Tree) -> list[tuple[str, list[str], list[str]]]:
    """(step, the positive steps next before it, those next after it)."""
    if isinstance(part, str):
        return []
    found = [one for inner in part[1:] for one in negated(inner)]
    for place, inner in enumerate(part[1:], 1):
        if isinstance(inner, str) and inner.startswith("!"):
            left = next((s for p in part[place - 1 : 0 : -1] if (s := steps_of(p))), [])
            right = next((s for p in part[place + 1 :] if (s := steps_of(p))), [])
            found.append((inner, left, right))
    return found


@dataclass(frozen=True)
class Definition:
    """``t_a``: R19's bound for every pair, also of one clock; None: their own."""

    tree: Tree
    within: int
    t_a: int | None = None

    def _bound(self, e: UncertainEvent, f: UncertainEvent) -> int:
        if self.t_a is not None:
            return self.t_a
        return 0 if e.clock == f.clock else e.unc + f.unc

    def _before(self, e: UncertainEvent, f: UncertainEvent) -> int:
        ahead, bound = f.ref - e.ref, self._bound(e, f)
        if ahead > bound:
            return CERTAIN
        return POSSIBLE if bound and ahead >= -bound else IMPOSSIBLE

    def _near(self, e: UncertainEvent, f: UncertainEvent) -> int:
        """f is at most WITHIN after e."""
        apart, bound = f.ref - e.ref, self._bound(e, f)
        if apart <= self.within - bound:
            return CERTAIN
        return POSSIBLE if apart <= self.within + bound else IMPOSSIBLE

    def answers(self, events: Sequence[UncertainEvent]) -> dict[tuple[int, ...], str]:
        """By rows in the order of steps: ``confirmed`` or ``uncertain``."""
        steps, before, lasts = steps_of(self.tree), ordered_pairs(self.tree), lasts_of(self.tree)
        firsts = [s for s in steps if not any(y == s for _, y in before)]
        rows_of = {s: [r for r, e in enumerate(events) if e.type == type_of(s)] for s in steps}
        found = {}
        for rows in itertools.product(*(rows_of[step] for step in steps)):
            if len(set(rows)) < len(rows):
                continue
            of = dict(zip(steps, (events[row] for row in rows), strict=True))
            sure = min(
                [self._before(of[x], of[y]) for x, y in before]
                + [self._near(of[x], of[y]) for x in firsts for y in steps if x != y]
            )
            if sure == IMPOSSIBLE:
                continue
            worst = IMPOSSIBLE
            for row, event in enumerate(events):
                for step, left, right in negated(self.tree):
                    if row not in rows and type_of(step) == event.type:
                        lies = [self._before(of[x], event) for x in left]
                        lies += [self._before(event, of[x]) for x in right]
                        lies += [] if left else [self._near(event, of[x]) for x in lasts]
                        lies += [] if right else [self._near(of[x], event) for x in firsts]
                        worst = max(worst, min(lies))
            if worst != CERTAIN:
                found[rows] = "confirmed" if (sure, worst) == (CERTAIN, IMPOSSIBLE) else "uncertain"
        return found
