"""What a SELECT reads: streams one beside the other, or two that are joined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.query.language.place import Span

if TYPE_CHECKING:
    from engine.query.language.syntax import Name, Node


@dataclass(frozen=True, slots=True)
class From:
    """``FROM stream, stream``."""

    at: Span
    streams: tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class JoinSide:
    """``stream [AS] alias``: one side of a join."""

    stream: Name
    alias: Name | None


@dataclass(frozen=True, slots=True)
class Join:
    """``FROM left [kind] JOIN right [ON condition]``; ``kind`` is one of
    ``engine.query.plan.JoinKind``, ``join_at`` covers the words from it to JOIN.
    """

    at: Span
    left: JoinSide
    kind: str
    join_at: Span
    right: JoinSide
    condition: Node | None
