"""What is asked of results before they go out: CHECK, and by what their history is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.query.language.place import Span

if TYPE_CHECKING:
    from engine.query.language.syntax import Duration, Name, Node


class CheckNode(NamedTuple):
    """``CHECK name (condition) [HOLD hold] [DROP]``."""

    at: Span
    name: Name
    condition: Node
    hold: Duration | None
    drop: bool


class HistoryBy(NamedTuple):
    """``HISTORY BY value, value``."""

    at: Span
    values: tuple[Node, ...]
