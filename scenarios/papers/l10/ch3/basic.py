"""L10 Algorithm 1: whether a pattern is certain, checked whenever an event changes a state.

The intersection's automaton and the constraint's run side by side. Where both accept the same from
their states on, every continuation has a match (Theorem 3.2); where the intersection accepts
nothing more, none has (Theorem 3.1). What a state accepts (its derivative) is found beforehand
(line 17), as a number that is equal for equal derivatives; the comparison is made as events come.
Algorithm 2 makes the comparison beforehand, too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slackwater.engine.kernels.jit import inline
from slackwater.engine.query.automata import OPEN, SATISFIABLE, UNSATISFIABLE, Encoded
from slackwater.engine.query.dfa import DEAD, Dfa, equivalence_classes, states_reaching


class Basic(NamedTuple):
    """Both automata over one numbering: the intersection's states, then C's, then a dead one.

    Attributes:
        table: int32 (states, symbols).
        derivative: int64 (states,): equal for states that accept the same; the last one is that of
            the dead state.
        first: int64 (1,): the number of C's state 0; 0 if Algorithm 2 is in use (the other arrays
            are then not used).
        constraint: int32 (states of the table of both,): the state of C's automaton beside each.
    """

    table: np.ndarray
    derivative: np.ndarray
    first: np.ndarray
    constraint: np.ndarray


def not_basic() -> Basic:
    """For Algorithm 2."""
    nothing = np.zeros(1, np.int64)
    return Basic(np.zeros((0, 0), np.int32), nothing, nothing, np.zeros(0, np.int32))


def basic_of(constraint: Dfa, both: Encoded) -> Basic:
    """Algorithm 1's automata."""
    kept = states_reaching(both.table, both.matched)
    first, dead = len(both.table), len(both.table) + constraint.size
    mine = np.where(kept[both.table] & kept[:, None], both.table, dead)
    other = np.where(constraint.table == DEAD, dead, constraint.table + first)
    table = np.concatenate((mine, other, np.full((1, mine.shape[1]), dead))).astype(np.int32)
    accepts = np.concatenate((both.matched, constraint.accepts, [False]))
    derivative = equivalence_classes(Dfa(table, accepts)).astype(np.int64)
    return Basic(table, derivative, np.array([first]), both.constraint_state.astype(np.int32))


@inline
def derived(basic: Basic, p: int, q: int) -> int:
    """The verdict where the intersection is in state ``p``, and C in its state ``q``."""
    mine = basic.derivative[p]
    if mine == basic.derivative[len(basic.derivative) - 1]:
        return UNSATISFIABLE
    return SATISFIABLE if mine == basic.derivative[basic.first[0] + q] else OPEN
