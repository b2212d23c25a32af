"""Refuses a WHERE that can never be true, and names the conditions that exclude each other.

The conjuncts compare a value with constants: an attribute, an expression with the same syntax, or
the time between two steps. Every reported conflict is real, but some are not found. A comparison
with null is unknown, so every compared value is present. A condition that is only not true
(``untrue``) restricts a value only if another condition requires it to be present.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.timeline import ANY_TYPE
from slackwater.engine.query.analysis.value_kinds import Context
from slackwater.engine.query.fields import FIELDS, ValueKind, attributes_in
from slackwater.engine.query.language.mistakes import Span, listed, printable
from slackwater.engine.query.plan import (
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
from slackwater.engine.query.shape import Shape, shape_of
from slackwater.engine.query.values import COMPARE

Term = tuple[Predicate, Span]
"""One conjunct and its place in the text."""
_Limit = tuple[Expression, str, tuple[int | float | str | bool, ...]]
"""A value, a comparison, and its constants; ``=``: equals one of several constants."""
_Known = tuple[_Limit, str]
"""A limit that the pattern implies, and its reason for a message."""
_TIMES: Final = {"ts", "ref"}
_SHOWN_CHARS: Final = 60


class Conflict(Struct, frozen=True):
    """``place``: place of the first condition that earlier ones exclude; ``others``: a minimal set
    of these. ``mixed``: a value that is text in one condition and a number in another.
    """

    place: int
    others: tuple[int, ...]
    mixed: Expression | None


def find_conflict(
    conditions: Sequence[Predicate], untrue: Sequence[Predicate] = (),
    known: Sequence[_Limit] = (),
) -> Conflict | None:  # fmt: skip
    """Return the first of ``known``, ``conditions`` and ``untrue`` that contradicts earlier ones.

    Places count through all three. ``untrue``: conditions that are false or unknown.
    """
    groups = [[each] for each in known] + [[*_limits(each, truth=True)] for each in conditions]
    there = {value for group in groups for value, _, _ in group}
    groups += [
        [
            limit
            for limit in _limits(each, truth=False)
            if limit[0] in there or FIELDS.get(getattr(limit[0], "name", "")) == ValueKind.TIME
        ]
        for each in untrue
    ]
    limits: dict[Expression, list[tuple[int, _Limit]]] = defaultdict(list)
    for place, group in enumerate(groups):
        for limit in group:
            mine = limits[limit[0]]
            mine.append((place, limit))
            mixed = len({isinstance(each, str) for _, (*_, some) in mine for each in some}) > 1
            if mixed:
                is_text = isinstance(limit[2][0], str)
                other = next(at for at, (*_, some) in mine if isinstance(some[0], str) != is_text)
                return Conflict(place, (other,) if other != place else (), limit[0])
            if not _is_satisfiable(mine):
                return Conflict(place, _minimal_conflict(mine, place), None)
    return None


def _minimal_conflict(limits: list[tuple[int, _Limit]], place: int) -> tuple[int, ...]:
    """Return a minimal set of places that, with ``place``, makes ``limits`` unsatisfiable."""
    others = sorted({at for at, _ in limits} - {place}, reverse=True)
    for other in reversed(others):
        rest = [each for each in limits if each[0] != other]
        if not _is_satisfiable(rest):
            limits = rest
    return tuple(sorted({at for at, _ in limits} - {place}))


def _is_satisfiable(placed_limits: list[tuple[int, _Limit]]) -> bool:
    """Whether one value satisfies every limit; the limits are all text or all numbers."""
    limits = [(op, constants) for _, (_, op, constants) in placed_limits]

    def fits(value: Any) -> bool:
        return all(any(COMPARE[op](value, each) for each in some) for op, some in limits)

    for op, constants in limits:
        if op == "=":
            return any(map(fits, constants))
    lows: list[Any] = [constants[0] for op, constants in limits if op in {">", ">="}]
    highs: list[Any] = [constants[0] for op, constants in limits if op in {"<", "<="}]
    if not lows or not highs:
        return True
    low, high = max(lows), min(highs)
    return bool(low < high or (low == high and fits(low)))


def _limits(condition: Predicate, *, truth: bool) -> Iterator[_Limit]:
    """Yield the limits that follow if ``condition`` is ``truth``; other conditions are ignored."""
    match condition:
        case Comparison(op=op, left=left, right=right):
            op = op if truth else OPPOSITE[op]
            if isinstance(left, Constant):
                op, left, right = MIRRORED[op], right, left
            if isinstance(left, Attribute) and isinstance(right, Attribute):
                if {left.name, right.name} <= _TIMES and left.alias != right.alias:
                    yield _limit(Arithmetic("-", left, right), op, (0,))
            elif isinstance(right, Constant) and not isinstance(left, Constant):
                yield _limit(left, op, (right.value,))
        case Membership(item=item, options=options):
            constants = tuple(option.value for option in options)
            if truth:
                yield _limit(item, "=", constants)
            else:
                yield from (_limit(item, "!=", (each,)) for each in constants)
        case Logic(op="not", terms=(term,)):
            yield from _limits(term, truth=not truth)
        case Logic(op=op, terms=terms) if (op == "and") == truth:
            for term in terms:
                yield from _limits(term, truth=truth)


def _limit(value: Expression, op: str, constants: tuple[int | float | str | bool, ...]) -> _Limit:
    """Return the normal form: ``ref`` becomes ``ts``, and of b - a and a - b only one is used."""
    match value:
        case Attribute(name="ref", alias=alias):
            return Attribute("ts", alias), op, constants
        case Arithmetic(op="-", left=Attribute(name, b), right=Attribute(other, a)) if a != b:
            if {name, other} <= _TIMES:
                if str(a) > str(b) and not any(isinstance(each, str) for each in constants):
                    a, b, op = b, a, MIRRORED[op]
                    constants = tuple(-each for each in constants if not isinstance(each, str))
                value = Arithmetic("-", Attribute("ts", b), Attribute("ts", a))
    return value, op, constants


def check_select(terms: Sequence[Term], context: Context) -> None:
    """Refuse conjuncts on one event that exclude each other.

    Raises:
        UserError: earlier conjuncts exclude a conjunct; the message has the first such one.
    """
    conflict = find_conflict([predicate for predicate, _ in terms])
    if conflict is not None:
        raise _refusal(conflict, terms, [], context)


def check_pattern(terms: Sequence[Term], plan: SeqPlan, context: Context) -> None:
    """Refuse conjuncts that exclude each other or contradict the pattern of ``plan``.

    Conditions on a negated step do not restrict other steps, so each negated step is checked
    together with the conditions on positive steps. A negated step that no event can satisfy is no
    error (``never_counts``), but a comparison of one value with text and with numbers is.

    Raises:
        UserError: earlier conjuncts exclude a conjunct; the message has the first such one.
    """
    found: tuple[int, UserError] | None = None
    for alias in [None, *sorted(step.alias for step in plan.steps if step.negated)]:
        conflict, chosen, known = _conflict(terms, alias, plan)
        if conflict is None or (alias is not None and conflict.mixed is None):
            continue
        place = chosen[conflict.place - len(known)]
        if found is None or place < found[0]:
            found = place, _refusal(conflict, [terms[each] for each in chosen], known, context)
    if found is not None:
        raise found[1]


def never_counts(predicates: Sequence[Predicate], alias: str, plan: SeqPlan) -> bool:
    """Whether ``predicates`` on the negated step ``alias`` contradict each other."""
    return _conflict([(each, (0, 0)) for each in predicates], alias, plan)[0] is not None


def _conflict(
    terms: Sequence[Term], alias: str | None, plan: SeqPlan
) -> tuple[Conflict | None, list[int], list[_Known]]:
    """Return the conflict of the ``terms`` on positive steps and on the negated step ``alias``
    (None: on positive ones only), the places of these terms, and the limits that the pattern
    implies.
    """
    negated = {step.alias for step in plan.steps if step.negated}
    scope = set[str]() if alias is None else {alias}
    named = [{str(each.alias) for each in attributes_in(predicate)} for predicate, _ in terms]
    chosen = [place for place, names in enumerate(named) if names & negated <= scope]
    if scope and not any(named[place] & scope for place in chosen):
        return None, chosen, []
    mine = [terms[place][0] for place in chosen]
    known = list(_known(mine, plan, shape_of(plan)))
    return find_conflict(mine, known=[each for each, _ in known]), chosen, known


def _known(conditions: Sequence[Predicate], plan: SeqPlan, shape: Shape) -> Iterator[_Known]:
    """Yield the limits that the pattern implies for the values in ``conditions``, with reasons."""
    places = {step.alias: place for place, step in enumerate(plan.steps)}
    before = set(shape.before)
    for between in shape.between:
        before |= {(x, between.step) for x in between.left}
        before |= {(between.step, y) for y in between.right}
    limits = [limit for each in conditions for limit in _limits(each, truth=True)]
    for value in dict.fromkeys(value for value, _, _ in limits):
        match value:
            case Attribute(name="type", alias=alias):
                kind = plan.steps[places[str(alias)]].type
                if kind != ANY_TYPE:
                    yield (value, "=", (kind,)), f"the type of {alias}, {kind!r}"
            case Arithmetic(op="-", left=Attribute("ts", b), right=Attribute("ts", a)) if a != b:
                x, y = places[str(a)], places[str(b)]
                for pair, op, (one, other) in (((x, y), ">", (a, b)), ((y, x), "<", (b, a))):
                    if pair in before:
                        yield (value, op, (0,)), f"the pattern, which has {one} before {other}"
                if plan.within_ns is not None and {x, y} <= set(shape.positive):
                    yield (value, "<=", (plan.within_ns,)), "WITHIN"
                    yield (value, ">=", (-plan.within_ns,)), "WITHIN"


def _refusal(
    conflict: Conflict, terms: Sequence[Term], known: Sequence[_Known], context: Context
) -> UserError:
    at = terms[conflict.place - len(known)][1]
    if conflict.mixed is not None:
        value, name = conflict.mixed, "this value"
        if isinstance(value, Attribute):
            name = f"{value.alias}.{value.name}" if value.alias else value.name
        hint = f"{name} is compared with text here and with a number elsewhere"
        return context.refuse(at, "this can never be true", hint)
    places = [each - len(known) for each in conflict.others]
    phrases = [_quotation(context.text, terms[place][1]) for place in places if place >= 0]
    phrases += [known[place][1] for place in conflict.others if place < len(known)]
    hint = "no value can do this"
    if phrases:
        hint = f"excluded by {printable(listed(dict.fromkeys(phrases)))}"
    return context.refuse(at, "this can never be true", hint)


def _quotation(text: str, at: Span) -> str:
    end = at[1]
    # The place of IN ends at its last constant.
    while text.count("(", at[0], end) > text.count(")", at[0], end) and text[end:][:1] in (
        " ",
        ")",
    ):
        end += 1
    words = printable(" ".join(text[at[0] : end].split()))
    return words if len(words) <= _SHOWN_CHARS else words[: _SHOWN_CHARS - 3] + "..."
