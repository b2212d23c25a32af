"""AND, OR and negation, nested, in any arrival order and under any cut, against the definition."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.barrier.registry import parse_barrier
from engine.pattern.alone import Alone
from engine.pattern.seq import SeqMatcher
from engine.pattern.settings import PatternSettings
from engine.query import query
from engine.query.plan import OrPlan, SeqPlan
from engine.stream.released import LATE
from tests.pattern.slow_patterns import brute_matches, plans

EVENT = {
    "type": st.sampled_from("AABBCNM"), "ref": st.integers(0, 15),
    "source": st.sampled_from(["s1", "s0"]), "status": st.just(LATE),
    "attrs": st.fixed_dictionaries({}, optional={"k": st.integers(0, 1), "v": st.integers(-2, 2)}),
}  # fmt: skip
BARRIERS = ["immediate", "immediate,ordered", "punctuation", "bounded:4", "bounded:4,ordered",
            "hold:3", "adaptive"]  # fmt: skip


def nets(results: list[dict[str, Any]]) -> Counter[tuple[tuple[str, int], ...]]:
    """What is given and not taken back: per result the types and rows of its events."""
    found: Counter[tuple[tuple[str, int], ...]] = Counter()
    for result in results:
        key = tuple((event["type"], event["seq"]) for event in result["events"])
        found[key] += 1 if result["op"] == "+" else -1
    return +found


@settings(max_examples=100, deadline=None)
@given(data=st.data(), text=plans(), barrier=st.sampled_from(BARRIERS))
def test_equals_the_definition_in_any_order_under_any_cut(
    tools: Any, data: st.DataObject, text: str, barrier: str
) -> None:
    plan = query(text)
    assert isinstance(plan, SeqPlan | OrPlan)
    events = data.draw(st.lists(st.builds(tools.Event, **EVENT), max_size=9))
    wanted = Counter(
        tuple((events[row].type, row) for _, row in match) for match in brute_matches(plan, events)
    )

    def make() -> SeqMatcher:
        keeps = PatternSettings(keep_late_ns=1000)
        return Alone(SeqMatcher(plan, keeps), parse_barrier(barrier))

    whole = tools.run(make, events)
    assert nets(whole) == wanted
    cuts = data.draw(st.lists(st.integers(0, len(events)), max_size=4))
    assert tools.run(make, events, cuts) == whole


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
