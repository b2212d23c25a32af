"""Decides early, by a constraint, whether a trace will match a pattern (L10 3.2): the languages of
both, as automata over one alphabet, and their product.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import and_
from typing import Any, Final

import numpy as np
from msgspec import Struct

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.released import Released
from slackwater.engine.query.analysis.consistency import find_conflict
from slackwater.engine.query.dfa import (
    DEAD,
    MAX_STATES,
    Dfa,
    TooLargeError,
    equivalence_classes,
    minimize,
    number_classes,
    reachable_states,
    renumber,
    states_reaching,
    trim,
)
from slackwater.engine.query.expression import View, view_mask
from slackwater.engine.query.fields import bare
from slackwater.engine.query.language.mistakes import Span, or_meant, refuse
from slackwater.engine.query.monitor_plan import (
    MonitorPlan,
    Occurrence,
    Regular,
    RegularGroup,
    Repetition,
    occurrences,
)
from slackwater.engine.query.plan import OrPlan, Part, Predicate, SeqPlan, Step
from slackwater.engine.query.render import quote, render_predicate, render_regular
from slackwater.engine.query.shape import whole_pattern

# Symbols of the automata: an event's type, and which of the guards on its type are true.
#
# Source: L10 3.2.4, which splits a type by a predicate and its negation. Here each type has a
# symbol for every possible combination of truth values of its guards.


MAX_GUARDS: Final = 6
"""Most guards on one type; n guards make up to 2**n symbols."""
IGNORED: Final = -1
"""The symbol of events of other types: neither constraint nor pattern names them."""


class Alphabet:
    """Symbols 0 .. ``size`` - 1.

    Attributes:
        types: in order of appearance.
        guards: of each type, in the order in which names count them.
        names: of each symbol, for people: ``A``, ``A[1, not 2]``.
    """

    def __init__(self, named: Iterable[tuple[str, Predicate | None]]) -> None:
        """``named``: types and guards of all events that the constraint and the pattern name.

        Raises:
            UserError: more than ``MAX_GUARDS`` different conditions on one type.
        """
        self.guards: dict[str, list[Predicate]] = {}
        for event_type, guard in named:
            known = self.guards.setdefault(event_type, [])
            if guard is not None and guard not in known:
                known.append(guard)
        self.types = tuple(self.guards)
        self.names: list[str] = []
        self._symbol: dict[tuple[str, tuple[bool, ...]], int] = {}
        for event_type, guards in self.guards.items():
            if len(guards) > MAX_GUARDS:
                raise UserError(
                    f"{len(guards)} different conditions on {event_type} are in constraint and "
                    f"pattern; at most {MAX_GUARDS} are supported. Give such events types of "
                    "their own"
                )
            for truths in product((False, True), repeat=len(guards)):
                if _possible(guards, truths):
                    self._symbol[event_type, truths] = len(self.names)
                    self.names.append(_name(event_type, truths))

    @property
    def size(self) -> int:
        """Number of symbols."""
        return len(self.names)

    @property
    def every(self) -> int:
        """All symbols, as a bit set."""
        return (1 << self.size) - 1

    def symbols(self, event_type: str, guard: Predicate | None) -> int:
        """Return the symbols of events of the type for which ``guard`` is true, as a bit set."""
        place = None if guard is None else self.guards[event_type].index(guard)
        return sum(
            1 << symbol
            for (known, truths), symbol in self._symbol.items()
            if known == event_type and (place is None or truths[place])
        )

    def read(self, released: Released) -> np.ndarray:
        """Return the symbol of each event, int32 (n,); IGNORED for events of other types."""
        texts = released.strings.texts
        of_type = np.full(len(texts) + 1, IGNORED, np.int32)  # a null's is the last
        for event_type in self.guards:
            code = released.strings.find(event_type)
            if code >= 0:
                of_type[code] = self._symbol.get((event_type, ()), IGNORED)
        symbols: np.ndarray = of_type[released.columns["type"]]
        for event_type, guards in self.guards.items():
            if guards:
                rows = np.flatnonzero(released.columns["type"] == released.strings.find(event_type))
                if len(rows):
                    symbols[rows] = self._guarded(event_type, guards, rows, released)
        return symbols

    def _guarded(
        self, event_type: str, guards: list[Predicate], rows: np.ndarray, released: Released
    ) -> np.ndarray:
        """Return the symbols of ``rows``, which have this type."""
        columns = {name: column[rows] for name, column in released.columns.items()}
        view = View.of(columns, released.attr_types, released.strings)
        combination = np.zeros(len(rows), np.int64)
        for place, guard in enumerate(guards):
            true = view_mask(guard, view, len(rows))
            combination |= true.astype(np.int64) << place
        return np.asarray(self._lookup(event_type, len(guards))[combination])

    def _lookup(self, event_type: str, guards: int) -> np.ndarray:
        """Return the symbols by the bits of the guards' truth values."""
        lookup = np.full(1 << guards, IGNORED, np.int32)
        for (known, truths), symbol in self._symbol.items():
            if known == event_type:
                lookup[sum(1 << place for place, true in enumerate(truths) if true)] = symbol
        return lookup


