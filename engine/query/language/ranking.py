"""The parts of ``ORDER BY ... LIMIT k``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.query.language.place import Span

if TYPE_CHECKING:
    from engine.query.language.syntax import Node, Number


class Ranked(NamedTuple):
    """One entry: ``node [ASC | DESC]``."""

    node: Node
    descending: bool


class OrderBy(NamedTuple):
    """``ORDER BY entries LIMIT limit``."""

    at: Span
    entries: tuple[Ranked, ...]
    limit: Number
