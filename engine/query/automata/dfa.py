"""Deterministic automata: subset construction (Rabin and Scott 1959), minimal ones (Moore 1956)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from engine.query.automata.nfa import Nfa
from engine.query.automata.too_large import MAX_STATES, TooLargeError

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


def determined(nfa: Nfa, symbols: int) -> Dfa:
    """The minimal automaton of ``nfa`` over ``symbols`` symbols; from all its states an accepted
    end can be reached.

    Raises:
        TooLargeError: more states than are built.
    """
    closures = _closures(nfa)
    moves: list[list[tuple[int, int]]] = [[] for _ in range(nfa.size)]
    for source, read, to in nfa.edges:
        if read:
            moves[source].append((read, closures[to]))
    first = closures[nfa.start]
    known = {first: 0}
    waiting = [first]
    rows: list[list[int]] = []
    while waiting:
        row = [0] * symbols
        for state in _bits(waiting[len(rows)]):
            for read, reached in moves[state]:
                for symbol in _bits(read):
                    row[symbol] |= reached
        numbers = []
        for subset in row:
            if subset and subset not in known:
                known[subset] = len(waiting)
                waiting.append(subset)
                if len(waiting) > MAX_STATES:
                    raise TooLargeError
            numbers.append(known[subset] if subset else DEAD)
        rows.append(numbers)
        if len(rows) == len(waiting):
            break
    table = np.array(rows, np.int32).reshape(len(rows), symbols)
    accepts = np.array([bool(subset >> nfa.end & 1) for subset in waiting])
    return minimal(trimmed(Dfa(table, accepts)))


def _closures(nfa: Nfa) -> list[int]:
    """What each state reaches without a symbol, itself among it, a bit a state."""
    ahead: list[list[int]] = [[] for _ in range(nfa.size)]
    for source, to in nfa.free:
        ahead[source].append(to)
    closures = []
    for state in range(nfa.size):
        found, waiting = 1 << state, [state]
        while waiting:
            for to in ahead[waiting.pop()]:
                if not found >> to & 1:
                    found |= 1 << to
                    waiting.append(to)
        closures.append(found)
    return closures


def _bits(number: int) -> list[int]:
    found = []
    while number:
        low = number & -number
        found.append(low.bit_length() - 1)
        number ^= low
    return found


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
    """``table`` of the ``kept`` states alone, counted anew; DEAD leads to all others."""
    number = np.append(np.where(kept, np.cumsum(kept) - 1, DEAD), DEAD)  # DEAD is the last place
    found: np.ndarray = number[table[kept]].astype(np.int32)
    return found


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


def minimal(dfa: Dfa, apart: np.ndarray | None = None) -> Dfa:
    """``dfa`` with states merged that accept the same; the start stays state 0.

    ``apart``: int (states,); states of different numbers are never merged (L10 Theorem 3.3).
    """
    if not dfa.size:
        return dfa
    number, chosen = counted(classes(dfa, apart))
    table = dfa.table[chosen]
    merged = np.where(table == DEAD, DEAD, number[table]).astype(np.int32)
    return Dfa(merged, dfa.accepts[chosen])


def counted(classes_: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The class of each state, counted anew by the first state of each, and those states."""
    found, firsts = np.unique(classes_, return_index=True)
    order = np.argsort(firsts)
    rank = np.empty(len(found), np.int32)
    rank[order] = np.arange(len(found), dtype=np.int32)
    return rank[classes_], firsts[order]


def classes(dfa: Dfa, apart: np.ndarray | None = None) -> np.ndarray:
    """Int (states,): equal where states accept the same continuations (their derivatives are
    equal) and ``apart`` is equal.
    """
    by = [dfa.accepts.astype(np.int64)] + ([] if apart is None else [apart.reshape(-1)])
    found = np.unique(np.stack(by, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    count = -1
    while count != (count := int(found.max()) + 1):
        ahead = np.where(dfa.table == DEAD, DEAD, found[dfa.table])
        rows = np.concatenate((found[:, None], ahead), axis=1)
        found = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    return found
