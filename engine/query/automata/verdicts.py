"""What a constraint makes certain of a pattern before the pattern is complete (L10 3.2).

A state stands for what a trace has been so far: where the constraint's automaton is, and where the
pattern's. Of the ways in which the constraint lets the trace end, all have a match (SATISFIABLE:
SPEC 4.6 for the definitions), none has (UNSATISFIABLE), or some have (OPEN).

Two ways to know which, with equal answers (L10 Algorithms 1 and 2): ``BasicCheck`` runs the
constraint's automaton and the intersection side by side, and compares after each event whether
both accept the same from there on; ``Encoded`` has compared before (L10 Algorithm 3), so that an
event is one look-up. For that, states are merged only where the constraint's state is the same
(L10 Theorem 3.3). Algorithm 2's line 19 is read as of the state just entered.

A trace that breaks its constraint is watched for the match itself from then on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from engine.query.automata.dfa import (
    DEAD,
    Dfa,
    classes,
    counted,
    minimal,
    reached,
    reaching,
    renumbered,
)
from engine.query.automata.too_large import MAX_STATES, TooLargeError

OPEN: Final = 0
SATISFIABLE: Final = 1
UNSATISFIABLE: Final = 2
START: Final = 0
"""The state in which every trace begins."""
MAX_PAIRS: Final = 1 << 22
"""Of a state of each automaton; bounds the memory of their product."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """All that run time needs of a constraint C and a pattern Q.

    Attributes:
        table: int32 (states, symbols): the next state.
        verdict: int8 (states,): OPEN, SATISFIABLE (in a broken trace: there is a match) or
            UNSATISFIABLE.
        broken: bool (states,): C has not allowed the trace.
        ended: bool (states,): C allows nothing more after it, so the trace is over.
        constraint_state: int32 (states,): where C's automaton is; DEAD where it is broken.
    """

    table: np.ndarray
    verdict: np.ndarray
    broken: np.ndarray
    ended: np.ndarray
    constraint_state: np.ndarray

    @property
    def static(self) -> int:
        """What is known before any event."""
        return int(self.verdict[START])


def product(constraint: Dfa, pattern: Dfa) -> tuple[Dfa, np.ndarray]:
    """Pairs of a state of C (or DEAD: broken) and one of Q (or DEAD: no match can come), as an
    automaton of the traces in both languages; and of each pair the two, int32 (pairs, 2).

    Only pairs that some trace comes to. The first is where a trace begins.
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
    kept = reached(table, np.ones(len(table), bool))
    pairs = np.stack((c, q), axis=1)[kept].astype(np.int32)
    pairs[pairs[:, 0] == constraint.size, 0] = DEAD
    pairs[pairs[:, 1] == pattern.size, 1] = DEAD
    both = _of_each(constraint.accepts, pairs[:, 0]) & _of_each(pattern.accepts, pairs[:, 1])
    return Dfa(renumbered(table, kept), both), pairs


def _of_each(known: np.ndarray, states: np.ndarray) -> np.ndarray:
    """``known`` of each of the ``states``; False of DEAD."""
    found: np.ndarray = np.append(known, False)[states]
    return found


def encoded(constraint: Dfa, pattern: Dfa) -> Encoded:
    """The verdict of every state, and the table that leads from one to the next.

    Args:
        constraint: trimmed, so that from each of its states the trace can be completed.
        pattern: over the same symbols.

    Raises:
        TooLargeError: more states than are built.
    """
    both, pairs = product(constraint, pattern)
    c, q = pairs[:, 0], pairs[:, 1]
    whole, matched = _of_each(constraint.accepts, c), _of_each(pattern.accepts, q)
    can_match = reaching(both.table, whole & matched)
    can_miss = reaching(both.table, whole & ~matched)
    verdict = np.where(can_match, np.where(can_miss, OPEN, SATISFIABLE), UNSATISFIABLE)
    broken = c == DEAD
    verdict[broken] = np.where(matched[broken], SATISFIABLE, OPEN)
    # Theorem 3.3, and no two verdicts in one state. What a broken trace is asked keeps states apart
    # of which the pattern makes something else.
    kinds = np.stack((c, verdict), axis=1)
    number, chosen = counted(classes(both, np.unique(kinds, axis=0, return_inverse=True)[1]))
    if len(chosen) > MAX_STATES:
        raise TooLargeError
    c = c[chosen]
    return Encoded(
        table=number[both.table[chosen]].astype(np.int32),
        verdict=verdict[chosen].astype(np.int8),
        broken=c == DEAD,
        ended=_of_each((constraint.table == DEAD).all(axis=1), c),
        constraint_state=c,
    )


def intersection(constraint: Dfa, pattern: Dfa) -> tuple[Dfa, np.ndarray]:
    """L10's automaton of both languages, merged only within a state of C, and C's state of each.

    States from which nothing is accepted are not in it: DEAD leads there.
    """
    both, pairs = product(constraint, pattern)
    kept = reached(both.table, reaching(both.table, both.accepts))
    live, states = Dfa(renumbered(both.table, kept), both.accepts[kept]), pairs[kept, 0]
    if not live.size:
        return live, states
    _, chosen = counted(classes(live, states))
    return minimal(live, states), states[chosen]


class BasicCheck:
    """L10 Algorithm 1 for one trace that keeps to its constraint."""

    def __init__(self, constraint: Dfa, pattern: Dfa) -> None:
        both, _ = intersection(constraint, pattern)
        self._constraint, self._both = constraint, both
        table = np.concatenate((both.table, np.where(
            constraint.table == DEAD, DEAD, constraint.table + both.size)))  # fmt: skip
        accepts = np.concatenate((both.accepts, constraint.accepts))
        self._derivative = classes(Dfa(table, accepts))
        self._p = self._q = 0

    def known(self) -> int:
        """The verdict on the trace so far."""
        if self._p == DEAD or not self._both.size:
            return UNSATISFIABLE
        same = self._derivative[self._p] == self._derivative[self._both.size + self._q]
        return SATISFIABLE if same else OPEN

    def read(self, symbol: int) -> int:
        """The verdict after one event more, which the constraint allows."""
        self._q = int(self._constraint.table[self._q, symbol])
        if self._p != DEAD and self._both.size:
            self._p = int(self._both.table[self._p, symbol])
        return self.known()
