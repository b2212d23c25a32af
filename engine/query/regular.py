"""What a constraint says of a trace: a regular expression over events (L10 3.2.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.query.plan import Predicate


class Occurrence(Struct, frozen=True):
    """One event of ``type`` for which ``where`` is true (None: any)."""

    type: str
    where: Predicate | None = None


class Concatenation(Struct, frozen=True):
    """``,``: one part after the other. No parts: nothing happens."""

    parts: tuple[Regular, ...]


class Choice(Struct, frozen=True):
    """``|``: one of the parts."""

    parts: tuple[Regular, ...]


class Interleaving(Struct, frozen=True):
    """``&``: all parts, their events mixed in any way that keeps each part's own order."""

    parts: tuple[Regular, ...]


class Repetition(Struct, frozen=True):
    """``* + ? {m,n}``: ``part`` at least ``least`` times, at most ``most`` (None: any number)."""

    part: Regular
    least: int
    most: int | None


Regular = Occurrence | Concatenation | Choice | Interleaving | Repetition


def occurrences(expression: Regular) -> Iterator[Occurrence]:
    """Every event that ``expression`` names, in written order."""
    match expression:
        case Occurrence():
            yield expression
        case Repetition(part=part):
            yield from occurrences(part)
        case _:
            for part in expression.parts:
                yield from occurrences(part)
