"""What is asked of results before they go out: CHECK, and by what their history is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.query.language.place import Span

if TYPE_CHECKING:
    from engine.query.language.syntax import Duration, Name, Node


@dataclass(frozen=True, slots=True)
class CheckNode:
    """``CHECK name (condition) [HOLD hold] [DROP]``."""

    at: Span
    name: Name
    condition: Node
    hold: Duration | None
    drop: bool


@dataclass(frozen=True, slots=True)
class HistoryBy:
    """``HISTORY BY value, value``."""

    at: Span
    values: tuple[Node, ...]
