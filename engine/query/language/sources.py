"""What a SELECT reads: streams one beside the other, or two that are joined."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.query.language.place import Span

if TYPE_CHECKING:
    from engine.query.language.syntax import Name, Node


class From(NamedTuple):
    """``FROM stream [[AS] alias], stream``: of a pattern the streams have no alias.

    ``aliases``: of each stream, None where it has none.
    """

    at: Span
    streams: tuple[Name, ...]
    aliases: tuple[Name | None, ...]


class JoinSide(NamedTuple):
    """``stream [AS] alias``: one side of a join."""

    stream: Name
    alias: Name | None


class Join(NamedTuple):
    """``FROM left [kind] JOIN right [ON condition]``; ``kind`` is one of
    ``engine.query.plan.JoinKind``, ``join_at`` covers the words from it to JOIN.
    """

    at: Span
    left: JoinSide
    kind: str
    join_at: Span
    right: JoinSide
    condition: Node | None
