"""The parts of ``ORDER BY ... LIMIT k``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.query.language.place import Span

if TYPE_CHECKING:
    from engine.query.language.syntax import Node, Number


@dataclass(frozen=True, slots=True)
class Ranked:
    """One entry: ``node [ASC | DESC]``."""

    node: Node
    descending: bool


@dataclass(frozen=True, slots=True)
class OrderBy:
    """``ORDER BY entries LIMIT limit``."""

    at: Span
    entries: tuple[Ranked, ...]
    limit: Number
