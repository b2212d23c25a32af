"""The slow twin of patterns: by hand, beside today's matcher, and beside what a shape says."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.pattern.seq import SeqMatcher
from engine.query import query, to_text
from engine.query.plan import OrPlan, SeqPlan
from engine.query.shape import shape_of
from tests.pattern.slow_patterns import brute_matches, plans, rows_of

FIG = "a3 c5 b6 a7 d10 b11 c13 d15 f16"
"""The stream of L10 Fig 4.2 and L09 Fig 2."""


def stream(tools: Any, text: str) -> list[Any]:
    return [tools.Event(word[0].upper(), int(word[1:])) for word in text.split()]


def answers(tools: Any, text: str, events: str) -> set[tuple[int, ...]]:
    """The times of each match."""
    plan = query("EVENT " + text)
    assert isinstance(plan, SeqPlan | OrPlan)
    given_events = stream(tools, events)
    return {
        tuple(given_events[row].ref for row in rows_of(match))
        for match in brute_matches(plan, given_events)
    }


def test_the_figure_of_both_papers(tools: Any) -> None:
    assert answers(tools, "SEQ(A a, B b, !C c, D d) WITHIN 10", FIG) == {(3, 6, 10)}
    assert answers(tools, "SEQ(A a, B b, D d)", FIG) == {
        (3, 6, 10), (3, 6, 15), (3, 11, 15), (7, 11, 15),
    }  # fmt: skip


BY_HAND: dict[str, tuple[str, set[tuple[int, ...]]]] = {
    # Any order, equal times too, and an event stands for one step only.
    "AND(A a, B b)": ("b1 a2 b2", {(2, 1), (2, 2)}),
    "AND(A a, A b)": ("a1 a2", {(1, 2), (2, 1)}),
    "AND(A a, B b) WITHIN 2": ("b1 a3 b4 a7 b9", {(3, 1), (3, 4), (7, 9)}),
    # Each of a, b before c; a and b in any order.
    "SEQ(AND(A a, B b), C c)": ("a1 b2 c3 a4 c4", {(1, 2, 3), (1, 2, 4)}),
    "SEQ(A a, AND(B b, C c))": ("c1 a2 b3 c3 a4 b5", {(2, 3, 3), (2, 5, 3)}),
    "AND(SEQ(A a, B b), C c)": ("b1 a2 c2 b3", {(2, 3, 2)}),
    "OR(A a, B b)": ("a1 b2 c3", {(1,), (2,)}),
    "SEQ(A a, OR(B b, C c))": ("a1 b2 c3", {(1, 2), (1, 3)}),
    "SEQ(A a, OR(SEQ(B b, C c), D d))": ("a1 b2 d3 c4", {(1, 2, 4), (1, 3)}),
    # The scope begins after the later of a and b, wherever that stands.
    "SEQ(AND(A a, B b), !N n, C c)": ("a1 n2 b3 c4 a5 n6 c7", {(1, 3, 4)}),
    "SEQ(C c, !N n, AND(A a, B b))": ("c1 a3 n4 b5 c6 b7 n8 a9", {(1, 3, 5), (1, 3, 7), (6, 9, 7)}),
    "SEQ(!N n, AND(A a, B b)) WITHIN 5": ("n1 b2 a6 n8 a9 b14", {(9, 14)}),
    "SEQ(AND(A a, B b), !N n) WITHIN 5": ("b1 a2 n6 b9 a10 n15", {(10, 9)}),
    "AND(SEQ(A a, !N n, B b), C c)": ("a1 c2 b3 n4 b5", {(1, 3, 2)}),
    # What matches b does not count as one that must not occur.
    "SEQ(A a, AND(B b, SEQ(C c, !B n, D d)))": ("a1 c2 b3 d4", {(1, 3, 2, 4)}),
    "SEQ(A a, !OR(M m, N n), B b)": ("a1 b2 m3 b4 a5 n6 b7", {(1, 2)}),
    "SEQ(!N n, A a) WITHIN 3": ("n1 a4 a5", {(5,)}),
    "SEQ(A a, !N n) WITHIN 3": ("a1 a2 n5", {(1,)}),
}  # fmt: skip


@pytest.mark.parametrize("text", BY_HAND)
def test_by_hand(tools: Any, text: str) -> None:
    events, expected = BY_HAND[text]
    assert answers(tools, text, events) == expected


EVENT = {
    "type": st.sampled_from("AABBCNM"), "ref": st.integers(0, 15),
    "source": st.sampled_from(["s1", "s0"]),
    "attrs": st.fixed_dictionaries({}, optional={"k": st.integers(0, 1), "v": st.integers(-2, 2)}),
}  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(text=plans())
def test_random_queries_are_queries_and_come_back_from_their_text(text: str) -> None:
    plan = query(text)
    again = query(to_text(plan))
    assert to_text(again) == to_text(plan)
    for one, other in zip(branches(plan), branches(again), strict=True):
        assert repr(one).replace(repr(one.text), "") == repr(other).replace(repr(other.text), "")


def branches(plan: Any) -> tuple[SeqPlan, ...]:
    return plan.branches if isinstance(plan, OrPlan) else (plan,)


def test_random_queries_have_everything() -> None:
    """What was drawn has AND, OR, nesting and negation everywhere; else the test above is weak."""
    seen: set[str] = set()

    @settings(max_examples=500, deadline=None, database=None, derandomize=True)
    @given(text=plans())
    def look(text: str) -> None:
        plan = query(text)
        seen.update(word for word in ("AND(", "OR(", "OR(SEQ(", "AND(SEQ(") if word in text)
        seen.update(word for word in ("WHERE", "WITHIN") if word in text)
        for branch in branches(plan):
            for between in shape_of(branch).between:
                seen.add(f"{min(len(between.left), 2)}!{min(len(between.right), 2)}")

    look()
    assert seen >= {
        "AND(", "OR(", "OR(SEQ(", "AND(SEQ(", "WHERE", "WITHIN",
        "0!1", "0!2", "1!0", "2!0", "1!1", "1!2", "2!1",
    }  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(data=st.data(), text=plans(alternatives=False))
def test_sequences_of_today_s_matcher(tools: Any, data: st.DataObject, text: str) -> None:
    plan = query(text)
    assert isinstance(plan, SeqPlan)
    if plan.pattern is not None:
        return
    events = data.draw(st.lists(st.builds(tools.Event, **EVENT), max_size=9))
    net: set[tuple[int, ...]] = set()
    for result in tools.run(lambda: SeqMatcher(plan), events):
        rows = tuple(event["seq"] for event in result["events"])
        assert (rows in net) == (result["op"] == "-")
        net ^= {rows}
    assert net == {rows_of(match) for match in brute_matches(plan, events)}


@settings(max_examples=100, deadline=None)
@given(data=st.data(), text=plans())
def test_a_shape_says_the_same(tools: Any, data: st.DataObject, text: str) -> None:
    """Times alone: branch by branch, the pairs and neighbours of ``shape_of``."""
    plan = query(re.sub(" (WHERE|WITHIN).*", "", text) + " WITHIN 4")
    assert isinstance(plan, SeqPlan | OrPlan)
    events = data.draw(st.lists(st.builds(tools.Event, **EVENT), max_size=7))
    by_shape = {m for branch in branches(plan) for m in shaped_matches(branch, events)}
    assert by_shape == brute_matches(plan, events)


@settings(max_examples=100, deadline=None)
@given(data=st.data(), text=plans())
def test_the_branches_together_answer_the_whole(tools: Any, data: st.DataObject, text: str) -> None:
    """Conditions too: each branch has those whose steps it has, sorted in its own way."""
    plan = query(text)
    assert isinstance(plan, SeqPlan | OrPlan)
    events = data.draw(st.lists(st.builds(tools.Event, **EVENT), max_size=8))
    found = [brute_matches(branch, events) for branch in branches(plan)]
    assert set().union(*found) == brute_matches(plan, events)
    assert sum(map(len, found)) == len(brute_matches(plan, events))


def shaped_matches(plan: SeqPlan, events: list[Any]) -> Any:
    shape, steps = shape_of(plan), plan.steps
    rows = [[r for r, e in enumerate(events) if e.type == steps[p].type] for p in shape.positive]
    for chosen in itertools.product(*rows):
        t = {p: events[row].ref for p, row in zip(shape.positive, chosen, strict=True)}
        if len(set(chosen)) < len(chosen) or not all(t[x] < t[y] for x, y in shape.before):
            continue
        if not all(t[y] - t[x] <= 4 for x, y in shape.within):
            continue
        killed = any(
            event.type == steps[one.step].type and row not in chosen
            and (event.ref > max(t[p] for p in one.left) if one.left
                 else event.ref >= max(t[p] for p in shape.lasts) - 4)
            and (event.ref < min(t[p] for p in one.right) if one.right
                 else event.ref <= min(t[p] for p in shape.firsts) + 4)
            for one in shape.between for row, event in enumerate(events)
        )  # fmt: skip
        if not killed:
            yield tuple(
                (steps[p].alias, row) for p, row in zip(shape.positive, chosen, strict=True)
            )
