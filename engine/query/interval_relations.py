"""Text representation of intervals, Allen's relations, and consequences of restrictions."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from slackwater.engine.core.errors import UserError

# The 5-count representation of intervals and of their relative positions (Z10 Eq 1).
#
# Intervals are sorted by start, then by end. Each one after the first is described by its relation
# to the span of the earlier ones, and by five counts: how many of these contain it, are finished by
# it, meet it, overlap it, and begin with it. The others end before it. If all intervals are longer
# than 0, the counts determine the order of all end points.
#
# Source: Z10 5.1, Fig 9; the counts are from Patel, Hsu and Lee (SIGMOD 2008). An interval that
# equals an earlier one counts as finished by it and as beginning with it.


Counts = tuple[int, int, int, int, int]
Interval = tuple[int, int]
_NAME: Final = re.compile(r"[^\W\d]\w*")


def representation(intervals: Mapping[str, Interval]) -> str:
    """Return the text of ``intervals``, which have a start and an end by name.

    Raises:
        UserError: there are no intervals, a name is not a word, or a length is 0 or less, as the
            counts cannot represent points.
    """
    if not intervals:
        raise UserError("the 5-count representation is of one interval at least")
    for name, (start, end) in intervals.items():
        if end <= start:
            raise UserError(
                f"interval {name}: [{start}, {end}] is not longer than 0, and the five counts do "
                "not say of a point that it is one"
            )
        if not _NAME.fullmatch(name):
            raise UserError(f"interval {name!r}: its name must be a word")
    ordered = sorted(intervals, key=lambda name: (*intervals[name], name))
    text, before = ordered[0], [intervals[ordered[0]]]
    for name in ordered[1:]:
        mine = intervals[name]
        span = before[0][0], max(end for _, end in before)
        counts = ",".join(map(str, counts_of(before, mine)))
        text = f"({text} {_word(span, mine)} [{counts}] {name})"
        before.append(mine)
    return text.removeprefix("(").removesuffix(")") if len(ordered) > 1 else text


def counts_of(before: Sequence[Interval], mine: Interval) -> Counts:
    """Return how many of ``before``, which begin no later, [contain, are finished by, meet,
    overlap, begin with] ``mine``.
    """
    start, end = mine
    contain = sum(e > end for _, e in before)
    finished = sum(e == end for _, e in before)
    meet = sum(e == start for _, e in before)
    overlap = sum(s < start < e < end for s, e in before)
    begin = sum(s == start for s, _ in before)
    return contain, finished, meet, overlap, begin


def _word(span: Interval, mine: Interval) -> str:
    """Return the relation of the earlier intervals' ``span`` to ``mine``."""
    if span == mine:
        return "Equal"
    if span[1] < mine[0]:
        return "Before"
    if span[1] == mine[0]:
        return "Meet"
    if span[0] == mine[0]:
        return "Start"
    if span[1] == mine[1]:
        return "Finish"
    return "Overlap" if span[1] < mine[1] else "Contain"


# Allen's 13 relations of two intervals as orders of their end points (L10 Table 5.1, [All83]).
#
# ``before`` is ``te < ts'`` and ``after`` its inverse, as in Allen (SPEC 4.7; L10's table has the
# order of starts).


Restricted = tuple[str, str, str]
"""An end point of the first interval (``ts``, ``te``), an operator, an end point of the second."""

ALLEN: Final[dict[str, tuple[Restricted, ...]]] = {
    "BEFORE": (("te", "<", "ts"),),
    "AFTER": (("ts", ">", "te"),),
    "MEETS": (("te", "=", "ts"),),
    "MET BY": (("ts", "=", "te"),),
    "OVERLAPS": (("ts", "<", "ts"), ("te", ">", "ts"), ("te", "<", "te")),
    "OVERLAPPED BY": (("ts", ">", "ts"), ("ts", "<", "te"), ("te", ">", "te")),
    "STARTS": (("ts", "=", "ts"), ("te", "<", "te")),
    "STARTED BY": (("ts", "=", "ts"), ("te", ">", "te")),
    "DURING": (("ts", ">", "ts"), ("te", "<", "te")),
    "CONTAINS": (("ts", "<", "ts"), ("te", ">", "te")),
    "FINISHES": (("ts", ">", "ts"), ("te", "=", "te")),
    "FINISHED BY": (("ts", "<", "ts"), ("te", "=", "te")),
    "EQUALS": (("ts", "=", "ts"), ("te", "=", "te")),
}

