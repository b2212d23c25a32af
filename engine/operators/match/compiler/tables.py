"""Compiles a query to tables of records for the kernel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from msgspec import Struct, field

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.timeline import ANY_TYPE
from slackwater.engine.core.units import Period
from slackwater.engine.kernels.records import NONE
from slackwater.engine.operators.match.compiler.records import BY_START, HIGH, LOW, RECORDS, Tables
from slackwater.engine.operators.match.compiler.relations import (
    END,
    START,
    Joins,
    Related,
    closed,
    closed_with,
    counts_when,
    reads_end,
    relations_of,
    soon_after,
    starts_before,
)
from slackwater.engine.query.clock_sensitivity import is_clocked
from slackwater.engine.query.fields import attributes_in, bare, parts_of
from slackwater.engine.query.joins import IBP, check_index, in_order
from slackwater.engine.query.plan import (
    Arithmetic,
    Attribute,
    Case,
    Comparison,
    Constant,
    Expression,
    FunctionCall,
    InWorkdays,
    Likeness,
    Logic,
    Plan,
    Predicate,
    Presence,
    SeqPlan,
    Step,
    conjunction,
)
from slackwater.engine.query.shape import Between, Shape, of_intervals, of_streams, shape_of

# The inputs of join predicates from one event: attributes, and functions of them.
#
# A function, a CASE or a LIKE of one event's attributes is evaluated once per event, on columns,
# and stored in a register like an attribute.


Read = str | FunctionCall | Case
"""The name of an attribute, or an expression of attributes without alias."""


def reads(node: Expression | Predicate | None) -> Iterator[Read]:
    """Yield everything that ``node`` reads, with repeats."""
    if isinstance(node, Attribute):
        yield node.name
    elif isinstance(node, Likeness):
        yield from reads(flag(node))
    elif isinstance(node, FunctionCall | Case) and len(aliases_of(node)) == 1:
        yield bare(node)
    else:
        written = chosen(node) if isinstance(node, FunctionCall) else None
        for part in parts_of(written or node):
            yield from reads(part)


def aliases_of(node: Expression) -> set[str | None]:
    """Return the aliases of the events that ``node`` reads."""
    return {attribute.alias for attribute in attributes_in(node)}


def flag(node: Likeness) -> Case:
    """Return a CASE that is 1 if ``node`` is true, 0 if it is false, else null."""
    false = Logic("not", (node,))
    return Case(((node, Constant(True)), (false, Constant(False))), None)


def chosen(node: FunctionCall) -> Case | None:
    """Return the CASE equivalent to a function of numbers; None: there is none."""
    first, *_ = node.arguments
    *inner, last = node.arguments
    match node.function:
        case "abs":
            opposite = Comparison("<", first, Constant(0))
            return Case(((opposite, Arithmetic("-", Constant(0), first)),), first)
        case "coalesce":
            return Case(tuple((Presence(each), each) for each in inner), last)
        case "least" | "greatest":
            op = "<=" if node.function == "least" else ">="
            return Case(tuple((_best(each, node.arguments, op), each) for each in inner), last)
    return None


def _best(one: Expression, among: tuple[Expression, ...], op: str) -> Logic:
    """Return the condition: ``one`` is not null, and ``one op other`` for all others not null."""
    beside = [
        Logic("or", (Logic("not", (Presence(other),)), Comparison(op, one, other)))
        for other in among
        if other is not one
    ]
    return Logic("and", (Presence(one), *beside))


# The builder of the tables.


class Ranges(NamedTuple):
    """Ranges of rows: of pairs of steps, and of their relations."""

    pairs: tuple[int, int]
    relations: tuple[int, int]


class Builder(Struct):
    """Collects the rows of all tables.

    ``steps``: by alias. ``rows``: by table. ``registers``, ``keyed``: numbers of registers.
    """

    steps: dict[str, Step]
    rows: dict[str, list[tuple[int, ...]]] = field(default_factory=lambda: {n: [] for n in RECORDS})
    registers: dict[Read, int] = field(default_factory=dict)
    keyed: dict[str, int] = field(default_factory=dict)
    predicates: list[Predicate] = field(default_factory=list)
    indexes: dict[tuple[int, tuple[str, ...], int], int] = field(default_factory=dict)

    def tables(self) -> Tables:
        """Return the tables with the rows so far."""
        return Tables(**{name: np.array(self.rows[name], RECORDS[name]) for name in RECORDS})

    def add(self, table: str, more: Iterable[tuple[int, ...]]) -> tuple[int, int]:
        """Append rows; return their range."""
        rows = self.rows[table]
        start = len(rows)
        rows += more
        return start, len(rows)

    def pairs(self, step: int, related: dict[int, list[Related]]) -> Ranges:
        """Add the pairs of ``step`` with ``related`` steps; return the ranges."""
        first, rows = len(self.rows["relations"]), []
        for other, relations in related.items():
            rows.append((step, other, *self.add("relations", relations)))
        return Ranges(self.add("pairs", rows), (first, len(self.rows["relations"])))

    def place(self, alias: str | None) -> int:
        return list(self.steps).index(str(alias))

    def key(self, name: str) -> int:
        """Return the register of an attribute in an equality."""
        return self.keyed.setdefault(name, len(self.keyed))

    def condition(self, predicate: Predicate) -> tuple[int, int]:
        for read in reads(predicate):
            self.registers.setdefault(read, len(self.registers))
        if predicate not in self.predicates:
            self.predicates.append(predicate)
        return self.predicates.index(predicate), int(is_clocked(predicate))

    def index(self, step: int, keys: Sequence[Attribute], by_end: int = 0) -> int:
        """Return the number of the index of ``step`` by its attributes ``keys``."""
        name = (step, tuple(attribute.name for attribute in keys), by_end)
        if name not in self.indexes:
            self.indexes[name] = len(self.indexes)
            registers = self.add("registers", [(self.key(a.name),) for a in keys])
            self.add("indexes", [(step, *registers, by_end)])
        return self.indexes[name]


def exact_and_clocked(step: Step) -> tuple[list[Predicate], list[Predicate]]:
    """Return the conditions on the step's event alone: exact ones, and those of clock errors."""
    where = step.where
    terms = where.terms if isinstance(where, Logic) and where.op == "and" else (where,)
    known = [term for term in terms if term is not None]
    return [t for t in known if not is_clocked(t)], [t for t in known if is_clocked(t)]


