"""From the plan of a monitored pattern to its automata."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from engine.query.automata.alphabet import Alphabet
from engine.query.automata.dfa import Dfa, determined
from engine.query.automata.languages import of_constraint, of_pattern
from engine.query.automata.too_large import MAX_STATES, TooLargeError
from engine.query.automata.verdicts import Encoded, encoded
from engine.query.fields import bare
from engine.query.language.place import Span, refuse
from engine.query.monitor_plan import MonitorPlan
from engine.query.plan import OrPlan, SeqPlan, Step
from engine.query.regular import occurrences

_UNDER: Final = re.compile(r"\bUNDER\s+CONSTRAINT\s+\S+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Automata:
    """Of a plan: its symbols, the constraint's automaton, the pattern's, and what both tell."""

    alphabet: Alphabet
    constraint: Dfa
    pattern: Dfa
    encoded: Encoded


def automata_of(plan: MonitorPlan) -> Automata:
    """The automata of ``plan``.

    Raises:
        UserError: no trace keeps to the constraint, or an automaton is too large.
    """
    pattern = _of_one_event(plan.pattern)
    named = [(each.type, each.where) for each in occurrences(plan.expression)]
    named += [(step.type, step.where) for branch in pattern.branches for step in branch.steps]
    alphabet = Alphabet(named)
    try:
        constraint = determined(of_constraint(plan.expression, alphabet), alphabet.size)
        if not constraint.size:
            message = (
                f"no trace can keep to constraint {plan.constraint!r}: its conditions exclude one "
                "another"
            )
            raise refuse(plan.text, place_of_constraint(plan), message, "allow one of them")
        found = determined(of_pattern(pattern, alphabet), alphabet.size)
        both = encoded(constraint, found)
    except TooLargeError:
        message = (
            f"constraint {plan.constraint!r} and the pattern need automata of more than "
            f"{MAX_STATES:,} states"
        )
        hint = "parts with & multiply one another, and so do AND and {m,n}: make them fewer"
        raise refuse(plan.text, place_of_constraint(plan), message, hint) from None
    return Automata(alphabet, constraint, found, both)


def place_of_constraint(plan: MonitorPlan) -> Span:
    """Where the query names its constraint."""
    found = _UNDER.search(plan.text)
    return found.span() if found else (0, len(plan.text))


def _of_one_event(plan: SeqPlan | OrPlan) -> SeqPlan | OrPlan:
    """``plan`` with conditions of steps as a constraint writes them: without the alias."""

    def unnamed(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple(replace(step, where=bare(step.where)) for step in steps)

    if isinstance(plan, SeqPlan):
        return replace(plan, steps=unnamed(plan.steps))
    branches = tuple(replace(branch, steps=unnamed(branch.steps)) for branch in plan.branches)
    return replace(plan, branches=branches)
