"""A constraint's automaton for people: what it knows of a pattern, in words and as a chart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from engine.query.automata.compiled import Automata, automata_of
from engine.query.automata.excluded import excluded
from engine.query.automata.verdicts import OPEN, SATISFIABLE, START, UNSATISFIABLE
from engine.query.monitor_plan import MonitorPlan
from engine.query.render import render_regular
from engine.query.render_values import quote, render_predicate

_STATIC: Final = {
    OPEN: "open: it depends on the trace",
    SATISFIABLE: "every trace that keeps to the constraint has a match, whatever happens in it",
    UNSATISFIABLE: "no trace that keeps to the constraint has a match, whatever happens in it",
}
_CLASS: Final = {OPEN: "open", SATISFIABLE: "alert", UNSATISFIABLE: "cleared"}
_DRAWN: Final = 60
"""States; larger charts show nobody anything."""


def monitor_sections(plan: MonitorPlan) -> Iterator[tuple[str, list[str]]]:
    """(label, lines) of EXPLAIN.

    Raises:
        UserError: the constraint and the pattern make no automaton.
    """
    automata = automata_of(plan)
    yield "constraint", [f"{quote(plan.constraint)}: {render_regular(plan.expression)}"]
    types = ", ".join(automata.alphabet.types)
    yield "trace", [f"the events with one value of {plan.trace.name}, of types {types} alone"]
    guards = [
        f"{event_type} {number}: {render_predicate(guard)}"
        for event_type, found in automata.alphabet.guards().items()
        for number, guard in enumerate(found, 1)
    ]
    if guards:
        yield "conditions", guards
    sizes = automata.constraint.size, automata.pattern.size, len(automata.encoded.table)
    yield "automata", ["{} states of the constraint, {} of the pattern, {} of both".format(*sizes)]
    lines = [line for each in excluded(plan) for line in each.splitlines()]
    yield "beforehand", [_STATIC[automata.encoded.static], *lines]
    told = "cleared, once no match can come; violation, for an event that the constraint excludes"
    if plan.by_types:
        told = "alert, once a match is certain; " + told
    else:
        told += ". No alert: WITHIN or a condition between steps may still fail"
    yield "told", [told]
    if len(automata.encoded.table) <= _DRAWN:
        yield "", []
        yield "chart", list(mermaid(automata))


def mermaid(automata: Automata) -> Iterator[str]:
    """The states that a trace may be in, and the events that lead on, as a Mermaid state diagram.

    Broken traces are one state, ``violation``; events that change nothing are left out.
    """
    both, names = automata.encoded, automata.alphabet.names
    yield "stateDiagram-v2"
    yield f"[*] --> s{START}"
    for state, row in enumerate(both.table.tolist()):
        if both.broken[state]:
            continue
        ways: dict[str, list[str]] = {}
        for name, ahead in zip(names, row, strict=True):
            if ahead != state:
                to = "violation" if both.broken[ahead] else f"s{ahead}"
                ways.setdefault(to, []).append(name)
        for to, by in ways.items():
            yield f"s{state} --> {to}: {' '.join(by)}"
        yield f"s{state}: {_CLASS[int(both.verdict[state])]}"