def _possible(guards: list[Predicate], truths: tuple[bool, ...]) -> bool:
    both = list(zip(guards, truths, strict=True))
    untrue = [guard for guard, true in both if not true]
    return find_conflict([guard for guard, true in both if true], untrue) is None


def _name(event_type: str, truths: tuple[bool, ...]) -> str:
    if not truths:
        return event_type
    labels = (str(n) if true else f"not {n}" for n, true in enumerate(truths, 1))
    return f"{event_type}[{', '.join(labels)}]"


# The languages of a constraint and of a pattern (L10 3.2.1, 3.2.2), and their automata.
#
# A constraint's language is the set of whole traces that it allows. A pattern's language is the set
# of traces with a match: other events may come before, between and after those of the match, except
# for negated steps. Both are regular expressions. A state of an automaton is a set of expressions,
# one of which the rest of the trace must match.
#
# Source: partial derivatives (Antimirov 1996); subset construction (Rabin and Scott 1959).


class Gap(Struct, frozen=True):
    """A gap between two parts of a pattern, in which no event of ``forbidden`` may occur."""

    forbidden: tuple[Occurrence, ...]


_NOTHING: Final = RegularGroup(",", ())
_STATES_OF_LEFT: Final = 2
"""Weight of a nondeterministic state in the check of ``MAX_STATES``; bounds the time, too."""


def of_pattern(plan: SeqPlan | OrPlan) -> Regular:
    """Return the events of a match of ``plan``, by types and conditions of single events.

    Negated steps stand between others (``engine.query.analysis.checks`` has seen to that).
    """
    return RegularGroup(
        "|", tuple(_of_part(branch, whole_pattern(branch)) for branch in plan.branches)
    )


def _of_part(plan: SeqPlan, part: Part) -> Any:
    if isinstance(part, int):
        step = plan.steps[part]
        one = Occurrence(step.type, step.where)
        return Gap((one,)) if step.negated else one
    parts = tuple(_of_part(plan, each) for each in part.parts)
    return _joined("&" if part.op == "AND" else ",", parts)


def _joined(op: str, parts: Iterable[Any]) -> Any:
    """Return a flat group without nested groups of its kind; a single part is returned itself."""
    flat: list[Any] = []
    for part in parts:
        same = part == _NOTHING or (isinstance(part, RegularGroup) and part.op == op)
        flat += part.parts if same else (part,)
    return flat[0] if len(flat) == 1 else RegularGroup(op if flat else ",", tuple(flat))


class _Derivatives:
    """Partial derivatives of expressions over one alphabet."""

    def __init__(self, alphabet: Alphabet) -> None:
        self.alphabet, self.every = alphabet, alphabet.every

    def ends(self, asks: Any) -> bool:
        """Whether the expression accepts the empty trace."""
        match asks:
            case Gap():
                return True
            case Repetition(part=part, least=least):
                return least == 0 or self.ends(part)
            case RegularGroup(op=op, parts=parts):
                return (any if op == "|" else all)(map(self.ends, parts))
        return False

    def allows(self, asks: Any) -> int:
        """Return the symbols that may occur elsewhere before it continues, as a bit set."""
        found = self.every
        if isinstance(asks, Gap):
            for each in asks.forbidden:
                found &= ~self.alphabet.symbols(each.type, each.where)
        for part in asks.parts if isinstance(asks, RegularGroup) else ():
            found &= self.allows(part)
            if asks.op == "," and not isinstance(part, Gap):
                break
        return found

    def moves(self, asks: Any) -> Iterator[tuple[int, Any]]:
        """Yield symbols that the expression reads, as a bit set, and the rest after them."""
        match asks:
            case Occurrence(type=kind, where=where):
                yield self.alphabet.symbols(kind, where), _NOTHING
            case Repetition(part=part, least=least, most=most) if most != 0:
                rest = Repetition(part, max(least - 1, 0), None if most is None else most - 1)
                for read, left in self.moves(part):
                    yield read, _joined(",", (left, _NOTHING if most == 1 else rest))
            case RegularGroup(op="|", parts=parts):
                for part in parts:
                    yield from self.moves(part)
            case RegularGroup(op=op, parts=parts):
                for place, part in enumerate(parts):
                    before, behind = parts[:place] if op == "&" else (), parts[place + 1 :]
                    others = [self.allows(each) for each in (*before, *behind) if op == "&"]
                    for read, left in self.moves(part):
                        read = reduce(and_, others, read)  # noqa: PLW2901 - as far as others allow
                        yield read, _joined(op, (*before, left, *behind))
                    if op == "," and not self.ends(part):
                        break


