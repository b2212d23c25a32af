"""How often steps of a pattern occur, and which of its matches are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.query.language.place import Span

if TYPE_CHECKING:
    from engine.query.language.syntax import Name, Node, Number, Reference


@dataclass(frozen=True, slots=True)
class OftenNode:
    """Behind a step's type: ``* + ?``, or numbers and a comma in braces (``words``). ``array``:
    where ``[]`` stands, if it does; ``until``: what ends the repetition.
    """

    words: tuple[str, ...]
    at: Span
    array: bool = False
    until: Node | None = None


@dataclass(frozen=True, slots=True)
class StepIndex:
    """``[i]``, ``[i - 1]``: ``variable`` less ``less``; ``[3]`` has no variable."""

    variable: Name | None
    less: int
    at: Span


@dataclass(frozen=True, slots=True)
class Everything:
    """``*`` in RETURN."""

    at: Span


@dataclass(frozen=True, slots=True)
class PartitionBy:
    """``PARTITION BY attribute, attribute``."""

    at: Span
    references: tuple[Reference, ...]


@dataclass(frozen=True, slots=True)
class ContiguityClause:
    """``CONTIGUITY word``: ``strict``, ``next`` or ``any``."""

    at: Span
    word: str


@dataclass(frozen=True, slots=True)
class SkipClause:
    """``SKIP PAST LAST EVENT`` (``word`` is ``last``) or ``SKIP TO NEXT`` (``next``)."""

    at: Span
    word: str


@dataclass(frozen=True, slots=True)
class LimitClause:
    """``LIMIT number``."""

    at: Span
    number: Number
