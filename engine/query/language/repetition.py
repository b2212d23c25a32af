"""How often steps of a pattern occur, and which of its matches are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.query.language.place import Span

if TYPE_CHECKING:
    from engine.query.language.syntax import Name, Node, Number, Reference


class OftenNode(NamedTuple):
    """Behind a step's type: ``* + ?``, or numbers and a comma in braces (``words``). ``array``:
    where ``[]`` stands, if it does; ``until``: what ends the repetition.
    """

    words: tuple[str, ...]
    at: Span
    array: bool = False
    until: Node | None = None


class StepIndex(NamedTuple):
    """``[i]``, ``[i - 1]``: ``variable`` less ``less``; ``[3]`` has no variable."""

    variable: Name | None
    less: int
    at: Span


class Everything(NamedTuple):
    """``*`` in RETURN."""

    at: Span


class PartitionBy(NamedTuple):
    """``PARTITION BY attribute, attribute``."""

    at: Span
    references: tuple[Reference, ...]


class ContiguityClause(NamedTuple):
    """``CONTIGUITY word``: ``strict``, ``next`` or ``any``."""

    at: Span
    word: str


class SkipClause(NamedTuple):
    """``SKIP PAST LAST EVENT`` (``word`` is ``last``) or ``SKIP TO NEXT`` (``next``)."""

    at: Span
    word: str


class LimitClause(NamedTuple):
    """``LIMIT number``."""

    at: Span
    number: Number
