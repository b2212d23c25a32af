"""Deterministic automata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

MAX_STATES: Final = 20_000
"""Limit of every automaton, intermediate ones too; bounds time and memory of compilation."""


class TooLargeError(Exception):
    """An automaton would have more than ``MAX_STATES`` states."""


# Minimal ones: Moore (1956).


DEAD: Final = -1
"""The next state after a symbol with which no trace is accepted."""


@dataclass(frozen=True, slots=True)
class Dfa:
    """``table``: int32 (states, symbols), the next state or DEAD; ``accepts``: bool (states,).

    State 0 is the start; an automaton of the empty language has no states.
    """

    table: np.ndarray
    accepts: np.ndarray

    @property
    def size(self) -> int:
        return len(self.table)


def states_reaching(table: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return where states lead to one of the ``targets`` or are targets; bool (states,)."""
    found = targets.copy()
    while True:
        ahead = (found[table] & (table != DEAD)).any(axis=1) if table.size else found
        more = found | ahead
        if (more == found).all():
            return found
        found = more


def trim(dfa: Dfa) -> Dfa:
    """Return ``dfa`` with only the states that are reachable and lead to an accepting one."""
    kept = reachable_states(dfa.table, states_reaching(dfa.table, dfa.accepts))
    return Dfa(renumber(dfa.table, kept), dfa.accepts[kept])


def renumber(table: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return ``table`` with only the ``kept`` states, renumbered; other states become DEAD."""
    number = np.append(np.where(kept, np.cumsum(kept) - 1, DEAD), DEAD)  # DEAD is the last place
    return np.asarray(number[table[kept]], np.int32)


def reachable_states(table: np.ndarray, live: np.ndarray) -> np.ndarray:
    """Return the states that state 0 reaches through ``live`` states, all live; bool (states,)."""
    found = np.zeros(len(table), bool)
    found[:1] = live[:1]
    border = np.flatnonzero(found)
    while len(border):
        ahead = np.unique(table[border])
        ahead = ahead[ahead != DEAD]
        border = ahead[live[ahead] & ~found[ahead]]
        found[border] = True
    return found


def minimize(dfa: Dfa) -> Dfa:
    """Return the minimal automaton: equivalent states are merged; the start stays state 0."""
    if not dfa.size:
        return dfa
    number, chosen = number_classes(equivalence_classes(dfa))
    table = dfa.table[chosen]
    merged = np.where(table == DEAD, DEAD, number[table]).astype(np.int32)
    return Dfa(merged, dfa.accepts[chosen])


def number_classes(classes_: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the class of each state, numbered by its first state, and those first states."""
    found, firsts = np.unique(classes_, return_index=True)
    order = np.argsort(firsts)
    rank = np.empty(len(found), np.int32)
    rank[order] = np.arange(len(found), dtype=np.int32)
    return rank[classes_], firsts[order]


def equivalence_classes(dfa: Dfa, apart: np.ndarray | None = None) -> np.ndarray:
    """Return classes, int (states,): equal for states with the same continuations and ``apart``.

    ``apart``: (states,); states with different values are never merged (L10 Theorem 3.3).
    """
    by = [dfa.accepts.astype(np.int64)] + ([] if apart is None else [apart.reshape(-1)])
    found = np.unique(np.stack(by, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    count = -1
    while count != (count := int(found.max()) + 1):
        ahead = np.where(dfa.table == DEAD, DEAD, found[dfa.table])
        rows = np.concatenate((found[:, None], ahead), axis=1)
        found = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    return found
