"""Nondeterministic automata with one start and one end (Thompson 1968), and how they combine.

Symbols are numbers; a set of them is an int, one bit a symbol. A state ``allows`` the symbols that
may be read elsewhere while it is held: that is how a negated step of a pattern, which must not
occur between two others, reaches parts that run beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

from engine.query.automata.too_large import MAX_STATES, TooLargeError

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