def determined(asks: Regular, alphabet: Alphabet, *, among: bool = False) -> Dfa:
    """Return the minimal automaton of ``asks``; from all its states an accepted end can be reached.

    ``among``: its events may stand among others, before and behind any, within as it allows.

    Raises:
        TooLargeError: more states than are built.
    """
    of, every = _Derivatives(alphabet), alphabet.every
    known: dict[Any, int] = {asks: 1}
    moves: dict[int, list[tuple[int, int]]] = {}
    states, rows = {1: 0}, list[list[int]]()
    left = [asks]

    def bit(expression: Any) -> int:
        if expression not in known:
            known[expression] = 1 << len(left)
            left.append(expression)
        return known[expression]

    waiting = [1]
    for subset in waiting:
        row = [0] * alphabet.size
        for state in _bits(subset):
            if state not in moves:
                one = left[state]
                found = [*of.moves(one), *([(of.allows(one), one)] if among else ())]
                found += [(every, one)] if among and one in (asks, _NOTHING) else []
                moves[state] = [(read, bit(to)) for read, to in found]
            for read, to in moves[state]:
                for symbol in _bits(read):
                    row[symbol] |= to
        for ahead in row:
            if ahead and ahead not in states:
                states[ahead] = len(waiting)
                waiting.append(ahead)
        if max(len(waiting), _STATES_OF_LEFT * len(left)) > MAX_STATES:
            raise TooLargeError
        rows.append([states.get(ahead, DEAD) for ahead in row])
    accepts = [any(of.ends(left[state]) for state in _bits(subset)) for subset in waiting]
    table = np.array(rows, np.int32).reshape(len(rows), alphabet.size)
    return minimize(trim(Dfa(table, np.array(accepts))))


def _bits(number: int) -> Iterator[int]:
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low


# The consequences of a constraint for a pattern before the pattern is complete (L10 3.2).
#
# A state summarises a trace: the state of the constraint's automaton, and of the pattern's. Among
# the possible ends of the trace that the constraint allows, all have a match (SATISFIABLE: SPEC 4.6
# for the definitions), none has (UNSATISFIABLE), or some have (OPEN).
#
# ``Encoded`` compares the languages in advance (L10 Algorithms 2 and 3), so that an event needs one
# look-up. So states are merged only if the constraint's state is the same (L10 Theorem 3.3). Line
# 19 of Algorithm 2 is read as referring to the state just entered.
#
# After a trace violates its constraint, it is only checked for the match itself.


