"""The order of steps that a pattern requires, and the scope of its negated steps.

Steps are given by their places in ``SeqPlan.steps``. SEQ puts every step of one part before every
step of the next; AND puts its parts in no order. A match has only positive steps, so a negated step
has a scope between its neighbours and no order of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Final

import numpy as np
from msgspec import Struct

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.timeline import ANY_TYPE
from slackwater.engine.query.interval_relations import DERIVED, Edge, closure, edges_of
from slackwater.engine.query.plan import Group, Part, Plan, Scope, SeqPlan, TreePart, TreePlan

INTERVALS: Final = "ISEQ"
"""``op`` of an ISEQ: only the plan's relations of end points order its steps."""


JOINED: Final = "JOIN"
"""``op`` of a join: all steps, also negated ones, begin at most WITHIN apart, in any order."""


class Between(Struct, frozen=True):
    """The scope in which the negated step ``step`` must not occur (SPEC 4.1).

    By default it lies strictly after all of ``left`` and strictly before all of ``right``. ``left``
    empty: it begins at the last event - WITHIN, inclusive. ``right`` empty: it ends at the first
    event + WITHIN, inclusive. ``after_first`` (intervals; ``left`` is empty): it begins strictly
    after the first of these. ``anywhere``: any time. In an ISEQ ``left`` and ``right`` are empty:
    the plan's relations define the scope. In a join they are empty too: the scope is WITHIN before
    and after the event, inclusive.
    """

    step: int
    left: tuple[int, ...]
    right: tuple[int, ...]
    after_first: tuple[int, ...] = ()
    anywhere: bool = False

    @property
    def leading(self) -> bool:
        """Whether the negated step is at the front of the pattern."""
        return not self.left and not self.after_first and not self.anywhere


class Shape(Struct, frozen=True):
    """The order that a plan's pattern requires.

    ``positive``: the steps of a match. ``before``: pairs (x, y), x strictly before y, transitively
    closed. ``firsts``, ``lasts``: the minimal and maximal steps; a match's first and last events
    are among them. ``within``: pairs (x, y), y must end at most WITHIN after x begins; together
    with the length of each event they bound the whole match, also of intervals (SPEC 4.1).
    ``between``: one entry per negated step, in step order.
    """

    positive: tuple[int, ...]
    before: frozenset[tuple[int, int]]
    firsts: tuple[int, ...]
    lasts: tuple[int, ...]
    within: tuple[tuple[int, int], ...]
    between: tuple[Between, ...]


def most_events(plan: Plan) -> int:
    """Return the largest number of events in a match of ``plan``; 0 for windows."""
    counts = (sum(not step.negated for step in branch.steps) for branch in plan.branches)
    return max(counts, default=0)


def of_intervals(plan: Plan) -> bool:
    """Whether ``plan`` is an ISEQ."""
    pattern = plan.pattern if isinstance(plan, SeqPlan) else None
    return pattern is not None and pattern.op == INTERVALS


def of_trees(plan: Plan) -> bool:
    """Whether ``plan`` is a SEQ/PAL tree of intervals; half intervals may match its steps."""
    return isinstance(plan, TreePlan)


def of_streams(plan: Plan) -> bool:
    """Whether ``plan`` is a branch of a join."""
    pattern = plan.pattern if isinstance(plan, SeqPlan) else None
    return pattern is not None and pattern.op == JOINED


def of_rows(plan: Plan) -> bool:
    """Whether ``plan`` is a SELECT without WINDOW: each event is a row."""
    steps = plan.steps if isinstance(plan, SeqPlan) else ()
    return len(steps) == 1 and steps[0].type == ANY_TYPE and not steps[0].types


def whole_pattern(plan: SeqPlan) -> Group:
    """Return ``plan.pattern``; if it is None, the SEQ of all steps."""
    return plan.pattern or Group("SEQ", tuple(range(len(plan.steps))))


def leaves(part: Part | TreePart) -> Iterator[int]:
    """Yield the places in ``part``, in written order."""
    if isinstance(part, int):
        yield part
        return
    for inner in part.parts:
        yield from leaves(inner)


