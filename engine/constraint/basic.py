"""L10 Algorithm 1: whether a pattern is certain, found out when an event changes a state.

The intersection's automaton and the constraint's run side by side. Where both accept the same from
their states on, every way to go on has a match (Theorem 3.2); where the intersection accepts
nothing more, none has (Theorem 3.1). Algorithm 2 has asked both of each state beforehand.

Source: the comparison is Hopcroft and Karp's (1971): states are taken for equal until a pair
accepts differently; L10 leaves open how.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.kernels.jit import inline, kernel
from engine.query.automata.dfa import DEAD, Dfa, reaching
from engine.query.automata.verdicts import OPEN, SATISFIABLE, UNSATISFIABLE, Encoded


class Basic(NamedTuple):
    """Both automata over one numbering: the intersection's states, then C's, then a dead one.

    Attributes:
        table: int32 (states, symbols).
        accepts: bool (states,).
        first: int64 (1,): the number of C's state 0; 0: Algorithm 2 is in use, and no more here.
        parent: int32 (states,): union-find's; each its own between calls.
        changed: int32 (states,): of which ``parent`` is to be set back.
        waiting, partner: int32 (states,): pairs whose next states are to be compared.
    """

    table: np.ndarray
    accepts: np.ndarray
    first: np.ndarray
    parent: np.ndarray
    changed: np.ndarray
    waiting: np.ndarray
    partner: np.ndarray


def not_basic() -> Basic:
    """For Algorithm 2."""
    none = np.zeros(0, np.int32)
    pairs = np.zeros((0, 2), np.int32)
    return Basic(pairs, none.astype(np.bool_), np.zeros(1, np.int64), none, none, none, none)


def basic_of(constraint: Dfa, both: Encoded) -> Basic:
    """Algorithm 1's automata."""
    kept = reaching(both.table, both.matched)
    first, dead = len(both.table), len(both.table) + constraint.size
    mine = np.where(kept[both.table] & kept[:, None], both.table, dead)
    other = np.where(constraint.table == DEAD, dead, constraint.table + first)
    table = np.concatenate((mine, other, np.full((1, mine.shape[1]), dead))).astype(np.int32)
    accepts = np.concatenate((both.matched, constraint.accepts, [False]))
    numbers = np.arange(dead + 1, dtype=np.int32)
    return Basic(
        table, accepts, np.array([first]), numbers, numbers.copy(), numbers.copy(), numbers.copy(),
    )  # fmt: skip


@inline
def _root(parent: np.ndarray, state: int) -> int:
    while parent[state] != state:
        state = parent[state]
    return state


@kernel
def derived(basic: Basic, p: int, q: int) -> int:
    """The verdict where the intersection is in state ``p``, and C in its state ``q``."""
    dead = len(basic.table) - 1
    lost = not basic.accepts[p]
    for symbol in range(basic.table.shape[1]):
        lost = lost and basic.table[p, symbol] == dead
    if lost:  # a state from which something is accepted leads to another such, or accepts itself
        return UNSATISFIABLE
    waiting, joined, same = 0, 0, True
    left, right, symbol = p, q + int(basic.first[0]), -1
    while same:
        one, other = _root(basic.parent, left), _root(basic.parent, right)
        if one != other:
            same = basic.accepts[left] == basic.accepts[right]
            basic.parent[one] = other
            basic.changed[joined] = one
            basic.waiting[waiting], basic.partner[waiting] = left, right
            waiting, joined = waiting + 1, joined + 1
        if symbol < 0:
            if waiting == 0:
                break
            waiting -= 1
            p, q = basic.waiting[waiting], basic.partner[waiting]
            symbol = basic.table.shape[1]
        symbol -= 1
        if symbol >= 0:
            left, right = basic.table[p, symbol], basic.table[q, symbol]
    for place in range(joined):
        basic.parent[basic.changed[place]] = basic.changed[place]
    return SATISFIABLE if same else OPEN
