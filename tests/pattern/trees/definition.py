"""Intervals and halves of them as released batches; SEQ/PAL trees as text, and what they mean."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from edge_agent.records import Kind
from engine.barrier.registry import BarrierSettings
from engine.interval.durable.matcher import TreeMatcher
from engine.pattern.alone import Alone
from engine.pattern.seq import PatternSettings
from engine.query import query
from engine.stream.clock_bound import ClockBound
from engine.stream.released import IN_ORDER, Progress, Released, Strings

Node = Any
"""``(op, parts, words)``, ``"a"``, or ``"!n"``."""
KINDS = {"whole": int(Kind.EVENT), "start": int(Kind.IBP), "end": int(Kind.IBE)}


@dataclass(frozen=True)
class Record:
    """A released record: an interval [start, end], or the ``half`` of it that is told."""

    type: str
    id: int
    start: int
    end: int
    half: str = "whole"
    unc: int = 0
    source: str = "s0"
    v: int | None = None


def batch(records: Sequence[Record], strings: Strings, first: int, stop: int, unc: int) -> Released:
    """Records [first, stop), each at the arrival-clock instant of its number."""
    mine = records[first:stop]
    known = [r.end if r.half == "end" else r.start for r in mine]
    columns: dict[str, np.ndarray] = {
        "ref": np.array(known, np.int64),
        "te": np.array(
            [r.end if r.half == "whole" else k for r, k in zip(mine, known, strict=True)], np.int64
        ),
        "unc": np.array([r.unc for r in mine], np.int64),
        "epoch": np.full(len(mine), -1),
        "id": np.array([r.id for r in mine], np.int64),
        "kind": np.array([KINDS[r.half] for r in mine], np.int8),
        "status": np.full(len(mine), IN_ORDER, np.int8),
        "stream": np.full(len(mine), strings.code("events"), np.int32),
        "attrs.v": np.array([r.v or 0 for r in mine], np.int64),
        "valid.v": np.array([r.v is not None for r in mine], bool),
    }  # fmt: skip
    columns["ts"], columns["ref_end"] = columns["ref"].copy(), columns["te"].copy()
    for name in ("release", "arrival", "seq"):
        columns[name] = np.arange(first, stop)
    for name in ("source", "type"):
        columns[name] = np.array([strings.code(getattr(r, name)) for r in mine], np.int32)
    types = {"v": "int", "$id": "int"}
    return Released(
        len(mine), columns, types, strings, 0, Progress(), bound=ClockBound(unc)
    )  # fmt: skip


@dataclass
class Run:
    """The results of a query, batch by batch."""

    text: str
    barrier: BarrierSettings | None = None
    settings: PatternSettings = field(default_factory=lambda: PatternSettings(keep_late_ns=10**6))

    def over(self, records: Sequence[Record], cuts: Sequence[int] = ()) -> list[dict[str, Any]]:
        """All results; at every cut the operator is rebuilt from its pickled snapshot."""
        plan = query(self.text)
        make = lambda: Alone(TreeMatcher(plan, self.settings), self.barrier)  # noqa: E731
        operator, strings, results = make(), Strings(), []
        unc = max((record.unc for record in records), default=0)
        borders = [0, *sorted({cut for cut in cuts if 0 < cut < len(records)}), len(records)]
        for number, (first, stop) in enumerate(itertools.pairwise(borders)):
            if number:
                state = pickle.loads(pickle.dumps(operator.snapshot()))
                operator = make()
                operator.restore(state)
            results += operator.process(batch(records, strings, first, stop, unc))
        self.counters = operator.counters()
        return [*results, *operator.finish(10**9)]


# ---- what a tree means -------------------------------------------------------------------------


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
    """Negated steps."""
    if isinstance(node, str):
        return [node[1:]] if node[0] == "!" else []
    return [name for part in node[1] for name in absent_in(part)]


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


def holds(node: Node, of: dict[str, Span], absent: list[tuple[str, Any, Any]]) -> Span | None:
    """The span of ``node``, if what it asks holds; adds (negated step, after, before)."""
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
            if name != "," and not RELATIONS[name](spans[-1], span):
                return None
            related.append(name)
        spans.append(span)
        word = ","
    for name, place in waiting:
        first, last = place - 1, place
        while first and related[first - 1] not in {"BEFORE", "AFTER"}:
            first -= 1
        while last < len(related) and related[last] not in {"BEFORE", "AFTER"}:
            last += 1
        after = first_of([span.start for span in spans[first:place]])
        before = first_of([span.start for span in spans[place : last + 1]])
        absent.append((name, after, before))
    return Span(first_of([s.start for s in spans]), last_of([s.end for s in spans]))


def by_definition(node: Node, within: int, records: Sequence[Record]) -> set[tuple[int, ...]]:
    """Every combination of whole intervals, as numbers of records by step."""
    names = names_in(node)
    rows = [[n for n, r in enumerate(records) if r.type == name[0].upper()] for name in names]
    found = set()
    for chosen in itertools.product(*rows):
        if len(set(chosen)) < len(chosen):
            continue
        of = {n: Span(records[row].start, records[row].end)
              for n, row in zip(names, chosen, strict=True)}  # fmt: skip
        absent: list[tuple[str, Any, Any]] = []
        whole = holds(node, of, absent)
        if whole is None or whole.end - whole.start > within:
            continue
        killed = any(
            r.type == name[0].upper() and after < r.start < before and row not in chosen
            for name, after, before in absent for row, r in enumerate(records)
        )  # fmt: skip
        if not killed:
            found.add(chosen)
    return found


# ---- random ones --------------------------------------------------------------------------------


WORDS = [",", ",", "BEFORE", "OVERLAP", *RELATIONS]


@st.composite
def nodes(draw: st.DrawFn, names: list[str], depth: int = 2, *, outermost: bool = True) -> Node:
    """A tree of some of ``names``, which it takes off the list."""
    op = draw(st.sampled_from(["SEQ", "SEQ", "PAL", "AND"] if outermost else ["SEQ", "PAL"]))
    parts: list[Node] = []
    words: list[str] = []
    for number in range(draw(st.integers(2 if outermost else 1, 3))):
        if not names:
            break
        if number and op == "SEQ" and len(names) > 1 and draw(st.integers(0, 2)) == 0:
            parts.append("!" + names.pop())
            words.append(",")
        if number:
            words.append(draw(st.sampled_from(WORDS)))
        if depth and len(names) > 1 and draw(st.integers(0, 3)) == 0:
            parts.append(draw(nodes(names, depth - 1, outermost=False)))
        else:
            parts.append(names.pop())
    return op, parts, words


@st.composite
def trees(draw: st.DrawFn, letters: str = "abc", steps: int = 4) -> Node:
    """A tree that has a PAL or a relation, of types by the steps' first letters."""
    names = [draw(st.sampled_from(letters)) + str(number) for number in range(steps)]
    if draw(st.booleans()):
        # Most random relations exclude one another; these have matches, and lose some.
        word, link = draw(st.sampled_from(["OVERLAP", "CONTAIN", "MEET", ","])), "BEFORE"
        pair = (draw(st.sampled_from(["SEQ", "PAL"])), names[:2], [word])
        node = ("SEQ", [pair, "!" + names[2], names[3]], [link, ","])
        if draw(st.booleans()):
            node = ("SEQ", [*names[:2], "!" + names[2], names[3]], [word, ",", link])
    else:
        node = draw(nodes(names))
    text = text_of(node)
    # Without these it is a pattern of points.
    return node if any(word in text for word in ["PAL", *RELATIONS]) else ("PAL", [node], [])