OPEN: Final = 0
SATISFIABLE: Final = 1
UNSATISFIABLE: Final = 2
START: Final = 0
"""The initial state of every trace."""
STAYS: Final = -1
"""The event does not change the state of the pattern's automaton."""
MAX_PAIRS: Final = 1 << 22
"""Largest number of state pairs; bounds the memory of the product."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """The automaton of a constraint C and a pattern Q for run time.

    Attributes:
        table: int32 (states, symbols): the next state.
        verdict: int8 (states,): OPEN, SATISFIABLE (in a broken trace: there is a match) or
            UNSATISFIABLE.
        broken: bool (states,): the trace violates C.
        ended: bool (states,): C allows no more events, so the trace is over.
        complete: bool (states,): C allows the trace to end here.
        matched: bool (states,): as ``complete``, and there is a match: L10's intersection accepts.
        constraint_state: int32 (states,): the state of C's automaton; DEAD if broken.
        moves: int32 (states, symbols): the next state of Q's automaton; STAYS if it is the same.
            While the verdict is OPEN, this is the progress of the match.
    """

    table: np.ndarray
    verdict: np.ndarray
    broken: np.ndarray
    ended: np.ndarray
    complete: np.ndarray
    matched: np.ndarray
    constraint_state: np.ndarray
    moves: np.ndarray

    @property
    def static(self) -> int:
        """The verdict before any event."""
        return int(self.verdict[START])


def dfa_product(constraint: Dfa, pattern: Dfa) -> tuple[Dfa, np.ndarray]:
    """Return pairs of a state of C (or DEAD: broken) and a state of Q (or DEAD: no match is
    possible), as an automaton of the traces in both languages; and the states of each pair, int32
    (pairs, 2).

    Only reachable pairs are kept. The first is the initial state.
    """
    symbols = constraint.table.shape[1]
    if (constraint.size + 1) * (pattern.size + 1) > MAX_PAIRS:
        raise TooLargeError
    nowhere = np.full((1, symbols), DEAD, np.int32)
    ways = np.concatenate((constraint.table, nowhere))
    found = np.concatenate((pattern.table, nowhere))
    c, q = np.divmod(np.arange(len(ways) * len(found)), len(found))
    # DEAD is the last state of each.
    table = ways[c] % len(ways) * len(found) + found[q] % len(found)
    kept = reachable_states(table, np.ones(len(table), bool))
    pairs = np.stack((c, q), axis=1)[kept].astype(np.int32)
    pairs[pairs[:, 0] == constraint.size, 0] = DEAD
    pairs[pairs[:, 1] == pattern.size, 1] = DEAD
    both = _of_each(constraint.accepts, pairs[:, 0]) & _of_each(pattern.accepts, pairs[:, 1])
    return Dfa(renumber(table, kept), both), pairs


def _of_each(known: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Return ``known`` for each of the ``states``; False for DEAD."""
    return np.asarray(np.append(known, False)[states])


def encoded(constraint: Dfa, pattern: Dfa) -> Encoded:
    """Return the verdict of every state, and the table that leads from one to the next.

    Args:
        constraint: trimmed, so that from each of its states the trace can be completed.
        pattern: over the same symbols.

    Raises:
        TooLargeError: more states than are built.
    """
    both, pairs = dfa_product(constraint, pattern)
    c, q = pairs[:, 0], pairs[:, 1]
    whole, matched = _of_each(constraint.accepts, c), _of_each(pattern.accepts, q)
    can_match = states_reaching(both.table, whole & matched)
    can_miss = states_reaching(both.table, whole & ~matched)
    verdict = np.where(can_match, np.where(can_miss, OPEN, SATISFIABLE), UNSATISFIABLE)
    broken = c == DEAD
    verdict[broken] = np.where(matched[broken], SATISFIABLE, OPEN)
    # Theorem 3.3, and no two verdicts in one state. In a broken trace the verdict says whether
    # there is a match; while it is OPEN, the pattern's state, the match's progress, is kept, too.
    kinds = np.stack((c, verdict, np.where(verdict == OPEN, q, DEAD)), axis=1)
    number, chosen = number_classes(
        equivalence_classes(both, np.unique(kinds, axis=0, return_inverse=True)[1])
    )
    if len(chosen) > MAX_STATES:
        raise TooLargeError
    c, q = c[chosen], q[chosen]
    to = np.concatenate((pattern.table, np.full((1, pattern.table.shape[1]), DEAD, np.int32)))[q]
    return Encoded(
        table=number[both.table[chosen]].astype(np.int32),
        verdict=verdict[chosen].astype(np.int8),
        broken=c == DEAD,
        ended=_of_each((constraint.table == DEAD).all(axis=1), c),
        complete=_of_each(constraint.accepts, c),
        matched=both.accepts[chosen],
        constraint_state=c,
        moves=np.where(to == q[:, None], STAYS, to).astype(np.int32),
    )


# From the plan of a monitored pattern to its automata.