SHORT: Final = {
    "MEET": "MEETS", "OVERLAP": "OVERLAPS", "START": "STARTS", "CONTAIN": "CONTAINS",
    "FINISH": "FINISHES", "EQUAL": "EQUALS",
}  # fmt: skip
"""Names of some relations in Z10."""


def allen_relation(word: str) -> tuple[Restricted, ...]:
    """Return the relation that the query language calls ``word``, in any case.

    >>> allen_relation("met_by")
    (('ts', '=', 'te'),)
    """
    name = " ".join(word.replace("_", " ").upper().split())
    return ALLEN[SHORT.get(name, name)]


# Consequences of restrictions on end points (L10 5.3.1): contradictions, closure and reduction.
#
# An end point is ``2 k`` (the start of step k) or ``2 k + 1`` (its end). A restriction puts one
# point before another (``LESS``) or not after it (``UPTO``); every interval starts no later than it
# ends. Chains of restrictions imply others; a chain with LESS that returns to its start is a
# contradiction.


NOTHING: Final = 0
UPTO: Final = 1
LESS: Final = 2
IMPLICIT: Final = -1
"""The place of an edge that no query states: an interval starts no later than it ends."""
DERIVED: Final = -2
"""The place of an edge that follows from other restrictions."""


class Edge(NamedTuple):
    """``below`` is ``label`` (UPTO, LESS) ``above``.

    ``place``: the place of the restriction in the query, or IMPLICIT or DERIVED.
    """

    below: int
    above: int
    label: int
    place: int


def interval_edges(steps: int) -> list[Edge]:
    """Return the edge from each interval's start to its end."""
    return [Edge(2 * step, 2 * step + 1, UPTO, IMPLICIT) for step in range(steps)]


def edges_of(left: int, op: str, right: int, place: int) -> list[Edge]:
    """Return the edges of ``left op right`` for two end points; ``op``: one of ``< <= = >= >``."""
    if op in {">", ">="}:
        return edges_of(right, op.replace(">", "<"), left, place)
    label = LESS if op == "<" else UPTO
    there = Edge(left, right, label, place)
    return [there, Edge(right, left, UPTO, place)] if op == "=" else [there]


def closure(steps: int, edges: Iterable[Edge]) -> np.ndarray:
    """Return the strongest of NOTHING, UPTO and LESS that chains imply: (end points, end
    points).
    """
    reach = np.zeros((2 * steps, 2 * steps), np.int8)
    for edge in (*interval_edges(steps), *edges):
        reach[edge.below, edge.above] = max(reach[edge.below, edge.above], edge.label)
    for via in range(2 * steps):
        into, out = reach[:, via : via + 1], reach[via : via + 1]
        reach = np.maximum(reach, np.where((into > 0) & (out > 0), np.maximum(into, out), 0))
    return reach


def add_to_closure(reach: np.ndarray, edge: Edge) -> None:
    """Add ``edge`` and its consequences to the closure ``reach``, which must not contradict it."""
    into, out = reach[:, edge.below].copy(), reach[edge.above].copy()
    into[edge.below] = out[edge.above] = UPTO
    chains = np.maximum(np.maximum.outer(into, out), edge.label)
    np.maximum(reach, np.where(np.logical_and.outer(into, out), chains, NOTHING), out=reach)


def contradiction_cycle(steps: int, edges: Sequence[Edge]) -> list[Edge]:
    """Return a shortest chain with LESS that returns to its start; empty if there is none."""
    out: dict[int, list[Edge]] = {}
    for edge in (*edges, *interval_edges(steps)):
        out.setdefault(edge.below, []).append(edge)
    found: list[Edge] = []
    for edge in edges:
        if edge.label == LESS:
            back = _path(edge.above, edge.below, out)
            if back is not None and (not found or len(back) + 1 < len(found)):
                found = [edge, *back]
    return found