@st.composite
def streams(draw: st.DrawFn, letters: str = "ABC", most: int = 14) -> list[Record]:
    """Whole intervals, some of length 0, many of their points equal."""
    found = []
    for number in range(draw(st.integers(most // 2, most))):
        start = draw(st.integers(0, 14))
        end = start + draw(st.sampled_from([0, 1, 2, 2, 3, 5, 7]))
        found.append(Record(draw(st.sampled_from(letters)), number, start, end))
    return found


# ---- halves -------------------------------------------------------------------------------------


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


def first_of(bounds: Sequence[Any]) -> Any:
    """The least."""
    if not isinstance(bounds[0], Bounds):
        return min(bounds)
    return Bounds(min(b.low for b in bounds), min(b.high for b in bounds))


def last_of(bounds: Sequence[Any]) -> Any:
    """The largest."""
    if not isinstance(bounds[0], Bounds):
        return max(bounds)
    return Bounds(max(b.low for b in bounds), max(b.high for b in bounds))


Key = tuple[str, str, int]


def known_after(records: Sequence[Record]) -> dict[Key, tuple[int | None, int | None]]:
    """Of each interval what is known of its start and its end."""
    found: dict[Key, tuple[int | None, int | None]] = {}
    for record in records:
        key = record.source, record.type, record.id
        start, end = found.get(key, (None, None))
        if record.half != "end":
            start = record.start
        if record.half != "start":
            end = record.end
        found[key] = start, end
    return found


def standing(node: Node, within: int, records: Sequence[Record]) -> set[tuple[Key, ...]]:
    """The matches of what is known: each order holds whatever is not known, and WITHIN is not
    broken by what is.
    """
    known, names = known_after(records), names_in(node)
    far = float("inf")
    spans = {}
    for key, (start, end) in known.items():
        low = Bounds(-far, end or 0) if start is None else Bounds(start, start)
        high = Bounds(start or 0, far) if end is None else Bounds(end, end)
        spans[key] = Span(low, high)
    of_type = [[key for key in known if key[1] == name[0].upper()] for name in names]
    found = set()
    for chosen in itertools.product(*of_type):
        if len(set(chosen)) < len(chosen):
            continue
        absent: list[tuple[str, Any, Any]] = []
        of = {name: spans[key] for name, key in zip(names, chosen, strict=True)}
        if holds(node, of, absent) is None:
            continue
        points = [point for key in chosen for point in known[key] if point is not None]
        if max(points) - min(points) > within:
            continue
        killed = any(
            key[1] == name[0].upper() and start is not None and key not in chosen
            and after < Bounds(start, start) < before
            for name, after, before in absent for key, (start, _) in known.items()
        )  # fmt: skip
        if not killed:
            found.add(chosen)
    return found


@st.composite
def torn(draw: st.DrawFn, letters: str = "ABC", most: int = 8) -> list[Record]:
    """Records of intervals of which some come as halves, in any order, or as one half alone; a half
    may come twice, as a begin does after a gateway's restart. Two sources, and two types, may have
    intervals of one id.
    """
    forms = [
        ["whole"], ["whole"], ["start", "whole"], ["start", "end"], ["start"], ["end"],
        ["start", "start"], ["start", "start", "end"], ["start", "start", "whole"],
        ["end", "end", "start"],
    ]  # fmt: skip
    found, known = [], set[Key]()
    for number in range(draw(st.integers(2, most))):
        start = draw(st.integers(0, 12))
        end = start + draw(st.sampled_from([0, 1, 2, 3, 5, 7]))
        kind, source = draw(st.sampled_from(letters)), draw(st.sampled_from("xy"))
        form, key = draw(st.sampled_from(forms)), (source, kind, number // 2)
        if key not in known:
            known.add(key)
            found += [Record(kind, key[2], start, end, half, source=source) for half in form]
    return draw(st.permutations(found))
