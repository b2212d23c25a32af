"""Syntax tree of a query: its parts and their places in the text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from slackwater.engine.query.language.mistakes import Span

_N = TypeVar("_N")

# The sources of a SELECT: a list of streams, or two joined streams.


class From(NamedTuple):
    """``FROM stream [[AS] alias], stream``; the streams of a pattern have no alias.

    ``aliases``: one per stream, or None.
    """

    at: Span
    streams: tuple[Name, ...]
    aliases: tuple[Name | None, ...]


class JoinSide(NamedTuple):
    """``stream [AS] alias``: one side of a join."""

    stream: Name
    alias: Name | None = None


class Join(NamedTuple):
    """``FROM left [kind] JOIN right [ON condition]``; ``kind`` is a value of
    ``engine.query.plan.JoinKind``, ``join_at`` covers the words from it to JOIN.
    """

    at: Span
    left: JoinSide
    kind: str
    join_at: Span
    right: JoinSide
    condition: Node | None


# UNDER CONSTRAINT: a regular expression over the events of a trace.


class OccurrenceNode(NamedTuple):
    """``type [condition]`` in a constraint."""

    type: Name
    where: Node | None
    at: Span
    depth: int


class RepetitionNode(NamedTuple):
    """``part`` with the repetition ``times``: ``* + ?``, or numbers and a comma."""

    part: TraceNode
    times: tuple[str, ...]
    times_at: Span
    at: Span
    depth: int


class Under(NamedTuple):
    """``UNDER CONSTRAINT name FOR TRACE BY trace [TIMEOUT timeout [TIMEZONE zone]] AS
    expression``.
    """

    at: Span
    name: Name
    trace: Reference
    timeout: Duration | None
    zone: Literal | None
    expression: TraceNode


# Rules on results before emission: CHECK, and the key of their history.


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


class EmitLimitClause(NamedTuple):
    """``EMIT AT MOST most EVERY every [BY value, value]``."""

    at: Span
    most: Number
    every: Duration
    values: tuple[Node, ...]


class LookupClause(NamedTuple):
    """``LOOKUP table [AS alias] ON on``."""

    at: Span
    table: Name
    alias: Name | None
    on: Node


# The parts of ``ORDER BY ... LIMIT k``.


class Ranked(NamedTuple):
    """One entry: ``node [ASC | DESC]``."""

    node: Node
    descending: bool


class OrderBy(NamedTuple):
    """``ORDER BY entries LIMIT limit``."""

    at: Span
    entries: tuple[Ranked, ...]
    limit: Number


# Repetition of steps in a pattern, and the choice of matches.


class OftenNode(NamedTuple):
    """The repetition after a step's type: ``* + ?``, or numbers and a comma in braces (``words``).

    ``array``: whether ``[]`` follows; ``until``: the condition that ends the repetition.
    """

    words: tuple[str, ...]
    at: Span
    array: bool = False
    until: Node | None = None


class StepIndex(NamedTuple):
    """``[i]``, ``[i - 1]``: ``variable`` minus ``less``; ``[3]`` has no variable."""

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


# The parser checks the grammar only; ``engine.query.analysis.analyse`` builds the plan. Nodes are
# named tuples because a frozen data class takes eight times as long to create at import.


class Name(NamedTuple):
    """An identifier; ``quoted`` when written in double quotes or backticks."""

    text: str
    at: Span
    quoted: bool = False


class Reference(NamedTuple):
    """``name``, ``alias.name``, ``alias.attrs.name``, ``alias[i].name``."""

    parts: tuple[Name, ...]
    at: Span
    depth: int = 0
    step_index: StepIndex | None = None


class Number(NamedTuple):
    """A number as written, with its time unit, if any; ``more``: the rest of ``1 min 30 s``."""

    text: str
    unit: Name | None
    at: Span
    depth: int = 0
    more: tuple[Number, ...] = ()


def whole(text: str) -> int:
    """Return the whole number in ``text``, or a number above every limit if long; -1: not whole."""
    return int(text.lstrip("0")[:20] or "0") if text.isdecimal() else -1


class Literal(NamedTuple):
    """Text, a truth value, or NULL."""

    value: str | bool | None
    at: Span
    depth: int = 0


class Operation(NamedTuple, Generic[_N]):
    """``op`` applied to ``parts``.

    In conditions and values: a comparison (``= != < <= > >=``), arithmetic (``+ - * / %``; ``-``
    with one part), ``and``, ``or``, ``not``, ``is null``, ``in`` (an item and its options),
    ``like`` (an item and a text), ``case`` (each WHEN with its THEN, then ELSE). In a TList:
    ``and``, ``or``. In a constraint: ``,``, ``|``, ``&``.
    """

    op: str
    parts: tuple[_N, ...]
    at: Span
    depth: int


class Call(NamedTuple):
    """``function(arguments)``; ``star``: ``function(*)``; ``distinct``: DISTINCT is given."""

    function: Name
    arguments: tuple[Node, ...]
    star: bool
    at: Span
    depth: int
    distinct: bool = False


Node = Reference | Number | Literal | Call | Operation["Node"]
TraceNode = OccurrenceNode | RepetitionNode | Operation["TraceNode"]


class StepNode(NamedTuple):
    """``type [alias]`` inside a pattern; ``often`` None: the step occurs once."""

    type: Name
    alias: Name | None
    at: Span
    depth: int = 0
    often: OftenNode | None = None


class NegatedNode(NamedTuple):
    """``! part``; ``at`` covers the exclamation mark."""

    part: PatternNode
    at: Span
    depth: int


class Relation(NamedTuple):
    """Between two parts of a group: ``,`` or one of Z10's nine relations.

    ``counts``: the five numbers after it (Z10 Eq 1), if any.
    """

    word: str
    at: Span
    counts: tuple[Number, ...] = ()


class GroupNode(NamedTuple):
    """``SEQ | PAL | AND | OR (part, part ...) [alias]``; ``relations[i]`` follows ``parts[i]``."""

    op: str
    parts: tuple[PatternNode, ...]
    relations: tuple[Relation, ...]
    at: Span
    depth: int
    alias: Name | None = None


class Endpoint(NamedTuple):
    """``step.ts`` or ``step.te`` in a TList (L10 5.3.1)."""

    step: Name
    end: str
    at: Span


class EndpointChain(NamedTuple):
    """``A.ts < B.te < C.te``: ``ops[i]`` is between ``ends[i]`` and ``ends[i + 1]``."""

    ends: tuple[Endpoint, ...]
    ops: tuple[str, ...]
    at: Span
    depth: int = 0


class AllenNode(NamedTuple):
    """``left word right``: one of Allen's 13 relations by name, as written."""

    left: Name
    word: str
    right: Name
    at: Span
    depth: int = 0


