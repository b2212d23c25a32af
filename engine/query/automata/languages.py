"""The languages of a constraint and of a pattern, as automata over one alphabet (L10 3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from itertools import product
from typing import Final

import numpy as np

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.released import Released
from slackwater.engine.query.analysis.consistency import find_conflict
from slackwater.engine.query.automata.automaton import (
    Nfa,
    anywhere,
    either,
    mixed,
    nothing,
    one_of,
    repeated,
    then,
)
from slackwater.engine.query.expression import View, view_mask
from slackwater.engine.query.monitor_plan import (
    Occurrence,
    Regular,
    Repetition,
)
from slackwater.engine.query.plan import Group, OrPlan, Part, Predicate, SeqPlan
from slackwater.engine.query.shape import whole_pattern

# What an automaton reads: an event's type, and which of the guards on its type are true of it.
#
# Source: L10 3.2.4, which splits a type by a predicate and its opposite. Here each type has a
# symbol for every combination of truth values of its guards that can occur.


MAX_GUARDS: Final = 6
"""On one type; n of them make up to 2**n symbols."""
IGNORED: Final = -1
"""The symbol of events of other types: neither constraint nor pattern names them."""


class Alphabet:
    """Symbols 0 .. ``size`` - 1.

    Attributes:
        types: in order of appearance.
        names: of each symbol, for people: ``A``, ``A[1, not 2]``.
    """

    def __init__(self, named: Iterable[tuple[str, Predicate | None]]) -> None:
        """``named``: types and guards of all events that the constraint and the pattern name.

        Raises:
            UserError: more than ``MAX_GUARDS`` different conditions on one type.
        """
        self._guards: dict[str, list[Predicate]] = {}
        for event_type, guard in named:
            known = self._guards.setdefault(event_type, [])
            if guard is not None and guard not in known:
                known.append(guard)
        self.types = tuple(self._guards)
        self.names: list[str] = []
        self._symbol: dict[tuple[str, tuple[bool, ...]], int] = {}
        for event_type, guards in self._guards.items():
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
        """All symbols, a bit a symbol."""
        return (1 << self.size) - 1

    def symbols(self, event_type: str, guard: Predicate | None) -> int:
        """Those of events of the type for which ``guard`` is true, a bit a symbol."""
        place = None if guard is None else self._guards[event_type].index(guard)
        return sum(
            1 << symbol
            for (known, truths), symbol in self._symbol.items()
            if known == event_type and (place is None or truths[place])
        )

    def read(self, released: Released) -> np.ndarray:
        """The symbol of each event, int32 (n,); IGNORED for those of other types."""
        texts = released.strings.texts
        of_type = np.full(len(texts) + 1, IGNORED, np.int32)  # a null's is the last
        for event_type in self._guards:
            code = released.strings.find(event_type)
            if code >= 0:
                of_type[code] = self._symbol.get((event_type, ()), IGNORED)
        symbols: np.ndarray = of_type[released.columns["type"]]
        for event_type, guards in self._guards.items():
            if guards:
                rows = np.flatnonzero(released.columns["type"] == released.strings.find(event_type))
                if len(rows):
                    symbols[rows] = self._guarded(event_type, guards, rows, released)
        return symbols

    def _guarded(
        self, event_type: str, guards: list[Predicate], rows: np.ndarray, released: Released
    ) -> np.ndarray:
        """Symbols of ``rows``, which are of the type."""
        columns = {name: column[rows] for name, column in released.columns.items()}
        view = View.of(columns, released.attr_types, released.strings)
        combination = np.zeros(len(rows), np.int64)
        for place, guard in enumerate(guards):
            true = view_mask(guard, view, len(rows))
            combination |= true.astype(np.int64) << place
        found: np.ndarray = self._lookup(event_type, len(guards))[combination]
        return found

    def _lookup(self, event_type: str, guards: int) -> np.ndarray:
        """Symbols by the number that the guards' truth values make."""
        lookup = np.full(1 << guards, IGNORED, np.int32)
        for (known, truths), symbol in self._symbol.items():
            if known == event_type:
                lookup[sum(1 << place for place, true in enumerate(truths) if true)] = symbol
        return lookup

    def guards(self) -> Mapping[str, list[Predicate]]:
        """Of each type, in the order in which names count them."""
        return self._guards


def _possible(guards: list[Predicate], truths: tuple[bool, ...]) -> bool:
    both = list(zip(guards, truths, strict=True))
    untrue = [guard for guard, true in both if not true]
    return find_conflict([guard for guard, true in both if true], untrue) is None


def _name(event_type: str, truths: tuple[bool, ...]) -> str:
    if not truths:
        return event_type
    shown = (str(n) if true else f"not {n}" for n, true in enumerate(truths, 1))
    return f"{event_type}[{', '.join(shown)}]"


# The languages of a constraint and of a pattern, as automata over one alphabet (L10 3.2.1, 3.2.2).
#
# A constraint's is the set of whole traces that it allows, a pattern's that of the traces in which
# it occurs: other events may come before, between and behind those of a match, but for negated
# steps.


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
    parts = tuple(of_constraint(part, alphabet) for part in expression.parts)
    match expression.op:
        case ",":
            return reduce(then, parts, nothing(every))
        case "|":
            return either(parts, every)
    return reduce(mixed, parts)


def of_pattern(plan: SeqPlan | OrPlan, alphabet: Alphabet) -> Nfa:
    """Reads the traces in which ``plan`` has a match, by types and conditions of single events.

    Negated steps stand between others (``engine.operators.constraint.analysis`` has seen to that).

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
