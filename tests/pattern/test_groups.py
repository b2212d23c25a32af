"""AND, OR and negation, nested: by hand, and in any arrival order under any cut by definition."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.core.released import LATE
from slackwater.engine.operators.match.seq import Alone, SeqMatcher
from slackwater.engine.query import query, to_text
from slackwater.engine.query.pattern_settings import PatternSettings
from slackwater.engine.query.plan import OrPlan, SeqPlan
from tests.pattern.conftest import FIG, stream
from tests.pattern.random_patterns import plans
from tests.pattern.slow_patterns import brute_matches, rows_of

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
    # The figure of L09 and L10.
    "SEQ(A a, B b, !C c, D d) WITHIN 10": (FIG, {(3, 6, 10)}),
    "SEQ(A a, B b, D d)": (FIG, {(3, 6, 10), (3, 6, 15), (3, 11, 15), (7, 11, 15)}),
}  # fmt: skip


@pytest.mark.parametrize("text", BY_HAND)
def test_by_hand(tools: Any, text: str) -> None:
    """The twin and the engine say the same as the hand."""
    given_events, expected = BY_HAND[text]
    events = stream(given_events, LATE)
    plan = query("EVENT " + text)
    assert isinstance(plan, SeqPlan | OrPlan)
    of_twin = [rows_of(match) for match in brute_matches(text, events)]
    assert {tuple(events[row].ref for row in rows) for rows in of_twin} == expected
    found = nets(tools.run(lambda: SeqMatcher(plan, PatternSettings(keep_late_ns=1000)), events))
    assert {tuple(events[row].ref for _, row in match) for match in found} == expected


def branches(plan: Any) -> tuple[SeqPlan, ...]:
    return plan.branches if isinstance(plan, OrPlan) else (plan,)


@settings(max_examples=40, deadline=None)
@given(text=plans())
def test_random_queries_are_queries_and_come_back_from_their_text(text: str) -> None:
    plan = query(text)
    again = query(to_text(plan))
    assert to_text(again) == to_text(plan)
    for one, other in zip(branches(plan), branches(again), strict=True):
        assert repr(one).replace(repr(one.text), "") == repr(other).replace(repr(other.text), "")


EVENT = {
    "type": st.sampled_from("AABBCNM"), "ref": st.integers(0, 15),
    "source": st.sampled_from(["s1", "s0"]), "status": st.just(LATE),
    "attrs": st.fixed_dictionaries({}, optional={"k": st.integers(0, 1), "v": st.integers(-2, 2)}),
}  # fmt: skip
BARRIERS = ["immediate", "immediate,ordered", "punctuation", "bounded:4", "bounded:4,ordered",
            "hold:3", "adaptive"]  # fmt: skip
OWN = [
    "EVENT AND(B b, SEQ(C c, !B n, D d)) WITHIN 5", "EVENT SEQ(C c, !B n, AND(B b, D d)) WITHIN 5",
    "EVENT SEQ(AND(B b, C c), !B n, D d) WITHIN 5", "EVENT SEQ(C c, !B n, D d, B b) WITHIN 5",
    "EVENT SEQ(!B n, AND(B b, C c)) WITHIN 5",
    "EVENT SEQ(AND(B b, C c), !B n) WITHIN 5",
    "EVENT AND(SEQ(B b, C c), SEQ(D d, !B n, C c2)) WITHIN 5",
    "EVENT SEQ(B b, !B n, B b2) WITHIN 5",
    "EVENT OR(SEQ(B b, !B n, C c), AND(B b2, SEQ(D d, !B m, C c2))) WITHIN 5",
    "EVENT AND(B b, SEQ(C c, !B n, D d)) WHERE b.k = n.k WITHIN 5",
    "EVENT SEQ(C c, !B n, AND(B b, D d)) WHERE c.k = n.k WITHIN 5",
]  # fmt: skip
"""A match's own events are no instances of its negated steps."""


