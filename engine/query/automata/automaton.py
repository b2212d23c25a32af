"""Nondeterministic and deterministic automata."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

import numpy as np

# The bound of all automata here.


MAX_STATES: Final = 20_000
"""Of any automaton on the way; bounds time and memory before the first event."""


class TooLargeError(Exception):
    """An automaton would have more than ``MAX_STATES`` states."""


# Nondeterministic automata with one start and one end (Thompson 1968), and how they combine.
#
# Symbols are numbers; a set of them is an int, one bit a symbol. A state ``allows`` the symbols
# that may be read elsewhere while it is held: that is how a negated step of a pattern, which must
# not occur between two others, reaches parts that run beside it.


Edge = tuple[int, int, int]
"""(from, symbols, to)."""


@dataclass(frozen=True, slots=True)
class Nfa:
    """States 0 .. ``len(allows)`` - 1; ``free``: pairs that need no symbol."""

    allows: tuple[int, ...]
    start: int
    end: int
    edges: tuple[Edge, ...]
    free: tuple[tuple[int, int], ...] = ()

    @property
    def size(self) -> int:
        return len(self.allows)


def one_of(symbols: int, every: int) -> Nfa:
    """Reads one of ``symbols``; ``every``: all symbols there are."""
    return Nfa((every, every), 0, 1, ((0, symbols, 1),))


def nothing(every: int) -> Nfa:
    """Reads nothing, and is at its end."""
    return Nfa((every, every), 0, 1, (), ((0, 1),))


def _beside(parts: tuple[Nfa, ...]) -> tuple[Nfa, list[int]]:
    """All ``parts`` as one automaton that is not connected, and where each one's states begin.

    Raises:
        TooLargeError: more states than are built.
    """
    allows: list[int] = []
    edges: list[Edge] = []
    free: list[tuple[int, int]] = []
    begins = []
    for part in parts:
        at = len(allows)
        begins.append(at)
        allows += part.allows
        edges += ((source + at, symbols, to + at) for source, symbols, to in part.edges)
        free += ((source + at, to + at) for source, to in part.free)
        if len(allows) > MAX_STATES:
            raise TooLargeError
    return Nfa(tuple(allows), 0, 0, tuple(edges), tuple(free)), begins


def then(left: Nfa, right: Nfa, forbidden: int = 0) -> Nfa:
    """``left`` and then ``right``, and none of ``forbidden`` between the two."""
    both, (_, at) = _beside((left, right))
    joint = (left.end, right.start + at)
    allows = list(both.allows)
    for state in joint:
        allows[state] &= ~forbidden
    return Nfa(tuple(allows), left.start, right.end + at, both.edges, (*both.free, joint))


def either(parts: tuple[Nfa, ...], every: int) -> Nfa:
    """One of ``parts``."""
    both, begins = _beside(parts)
    start, end = both.size, both.size + 1
    free = list(both.free)
    for part, at in zip(parts, begins, strict=True):
        free += ((start, part.start + at), (part.end + at, end))
    return Nfa((*both.allows, every, every), start, end, both.edges, tuple(free))


def repeated(part: Nfa, least: int, most: int | None, every: int) -> Nfa:
    """``part`` at least ``least`` times and at most ``most`` times (None: any number)."""
    chain = [part] * least
    if most is None:
        again = either((part, nothing(every)), every)
        chain.append(replace(again, free=(*again.free, (again.end, again.start))))
    else:
        chain += [either((part, nothing(every)), every)] * (most - least)
    return reduce(then, chain, nothing(every))


def mixed(left: Nfa, right: Nfa) -> Nfa:
    """Both, their symbols mixed in any way (shuffle product), as far as states allow it."""
    width = right.size
    if left.size * width > MAX_STATES:
        raise TooLargeError
    edges: list[Edge] = []
    free: list[tuple[int, int]] = []
    for source, symbols, to in left.edges:
        edges += (
            (source * width + beside, symbols & allowed, to * width + beside)
            for beside, allowed in enumerate(right.allows)
        )
    for source, symbols, to in right.edges:
        edges += (
            (beside * width + source, symbols & allowed, beside * width + to)
            for beside, allowed in enumerate(left.allows)
        )
    for source, to in left.free:
        free += ((source * width + beside, to * width + beside) for beside in range(width))
    for source, to in right.free:
        free += ((beside * width + source, beside * width + to) for beside in range(left.size))
    return Nfa(
        tuple(one & other for one in left.allows for other in right.allows),
        left.start * width + right.start,
        left.end * width + right.end,
        tuple(edges),
        tuple(free),
    )


def anywhere(part: Nfa, every: int) -> Nfa:
    """``part`` among other symbols: any before it and behind it, within it what a state allows."""
    loops = [(state, allowed, state) for state, allowed in enumerate(part.allows)]
    whole = replace(part, edges=(*part.edges, *loops))
    around = Nfa((every,), 0, 0, ((0, every, 0),))
    return then(then(around, whole), around)


# Deterministic automata: subset construction (Rabin and Scott 1959), minimal ones (Moore 1956).


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
    """``table`` of the ``kept`` states alone, renumbered; every other state becomes DEAD."""
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
    """The class of each state, numbered by its first state, and those first states."""
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
