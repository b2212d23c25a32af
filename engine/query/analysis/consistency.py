"""Refuses a WHERE that can never be true, and names the conditions that exclude each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Final

from msgspec import Struct, field

from engine.errors import UserError
from engine.query.analysis.typed import Context
from engine.query.fields import FIELDS, ValueKind, attributes_in
from engine.query.language.place import Span, listed, printable
from engine.query.plan import (
    MIRRORED,
    OPPOSITE,
    Arithmetic,
    Attribute,
    Comparison,
    Constant,
    Expression,
    Logic,
    Membership,
    Predicate,
    SeqPlan,
)
from engine.query.shape import Shape, shape_of
from engine.stream.timeline import ANY_TYPE

# What comparisons with constants leave for one value.


Value = int | float | str | bool


class Bound(Struct, frozen=True):
    """``value`` itself is allowed if ``inclusive``."""

    value: Value
    inclusive: bool


class Range(Struct):
    """Bounds, the values allowed (None: any) and those excluded; text and numbers never mix."""

    low: Bound | None = None
    high: Bound | None = None
    allowed: tuple[Value, ...] | None = None
    excluded: set[Value] = field(default_factory=set)

    def narrow(self, op: str, constants: tuple[Value, ...]) -> None:
        """Leaves what is ``op`` (one of ``= != < <= > >=``) one of ``constants``."""
        constant = constants[0]
        if op == "!=":
            self.excluded.add(constant)
        elif op == "=":
            keep = constants if self.allowed is None else self.allowed
            self.allowed = tuple(kept for kept in keep if kept in constants)
        elif op in {">", ">="}:
            self.raise_low(Bound(constant, op == ">="))
        elif self.high is None or _less(constant, self.high.value):
            self.high = Bound(constant, op == "<=")
        elif constant == self.high.value:
            self.high = Bound(constant, self.high.inclusive and op == "<=")

    def raise_low(self, low: Bound) -> None:
        """Leaves what is not below ``low``."""
        if self.low is None or _less(self.low.value, low.value):
            self.low = low
        elif low.value == self.low.value:
            self.low = Bound(low.value, self.low.inclusive and low.inclusive)

    def least(self) -> Bound | None:
        """Nothing allowed is below it; None: no such bound is known."""
        inside = [value for value in self.allowed or () if self._inside(value)]
        if not inside:
            excluded = self.low is not None and self.low.value in self.excluded
            return Bound(self.low.value, inclusive=False) if self.low and excluded else self.low
        least = inside[0]
        for value in inside:
            least = value if _less(value, least) else least
        return Bound(least, inclusive=True)

    def empty(self) -> bool:
        if self.allowed is not None:
            return not any(self._inside(value) for value in self.allowed)
        if self.low is None or self.high is None:
            return False
        low, high = self.low.value, self.high.value
        if low == high:
            both = self.low.inclusive and self.high.inclusive
            return not (both and low not in self.excluded)
        return _less(high, low)

    def _inside(self, value: Value) -> bool:
        if value in self.excluded:
            return False
        low, high = self.low, self.high
        if low and (_less(value, low.value) or (value == low.value and not low.inclusive)):
            return False
        return not high or _less(value, high.value) or (value == high.value and high.inclusive)


def _less(left: Value, right: Value) -> bool:
    if isinstance(left, str) or isinstance(right, str):
        return isinstance(left, str) and isinstance(right, str) and left < right
    return left < right


# Finds conditions that exclude each other: ``x > 5 AND x < 3``, ``a.x < b.x AND b.x < a.x``.
#
# Looks at comparisons joined by AND, between values (attributes, or sums and the like, each a value
# by its form) and with constants. What it finds is certain; what it does not find may still be
# contradictory. Values that must be equal become one; what must not be above another is ordered,
# and a circle of it is one value too; the smallest value that each can still have is handed on
# along that order. A comparison with null is neither true nor false, so every value compared is
# there and not NaN. What is merely not true (``untrue``) says something only of values that others
# show to be there.


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


# Refuses a WHERE that can never be true, and says which of its conditions exclude which.
#
# Beside the conditions themselves, what the pattern says is known: who comes before whom, how far
# apart they may be, and of which type they are.


Term = tuple[Predicate, Span]
"""One conjunct and where it stands."""
_Known = tuple[Comparison, str]
"""What holds without being written, and how it is told."""
_SHOWN_CHARS: Final = 60


def check_select(terms: Sequence[Term], context: Context) -> None:
    """Refuses conjuncts on one event that exclude each other.

    Raises:
        UserError: with the first conjunct that those before it exclude.
    """
    conflict = find_conflict([predicate for predicate, _ in terms])
    if conflict is not None:
        raise _refusal(conflict, terms, [], context)


def check_pattern(terms: Sequence[Term], plan: SeqPlan, context: Context) -> None:
    """Refuses conjuncts that exclude each other or what the pattern of ``plan`` says.

    What a negated step must not have is no condition on the others: each is looked at with them
    alone. That no event can satisfy it is no fault, as nothing then stands against a match
    (``never_counts``); but text beside a number is a slip there too.

    Raises:
        UserError: with the first conjunct that those before it exclude.
    """
    negated = {step.alias for step in plan.steps if step.negated}
    found: tuple[int, UserError] | None = None
    for alias in [None, *sorted(negated)]:
        conflict, chosen, known = _conflict(terms, alias, plan)
        if conflict is None or (alias is not None and conflict.mixed is None):
            continue
        place = chosen[conflict.place - len(known)]
        if found is None or place < found[0]:
            found = place, _refusal(conflict, [terms[each] for each in chosen], known, context)
    if found is not None:
        raise found[1]


def never_counts(predicates: Sequence[Predicate], alias: str, plan: SeqPlan) -> bool:
    """Whether what ``predicates`` ask of the negated step ``alias`` excludes itself."""
    nowhere = (0, 0)
    return _conflict([(each, nowhere) for each in predicates], alias, plan)[0] is not None


def _conflict(
    terms: Sequence[Term], alias: str | None, plan: SeqPlan
) -> tuple[Conflict | None, list[int], list[_Known]]:
    """Of the ``terms`` on positive steps and, if ``alias`` is one, on this negated step; with the
    places of these terms, and what is known besides.
    """
    negated = {step.alias for step in plan.steps if step.negated}
    scope = set[str]() if alias is None else {alias}
    named = [{str(each.alias) for each in attributes_in(predicate)} for predicate, _ in terms]
    chosen = [place for place, names in enumerate(named) if names & negated <= scope]
    if scope and not any(named[place] & scope for place in chosen):
        return None, chosen, []
    mine = [terms[place] for place in chosen]
    known = list(_known(mine, plan, shape_of(plan)))
    return find_conflict([each for each, _ in known] + [each for each, _ in mine]), chosen, known


def _refusal(
    conflict: Conflict, terms: Sequence[Term], known: Sequence[_Known], context: Context
) -> UserError:
    at = terms[conflict.place - len(known)][1]
    if conflict.mixed is not None:
        value = conflict.mixed
        name = "this value"
        if isinstance(value, Attribute):
            name = f"{value.alias}.{value.name}" if value.alias else value.name
        hint = f"{name} is compared with text here and with a number elsewhere"
        return context.refuse(at, "this can never be true", hint)
    written = [each for each in conflict.others if each >= len(known)]
    implied = [each for each in conflict.others if each < len(known)]
    phrases = [_shown(context.text, terms[each - len(known)][1]) for each in written]
    phrases += [known[each][1] for each in implied]
    hint = (
        f"excluded by {printable(listed(dict.fromkeys(phrases)))}"
        if phrases
        else "no value can do this"
    )
    return context.refuse(at, "this can never be true", hint)


def _shown(text: str, at: Span) -> str:
    end = at[1]
    # The place of IN ends with its last value.
    while text.count("(", at[0], end) > text.count(")", at[0], end) and text[end:][:1] in (
        " ",
        ")",
    ):
        end += 1
    words = printable(" ".join(text[at[0] : end].split()))
    return words if len(words) <= _SHOWN_CHARS else words[: _SHOWN_CHARS - 3] + "..."


def _known(terms: Sequence[Term], plan: SeqPlan, shape: Shape) -> Iterator[_Known]:
    """What the pattern says of the values that ``terms`` name."""
    places = {step.alias: place for place, step in enumerate(plan.steps)}
    named = dict.fromkeys(each for predicate, _ in terms for each in attributes_in(predicate))
    timed = {places[str(each.alias)] for each in named if each.name in {"ts", "ref"}}
    for x, y in sorted(_order(shape)):
        if x in timed and y in timed:
            earlier, later = plan.steps[x].alias, plan.steps[y].alias
            told = f"the pattern, which has {earlier} before {later}"
            yield Comparison("<", Attribute("ts", earlier), Attribute("ts", later)), told
    for each in named:
        if each.name == "type":
            kind = plan.steps[places[str(each.alias)]].type
            if kind == ANY_TYPE:
                continue
            yield Comparison("=", each, Constant(kind)), f"the type of {each.alias}, {kind!r}"
    for gap in dict.fromkeys(_gaps(terms)):
        y, x = (places[str(each.alias)] for each in attributes_in(gap))
        yield from _apart(gap, x, y, plan, shape)


def _order(shape: Shape) -> Iterator[tuple[int, int]]:
    yield from shape.before
    for between in shape.between:
        yield from ((x, between.step) for x in between.left)
        yield from ((between.step, y) for y in between.right)


def _apart(gap: Arithmetic, x: int, y: int, plan: SeqPlan, shape: Shape) -> Iterator[_Known]:
    """What is known of ``gap``, by how much step y is later than step x."""
    aliases = plan.steps[x].alias, plan.steps[y].alias
    if (x, y) in shape.before:
        told = f"the pattern, which has {aliases[0]} before {aliases[1]}"
        yield Comparison(">", gap, Constant(0)), told
    if (y, x) in shape.before:
        told = f"the pattern, which has {aliases[1]} before {aliases[0]}"
        yield Comparison("<", gap, Constant(0)), told
    if plan.within_ns is not None and {x, y} <= set(shape.positive):
        yield Comparison("<=", gap, Constant(plan.within_ns)), "WITHIN"
        yield Comparison(">=", gap, Constant(-plan.within_ns)), "WITHIN"


def _gaps(terms: Sequence[Term]) -> Iterator[Arithmetic]:
    """The differences of two steps' times that ``terms`` compare with something."""
    stack: list[Predicate] = [predicate for predicate, _ in reversed(terms)]
    while stack:
        match stack.pop():
            case Logic(terms=inner):
                stack += reversed(inner)
            case Comparison(left=left, right=right):
                yield from _gap(left)
                yield from _gap(right)
            case Membership(item=item):
                yield from _gap(item)


def _gap(value: Expression) -> Iterator[Arithmetic]:
    match value:
        case Arithmetic(op="-", left=Attribute() as y, right=Attribute() as x):
            if {x.name, y.name} <= {"ts", "ref"} and x.alias != y.alias:
                yield value
