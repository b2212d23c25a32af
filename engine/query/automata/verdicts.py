"""What a constraint makes certain of a pattern before the pattern is complete (L10 3.2).

A state stands for what a trace has been so far: where the constraint's automaton is, and where the
pattern's. Of the ways in which the constraint lets the trace end, all have a match (SATISFIABLE:
SPEC 4.6 for the definitions), none has (UNSATISFIABLE), or some have (OPEN).

Two ways to know which, with equal answers (L10 Algorithms 1 and 2): ``engine.constraint.basic``
runs the constraint's automaton and the intersection side by side, and compares after each event
whether both accept the same from there on; ``Encoded`` has compared before (L10 Algorithm 3), so
that an event is one look-up. For that, states are merged only where the constraint's state is the
same (L10 Theorem 3.3). Algorithm 2's line 19 is read as of the state just entered.

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
STAYS: Final = -1
"""An event does not change where the pattern's automaton is."""
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
        complete: bool (states,): C lets a trace end here.
        matched: bool (states,): so it does, and there is a match: L10's intersection accepts.
        constraint_state: int32 (states,): where C's automaton is; DEAD where it is broken.
        moves: int32 (states, symbols): where the event brings Q's automaton; STAYS if it does not
            bring it anywhere. As long as the verdict is OPEN, that is how far a match has come.
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
    # of which the pattern makes something else; before a verdict, how far a match has come does.
    kinds = np.stack((c, verdict, np.where(verdict == OPEN, q, DEAD)), axis=1)
    number, chosen = counted(classes(both, np.unique(kinds, axis=0, return_inverse=True)[1]))
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
