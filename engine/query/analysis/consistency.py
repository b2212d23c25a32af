"""Refuses a WHERE that can never be true, and says which of its conditions exclude which.

Beside the conditions themselves, what the pattern says is known: who comes before whom, how far
apart they may be, and of which type they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from engine.errors import UserError
from engine.query.analysis.contradiction import Conflict, find_conflict
from engine.query.analysis.typed import Context
from engine.query.fields import attributes_in
from engine.query.language.place import Span, listed, printable
from engine.query.plan import (
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