# The scope of a negated step.


def after_first(plan: SeqPlan, between: Between) -> Predicate:
    """Return the condition that the negated step begins after any of ``between.after_first``.

    No range of starts can express it.
    """
    alias = [step.alias for step in plan.steps]
    mine = Attribute("ts", alias[between.step])
    terms = [Comparison("<", Attribute("ts", alias[x]), mine) for x in between.after_first]
    return Logic("or", tuple(terms))


class CompiledScope(Struct, frozen=True):
    """The scope of a negated step: its row, the equalities that join it, and its bounds."""

    number: int
    step: int
    groups: list[int]
    ends: list[Related]
    joined: bool

    def related(self, step: int) -> list[Related]:
        """Return the bounds of the scope by the positive ``step``."""
        return [end for end in self.ends if step in (end.left, end.right)]

    @property
    def sides(self) -> tuple[int, int] | None:
        """The steps that bound it below and above.

        None: there are several on a side, or conditions other than keys join it with other steps.
        """
        lower = [end.left for end in self.ends if end.right == self.step]
        upper = [end.right for end in self.ends if end.left == self.step]
        if len(lower) != 1 or len(upper) != 1 or self.joined:
            return None
        return lower[0], upper[0]


def check_negated(plan: SeqPlan) -> None:
    """Check the negated steps of a plan from Python; ``engine.query`` checks query texts.

    Raises:
        UserError: every step is negated, or one at an end has no WITHIN.
    """
    if all(step.negated for step in plan.steps):
        raise UserError(f"query {plan.name!r}: every step is negated; leave one positive")
    if of_intervals(plan):
        return
    for end in (plan.steps[0], plan.steps[-1]):
        if end.negated and plan.within_ns is None:
            alias, half, _ = end.alias.partition("\0")  # interval.trees names the other half so
            why = "may be half known, for ever" if half else "is negated at an end"
            raise UserError(f"query {plan.name!r}: {alias!r} {why}: add WITHIN")


