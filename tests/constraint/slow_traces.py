"""Constraints and patterns by definition: derivatives of expressions (Brzozowski 1964), and sets of
matches begun. Shares nothing with the engine: ``flow`` reads a constraint's text by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class Occurrence:
    """One event."""

    type: str


@dataclass(frozen=True)
class Concatenation:
    """``,``: one part after the other."""

    parts: tuple[Regular, ...]


@dataclass(frozen=True)
class Choice:
    """``|``: one of the parts."""

    parts: tuple[Regular, ...]


@dataclass(frozen=True)
class Interleaving:
    """``&``: all parts, their events mixed in any way that keeps each part's own order."""

    parts: tuple[Regular, ...]


@dataclass(frozen=True)
class Repetition:
    """``part`` from ``least`` to ``most`` times (None: any number)."""

    part: Regular
    least: int
    most: int | None


Regular = Occurrence | Concatenation | Choice | Interleaving | Repetition
TIMES = {"*": (0, None), "+": (1, None), "?": (0, 1)}
SIGNS = (("|", Choice), ("&", Interleaving), (",", Concatenation))
"""From what binds least."""


def flow(text: str) -> Regular:
    """What a constraint says (L10 3.2.1)."""
    words = [*re.findall(r"\{.*?\}|\w+|[^\w\s]", text), "end"]

    def joined(level: int) -> Regular:
        if level == len(SIGNS):
            return repeated()
        sign, kind = SIGNS[level]
        parts = [joined(level + 1)]
        while words[0] == sign:
            words.pop(0)
            parts.append(joined(level + 1))
        return parts[0] if len(parts) == 1 else kind(tuple(parts))

    def repeated() -> Regular:
        word = words.pop(0)
        found = joined(0) if word == "(" else Occurrence(word)
        if word == "(":
            assert words.pop(0) == ")"
        if words[0] in TIMES:
            return Repetition(found, *TIMES[words.pop(0)])
        if words[0][0] == "{":
            least, comma, most = words.pop(0)[1:-1].partition(",")
            return Repetition(found, int(least), int(most or least) if most or not comma else None)
        return found

    read_ = joined(0)
    assert words == ["end"], text
    return read_


def letters_of(e: Regular) -> set[str]:
    """The types that it names."""
    match e:
        case Occurrence(type=event_type):
            return {event_type}
        case Repetition(part=part):
            return letters_of(part)
    return {each for part in e.parts for each in letters_of(part)}


NOTHING = Choice(())
"""No trace at all."""
EMPTY = Concatenation(())
"""The trace without events."""


def nullable(e: Regular) -> bool:
    match e:
        case Occurrence():
            return False
        case Repetition(part=part, least=least):
            return least == 0 or nullable(part)
        case Choice(parts=parts):
            return any(map(nullable, parts))
    return all(map(nullable, e.parts))


def choice(parts: Iterable[Regular]) -> Regular:
    flat: set[Regular] = set()
    for part in parts:
        flat |= set(part.parts) if isinstance(part, Choice) else {part}
    found = sorted(flat, key=repr)
    return found[0] if len(found) == 1 else Choice(tuple(found))


def sequence(parts: Iterable[Regular]) -> Regular:
    flat: list[Regular] = []
    for part in parts:
        flat += part.parts if isinstance(part, Concatenation) else [part]
    if NOTHING in flat:
        return NOTHING
    return flat[0] if len(flat) == 1 else Concatenation(tuple(flat))


def mixture(parts: Iterable[Regular]) -> Regular:
    found = sorted((part for part in parts if part != EMPTY), key=repr)
    if NOTHING in found:
        return NOTHING
    if not found:
        return EMPTY
    return found[0] if len(found) == 1 else Interleaving(tuple(found))


