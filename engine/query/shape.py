"""What a pattern's groups ask of time: who comes before whom, and between whom a negated step lies.

Everything speaks of places in ``SeqPlan.steps``. SEQ puts every step of one part before every step
of the next; AND orders nothing; only the positive steps of a match exist, so a negated step has
neighbours and no order of its own.
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
"""The ``op`` of a group whose steps the plan's relations of end points order, and nothing else."""


JOINED: Final = "JOIN"
"""The ``op`` of a group whose steps begin at most WITHIN apart, in any order, also negated ones."""


class Between(Struct, frozen=True):
    """Where the negated step ``step`` must not occur (SPEC 4.1).

    In an ISEQ ``left`` and ``right`` are empty: the plan's relations say when it counts. So are
    they in a join: it counts up to WITHIN before and after, these instants included. Else strictly
    after all of ``left`` and strictly before all of ``right``. ``left`` empty: at the front, from
    the last event - WITHIN on, this instant included. ``right`` empty: at the end, up to the first
    event + WITHIN, this instant included. ``after_first``, of intervals: strictly
    after the first of these instead of all of ``left``, which is empty then. ``anywhere``: at any
    time.
    """

    step: int
    left: tuple[int, ...]
    right: tuple[int, ...]
    after_first: tuple[int, ...] = ()
    anywhere: bool = False

    @property
    def leading(self) -> bool:
        """Whether it stands at the front."""
        return not self.left and not self.after_first and not self.anywhere


class Shape(Struct, frozen=True):
    """The order that a plan's pattern asks for.

    ``positive``: the steps that a match has. ``before``: pairs (x, y), x strictly before y,
    transitively closed. ``firsts``, ``lasts``: its minimal and maximal steps, among which are a
    match's first and last event. ``within``: pairs (x, y) of which it is asked that y ends at most
    WITHIN after x begins; with every event's own length they bound the whole match, intervals
    too (SPEC 4.1). ``between``: one entry per negated step, in step order.
    """

    positive: tuple[int, ...]
    before: frozenset[tuple[int, int]]
    firsts: tuple[int, ...]
    lasts: tuple[int, ...]
    within: tuple[tuple[int, int], ...]
    between: tuple[Between, ...]


def most_events(plan: Plan) -> int:
    """The most events that a match of ``plan`` has; 0 of windows."""
    counts = (sum(not step.negated for step in branch.steps) for branch in plan.branches)
    return max(counts, default=0)


def of_intervals(plan: Plan) -> bool:
    """Whether ``plan`` is an ISEQ."""
    pattern = plan.pattern if isinstance(plan, SeqPlan) else None
    return pattern is not None and pattern.op == INTERVALS


def of_trees(plan: Plan) -> bool:
    """Whether ``plan`` is of SEQ/PAL trees, whose intervals may be known by halves."""
    return isinstance(plan, TreePlan)


def of_streams(plan: Plan) -> bool:
    """Whether ``plan`` is a branch of a join."""
    pattern = plan.pattern if isinstance(plan, SeqPlan) else None
    return pattern is not None and pattern.op == JOINED


def of_rows(plan: Plan) -> bool:
    """Whether ``plan`` is a SELECT without WINDOW, each of whose events is a row."""
    steps = plan.steps if isinstance(plan, SeqPlan) else ()
    return len(steps) == 1 and steps[0].type == ANY_TYPE and not steps[0].types


def whole_pattern(plan: SeqPlan) -> Group:
    """``plan.pattern``, or the SEQ of all steps that None stands for."""
    return plan.pattern or Group("SEQ", tuple(range(len(plan.steps))))


def leaves(part: Part | TreePart) -> Iterator[int]:
    """The places below ``part``, in written order."""
    if isinstance(part, int):
        yield part
        return
    for inner in part.parts:
        yield from leaves(inner)


def shape_of(plan: SeqPlan) -> Shape:
    """The order that ``plan`` asks for.

    >>> from slackwater.engine.query import query
    >>> shape = shape_of(query("EVENT SEQ(A a, AND(B b, C c), !N n, D d) WITHIN 5 s"))
    >>> sorted(shape.before)
    [(0, 1), (0, 2), (0, 4), (1, 4), (2, 4)]
    >>> shape.between
    (Between(step=3, left=(1, 2), right=(4,), after_first=(), anywhere=False),)

    Raises:
        UserError: a plan built in Python whose pattern does not name each step once, has a group
            inside one of its own kind, or a negated step of which nothing says which time it
            covers.
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
        # From firsts to lasts is enough only where clocks are right.
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
    """Those that no other one is known to be at most; of equal ones the first."""
    found: list[int] = []
    for place in places:
        others = [other for other in places if reach[other, place] and other != place]
        if all(reach[place, other] and other > place for other in others):
            found.append(place)
    return tuple(found)


def endpoint_order(plan: SeqPlan, negated: int | None = None) -> np.ndarray:
    """What the relations of ``plan`` between positive steps, and of one ``negated`` one with them,
    imply (``engine.query.interval_relations.closure``).
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
    """The negated steps of which nothing says which time they cover.

    Inside an AND a negated step has neighbours only between two parts of a SEQ.
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
    """The minimal and the maximal ones of ``places``."""
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
    """Adds what ``group`` and the groups below it ask for."""
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