# A query as tables of records for the kernel (``search.construction``).
#
# A *join order* is the order in which the other positive steps are found, starting from an event of
# one step: backwards from it, then forwards. From an event of a negated step the later steps come
# first: in a nearly ordered stream there are none yet, so the search ends at once. A *probe* finds
# one step. It has an index, a key, the relations to the steps already found, the conditions that
# can be tested from here on, and the scopes of negated steps that it bounds.
#
# The branches of an OR share steps (by alias), events and indexes; each has its own join orders.


_P = TypeVar("_P", bound=Plan)


class Layout(Struct, eq=False):
    """The tables of a query and the meaning of their numbers.

    ``steps``: the steps of all branches, each alias once. ``shapes``: per branch. ``places``: per
    branch, the numbers of its steps in ``steps``. ``reads``: the content of each register of
    conditions. ``keyed``: attribute by register of keys. ``predicates``: by number.
    ``step_conditions``: per step, the conditions on its event alone that clock errors do not
    change. ``by_ends``: whether it is an ISEQ; its intervals arrive and are ordered by their ends.
    ``place``: number of the step by alias. ``register``: inverse of ``reads``. ``negated``: per
    scope the step, and whether it may be at the front, as in an ISEQ.
    """

    tables: Tables
    steps: tuple[Step, ...]
    branches: tuple[SeqPlan, ...]
    shapes: list[Shape]
    places: list[tuple[int, ...]]
    reads: list[Read]
    keyed: list[str]
    predicates: list[Predicate]
    step_conditions: list[Predicate | None]
    by_ends: bool
    place: dict[str, int]
    register: dict[Read, int]
    negated: list[tuple[int, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for number, scope in enumerate(self.tables.scopes):
            step, ends = int(scope["step"]), relations_in(self.tables, number)
            leading = (ends["right"] == step) & (ends["strict"] == 0)
            self.negated.append((step, self.by_ends or bool(leading.any())))


def members_of(tables: Tables, branch: int) -> np.ndarray:
    """Return the positive steps of a branch."""
    of = tables.branches[branch]
    return np.asarray(tables.members["step"][of["members_from"] : of["members_to"]])


def relations_in(tables: Tables, scope: int) -> np.ndarray:
    """Return the relations that bound a scope."""
    of = tables.scopes[scope]
    return tables.relations[of["relations_from"] : of["relations_to"]]


def layout_of(plan: Plan, index: str = IBP) -> Layout:
    """Return the layout of a plan; all sites of a run share it, and it is never changed.

    ``index``: the index of an ISEQ (``engine.query.joins``).

    Raises:
        UserError: the index is unknown, or a negated step has no bounds.
    """
    return _layout_of(SamePlan(plan), index)


@dataclass(frozen=True, slots=True, eq=False)
class SamePlan(Generic[_P]):
    """A plan compared by identity: plans with 1 and 1.0 compare equal but differ."""

    plan: _P

    def __hash__(self) -> int:
        return id(self.plan)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SamePlan) and other.plan is self.plan


@lru_cache(maxsize=64)
def _layout_of(key: SamePlan[Plan], index: str) -> Layout:
    plan = key.plan
    check_index(index)
    branches = plan.branches
    for each in branches:
        check_negated(each)
    steps = {step.alias: step for step in plan.steps}
    builder = Builder(steps)
    made = [_Branch(builder, number, plan, index) for number, plan in enumerate(branches)]
    for branch in made:
        branch.build()
    reads = list(builder.registers)
    return Layout(
        builder.tables(), tuple(steps.values()), tuple(branches), [b.shape for b in made],
        [b.places for b in made], reads, list(builder.keyed), builder.predicates,
        [conjunction(exact_and_clocked(step)[0]) for step in steps.values()],
        of_intervals(branches[0]), {alias: number for number, alias in enumerate(steps)},
        {read: number for number, read in enumerate(reads)},
    )  # fmt: skip


class _Branch:
    """Adds the rows of one branch; its methods number steps as in all branches."""

    def __init__(self, builder: Builder, number: int, plan: SeqPlan, index: str) -> None:
        self.builder, self.number, self.plan = builder, number, plan
        self.shape = shape_of(plan)
        self.places = tuple(builder.place(step.alias) for step in plan.steps)
        self.positive = tuple(self.places[step] for step in self.shape.positive)
        self.before = {(self.places[x], self.places[y]) for x, y in self.shape.before}
        self.joins = Joins(plan, self.shape, index) if of_intervals(plan) else None
        inferred = closed(plan, self.shape, self.places) if of_intervals(plan) else []
        self.relations = relations_of(plan, self.shape, self.places, inferred)
        self.groups = [
            {builder.place(a.alias): a for a in group if a.alias is not None}
            for group in plan.equalities
        ]
        self.alone = {
            place: exact_and_clocked(step)[1]
            for place, step in zip(self.places, plan.steps, strict=True)
        }
        """Per step, conditions on its event alone that clock errors may change."""
        self.others = list(plan.others)
        self.scopes: dict[int, CompiledScope] = {}
        if plan.workdays is not None:
            self._count_workdays(plan.workdays)

    def build(self) -> None:
        add = self.builder.add
        first_scope = len(self.builder.rows["scopes"])
        for between in self.shape.between:
            self._scope(between)
        first_pair, first_relation = (len(self.builder.rows[t]) for t in ("pairs", "relations"))
        for number, mine in enumerate(self.positive):
            related = self._related(mine, self.positive[number + 1 :])
            self.builder.pairs(mine, {other: found for other, found in related.items() if found})
        pairs = (first_pair, len(self.builder.rows["pairs"]))
        relations = (first_relation, len(self.builder.rows["relations"]))
        members = add("members", [(step,) for step in self.positive])
        scopes = (first_scope, len(self.builder.rows["scopes"]))
        predicates = [p for place in self.positive for p in self.alone[place]]
        predicates += [
            p for p in self.others if is_clocked(p) and self._steps_of(p) <= {*self.positive}
        ]
        conditions = add("conditions", [self.builder.condition(p) for p in predicates])
        add("branches", [(*scopes, *pairs, *members, *conditions, *relations)])
        for place, step in zip(self.places, self.plan.steps, strict=True):
            self._join_order(place, negated=step.negated)

    def _related(self, mine: int, others: Sequence[int]) -> dict[int, list[Related]]:
        """Return the relations of the positive step ``mine`` with each of ``others``."""
        return {
            other: [each for each in self.relations if {each.left, each.right} == {mine, other}]
            for other in others
        }

    def _count_workdays(self, period: Period) -> None:
        """Add WITHIN in workdays as conditions.

        Its relations only bound the search, by the longest duration of the workdays.
        """
        at, ends, pairs = self.places, not of_streams(self.plan), [*self.shape.within]
        # The duration of each step, unless it ends before others begin.
        alone = range(len(at)) if self.joins else self.shape.firsts if ends else ()
        pairs += [(step, step) for step in alone]
        near = [soon_after(at[x], at[y], 1, ends=ends) for x, y in pairs]
        near += [e for between in self.shape.between for e in self._ends(between) if e.bound]
        alias = list(self.builder.steps)
        for each in near:
            last = Attribute("te" if each.left_end else "ts", alias[each.left])
            within = InWorkdays("<=", last, Attribute("ts", alias[each.right]), period)
            if each.left == each.right:
                self.alone[each.left].append(within)
            else:
                self.others.append(within)

    def _scope(self, between: Between) -> None:
        step = self.places[between.step]
        joined = [
            number for number, group in enumerate(self.groups)
            if step in group and any(p in group for p in self.positive)
        ]  # fmt: skip
        others = [p for p in self.others if step in self._steps_of(p)]
        others += self.alone[step]
        if between.after_first:
            others.append(after_first(self.plan, between))
        ends = self._ends(between)
        more = (
            bool(others)
            or of_intervals(self.plan)
            or any(self._may_lie(p, step, ends) for p in self.positive)
        )
        scope = CompiledScope(len(self.builder.rows["scopes"]), step, joined, ends, more)
        self.scopes[step] = scope
        related: dict[int, list[Related]] = {}
        for end in ends:
            related.setdefault(end.right if end.left == step else end.left, []).append(end)
        pairs, relations = self.builder.pairs(step, related)
        self.builder.add("scopes", [(
            self.number, step, self._index(step, joined), *self._keys(step, joined, self.positive),
            *pairs, *self.builder.add("conditions", [self.builder.condition(p) for p in others]),
            *relations,
        )])  # fmt: skip

    def _may_lie(self, positive: int, negated: int, ends: list[Related]) -> bool:
        """Return whether one event may be of both steps and lie in the scope.

        Such an event does not invalidate its own match, so it must not end a search either.
        """
        steps = list(self.builder.steps.values())
        outside = [
            (end.right, positive) if end.left == negated else (positive, end.left)
            for end in ends
            if end.strict
        ]
        apart = any(x == y or (x, y) in self.before for x, y in outside)
        one, two = steps[positive], steps[negated]
        kinds, others = ({*step.types} or {step.type} for step in (one, two))
        alike = ANY_TYPE in kinds | others or not kinds.isdisjoint(others)
        shares = not (one.streams and two.streams) or {*one.streams} & {*two.streams}
        return alike and not apart and bool(shares)

    def _ends(self, between: Between) -> list[Related]:
        """Return the relations of an event in the scope."""
        if of_intervals(self.plan):
            inferred = closed_with(self.plan, self.shape, self.places, between.step)
            mine = self.places[between.step]
            return counts_when(self.plan, self.shape, self.places, mine, inferred)
        at, within_ns, mine = self.places, self.plan.within_ns or 0, self.places[between.step]
        found = [starts_before(at[step], mine) for step in between.left]
        if between.leading:
            found += [soon_after(mine, at[step], within_ns) for step in self.shape.lasts]
        found += [starts_before(mine, at[step]) for step in between.right]
        if not between.right and not between.anywhere:
            found += [soon_after(at[step], mine, within_ns) for step in self.shape.firsts]
        return found

    def _keys(self, step: int, groups: list[int], known: Sequence[int]) -> tuple[int, int]:
        """Add per group the register of ``step`` and a known step with its register."""
        register, rows = self.builder.key, []
        for number in groups:
            group = self.groups[number]
            other = next(k for k in known if k in group)
            rows.append((register(group[step].name), other, register(group[other].name)))
        return self.builder.add("keys", rows)

    def _index(self, step: int, groups: list[int], by_end: int = 0) -> int:
        keys = [self.groups[group][step] for group in groups]
        return self.builder.index(step, keys, by_end)

    def _steps_of(self, predicate: Predicate) -> set[int]:
        return {self.builder.place(a.alias) for a in attributes_in(predicate)}

    def _join_order(self, start: int, *, negated: bool) -> None:
        earlier = [step for step in reversed(self.positive) if step < start]
        later = [step for step in self.positive if step > start]
        known, pending = [start], list(self.others)
        pending += [p for place in {start, *self.positive} for p in self.alone[place]]
        probes: list[tuple[int, ...]] = []
        steps = later + earlier if negated else earlier + later
        if self.plan.joins:
            mine = in_order(self.plan, self.plan.joins, self.places.index(start))
            steps = [self.places[n] for n in mine]
        if self.joins is not None:
            steps = [self.places[n] for n in self.joins.order(self.places.index(start))]
        for step in steps:
            ready = [p for p in pending if self._steps_of(p) <= {*known, step}]
            pending = [p for p in pending if p not in ready]
            pivot = self.scopes[start] if negated else None
            probes.append(self._probe(step, known, ready, pivot))
            known.append(step)
        scope = self.scopes[start].number if negated else NONE
        range_ = self.builder.add("probes", probes)
        floors = self.builder.add("floors", [] if negated else self._floors(start, probes))
        self.builder.add("join_orders", [(self.number, start, scope, *range_, *floors)])

    def _floors(self, start: int, probes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """Return the places of an ISEQ's indexed chain that follow from the event of ``start``."""
        found: list[tuple[int, ...]] = []
        index_of = {probe[0]: probe[1] for probe in probes}
        for at, by_end, strict in self.joins.chain() if self.joins is not None else ():
            step = self.places[at]
            if step == start:
                found.append((step, NONE, 0, 0, by_end, strict))
                continue
            groups = [n for n, group in enumerate(self.groups) if step in group and start in group]
            attributes = [self.groups[group][step] for group in groups]
            name = (step, tuple(attribute.name for attribute in attributes), by_end)
            if self.builder.indexes.get(name, NONE) == index_of[step]:
                keys = self._keys(step, groups, [start])
                found.append((step, index_of[step], *keys, by_end, strict))
        return found

    def _probe(
        self, step: int, known: list[int], ready: list[Predicate], pivot: CompiledScope | None
    ) -> tuple[int, ...]:
        groups = [
            number for number, group in enumerate(self.groups)
            if step in group and any(k in group for k in known)
        ]  # fmt: skip
        others = [k for k in known if not pivot or k != pivot.step]
        related = self._related(step, others)
        if self.joins is not None:
            related = self._fewest(step, others, related)
        if pivot is not None and (ends := pivot.related(step)):
            related[pivot.step] = ends
        relations = [each for of in related.values() for each in of]
        by = BY_START
        if self.joins is not None:
            by = self.joins.sorted_by(self.places.index(step), relations, step)
        by_end = int(by != BY_START)
        with_pivot = [p for p in ready if pivot is not None and pivot.step in self._steps_of(p)]
        first = [p for p in ready if p not in with_pivot]
        from_, to = self.builder.add(
            "conditions", [self.builder.condition(p) for p in (*first, *with_pivot)]
        )
        return (
            step, self._index(step, groups, by_end), *self._keys(step, groups, known),
            *self.builder.pairs(step, related).pairs, from_, to,
            *self.builder.add("bounds", self._bounds(step, known, pivot)),
            int(reads_end(START if by_end else END, step, relations)), by, to - len(with_pivot),
        )  # fmt: skip

    def _fewest(
        self, step: int, others: list[int], related: dict[int, list[Related]]
    ) -> dict[int, list[Related]]:
        """Return ``related`` of an ISEQ without the relations that others imply."""
        assert self.joins is not None
        at = self.places.index
        probed = self.joins.of_probe(at(step), [at(other) for other in others], self.places)
        kept = {
            other: [each for each in of if each.bound or each in probed]
            for other, of in related.items()
        }
        return {other: of for other, of in kept.items() if of}

    def _bounds(
        self, step: int, known: list[int], pivot: CompiledScope | None
    ) -> list[tuple[int, ...]]:
        """Return the scopes with ``step`` on one side whose other side or event is known."""
        found: list[tuple[int, ...]] = []
        for scope in self.scopes.values():
            keyed = all(any(k in self.groups[g] for k in known) for g in scope.groups)
            is_pivot, sides = pivot is scope, scope.sides
            if sides is None or not keyed or (sides[0] == sides[1] and not is_pivot):
                continue
            for side, end, other in ((LOW, *sides), (HIGH, *sides[::-1])):
                if end == step and (is_pivot or other in known):
                    keys = self._keys(scope.step, scope.groups, known)
                    found.append((scope.number, side, int(is_pivot), *keys))
        return found
