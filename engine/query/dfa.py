"""Deterministic automata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

# The bound of all automata here.


MAX_STATES: Final = 20_000
"""Of any automaton on the way; bounds time and memory before the first event."""


class TooLargeError(Exception):
    """An automaton would have more than ``MAX_STATES`` states."""


# Minimal ones: Moore (1956).


DEAD: Final = -1
"""Where a symbol leads that nothing accepted has."""


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


def reaching(table: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Which states can come to one of the ``wanted``, themselves among them; bool (states,)."""
    found = wanted.copy()
    while True:
        ahead = (found[table] & (table != DEAD)).any(axis=1) if table.size else found
        more = found | ahead
        if (more == found).all():
            return found
        found = more


def trimmed(dfa: Dfa) -> Dfa:
    """``dfa`` with those states alone from which it can accept and to which it can come."""
    kept = reached(dfa.table, reaching(dfa.table, dfa.accepts))
    return Dfa(renumbered(dfa.table, kept), dfa.accepts[kept])


def renumbered(table: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """``table`` of the ``kept`` states alone, renumbered; every other state becomes DEAD."""
    number = np.append(np.where(kept, np.cumsum(kept) - 1, DEAD), DEAD)  # DEAD is the last place
    return np.asarray(number[table[kept]], np.int32)


def reached(table: np.ndarray, live: np.ndarray) -> np.ndarray:
    """Which states state 0 comes to by way of ``live`` ones, all ``live``; bool (states,)."""
    found = np.zeros(len(table), bool)
    found[:1] = live[:1]
    border = np.flatnonzero(found)
    while len(border):
        ahead = np.unique(table[border])
        ahead = ahead[ahead != DEAD]
        border = ahead[live[ahead] & ~found[ahead]]
        found[border] = True
    return found


def minimal(dfa: Dfa) -> Dfa:
    """``dfa`` with states merged that accept the same; the start stays state 0."""
    if not dfa.size:
        return dfa
    number, chosen = counted(classes(dfa))
    table = dfa.table[chosen]
    merged = np.where(table == DEAD, DEAD, number[table]).astype(np.int32)
    return Dfa(merged, dfa.accepts[chosen])


def counted(classes_: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The class of each state, numbered by its first state, and those first states."""
    found, firsts = np.unique(classes_, return_index=True)
    order = np.argsort(firsts)
    rank = np.empty(len(found), np.int32)
    rank[order] = np.arange(len(found), dtype=np.int32)
    return rank[classes_], firsts[order]


def classes(dfa: Dfa, apart: np.ndarray | None = None) -> np.ndarray:
    """Int (states,): equal where states accept the same continuations (their derivatives are
    equal) and ``apart`` (states,) is equal: others are never merged (L10 Theorem 3.3).
    """
    by = [dfa.accepts.astype(np.int64)] + ([] if apart is None else [apart.reshape(-1)])
    found = np.unique(np.stack(by, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    count = -1
    while count != (count := int(found.max()) + 1):
        ahead = np.where(dfa.table == DEAD, DEAD, found[dfa.table])
        rows = np.concatenate((found[:, None], ahead), axis=1)
        found = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    return found