@lru_cache(maxsize=100_000)
def derivative(e: Regular, letter: str) -> Regular:
    """What may follow ``letter`` in ``e``."""
    match e:
        case Occurrence(type=event_type):
            return EMPTY if event_type == letter else NOTHING
        case Repetition(part=part, least=least, most=most):
            if most == 0:
                return NOTHING
            left = Repetition(part, max(least - 1, 0), None if most is None else most - 1)
            ways = [sequence((derivative(part, letter), left))]
            if nullable(part) and most is not None and least > 0:
                ways.append(derivative(left, letter))
            return choice(ways)
        case Choice(parts=parts):
            return choice(derivative(part, letter) for part in parts)
        case Concatenation(parts=parts):
            ways = []
            for place, part in enumerate(parts):
                ways.append(sequence((derivative(part, letter), *parts[place + 1 :])))
                if not nullable(part):
                    break
            return choice(ways)
        case Interleaving(parts=parts):
            return choice(
                mixture((*parts[:place], derivative(part, letter), *parts[place + 1 :]))
                for place, part in enumerate(parts)
            )


@dataclass(frozen=True)
class Seq:
    """``SEQ`` of parts; a part is a set of letters in any order (AND), ``absent[i]`` the letters
    that must not occur between part i and part i + 1.
    """

    parts: tuple[tuple[str, ...], ...]
    absent: tuple[str, ...]

    @property
    def letters(self) -> set[str]:
        """The types that it names."""
        return {each for part in (*self.parts, *self.absent) for each in part}

    def text(self) -> str:
        """As a query has it."""
        shown, n = [], 0
        for place, part in enumerate(self.parts):
            steps = [f"{letter} s{n + i}" for i, letter in enumerate(part)]
            n += len(part)
            shown.append(steps[0] if len(steps) == 1 else f"AND({', '.join(steps)})")
            if place < len(self.absent):
                for letter in self.absent[place]:
                    shown.append(f"!{letter} s{n}")
                    n += 1
        return f"EVENT SEQ({', '.join(shown)})" if len(shown) > 1 else f"EVENT {shown[0]}"


Begun = frozenset[tuple[int, frozenset[int]]]
"""Of each match begun: which part it is in, and which of its steps are taken."""
FIRST: Begun = frozenset({(0, frozenset())})


def read(pattern: Seq, begun: Begun, letter: str) -> Begun | None:
    """All matches begun after one letter more; None: one is complete."""
    found = set(begun)
    for place, taken in begun:
        if place and not taken and letter in pattern.absent[place - 1]:
            found.discard((place, taken))
    for place, taken in begun:
        for step, wanted in enumerate(pattern.parts[place]):
            if wanted != letter or step in taken:
                continue
            if len(taken) + 1 < len(pattern.parts[place]):
                found.add((place, taken | {step}))
            elif place + 1 < len(pattern.parts):
                found.add((place + 1, frozenset()))
            else:
                return None
    return frozenset(found)


def verdict(constraint: Regular, begun: Begun | None, pattern: Seq, letters: str) -> str:
    """open | satisfiable | unsatisfiable (SPEC 4.6), by all ways to go on."""
    seen = {(constraint, begun)}
    waiting = [(constraint, begun)]
    ends = set()
    while waiting:
        rest, matches = waiting.pop()
        if nullable(rest):
            ends.add(matches is None)
        for letter in letters:
            after = derivative(rest, letter)
            if after == NOTHING:
                continue
            more = None if matches is None else read(pattern, matches, letter)
            if (after, more) not in seen:
                seen.add((after, more))
                waiting.append((after, more))
    assert ends, "a trace that keeps to its constraint can be completed"
    if len(ends) == 2:
        return "open"
    return "satisfiable" if ends == {True} else "unsatisfiable"


def possible(e: Regular) -> bool:
    """Whether any trace is in ``e``."""
    match e:
        case Occurrence():
            return True
        case Repetition(part=part, least=least):
            return least == 0 or possible(part)
        case Choice(parts=parts):
            return any(map(possible, parts))
    return all(map(possible, e.parts))
