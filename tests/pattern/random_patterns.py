"""Random patterns with SEQ, AND, OR and negation, as the text of a query."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from slackwater.engine.core.errors import UserError
from slackwater.engine.query import query

TYPES = "ABC"
NEGATED_TYPES = "NMA"
COMPARISONS = ["<", "<=", "!=", ">"]


class _Sketch:
    """A pattern while it is drawn: nested lists ``[op, part ...]``, steps as ``(alias, type)``."""

    def __init__(self, draw: st.DrawFn, *, alternatives: bool) -> None:
        self.draw = draw
        self.ops = ["SEQ", "AND", "OR"] if alternatives else ["SEQ", "AND"]
        self.gaps: list[tuple[list[Any], int, bool]] = []
        """(SEQ, place in it, whether that is an end of the whole)."""

    def tree(self, count: int, first: int, parent: str) -> Any:
        if count == 1:
            return (f"e{first}", self.draw(st.sampled_from(TYPES)))
        op = self.draw(st.sampled_from([op for op in self.ops if op != parent]))
        cuts = sorted(self.draw(st.sets(st.integers(1, count - 1), min_size=1)))
        borders = [0, *cuts, count]
        return [op, *(self.tree(y - x, first + x, op) for x, y in itertools.pairwise(borders))]

    def find_gaps(self, part: Any, *, below_and: bool) -> None:
        if isinstance(part, tuple):
            return
        if part[0] == "SEQ":
            ends = (1, len(part))
            self.gaps += [
                (part, place, place in ends)
                for place in range(1, len(part) + 1)
                if not (below_and and place in ends)
            ]
        for inner in part[1:]:
            self.find_gaps(inner, below_and=below_and or part[0] == "AND")


def _paths(part: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """(alias, the ORs above it and which alternative it stands in)."""
    if isinstance(part, tuple):
        yield part[0], path
        return
    for number, inner in enumerate(part[1:]):
        yield from _paths(inner, (*path, (id(part), number)) if part[0] == "OR" else path)


def _together(first: tuple[Any, ...], second: tuple[Any, ...]) -> bool:
    """Whether one match can have both: no OR has them in two alternatives."""
    ours = dict(first)
    return all(ours.get(branch, number) == number for branch, number in second)


def _text(part: Any) -> str:
    if isinstance(part, tuple):
        return f"{part[1]} {part[0]}"
    return f"{part[0]}({', '.join(map(_text, part[1:]))})"


@st.composite
def plans(draw: st.DrawFn, *, alternatives: bool = True, negations: int = 2) -> str:
    """The text of a random query: 1-4 positive steps of types A, B, C, up to ``negations`` negated.

    Own attributes are k (equalities) and v (comparisons). ``alternatives``: OR may occur.
    """
    sketch = _Sketch(draw, alternatives=alternatives)
    tree = sketch.tree(draw(st.integers(1, 4)), 0, "")
    if tree[0] != "SEQ" and (isinstance(tree, tuple) or draw(st.booleans())):
        # So that a negated step can stand before or after an AND alone.
        tree = ["SEQ", tree]
    sketch.find_gaps(tree, below_and=False)
    at_end = False
    negated: list[str] = []
    for number in range(draw(st.integers(0, negations)) if sketch.gaps else 0):
        group, place, end = draw(st.sampled_from(sketch.gaps))
        at_end |= end
        negated.append(f"n{number}")
        group.insert(
            min(place, len(group)), (f"n{number}", "!" + draw(st.sampled_from(NEGATED_TYPES)))
        )
    terms = _terms(draw, tree, negated)
    bounded = at_end or draw(st.booleans())
    text = f"EVENT {_text(tree)}"
    if terms:
        text += f" WHERE {' AND '.join(terms)}"
    if bounded:
        text += f" WITHIN {draw(st.integers(1, 12))}"
    try:
        query(text)
    except UserError as error:
        # Random conditions may exclude each other; any other refusal is a fault of this strategy.
        if "never be true" in str(error):
            assume(False)
        raise
    return text


WITH_FUNCTIONS = [
    "abs({x}.v - {y}.v) <= 1",
    "coalesce({x}.v, {y}.v) >= 0",
    "least({x}.v, {y}.v) < 1",
    "CASE WHEN {x}.v > {y}.v THEN {x}.v ELSE 0 END >= 0",
    "abs({x}.v) >= {y}.v % 2",
    "({x}.v IS NULL OR {y}.v BETWEEN 0 AND 1)",
]


def _terms(draw: st.DrawFn, tree: Any, negated: list[str]) -> list[str]:
    paths = dict(_paths(tree))
    positive = [alias for alias in paths if alias not in negated]
    pairs = [
        (x, y) for x, y in itertools.permutations(paths, 2)
        if _together(paths[x], paths[y]) and not (x in negated and y in negated)
    ]  # fmt: skip
    found: list[str] = []
    keyed = draw(st.sampled_from(["none", "positive", "all", "some"])) if pairs else "none"
    for x, y in pairs:
        wanted = {"none": False, "all": True, "positive": x in positive and y in positive}
        if x < y and (draw(st.booleans()) if keyed == "some" else wanted[keyed]):
            found.append(f"{x}.k = {y}.k")
    for _ in range(draw(st.integers(0, 2)) if pairs else 0):
        x, y = draw(st.sampled_from(pairs))
        op, more = draw(st.sampled_from(COMPARISONS)), draw(st.sampled_from(["", " + 1", " * 2"]))
        found.append(f"{x}.v {op} {y}.v{more}")
    if pairs and draw(st.integers(0, 3)) == 0:
        x, y = draw(st.sampled_from(pairs))
        found.append(draw(st.sampled_from(WITH_FUNCTIONS)).format(x=x, y=y))
    for _ in range(draw(st.integers(0, 1))):
        alias = draw(st.sampled_from(sorted(paths)))
        found.append(f"{alias}.v {draw(st.sampled_from(COMPARISONS))} {draw(st.integers(-1, 1))}")
    return found
