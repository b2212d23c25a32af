"""What a constraint leaves no room for, known before any event, with its place in the query.

Such a step is no error: a trace that has broken its constraint is watched for the match all the
same. Most often, though, it is a slip of the pen in a type.
"""

from __future__ import annotations

import re

import numpy as np

from engine.query.automata.compiled import Automata, automata_of, place_of_constraint
from engine.query.automata.dfa import DEAD
from engine.query.automata.verdicts import UNSATISFIABLE
from engine.query.fields import bare
from engine.query.language.place import Span, closest, refuse
from engine.query.monitor_plan import MonitorPlan
from engine.query.plan import SeqPlan, Step


def excluded(plan: MonitorPlan) -> list[str]:
    """One text per step whose event no trace that keeps to the constraint has; or one, if no such
    trace has a match for another reason. Each with its line, column and carets.

    Raises:
        UserError: the constraint and the pattern make no automaton.
    """
    automata = automata_of(plan)
    allowed = _allowed(automata)
    never = automata.encoded.static == UNSATISFIABLE
    so = "no trace that keeps to it has a match" if never else "the alternative with it never is"
    found = []
    for step in _steps(plan):
        of_type = automata.alphabet.symbols(step.type, None)
        if automata.alphabet.symbols(step.type, bare(step.where)) & allowed:
            continue
        there = [
            kind
            for kind in automata.alphabet.types
            if automata.alphabet.symbols(kind, None) & allowed
        ]
        which = f"of type {step.type!r}"
        if of_type & allowed:
            which += f" for which the condition on {step.alias} is true"
        message = f"constraint {plan.constraint!r} allows no event {which}, so {so}"
        near = closest(step.type, there) if not of_type & allowed else ""
        hint = f"it has {', '.join(there)}" + (f"; {near}" if near else "")
        found.append(str(refuse(plan.text, _place(plan.text, step), message, hint)))
    if never and not found:
        message = f"no trace that keeps to constraint {plan.constraint!r} has a match"
        hint = "every trace gets cleared with its first event; EXPLAIN draws the constraint"
        found.append(str(refuse(plan.text, place_of_constraint(plan), message, hint)))
    return found


def _allowed(automata: Automata) -> int:
    """The symbols that a trace which keeps to the constraint may have, a bit a symbol."""
    some = np.flatnonzero((automata.constraint.table != DEAD).any(axis=0))
    return sum(1 << int(symbol) for symbol in some)


def _steps(plan: MonitorPlan) -> list[Step]:
    """Those that a match must have, of each alternative: what may not occur does no harm."""
    branches = [plan.pattern] if isinstance(plan.pattern, SeqPlan) else plan.pattern.branches
    return list(
        dict.fromkeys(step for branch in branches for step in branch.steps if not step.negated)
    )


def _place(text: str, step: Step) -> Span:
    """The step's type, where the query names it first with this alias."""
    kind, alias = re.escape(step.type), re.escape(step.alias)
    for form in (rf"""(?<!\w)["'`]?({kind})["'`]?\s+{alias}(?!\w)""", rf"(?<!\w)({kind})(?!\w)"):
        if found := re.search(form, text):
            return found.span(1)
    return 0, len(text)
