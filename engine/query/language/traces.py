"""What is known of a trace beforehand: UNDER CONSTRAINT, a regular expression over its events."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.query.language.place import Span

if TYPE_CHECKING:
    from engine.query.language.syntax import Duration, Name, Node, Reference


class OccurrenceNode(NamedTuple):
    """``type [condition]`` in a constraint."""

    type: Name
    where: Node | None
    at: Span
    depth: int


class RegularNode(NamedTuple):
    """``op`` is ``,`` | ``|`` | ``&``, of two or more parts."""

    op: str
    parts: tuple[TraceNode, ...]
    at: Span
    depth: int


class RepetitionNode(NamedTuple):
    """``part`` as often as the words ``times`` say: ``* + ?``, or numbers and a comma."""

    part: TraceNode
    times: tuple[str, ...]
    times_at: Span
    at: Span
    depth: int


TraceNode = OccurrenceNode | RegularNode | RepetitionNode


class Under(NamedTuple):
    """``UNDER CONSTRAINT name FOR TRACE BY trace [TIMEOUT timeout] AS expression``."""

    at: Span
    name: Name
    trace: Reference
    timeout: Duration | None
    expression: TraceNode