def _path(start: int, goal: int, out: dict[int, list[Edge]]) -> list[Edge] | None:
    """Return a shortest chain of edges, by breadth-first search."""
    came: dict[int, Edge | None] = {start: None}
    waiting = deque([start])
    while waiting:
        here = waiting.popleft()
        if here == goal:
            found: list[Edge] = []
            while (edge := came[here]) is not None:
                found.append(edge)
                here = edge.below
            return found[::-1]
        for edge in out.get(here, ()):
            if edge.above not in came:
                came[edge.above] = edge
                waiting.append(edge.above)
    return None


class Restriction(NamedTuple):
    """``left op right`` for two end points; ``op`` is ``<``, ``<=`` or ``=``."""

    left: int
    op: str
    right: int


def reduction(reach: np.ndarray) -> list[Restriction]:
    """Return the fewest restrictions that imply the closure ``reach`` (its transitive reduction).

    Equal closures give equal restrictions. ``reach`` has no contradiction. Each of several equal
    end points is related to the first, or to a point of another step; one of them is related to the
    next group.
    """
    chains = _equal_ones(reach)
    found = [each for chain in chains for each in _joined(chain)]
    heads = [chain[0] for chain in chains]
    between = reach[np.ix_(heads, heads)].copy()
    np.fill_diagonal(between, NOTHING)
    for x, y in np.argwhere(between > 0).tolist():
        label = int(between[x, y])
        via = np.minimum(between[x], between[:, y]) > 0
        over = np.maximum(between[x], between[:, y])
        if (via & (over >= label)).any():
            continue
        if label == UPTO and _of_one_step(chains[x], chains[y]):
            continue
        left, right = _apart(chains[x], chains[y])
        found.append(Restriction(left, "<" if label == LESS else "<=", right))
    return sorted(found)


def _equal_ones(reach: np.ndarray) -> list[list[int]]:
    same = (reach == UPTO) & (reach.T == UPTO)
    np.fill_diagonal(same, val=True)
    first = same.argmax(axis=1)
    return [np.flatnonzero(first == head).tolist() for head in np.unique(first).tolist()]


def _joined(equal: list[int]) -> Iterator[Restriction]:
    """Yield equalities of the end points in ``equal``, between different steps if possible."""
    for point in equal[1:]:
        others = [other for other in equal if other // 2 != point // 2]
        one, two = sorted((others[0] if others else equal[0], point))
        yield Restriction(one, "=", two)


def _of_one_step(lower: list[int], upper: list[int]) -> bool:
    """Whether ``lower`` has the start and ``upper`` the end of one interval."""
    starts = {point // 2 for point in lower if point % 2 == 0}
    return any(point % 2 == 1 and point // 2 in starts for point in upper)


def _apart(lower: list[int], upper: list[int]) -> tuple[int, int]:
    """Return a member of each, of different steps if possible.

    An instant has two equal end points: its end is chosen as the lower one, its start as the upper.
    """
    for left in lower:
        for right in upper:
            if left // 2 != right // 2:
                return max({left, left | 1} & {*lower}), min({right, right & ~1} & {*upper})
    return lower[0], upper[0]


def common_closure(reaches: Sequence[np.ndarray]) -> np.ndarray:
    """Return the closure that all of ``reaches`` imply."""
    return np.asarray(np.minimum.reduce(reaches))


def not_implied(reach: np.ndarray, restrictions: Iterable[Restriction]) -> Iterator[Restriction]:
    """Yield the restrictions that ``reach`` does not imply."""
    for one in restrictions:
        label = LESS if one.op == "<" else UPTO
        back = one.op == "=" and reach[one.right, one.left] < UPTO
        if reach[one.left, one.right] < label or back:
            yield one


def longest_path(reach: np.ndarray, points: Iterable[int]) -> list[int]:
    """Return a longest chain of ``points``, each before or not after the next; the first if
    several.

    Equal end points count once: the first one is used.
    """
    chosen = sorted(points, key=lambda point: (int((reach[:, point] > 0).sum()), point))
    best: dict[int, list[int]] = {}
    for point in chosen:
        equal = [p for p in best if reach[p, point] == UPTO == reach[point, p]]
        if equal:
            continue
        before = [best[p] for p in best if reach[p, point] > 0]
        best[point] = [*max(before, key=len, default=[]), point]
    return max(best.values(), key=len, default=[])