def shape_of(plan: SeqPlan) -> Shape:
    """Return the order that ``plan`` requires.

    >>> from slackwater.engine.query import query
    >>> shape = shape_of(query("EVENT SEQ(A a, AND(B b, C c), !N n, D d) WITHIN 5 s"))
    >>> sorted(shape.before)
    [(0, 1), (0, 2), (0, 4), (1, 4), (2, 4)]
    >>> shape.between
    (Between(step=3, left=(1, 2), right=(4,), after_first=(), anywhere=False),)

    Raises:
        UserError: a plan built in Python whose pattern does not name each step once, nests a group
            in one of its own kind, or has a negated step without a scope.
    """
    pattern = whole_pattern(plan)
    apart = [scope.step for scope in plan.scopes]
    if sorted([*leaves(pattern), *apart]) != list(range(len(plan.steps))):
        raise UserError(f"query {plan.name}: its pattern must name each of its steps once")
    _check_groups(pattern, plan.name)
    negated = frozenset(place for place, step in enumerate(plan.steps) if step.negated)
    positive = tuple(place for place in range(len(plan.steps)) if place not in negated)
    before: set[tuple[int, int]] = set()
    between: list[Between] = []
    if pattern.op in {INTERVALS, JOINED}:  # no step is before another as a whole
        firsts = lasts = positive
        if pattern.op == INTERVALS:
            reach = endpoint_order(plan)
            firsts = _extreme(positive, reach[::2, ::2])
            lasts = _extreme(positive, reach[1::2, 1::2].T)
        between += [Between(step, (), ()) for step in sorted(negated)]
        # With uncertain clocks, pairs from firsts to lasts are not enough.
        within = tuple(permutations(positive, 2))
    else:
        misplaced = next(unscoped(pattern, negated), None)
        if misplaced is not None:
            alias = plan.steps[misplaced].alias
            raise UserError(
                f"query {plan.name}: nothing says which time !{alias} covers inside an AND"
            )
        _walk(pattern, negated, before, between)
        between += map(_of_scope, plan.scopes)
        firsts, lasts = _ends(positive, before)
        within = tuple((x, y) for x in firsts for y in positive if x != y)
    return Shape(
        positive,
        frozenset(before),
        firsts,
        lasts,
        () if plan.within_ns is None else within,
        tuple(sorted(between, key=lambda entry: entry.step)),
    )


def _of_scope(scope: Scope) -> Between:
    if not scope.before and not scope.after:
        return Between(scope.step, (), (), anywhere=True)
    if scope.before and len(scope.after) > 1:
        return Between(scope.step, (), scope.before, scope.after)
    return Between(scope.step, scope.after, scope.before)


def _extreme(places: tuple[int, ...], reach: np.ndarray) -> tuple[int, ...]:
    """Return the places that no other place precedes; the first of equal ones."""
    found: list[int] = []
    for place in places:
        others = [other for other in places if reach[other, place] and other != place]
        if all(reach[place, other] and other > place for other in others):
            found.append(place)
    return tuple(found)


def endpoint_order(plan: SeqPlan, negated: int | None = None) -> np.ndarray:
    """Return what the relations between positive steps and, if given, one ``negated`` step imply
    (``engine.query.interval_relations.closure``).
    """
    places = {
        step.alias: 2 * n for n, step in enumerate(plan.steps) if not step.negated or n == negated
    }
    edges: list[Edge] = []
    for each in plan.relations:
        left, right = places.get(str(each.left.alias)), places.get(str(each.right.alias))
        if left is not None and right is not None and each.bound_ns == 0:
            one, two = left + (each.left.name == "te"), right + (each.right.name == "te")
            edges += edges_of(one, each.op, two, DERIVED)
    return closure(len(plan.steps), edges)


def _check_groups(group: Group, name: str) -> None:
    if group.op in {INTERVALS, JOINED} and all(isinstance(part, int) for part in group.parts):
        return
    if group.op not in {"SEQ", "AND"}:
        raise UserError(f"query {name}: a pattern's groups are SEQ or AND, not {group.op!r}")
    for part in group.parts:
        if isinstance(part, Group):
            if part.op == group.op:
                raise UserError(f"query {name}: {part.op} is inside {part.op}; make it one")
            _check_groups(part, name)


def unscoped(part: Part, negated: frozenset[int], *, below_and: bool = False) -> Iterator[int]:
    """Yield the negated steps without a scope.

    Inside an AND a negated step has a scope only between two parts of a SEQ.
    """
    if isinstance(part, int):
        if part in negated and below_and:
            yield part
        return
    last = len(part.parts) - 1
    for place, inner in enumerate(part.parts):
        if isinstance(inner, Group):
            yield from unscoped(inner, negated, below_and=below_and or part.op == "AND")
        elif inner in negated and (part.op == "AND" or (below_and and place in (0, last))):
            yield inner


def _ends(
    places: tuple[int, ...], before: set[tuple[int, int]]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the minimal and the maximal places."""
    inside = set(places)
    later = {y for x, y in before if x in inside and y in inside}
    earlier = {x for x, y in before if x in inside and y in inside}
    return (
        tuple(place for place in places if place not in later),
        tuple(place for place in places if place not in earlier),
    )


def _walk(
    group: Group, negated: frozenset[int], before: set[tuple[int, int]], between: list[Between]
) -> None:
    """Add the order and the scopes of ``group`` and its nested groups."""
    parts: list[tuple[int, ...]] = []
    waiting: list[tuple[int, int]] = []
    for part in group.parts:
        if isinstance(part, Group):
            _walk(part, negated, before, between)
        present = tuple(place for place in leaves(part) if place not in negated)
        if present:
            parts.append(present)
        elif group.op == "SEQ":
            waiting += [(place, len(parts)) for place in leaves(part)]
    if group.op != "SEQ":
        return
    for number, later in enumerate(parts):
        before.update((x, y) for earlier in parts[:number] for x in earlier for y in later)
    for step, number in waiting:
        left = _ends(parts[number - 1], before)[1] if number else ()
        right = _ends(parts[number], before)[0] if number < len(parts) else ()
        between.append(Between(step, left, right))