_UNDER: Final = re.compile(r"\bUNDER\s+CONSTRAINT\s+\S+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Automata:
    """The automata of a plan: alphabet, constraint, pattern, and their encoded product."""

    alphabet: Alphabet
    constraint: Dfa
    pattern: Dfa
    encoded: Encoded


def automata_of(plan: MonitorPlan) -> Automata:
    """Return the automata of ``plan``.

    Raises:
        UserError: the constraint allows no trace, or an automaton is too large.
    """
    pattern = bare(plan.pattern)  # conditions of steps as a constraint writes them
    named = [(each.type, each.where) for each in occurrences(plan.expression)]
    named += [(step.type, step.where) for branch in pattern.branches for step in branch.steps]
    alphabet = Alphabet(named)
    try:
        constraint = determined(plan.expression, alphabet)
        if not constraint.size:
            message = (
                f"no trace can keep to constraint {plan.constraint!r}: its conditions exclude one "
                "another"
            )
            raise refuse(plan.text, place_of_constraint(plan), message, "allow one of them")
        found = determined(of_pattern(pattern), alphabet, among=True)
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
    """Return the place of the constraint's name in the query."""
    found = _UNDER.search(plan.text)
    return found.span() if found else (0, len(plan.text))


# Steps that a constraint excludes, known before any event, with their places in the query.
#
# Such a step is no error: a trace that violates its constraint is still checked for the match. Most
# often, though, a type is misspelt.


def excluded(plan: MonitorPlan) -> list[str]:
    """One text per step whose event no trace that keeps to the constraint has; or one, if no such
    trace has a match for another reason. Each with its line, column and carets.

    Raises:
        UserError: the constraint and the pattern make no automaton.
    """
    automata = automata_of(plan)
    some = np.flatnonzero((automata.constraint.table != DEAD).any(axis=0))
    allowed = sum(1 << symbol for symbol in some.tolist())  # of a trace that keeps to it
    never = automata.encoded.static == UNSATISFIABLE
    so = "no trace that keeps to it has a match" if never else "the alternative with it never is"
    found = []
    # Negated steps are no problem.
    steps = [step for branch in plan.pattern.branches for step in branch.steps if not step.negated]
    for step in dict.fromkeys(steps):
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
        hint = or_meant(f"it has {', '.join(there)}", step.type, () if of_type & allowed else there)
        found.append(str(refuse(plan.text, _place(plan.text, step), message, hint)))
    if never and not found:
        message = f"no trace that keeps to constraint {plan.constraint!r} has a match"
        hint = "every trace gets cleared with its first event; EXPLAIN draws the constraint"
        found.append(str(refuse(plan.text, place_of_constraint(plan), message, hint)))
    return found


def _place(text: str, step: Step) -> Span:
    """Return the place of the step's type, where the query first names it with this alias."""
    kind, alias = re.escape(step.type), re.escape(step.alias)
    for form in (rf"""(?<!\w)["'`]?({kind})["'`]?\s+{alias}(?!\w)""", rf"(?<!\w)({kind})(?!\w)"):
        if found := re.search(form, text):
            return found.span(1)
    return 0, len(text)


# EXPLAIN of a constraint: its consequences, in words and as a chart.


_STATIC: Final = {
    OPEN: "open: it depends on the trace",
    SATISFIABLE: "every trace that keeps to the constraint has a match, whatever happens in it",
    UNSATISFIABLE: "no trace that keeps to the constraint has a match, whatever happens in it",
}
_CLASS: Final = {OPEN: "open", SATISFIABLE: "alert", UNSATISFIABLE: "cleared"}
_DRAWN: Final = 60
"""Largest number of states in a chart."""


def monitor_sections(plan: MonitorPlan) -> Iterator[tuple[str, list[str]]]:
    """Yield (label, lines) for EXPLAIN.

    Raises:
        UserError: there are no automata for the constraint and the pattern.
    """
    automata = automata_of(plan)
    yield "constraint", [f"{quote(plan.constraint)}: {render_regular(plan.expression)}"]
    types = ", ".join(automata.alphabet.types)
    yield "trace", [f"the events with one value of {plan.trace.name}, of types {types} alone"]
    guards = [
        f"{event_type} {number}: {render_predicate(guard)}"
        for event_type, found in automata.alphabet.guards.items()
        for number, guard in enumerate(found, 1)
    ]
    if guards:
        yield "conditions", guards
    sizes = automata.constraint.size, automata.pattern.size, len(automata.encoded.table)
    yield "automata", ["{} states of the constraint, {} of the pattern, {} of both".format(*sizes)]
    lines = [line for each in excluded(plan) for line in each.splitlines()]
    yield "beforehand", [_STATIC[automata.encoded.static], *lines]
    results = "cleared, once no match can come; violation, for an event that is not allowed"
    if plan.by_types:
        results = f"alert, once a match is certain; {results}"
    else:
        results += ". No alert: WITHIN or a condition between steps may still fail"
    yield "results", [results]
    if len(automata.encoded.table) <= _DRAWN:
        yield "", []
        yield "chart", list(mermaid(automata))


def mermaid(automata: Automata) -> Iterator[str]:
    """Yield a Mermaid state diagram of the states of a trace and the events that change them.

    Traces that violate the constraint are one state, ``violation``.
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
