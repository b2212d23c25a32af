"""SEQ/PAL trees as text, and what they mean where clocks are exact."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

Node = Any
"""``(op, parts, words)``, ``"a0"``, or ``"!n1"``: a step's type is its first letter. Alternatives
of an OR begin with types that occur nowhere else, so the events of a match tell which it took.
"""
Where = tuple[Any, ...]
"""``("key", x, y)``: x.k = y.k; ``("less", x, y)``: x.v < y.v; ``("apart", x, y, d)``: y.te - x.ts
<= d; ``("either", one, two)``.
"""


@dataclass(frozen=True)
class Record:
    """A released record: an interval [start, end], or the ``half`` of it that is emitted."""

    type: str
    id: int
    start: int
    end: int
    half: str = "whole"
    unc: int = 0
    source: str = "s0"
    v: int | None = None
    k: int | None = None
    epoch: int = -1


class Span(NamedTuple):
    """Of a part of a match: ``None`` where it is not known."""

    start: Any
    end: Any


def text_of(node: Node) -> str:
    """As a query has it."""
    if isinstance(node, str):
        name = node.lstrip("!")
        return f"{'!' if node[0] == '!' else ''}{name[0].upper()} {name}"
    op, parts, words = node
    text = text_of(parts[0])
    for word, part in zip(words, parts[1:], strict=True):
        text += (", " if word == "," else f" {word} ") + text_of(part)
    return f"{op}({text})"


def names_in(node: Node) -> list[str]:
    """Positive steps, in written order."""
    if isinstance(node, str):
        return [] if node[0] == "!" else [node]
    return [name for part in node[1] for name in names_in(part)]


def absent_in(node: Node) -> list[str]:
    """Negated steps, in written order."""
    if isinstance(node, str):
        return [node[1:]] if node[0] == "!" else []
    return [name for part in node[1] for name in absent_in(part)]


def choices(node: Node) -> list[Node]:
    """``node`` with each OR replaced by one of its alternatives, in every way."""
    if isinstance(node, str):
        return [node]
    op, parts, words = node
    if op == "OR":
        return [each for part in parts for each in choices(part)]
    return [(op, list(each), words) for each in itertools.product(*map(choices, parts))]


def says(where: Where) -> str:
    """As a query has it."""
    match where:
        case ("key", x, y):
            return f"{x}.k = {y}.k"
        case ("less", x, y):
            return f"{x}.v < {y}.v"
        case ("apart", x, y, d):
            return f"{y}.te - {x}.ts <= {d}"
    return f"({says(where[1])} OR {says(where[2])})"


def named(where: Where) -> set[str]:
    """The steps that it names."""
    if where[0] == "either":
        return named(where[1]) | named(where[2])
    return set(where[1:3])


def met(where: Where, of: dict[str, Record]) -> bool:
    """Whether events satisfy it; what is null satisfies nothing."""
    if where[0] == "either":
        return met(where[1], of) or met(where[2], of)
    x, y = (of[name] for name in where[1:3])
    if where[0] == "apart":
        return y.end - x.start <= where[3]
    one, two = (x.k, y.k) if where[0] == "key" else (x.v, y.v)
    if one is None or two is None:
        return False
    return one == two if where[0] == "key" else one < two


@dataclass(frozen=True)
class Tree:
    """A query: a tree, its conditions and WITHIN."""

    node: Node
    within: int
    where: tuple[Where, ...] = ()

    @property
    def text(self) -> str:
        where = " AND ".join(map(says, self.where))
        return f"EVENT {text_of(self.node)}{where and ' WHERE ' + where} WITHIN {self.within}"

    def asked(self, node: Node) -> list[Where]:
        """The conditions that one choice of alternatives is asked: it has all steps they name."""
        has = {*names_in(node), *absent_in(node)}
        return [each for each in self.where if named(each) <= has]


RELATIONS = {
    "BEFORE": lambda x, y: x.end < y.start,
    "AFTER": lambda x, y: y.end < x.start,
    "CONTAIN": lambda x, y: x.start < y.start and y.end < x.end,
    "DURING": lambda x, y: y.start < x.start and x.end < y.end,
    "OVERLAP": lambda x, y: x.start < y.start < x.end < y.end,
    "MEET": lambda x, y: x.end == y.start,
    "START": lambda x, y: x.start == y.start and x.end < y.end,
    "FINISH": lambda x, y: y.start < x.start and x.end == y.end,
    "EQUAL": lambda x, y: x == y,
}
"""L10 Table 5.1, of spans."""
MIRRORS = {
    "OVERLAPPED BY": "OVERLAP", "MET BY": "MEET", "STARTED BY": "START", "FINISHED BY": "FINISH",
}  # fmt: skip


def stands(word: str, x: Span, y: Span) -> bool:
    """Whether ``x word y``."""
    if word in MIRRORS:
        return bool(RELATIONS[MIRRORS[word]](y, x))
    return word == "," or bool(RELATIONS[word](x, y))


Absent = tuple[str, Any, Any]
"""A negated step, after and before which time it must not begin; None: as far as WITHIN reaches."""


def holds(node: Node, of: dict[str, Span], absent: list[Absent]) -> Span | None:
    """The span of ``node``, which has no OR, if what it asks holds; adds to ``absent``."""
    if isinstance(node, str):
        return of[node]
    op, parts, words = node
    spans: list[Span] = []
    related: list[str] = []
    waiting: list[tuple[str, int]] = []
    word = ","
    for number, part in enumerate(parts):
        if number and words[number - 1] != ",":
            word = words[number - 1]
        if isinstance(part, str) and part[0] == "!":
            waiting.append((part[1:], len(spans)))
            continue
        span = holds(part, of, absent)
        if span is None:
            return None
        if spans:
            name = "BEFORE" if word == "," and op == "SEQ" else word
            if not stands(name, spans[-1], span):
                return None
            related.append(name)
        spans.append(span)
        word = ","
    starts = [span.start for span in spans]
    for name, place in waiting:
        if not place:
            absent.append((name, None, first_of(starts)))
            continue
        if place == len(spans):
            absent.append((name, last_of([of[x].start for x in names_in(node)]), None))
            continue
        first, last = place - 1, place
        while first and related[first - 1] not in {"BEFORE", "AFTER"}:
            first -= 1
        while last < len(related) and related[last] not in {"BEFORE", "AFTER"}:
            last += 1
        absent.append((name, first_of(starts[first:place]), first_of(starts[place : last + 1])))
    return Span(first_of([s.start for s in spans]), last_of([s.end for s in spans]))


def by_definition(tree: Tree, records: Sequence[Record]) -> set[tuple[int, ...]]:
    """Every combination of whole intervals, as numbers of records by step."""
    return {
        chosen for node in choices(tree.node) for chosen in _of_choice(tree, node, records)
    }  # fmt: skip


def _of_choice(
    tree: Tree, node: Node, records: Sequence[Record]
) -> Iterator[tuple[int, ...]]:  # fmt: skip
    names, within = names_in(node), tree.within
    barred, asked = set(absent_in(node)), tree.asked(node)
    of_type = [[n for n, r in enumerate(records) if r.type == name[0].upper()] for name in names]
    for chosen in itertools.product(*of_type):
        if len(set(chosen)) < len(chosen):
            continue
        events = {name: records[row] for name, row in zip(names, chosen, strict=True)}
        absent: list[Absent] = []
        whole = holds(node, {n: Span(r.start, r.end) for n, r in events.items()}, absent)
        if whole is None or whole.end - whole.start > within:
            continue
        if not all(met(each, events) for each in asked if not named(each) & barred):
            continue
        first, last = (f(r.start for r in events.values()) for f in (min, max))
        killed = any(
            r.type == name[0].upper() and row not in chosen
            and (last - within <= r.start if after is None else after < r.start)
            and (r.start <= first + within if before is None else r.start < before)
            and all(met(each, {**events, name: r}) for each in asked if name in named(each))
            for name, after, before in absent for row, r in enumerate(records)
        )  # fmt: skip
        if not killed:
            yield chosen


def first_of(times: Sequence[Any]) -> Any:
    """The least; of times that are known in part (``Bounds``), what is known of it."""
    if not isinstance(times[0], Bounds):
        return min(times)
    return Bounds(min(b.low for b in times), min(b.high for b in times))


def last_of(times: Sequence[Any]) -> Any:
    """The largest, likewise."""
    if not isinstance(times[0], Bounds):
        return max(times)
    return Bounds(max(b.low for b in times), max(b.high for b in times))


class Bounds(NamedTuple):
    """A time that is not known: it lies between ``low`` and ``high``. An order of two such holds if
    it does whatever they are.
    """

    low: float
    high: float

    def __lt__(self, other: Any) -> bool:
        return self.high < other.low

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bounds) and self.low == self.high == other.low == other.high

    def __gt__(self, other: Any) -> bool:
        return other < self

    __hash__ = tuple.__hash__
