"""Patterns with SEQ, AND, OR and negation by definition, and random queries to try them on.

For exact clocks and complete input: which combinations of events answer a query in the end,
whatever the barrier. Nothing here asks ``engine.query.shape`` or an OR's branches: every choice of
alternatives, every combination of distinct events, and the words of SPEC 4.1 on the groups.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from hypothesis import assume
from hypothesis import strategies as st

from engine.errors import UserError
from engine.query import query
from engine.query.fields import attributes_in
from engine.query.plan import Comparison, Group, OrPlan, Part, Predicate, SeqPlan
from tests.query.slow_expression import slow

Match = tuple[tuple[str, int], ...]
"""(alias, row) of each positive step, in written order."""


class Given(Protocol):
    """What a test's event has."""

    type: str
    ref: int
    source: str
    attrs: dict[str, Any]


def brute_matches(plan: SeqPlan | OrPlan, events: Sequence[Any]) -> set[Match]:
    """Every match of ``plan`` in ``events``, which have ``type ref source attrs``.

    A match holds distinct events, and none of them counts as an instance of a negated step. For
    an ``OrPlan`` the aliases tell which alternatives a match took.
    """
    if isinstance(plan, OrPlan):
        tree: Part = plan.pattern
        within, conjuncts = plan.branches[0].within_ns, list(plan.conjuncts)
    else:
        tree = plan.pattern or Group("SEQ", tuple(range(len(plan.steps))))
        within, conjuncts = plan.within_ns, list(_conjuncts(plan))
    found: set[Match] = set()
    for chosen in choices(tree):
        found |= set(_of_choice(plan, chosen, within, conjuncts, events))
    return found


def rows_of(match: Match) -> tuple[int, ...]:
    """The rows of ``match`` in the order of its steps."""
    return tuple(row for _, row in match)


def choices(part: Part) -> list[Part]:
    """``part`` with each OR replaced by one of its alternatives, in every way."""
    if isinstance(part, int):
        return [part]
    if part.op == "OR":
        return [each for inner in part.parts for each in choices(inner)]
    return [Group(part.op, parts) for parts in itertools.product(*(choices(p) for p in part.parts))]


def places(part: Part) -> list[int]:
    return [part] if isinstance(part, int) else [x for inner in part.parts for x in places(inner)]


def _conjuncts(plan: SeqPlan) -> Iterator[Predicate]:
    for step in plan.steps:
        if step.where is not None:
            yield step.where
    negated = {step.alias for step in plan.steps if step.negated}
    for group in plan.equalities:
        anchor = next(attribute for attribute in group if attribute.alias not in negated)
        for other in group:
            if other is not anchor:
                yield Comparison("=", anchor, other)
    yield from plan.others


def _of_choice(
    plan: SeqPlan | OrPlan, tree: Part, within: int | None, conjuncts: list[Predicate],
    events: Sequence[Given],
) -> Iterator[Match]:  # fmt: skip
    steps = {place: plan.steps[place] for place in places(tree)}
    aliases = {step.alias for step in steps.values()}
    asked = [(each, {str(a.alias) for a in attributes_in(each)}) for each in conjuncts]
    asked = [(each, named) for each, named in asked if named <= aliases]
    negative = {place for place, step in steps.items() if step.negated}
    positive = [place for place in sorted(steps) if place not in negative]
    barred = {steps[place].alias for place in negative}
    rows = {
        place: [row for row, event in enumerate(events) if event.type == step.type]
        for place, step in steps.items()
    }

    def holds(mine: list[Predicate], bound: dict[int, int]) -> bool:
        known = {steps[place].alias: _record(events[row]) for place, row in bound.items()}
        return all(slow(each, known) for each in mine)

    on_positive = [each for each, named in asked if not named & barred]
    for combination in itertools.product(*(rows[place] for place in positive)):
        bound = dict(zip(positive, combination, strict=True))
        times = {place: events[row].ref for place, row in bound.items()}
        ends = {p: t + getattr(events[bound[p]], "long", 0) for p, t in times.items()}
        if len(set(combination)) < len(combination) or not ordered(tree, times, ends):
            continue
        if within is not None and max(ends.values()) - min(times.values()) > within:
            continue
        if not holds(on_positive, bound):
            continue
        free = [row for row in range(len(events)) if row not in combination]
        killed = any(
            row in rows[place]
            and lies(tree, place, times, within, events[row].ref)
            and holds(
                [each for each, named in asked if steps[place].alias in named],
                {**bound, place: row},
            )
            for place in negative
            for row in free
        )
        if not killed:
            yield tuple((steps[place].alias, row) for place, row in bound.items())


def _record(event: Given) -> dict[str, Any]:
    end = event.ref + getattr(event, "long", 0)
    return {**event.attrs, "ts": event.ref, "te": end, "ref": event.ref, "source": event.source,
            "type": event.type}  # fmt: skip


def ordered(part: Part, times: dict[int, int], ends: dict[int, int]) -> bool:
    """Whether the present steps (those in ``times``) stand as ``part`` asks: in a SEQ one ends
    before the next begins (SPEC 4.8); points have one time.
    """
    if isinstance(part, int):
        return True
    if not all(ordered(inner, times, ends) for inner in part.parts):
        return False
    if part.op == "AND":
        return True
    there = [inner for inner in part.parts if _times(inner, times)]
    return all(max(_times(x, ends)) < min(_times(y, times)) for x, y in itertools.pairwise(there))


def _times(part: Part, times: dict[int, int]) -> list[int]:
    return [times[place] for place in places(part) if place in times]


def lies(part: Part, step: int, times: dict[int, int], within: int | None, ref: int) -> bool:
    """Whether ``ref`` lies where the negated ``step``, somewhere below ``part``, must not occur."""
    assert isinstance(part, Group)
    if step not in part.parts:
        inner = next(p for p in part.parts if isinstance(p, Group) and step in places(p))
        return lies(inner, step, times, within, ref)
    here = part.parts.index(step)
    earlier = [time for inner in part.parts[:here][::-1] for time in [_times(inner, times)] if time]
    later = [time for inner in part.parts[here:] for time in [_times(inner, times)] if time]
    if earlier:
        after = ref > max(earlier[0])
    else:
        assert within is not None
        after = ref >= max(times.values()) - within
    if later:
        return after and ref < min(later[0])
    assert within is not None
    return after and ref <= min(times.values()) + within


# ---- random queries ---------------------------------------------------------------------------

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
