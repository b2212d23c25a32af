"""Where an event of a negated step must not lie: the step's scope in a match (SPEC 4.1).

Between two positive steps: after the one, before the other. At the front: before the first step and
at most WITHIN before the last. At the end: after the last and at most WITHIN after the first.
Negated steps side by side share their neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.errors import UserError
from engine.pattern.certainty import Rule, order, within
from engine.pattern.join import IndexName, steps_of
from engine.pattern.store import Store
from engine.query.plan import Attribute, Predicate, SeqPlan


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of the negated step ``step``; steps are places in the plan.

    ``left`` and ``right``: its positive neighbours, None where it has none. ``first`` and ``last``:
    the positive ends. ``index``, ``own``, ``other``: how its events are looked up, as in
    ``engine.pattern.join.Hop``. ``predicates``: what else joins it with positive steps.
    """

    step: int
    left: int | None
    right: int | None
    first: int
    last: int
    index: IndexName
    own: tuple[Attribute, ...]
    other: tuple[tuple[int, Attribute], ...]
    predicates: tuple[Predicate, ...]

    @property
    def end(self) -> tuple[int, bool]:
        """The step whose event bounds it above, and whether WITHIN is to be added."""
        return (self.first, True) if self.right is None else (self.right, False)


def scopes_of(plan: SeqPlan) -> list[Scope]:
    """The scope of every negated step of ``plan``.

    Raises:
        UserError: every step is negated, or one at an end has no WITHIN to bound its scope. Texts
            are checked before, with a caret (``engine.query``); this is for plans from Python.
    """
    positive = [number for number, step in enumerate(plan.steps) if not step.negated]
    if not positive:
        raise UserError(f"query {plan.name!r}: every step is negated; leave one positive")
    place = {step.alias: number for number, step in enumerate(plan.steps)}
    found = []
    for number, step in enumerate(plan.steps):
        if not step.negated:
            continue
        left = max((p for p in positive if p < number), default=None)
        right = min((p for p in positive if p > number), default=None)
        if plan.within_ns is None and (left is None or right is None):
            raise UserError(f"query {plan.name!r}: {step.alias!r} is negated at an end: add WITHIN")
        groups, own, other = [], [], []
        for group_number, group in enumerate(plan.equalities):
            members = {place[a.alias]: a for a in group if a.alias is not None}
            partner = next((p for p in positive if p in members), None)
            if number in members and partner is not None:
                groups.append(group_number)
                own.append(members[number])
                other.append((partner, members[partner]))
        found.append(
            Scope(
                number, left, right, positive[0], positive[-1], (number, tuple(groups)),
                tuple(own), tuple(other),
                tuple(p for p in plan.others if number in steps_of(p, place)),
            )
        )  # fmt: skip
    return found


def reach(
    scope: Scope, rule: Rule, t_a: int, store: Store, rows: np.ndarray, within_ns: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Per match (low, high) of the refs among which its events are: no tighter than ``inside``.

    Args:
        scope: of a negated step.
        rule: how uncertain a pair is.
        t_a: the largest in force for any event held.
        store: the events.
        rows: (matches, steps of the plan).
        within_ns: of the plan.
    """
    ref, unc = store.columns["ref"], store.columns["unc"]
    widest = int(unc.max(initial=0))

    def slack(mine: np.ndarray) -> np.ndarray | int:
        return t_a if rule is Rule.MAX_DELAY else unc[mine] + widest

    first, last = rows[:, scope.first], rows[:, scope.last]
    if scope.left is None:
        low = ref[last] - slack(last) - (within_ns or 0)
    else:
        low = ref[rows[:, scope.left]] - slack(rows[:, scope.left])
    if scope.right is None:
        high = ref[first] + slack(first) + (within_ns or 0)
    else:
        high = ref[rows[:, scope.right]] + slack(rows[:, scope.right])
    return low, high


def inside(
    scope: Scope, rule: Rule, t_a: np.ndarray, store: Store, rows: np.ndarray,
    within_ns: int | None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """(possible, certain) that the event ``rows[:, scope.step]`` lies in the scope.

    Args:
        scope: of a negated step.
        rule: how uncertain a pair is.
        t_a: per combination.
        store: the events.
        rows: (combinations, steps of the plan).
        within_ns: of the plan.
    """
    event = store.clock(rows[:, scope.step])
    possible = np.ones(len(rows), np.bool_)
    certain = np.ones(len(rows), np.bool_)
    found = []
    if scope.left is not None:
        found.append(order(rule, t_a, store.clock(rows[:, scope.left]), event))
    if scope.right is not None:
        found.append(order(rule, t_a, event, store.clock(rows[:, scope.right])))
    if scope.left is None:
        assert within_ns is not None
        last = store.clock(rows[:, scope.last])
        found.append(within(rule, t_a, event, last, within_ns))
    if scope.right is None:
        assert within_ns is not None
        first = store.clock(rows[:, scope.first])
        found.append(within(rule, t_a, first, event, within_ns))
    for may, must in found:
        possible &= may
        certain &= must
    return possible, certain
