"""What the parser makes of a query: its parts and where each stands in the text.

Nothing is checked here beyond the grammar; ``engine.query.analysis.analyse`` turns it into a plan.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.query.language.checks import CheckNode, HistoryBy
from engine.query.language.place import Span
from engine.query.language.ranking import OrderBy
from engine.query.language.sources import From, Join
from engine.query.language.traces import Under


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier; ``quoted`` when written in double quotes or backticks."""

    text: str
    at: Span
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Reference:
    """``name``, ``alias.name``, ``alias.attrs.name``."""

    parts: tuple[Name, ...]
    at: Span
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Number:
    """A number as written, with its time unit if it has one; ``more`` follow it: ``1 min 30 s``."""

    text: str
    unit: Name | None
    at: Span
    depth: int = 0
    more: tuple[Number, ...] = ()


@dataclass(frozen=True, slots=True)
class Literal:
    """Text or a truth value."""

    value: str | bool
    at: Span
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Negative:
    """``- term``."""

    term: Node
    at: Span
    depth: int


@dataclass(frozen=True, slots=True)
class Null:
    """``NULL``."""

    at: Span
    depth: int = 0


@dataclass(frozen=True, slots=True)
class IsNull:
    """``item IS NULL``."""

    item: Node
    at: Span
    depth: int


@dataclass(frozen=True, slots=True)
class Like:
    """``item LIKE pattern``."""

    item: Node
    pattern: Literal
    at: Span
    depth: int


@dataclass(frozen=True, slots=True)
class CaseNode:
    """``CASE [operand] WHEN ... THEN ... ELSE otherwise END``; ``whens``: (when, then)."""

    operand: Node | None
    whens: tuple[tuple[Node, Node], ...]
    otherwise: Node | None
    at: Span
    depth: int


@dataclass(frozen=True, slots=True)
class Binary:
    """Arithmetic (``+ - * / %``) or a comparison (``= != < <= > >=``)."""

    op: str
    left: Node
    right: Node
    at: Span
    depth: int


@dataclass(frozen=True, slots=True)
class Among:
    """``item IN (options)``."""

    item: Node
    options: tuple[Node, ...]
    at: Span
    depth: int


@dataclass(frozen=True, slots=True)
class Junction:
    """``op`` is ``and`` | ``or`` (two or more terms) | ``not`` (one term)."""

    op: str
    terms: tuple[Node, ...]
    at: Span
    depth: int


@dataclass(frozen=True, slots=True)
class Call:
    """``function(arguments)``; ``star`` for ``function(*)``; ``distinct``: DISTINCT before them."""

    function: Name
    arguments: tuple[Node, ...]
    star: bool
    at: Span
    depth: int
    distinct: bool = False


Node = (
    Reference | Number | Literal | Null | Negative | Binary | Among | IsNull | Like | Junction
    | Call | CaseNode
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StepNode:
    """``type [alias]`` inside a pattern."""

    type: Name
    alias: Name | None
    at: Span
    depth: int = 0


@dataclass(frozen=True, slots=True)
class NegatedNode:
    """``! part``; ``at`` covers the exclamation mark."""

    part: PatternNode
    at: Span
    depth: int


@dataclass(frozen=True, slots=True)
class Relation:
    """Between two neighbours of a group: ``,`` or one of Z10's nine relations.

    ``counts``: the five numbers behind it (Z10 Eq 1), if there are.
    """

    word: str
    at: Span
    counts: tuple[Number, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupNode:
    """``SEQ | PAL | AND | OR (part, part ...)``; ``relations[i]`` follows ``parts[i]``."""

    op: str
    parts: tuple[PatternNode, ...]
    relations: tuple[Relation, ...]
    at: Span
    depth: int


@dataclass(frozen=True, slots=True)
class Endpoint:
    """``step.ts`` or ``step.te`` in a TList (L10 5.3.1)."""

    step: Name
    end: str
    at: Span


@dataclass(frozen=True, slots=True)
class EndpointChain:
    """``A.ts < B.te < C.te``: ``ops[i]`` stands between ``ends[i]`` and ``ends[i + 1]``."""

    ends: tuple[Endpoint, ...]
    ops: tuple[str, ...]
    at: Span
    depth: int = 0


@dataclass(frozen=True, slots=True)
class AllenNode:
    """``left word right``: one of Allen's 13 relations by name, as written."""

    left: Name
    word: str
    right: Name
    at: Span
    depth: int = 0


@dataclass(frozen=True, slots=True)
class TListJunction:
    """``op`` is ``and`` | ``or``, of two or more restrictions."""

    op: str
    terms: tuple[TListNode, ...]
    at: Span
    depth: int


TListNode = EndpointChain | AllenNode | TListJunction


@dataclass(frozen=True, slots=True)
class IseqNode:
    """``ISEQ[restrictions](parts)`` (L10 5.3): all of the restrictions hold."""

    restrictions: tuple[TListNode, ...]
    parts: tuple[PatternNode, ...]
    at: Span
    depth: int


PatternNode = StepNode | NegatedNode | GroupNode | IseqNode


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time; ``negative`` when written with a minus sign."""

    number: Number
    negative: bool
    at: Span


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a SELECT or RETURN list."""

    value: Node
    label: Name | None


@dataclass(frozen=True, slots=True)
class Where:
    """``WHERE condition``."""

    at: Span
    condition: Node


@dataclass(frozen=True, slots=True)
class Within:
    """``WITHIN duration``."""

    at: Span
    duration: Duration


@dataclass(frozen=True, slots=True)
class Realtime:
    """``REALTIME 0|1``."""

    at: Span
    number: Number


@dataclass(frozen=True, slots=True)
class Returns:
    """``RETURN item, item``."""

    at: Span
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class GroupBy:
    """``GROUP BY attribute, attribute``."""

    at: Span
    references: tuple[Reference, ...]


@dataclass(frozen=True, slots=True)
class Having:
    """``HAVING condition``."""

    at: Span
    condition: Node


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """``drift`` is ``each``, ``together`` or None (R19 3.2.3.1); ``every`` None: TUMBLING."""

    at: Span
    size: Duration
    drift: str | None
    every: Duration | None = None


@dataclass(frozen=True, slots=True)
class SessionWindow:
    """``SESSION gap``."""

    at: Span
    gap: Duration


@dataclass(frozen=True, slots=True)
class CountWindow:
    """``ROWS count [EVERY every]``."""

    at: Span
    count: Number
    every: Number | None


Clause = (
    Where | Within | Realtime | Returns | Under | HistoryBy | CheckNode
    | From | Join | GroupBy | Having | OrderBy | TimeWindow | SessionWindow | CountWindow
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class EventQuery:
    """``EVENT pattern clause ...``."""

    pattern: GroupNode | IseqNode
    clauses: tuple[Clause, ...]


@dataclass(frozen=True, slots=True)
class SelectQuery:
    """``SELECT item, item clause ...``; ``at`` covers the word SELECT. No item: ``SELECT *``."""

    at: Span
    items: tuple[Item, ...]
    clauses: tuple[Clause, ...]


@dataclass(frozen=True, slots=True)
class ExplainQuery:
    """``EXPLAIN query``: its plan is asked for, no answer; ``at`` covers the word EXPLAIN."""

    at: Span
    query: EventQuery | SelectQuery


Query = EventQuery | SelectQuery | ExplainQuery
