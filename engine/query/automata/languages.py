"""The languages of a constraint and of a pattern, as automata over one alphabet (L10 3.2.1, 3.2.2).

A constraint's is the set of whole traces that it allows, a pattern's that of the traces in which it
occurs: other events may come before, between and behind those of a match, but for negated steps.
"""

from __future__ import annotations

from functools import reduce

from engine.query.automata.alphabet import Alphabet
from engine.query.automata.nfa import Nfa, anywhere, either, mixed, nothing, one_of, repeated, then
from engine.query.plan import Group, OrPlan, Part, SeqPlan
from engine.query.regular import (
    Choice,
    Concatenation,
    Interleaving,
    Occurrence,
    Regular,
    Repetition,
)
from engine.query.shape import whole_pattern


def of_constraint(expression: Regular, alphabet: Alphabet) -> Nfa:
    """Reads the traces that ``expression`` allows.

    Raises:
        TooLargeError: more states than are built.
    """
    every = alphabet.every
    match expression:
        case Occurrence(type=event_type, where=guard):
            return one_of(alphabet.symbols(event_type, guard), every)
        case Repetition(part=part, least=least, most=most):
            return repeated(of_constraint(part, alphabet), least, most, every)
        case Concatenation(parts=parts):
            return reduce(then, (of_constraint(part, alphabet) for part in parts), nothing(every))
        case Choice(parts=parts):
            return either(tuple(of_constraint(part, alphabet) for part in parts), every)
        case Interleaving(parts=parts):
            return reduce(mixed, (of_constraint(part, alphabet) for part in parts))


def of_pattern(plan: SeqPlan | OrPlan, alphabet: Alphabet) -> Nfa:
    """Reads the traces in which ``plan`` has a match, by types and conditions of single events.

    Negated steps stand between others (``engine.constraint.analysis`` has seen to that).

    Raises:
        TooLargeError: more states than are built.
    """
    every = alphabet.every
    return either(
        tuple(
            anywhere(_part(branch, whole_pattern(branch), alphabet), every)
            for branch in plan.branches
        ),
        every,
    )


def _part(plan: SeqPlan, part: Part, alphabet: Alphabet) -> Nfa:
    if not isinstance(part, Group):
        return one_of(_symbols(plan, part, alphabet), alphabet.every)
    if part.op == "AND":
        return reduce(mixed, (_part(plan, each, alphabet) for each in part.parts))
    found: Nfa | None = None
    forbidden = 0
    for each in part.parts:
        if isinstance(each, int) and plan.steps[each].negated:
            forbidden |= _symbols(plan, each, alphabet)
            continue
        right = _part(plan, each, alphabet)
        found = right if found is None else then(found, right, forbidden)
        forbidden = 0
    assert found is not None
    return found


def _symbols(plan: SeqPlan, place: int, alphabet: Alphabet) -> int:
    step = plan.steps[place]
    return alphabet.symbols(step.type, step.where)
