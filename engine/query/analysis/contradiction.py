"""Finds conditions that exclude each other: ``x > 5 AND x < 3``, ``a.x < b.x AND b.x < a.x``.

Looks at comparisons joined by AND, between values (attributes, or sums and the like, each a value
by its form) and with constants. What it finds is certain; what it does not find may still be
contradictory. Values that must be equal become one; what must not be above another is ordered,
and a circle of it is one value too; the smallest value that each can still have is handed on along
that order. A comparison with null is neither true nor false, so every value compared is there and
not NaN. What is merely not true (``untrue``) says something only of values that others show to be
there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from graphlib import CycleError, TopologicalSorter

from msgspec import Struct

from engine.query.analysis.ranges import Bound, Range
from engine.query.fields import FIELDS, ValueKind
from engine.query.plan import (
    MIRRORED,
    OPPOSITE,
    Attribute,
    Comparison,
    Constant,
    Expression,
    Logic,
    Membership,
    Predicate,
)


class Conflict(Struct, frozen=True):
    """``place`` of the first condition that the ones before it exclude, ``others`` of those that
    do so, none of them to spare. ``mixed``: a value that is text in one and a number in another.
    """

    place: int
    others: tuple[int, ...]
    mixed: Expression | None


def find_conflict(
    conditions: Sequence[Predicate], untrue: Sequence[Predicate] = ()
) -> Conflict | None:
    """The first of ``conditions`` that cannot be true together with those before it, and after
    them of those that shall be ``untrue``: false or unknown.
    """
    facts = [list(_facts(each, truth=True, denied=False)) for each in conditions]
    facts += [list(_facts(each, truth=False, denied=True)) for each in untrue]
    if _System(facts).holds():
        return None
    place = _first(len(facts), lambda count: not _System(facts[: count + 1]).holds())
    core = [place]
    while _System([facts[each] for each in core]).holds():
        # Of those before ``place``, the last one with which, and with all after it, the core is
        # excluded: it belongs to the core, and those before it are not needed.
        def fine(start: int) -> bool:
            return _System([*facts[start:place], *(facts[each] for each in core)]).holds()

        core.append(_first(place + 1, fine) - 1)
    system = _System([facts[each] for each in core])
    system.holds()
    return Conflict(place, tuple(sorted(core[1:])), system.mixed)


def _first(count: int, found: Callable[[int], bool]) -> int:
    """The least number below ``count`` from which on ``found`` holds; it holds for the last."""
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        if found(middle):
            high = middle
        else:
            low = middle + 1
    return low


class _Relation(Struct, frozen=True):
    """``left op right``; ``op`` is one of ``= != < <=``. ``denied``: it holds if both are there."""

    op: str
    left: Expression
    right: Expression
    denied: bool

    @property
    def values(self) -> tuple[Expression, ...]:
        return self.left, self.right


class _Limit(Struct, frozen=True):
    """``value op one of constants``; more than one constant with ``=`` alone. ``denied``: it holds
    if the value is there.
    """

    op: str
    value: Expression
    constants: tuple[int | float | str | bool, ...]
    denied: bool

    @property
    def values(self) -> tuple[Expression, ...]:
        return (self.value,)


_Fact = _Relation | _Limit


def _facts(condition: Predicate, *, truth: bool, denied: bool) -> Iterable[_Fact]:
    """What follows of ``condition`` being ``truth``, as far as it is looked at; ``denied``: or
    being unknown.
    """
    match condition:
        case Comparison(op=op, left=left, right=right):
            yield from _compared(op if truth else OPPOSITE[op], left, right, denied=denied)
        case Membership(item=item, options=options) if truth:
            constants = tuple(option.value for option in options)
            yield _Limit("=", _known_as(item), constants, denied)
        case Membership(item=item, options=options):
            for option in options:
                yield _Limit("!=", _known_as(item), (option.value,), denied)
        case Logic(op="not", terms=(term,)):
            yield from _facts(term, truth=not truth, denied=denied)
        case Logic(op=op, terms=terms) if (op == "and") == truth:
            for term in terms:
                yield from _facts(term, truth=truth, denied=denied)


def _compared(op: str, left: Expression, right: Expression, *, denied: bool) -> Iterable[_Fact]:
    if isinstance(left, Constant) and isinstance(right, Constant):
        return
    if isinstance(left, Constant):
        yield _Limit(MIRRORED[op], _known_as(right), (left.value,), denied)
    elif isinstance(right, Constant):
        yield _Limit(op, _known_as(left), (right.value,), denied)
    elif op in {">", ">="}:
        yield _Relation(MIRRORED[op], _known_as(right), _known_as(left), denied)
    else:
        yield _Relation(op, _known_as(left), _known_as(right), denied)


def _known_as(value: Expression) -> Expression:
    """One form for one value: ``ref`` is another name of ``ts``."""
    if isinstance(value, Attribute) and value.name == "ref":
        return Attribute("ts", value.alias)
    return value


def _always_there(value: Expression) -> bool:
    return isinstance(value, Attribute) and FIELDS.get(value.name) == ValueKind.TIME


class _System:
    """Everything that some conditions ask of the values they name."""

    def __init__(self, facts: Iterable[Iterable[_Fact]]) -> None:
        self._parent: dict[Expression, Expression] = {}
        self._relations: list[_Relation] = []
        self._limits: list[_Limit] = []
        told = [fact for group in facts for fact in group]
        there = {value for fact in told if not fact.denied for value in fact.values}
        for fact in told:
            if not all(value in there or _always_there(value) for value in fact.values):
                continue
            if isinstance(fact, _Limit):
                self._limits.append(fact)
            else:
                self._relations.append(fact)
        self.mixed: Expression | None = None

    def holds(self) -> bool:
        """Whether nothing was found that speaks against it."""
        self.mixed = self._text_and_number()
        if self.mixed is not None:
            return False
        self._parent = {}
        for relation in self._relations:
            if relation.op == "=":
                self._unite(relation.left, relation.right)
        downwards = self._downwards()
        for relation in self._relations:
            same = self._root(relation.left) == self._root(relation.right)
            if same and relation.op in {"!=", "<"}:
                return False
        return self._ranges_hold(downwards)

    def _text_and_number(self) -> Expression | None:
        """A value that is compared with text and with a number, be it through others."""
        self._parent = {}
        for relation in self._relations:
            self._unite(relation.left, relation.right)
        kinds: dict[Expression, bool] = {}
        for limit in self._limits:
            text = isinstance(limit.constants[0], str)
            if kinds.setdefault(self._root(limit.value), text) != text:
                return limit.value
        return None

    def _root(self, value: Expression) -> Expression:
        path = []
        while (above := self._parent.get(value, value)) != value:
            path.append(value)
            value = above
        for each in path:
            self._parent[each] = value
        return value

    def _unite(self, left: Expression, right: Expression) -> None:
        first, second = self._root(left), self._root(right)
        if first != second:
            self._parent[second] = first

    def _edges(self) -> dict[Expression, list[tuple[Expression, bool]]]:
        """By value, those that must not be below it, and whether they must be above it."""
        edges: dict[Expression, list[tuple[Expression, bool]]] = defaultdict(list)
        for relation in self._relations:
            if relation.op in {"<", "<="}:
                pair = self._root(relation.right), relation.op == "<"
                edges[self._root(relation.left)].append(pair)
        return edges

    def _downwards(self) -> list[Expression]:
        """Values, those that must not be below one before it; a circle of ``<=`` becomes one."""
        while True:
            above = {
                value: [higher for higher, _ in edges if higher != value]
                for value, edges in self._edges().items()
            }
            try:
                return list(TopologicalSorter(above).static_order())
            except CycleError as error:
                first, *others = error.args[1]
                for each in others:
                    self._unite(first, each)

    def _ranges_hold(self, downwards: Sequence[Expression]) -> bool:
        ranges: dict[Expression, Range] = defaultdict(Range)
        for limit in self._limits:
            ranges[self._root(limit.value)].narrow(limit.op, limit.constants)
        edges = self._edges()
        for value in reversed(downwards):
            if ranges[value].empty():
                return False
            least = ranges[value].least()
            for above, strict in edges.get(value, ()):
                if least is not None and above != value:
                    ranges[above].raise_low(Bound(least.value, least.inclusive and not strict))
        return not any(each.empty() for each in ranges.values())