TListNode = EndpointChain | AllenNode | Operation["TListNode"]


class IseqNode(NamedTuple):
    """``ISEQ[restrictions](parts)`` (L10 5.3); all restrictions must hold."""

    restrictions: tuple[TListNode, ...]
    parts: tuple[PatternNode, ...]
    at: Span
    depth: int


PatternNode = StepNode | NegatedNode | GroupNode | IseqNode


def parts_of(node: object) -> tuple[Any, ...]:
    """Return the direct parts of ``node`` that are nodes of the same kind."""
    match node:
        case Operation(parts=parts) | GroupNode(parts=parts) | IseqNode(parts=parts):
            return parts
        case Call(arguments=parts):
            return parts
        case NegatedNode(part=part):
            return (part,)
    return ()


def inside(node: _N) -> Iterator[_N]:
    """Yield ``node`` and its parts at all levels, in written order."""
    yield node
    for part in parts_of(node):
        yield from inside(part)


def walk(node: object) -> Iterator[Any]:
    """Yield ``node`` and every node in it, of any kind, in written order."""
    if isinstance(node, tuple):
        if hasattr(node, "_fields"):
            yield node
        for part in node:
            yield from walk(part)


class Duration(NamedTuple):
    """A length of time; ``negative`` when written with a minus sign."""

    number: Number
    negative: bool
    at: Span


class Item(NamedTuple):
    """One entry of a SELECT or RETURN list."""

    value: Node
    label: Name | None = None


class Where(NamedTuple):
    """``WHERE condition``."""

    at: Span
    condition: Node


class Within(NamedTuple):
    """``WITHIN duration [TIMEZONE zone]``."""

    at: Span
    duration: Duration
    zone: Literal | None = None


class Realtime(NamedTuple):
    """``REALTIME 0|1``."""

    at: Span
    number: Number


class Returns(NamedTuple):
    """``RETURN item, item``; ``everything``: ``*``, if it is among them."""

    at: Span
    items: tuple[Item, ...]
    everything: Everything | None = None


class GroupBy(NamedTuple):
    """``GROUP BY attribute, attribute``."""

    at: Span
    references: tuple[Reference, ...]


class Having(NamedTuple):
    """``HAVING condition``."""

    at: Span
    condition: Node


class TimeWindow(NamedTuple):
    """``drift`` is ``each``, ``together`` or None (R19 3.2.3.1); ``every`` None: TUMBLING;
    ``zone``: the time zone of calendar windows.
    """

    at: Span
    size: Duration
    drift: str | None
    every: Duration | None = None
    zone: Literal | None = None


class SessionWindow(NamedTuple):
    """``SESSION gap``."""

    at: Span
    gap: Duration


class CountWindow(NamedTuple):
    """``ROWS rows [EVERY every]``."""

    at: Span
    rows: Number
    every: Number | None = None


class EmitClause(NamedTuple):
    """``EMIT ON CLOSE``, ``EMIT ON CHANGE``, or ``EMIT EARLY EVERY every``: ``when`` is ``close``,
    ``change`` or ``early``.
    """

    at: Span
    when: str
    every: Duration | None


Clause = (
    Where | Within | Realtime | Returns | Under | HistoryBy | CheckNode | EmitClause
    | EmitLimitClause
    | From | Join | GroupBy | Having | OrderBy | TimeWindow | SessionWindow | CountWindow
    | PartitionBy | ContiguityClause | SkipClause | LimitClause | LookupClause
)  # fmt: skip


class EventQuery(NamedTuple):
    """``EVENT pattern clause ...``."""

    pattern: GroupNode | IseqNode | StepNode
    clauses: tuple[Clause, ...]


class SelectQuery(NamedTuple):
    """``SELECT item, item clause ...``; ``at`` covers the word SELECT; ``everything``: ``*``, if it
    is among the items.
    """

    at: Span
    items: tuple[Item, ...]
    everything: Everything | None
    clauses: tuple[Clause, ...]


class ExplainQuery(NamedTuple):
    """``EXPLAIN query``: prints the plan only; ``at`` covers the word EXPLAIN."""

    at: Span
    query: EventQuery | SelectQuery


Query = EventQuery | SelectQuery | ExplainQuery
