"""What is known of a trace beforehand: UNDER CONSTRAINT, a regular expression over its events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.query.language.place import Span

if TYPE_CHECKING:
    from engine.query.language.syntax import Duration, Name, Node, Reference


@dataclass(frozen=True, slots=True)
class OccurrenceNode:
    """``type [condition]`` in a constraint."""

    type: Name
    where: Node | None
    at: Span
    depth: int


@dataclass(frozen=True, slots=True)
class RegularNode:
    """``op`` is ``,`` | ``|`` | ``&``, of two or more parts."""

    op: str
    parts: tuple[TraceNode, ...]
    at: Span
    depth: int


@dataclass(frozen=True, slots=True)
class RepetitionNode:
    """``part`` as often as the words ``times`` say: ``* + ?``, or numbers and a comma."""

    part: TraceNode
    times: tuple[str, ...]
    times_at: Span
    at: Span
    depth: int


TraceNode = OccurrenceNode | RegularNode | RepetitionNode


@dataclass(frozen=True, slots=True)
class Under:
    """``UNDER CONSTRAINT name FOR TRACE BY trace [TIMEOUT timeout] AS expression``."""

    at: Span
    name: Name
    trace: Reference
    timeout: Duration | None
    expression: TraceNode