def nets(results: list[dict[str, Any]]) -> Counter[tuple[tuple[str, int], ...]]:
    """What is given and not taken back: per result the types and rows of its events."""
    found: Counter[tuple[tuple[str, int], ...]] = Counter()
    for result in results:
        key = tuple((event["type"], event["seq"]) for event in result["events"])
        found[key] += 1 if result["op"] == "+" else -1
    return +found


@settings(max_examples=80, deadline=None)
@given(
    data=st.data(), text=plans() | plans() | st.sampled_from(OWN),
    barrier=st.sampled_from(BARRIERS), purge=st.sampled_from(["late", "late", "promises"]),
)  # fmt: skip
def test_equals_the_definition_in_any_order_under_any_cut(
    tools: Any, data: st.DataObject, text: str, barrier: str, purge: str
) -> None:
    plan = query(text)
    assert isinstance(plan, SeqPlan | OrPlan)
    kinds = st.sampled_from("BBCCDD" if text in OWN else "AABBCNM")
    event = st.builds(tools.Event, **EVENT | {"type": kinds})
    events = data.draw(st.lists(event, max_size=9))
    wanted = Counter(
        tuple((events[row].type, row) for _, row in match) for match in brute_matches(text, events)
    )

    def make() -> Alone:
        keeps = PatternSettings(keep_late_ns=1000, purge=purge)
        return Alone(SeqMatcher(plan, keeps), parse_barrier(barrier))

    pogs: Any = [] if purge == "promises" else None
    whole = tools.run(make, events, pogs=pogs)
    assert nets(whole) == wanted
    cuts = data.draw(st.lists(st.integers(0, len(events)), max_size=4))
    assert tools.run(make, events, cuts, pogs=pogs) == whole


def test_a_match_shows_the_alternative_that_it_took(tools: Any) -> None:
    plan = query("EVENT SEQ(A a, OR(B b, SEQ(C c, D d)), E e) RETURN a.v, e.v - a.v AS more")
    assert isinstance(plan, OrPlan)
    events = [tools.Event(kind, ref, attrs={"v": 10 * ref}) for ref, kind in enumerate("ABCDE")]
    results = tools.run(lambda: SeqMatcher(plan), events)
    assert [[e["type"] for e in r["events"]] for r in results] == [list("ABE"), list("ACDE")]
    assert [r["value"] for r in results] == [{"more": 40}, {"more": 40}]
    assert [e["attrs"] for e in results[0]["events"]] == [{"v": 0}, {}, {}]


def test_what_joins_a_step_in_one_branch_is_not_asked_for_in_another(tools: Any) -> None:
    """Beside ``a``, only a negated step is joined to ``b``, which may lack the attribute then."""
    plan = query("EVENT SEQ(!N n, OR(A a, C c), B b) WHERE c.k = b.k AND b.k = n.k WITHIN 9")
    events = [tools.Event("A", 1), tools.Event("C", 2, attrs={"k": 1}), tools.Event("B", 3)]
    (result,) = tools.run(lambda: SeqMatcher(plan), events)
    assert [event["type"] for event in result["events"]] == ["A", "B"]


@pytest.mark.parametrize(("unc", "sure"), [(0, "confirmed"), (4, "uncertain")])
def test_and_under_clock_errors(tools: Any, unc: int, sure: str) -> None:
    """Nobody asks which of the two came first: only WITHIN can be in doubt."""
    plan = query("EVENT AND(A a, B b) WITHIN 10")
    assert isinstance(plan, SeqPlan)
    near = [tools.Event("A", 1), tools.Event("B", 2, 5, "y")]
    assert [r["certainty"] for r in tools.run(lambda: SeqMatcher(plan), near)] == ["confirmed"]
    far = [tools.Event("A", 1), tools.Event("B", 9, unc, "y")]
    (result,) = tools.run(lambda: SeqMatcher(plan), far)
    assert result["certainty"] == sure
    # b is uniform in [9 - unc, 9 + unc]; up to 11 it is near enough.
    share = 1.0 if unc == 0 else (11 - (9 - unc)) / (2 * unc)
    assert result["probability"] == pytest.approx(share)
