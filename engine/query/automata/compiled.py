"""From the plan of a monitored pattern to its automata."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.errors import UserError
from engine.query.automata.alphabet import Alphabet
from engine.query.automata.dfa import Dfa, determined
from engine.query.automata.languages import of_constraint, of_pattern
from engine.query.automata.too_large import MAX_STATES, TooLargeError
from engine.query.automata.verdicts import Encoded, encoded
from engine.query.fields import bare
from engine.query.monitor_plan import MonitorPlan
from engine.query.plan import OrPlan, SeqPlan, Step
from engine.query.regular import occurrences


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
            raise UserError(
                f"query {plan.name!r}: no trace can keep to constraint {plan.constraint!r}: its "
                "conditions exclude one another"
            )
        found = determined(of_pattern(pattern, alphabet), alphabet.size)
        both = encoded(constraint, found)
    except TooLargeError:
        raise UserError(
            f"query {plan.name!r}: constraint {plan.constraint!r} and the pattern need automata of "
            f"more than {MAX_STATES:,} states. Parts with & multiply one another, and so do AND "
            "and {m,n}: make them fewer or smaller"
        ) from None
    return Automata(alphabet, constraint, found, both)


def _of_one_event(plan: SeqPlan | OrPlan) -> SeqPlan | OrPlan:
    """``plan`` with conditions of steps as a constraint writes them: without the alias."""

    def unnamed(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple(replace(step, where=bare(step.where)) for step in steps)

    if isinstance(plan, SeqPlan):
        return replace(plan, steps=unnamed(plan.steps))
    branches = tuple(replace(branch, steps=unnamed(branch.steps)) for branch in plan.branches)
    return replace(plan, branches=branches)
