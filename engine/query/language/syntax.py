"""Syntax tree of a query: its parts and their places in the text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from slackwater.engine.query.language.mistakes import Span

_N = TypeVar("_N")

# What a SELECT reads: streams one beside the other, or two that are joined.


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
    alias: Name | None = None


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


# What is known of a trace beforehand: UNDER CONSTRAINT, a regular expression over its events.


class OccurrenceNode(NamedTuple):
    """``type [condition]`` in a constraint."""

    type: Name
    where: Node | None
    at: Span
    depth: int


class RepetitionNode(NamedTuple):
    """``part`` as often as the words ``times`` say: ``* + ?``, or numbers and a comma."""

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


# Rules on results before they go out: CHECK, and the key of their history.


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


# How often steps of a pattern occur, and the choice of matches.


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


# Nothing is checked here beyond the grammar; ``engine.query.analysis.analyse`` turns it into a
# plan. Nodes are named tuples: every command creates these many classes at import, and a frozen
# data class takes eight times as long to create.


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
    """A number as written, with its time unit if it has one; ``more`` follow it: ``1 min 30 s``."""

    text: str
    unit: Name | None
    at: Span
    depth: int = 0
    more: tuple[Number, ...] = ()


def whole(text: str) -> int:
    """The whole number that ``text`` is, or another one beyond every limit; -1: it is none."""
    return int(text.lstrip("0")[:20] or "0") if text.isdecimal() else -1


class Literal(NamedTuple):
    """Text, a truth value, or NULL."""

    value: str | bool | None
    at: Span
    depth: int = 0


class Operation(NamedTuple, Generic[_N]):
    """``op`` of ``parts``.

    In conditions and values: a comparison (``= != < <= > >=``), arithmetic (``+ - * / %``; ``-`` of
    one part), ``and``, ``or``, ``not``, ``is null``, ``in`` (an item and its options), ``like`` (an
    item and a text), ``case`` (each WHEN with its THEN, and behind them ELSE). In a TList: ``and``,
    ``or``. In a constraint: ``,``, ``|``, ``&``.
    """

    op: str
    parts: tuple[_N, ...]
    at: Span
    depth: int


class Call(NamedTuple):
    """``function(arguments)``; ``star`` for ``function(*)``; ``distinct``: DISTINCT before them."""

    function: Name
    arguments: tuple[Node, ...]
    star: bool
    at: Span
    depth: int
    distinct: bool = False


Node = Reference | Number | Literal | Call | Operation["Node"]
TraceNode = OccurrenceNode | RepetitionNode | Operation["TraceNode"]


class StepNode(NamedTuple):
    """``type [alias]`` inside a pattern; ``often``: None: once."""

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
    """Between two neighbours of a group: ``,`` or one of Z10's nine relations.

    ``counts``: the five numbers behind it (Z10 Eq 1), if there are.
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
    """``A.ts < B.te < C.te``: ``ops[i]`` stands between ``ends[i]`` and ``ends[i + 1]``."""

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
    """``ISEQ[restrictions](parts)`` (L10 5.3): all of the restrictions hold."""

    restrictions: tuple[TListNode, ...]
    parts: tuple[PatternNode, ...]
    at: Span
    depth: int


PatternNode = StepNode | NegatedNode | GroupNode | IseqNode


def parts_of(node: object) -> tuple[Any, ...]:
    """The nodes of the same kind that ``node`` is made of."""
    match node:
        case Operation(parts=parts) | GroupNode(parts=parts) | IseqNode(parts=parts):
            return parts
        case Call(arguments=parts):
            return parts
        case NegatedNode(part=part):
            return (part,)
    return ()


def inside(node: _N) -> Iterator[_N]:
    """``node`` and all below it, in written order."""
    yield node
    for part in parts_of(node):
        yield from inside(part)


def walk(node: object) -> Iterator[Any]:
    """``node`` and every node in it, of any kind, in written order."""
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
    """``RETURN item, item``; ``everything``: where ``*`` stands among them."""

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
    """``drift`` is ``each``, ``together`` or None (R19 3.2.3.1); ``every`` None: TUMBLING.
    ``zone``: a text, of a calendar's windows.
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
    """``SELECT item, item clause ...``; ``at`` covers the word SELECT. ``everything``: where ``*``
    stands among the items.
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
