"""Repetition under barriers and purges: what is given in the end, what is never taken back, and
that no cut of the stream changes a word.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.barrier.registry import parse_barrier
from engine.errors import UserError
from engine.pattern.alone import Alone
from engine.pattern.settings import PatternSettings
from engine.query import query
from engine.query.repeat_plan import RepeatPlan
from engine.repetition.matcher import RepeatMatcher
from tests.pattern.repetition.slow_repetition import Slow
from tests.pattern.repetition.test_repetition_by_definition import by_definition, queries, standing

END = 10**6
BARRIERS = ["punctuation", "bounded:3", "bounded:40", "hold:2", "adaptive", "bounded:40,ordered"]


@st.composite
def apart(draw: st.DrawFn, tools: Any) -> list[Any]:
    refs = draw(st.lists(st.integers(0, 20), min_size=1, max_size=9, unique=True))
    return [
        tools.Event(
            draw(st.sampled_from("AABBCN")), ref,
            attrs={"v": draw(st.integers(0, 4)), "k": draw(st.sampled_from([1, 1, 2]))},
        )
        for ref in refs
    ]  # fmt: skip


def answered(
    tools: Any, plan: RepeatPlan, barrier: str, events: list[Any], cuts: list[int], keep: int
) -> list[dict[str, Any]]:
    settings_ = PatternSettings(keep_late_ns=keep)
    found: list[dict[str, Any]] = tools.run(
        lambda: Alone(RepeatMatcher(plan, settings_), parse_barrier(barrier)), events, cuts, end=END
    )
    return found


@settings(max_examples=30, deadline=None)
@given(data=st.data(), barrier=st.sampled_from(BARRIERS), chosen=st.booleans())
def test_every_barrier_ends_with_the_definition(
    tools: Any, data: st.DataObject, barrier: str, chosen: bool
) -> None:
    plan, events = data.draw(queries(chosen=chosen)), data.draw(apart(tools))
    results = answered(tools, plan, barrier, events, [], END)
    assert standing(results, END + 1) == by_definition(Slow(plan, events), len(events))
    if barrier.startswith("bounded:40"):  # no event is later than that
        assert {r["op"] for r in results} <= {"+"}
    if "ordered" in barrier:
        lasts = [r["events"][-1]["ref"] for r in results]
        assert lasts == sorted(lasts)
    cuts = data.draw(st.lists(st.integers(1, 8), max_size=3))
    assert answered(tools, plan, barrier, events, cuts, END) == results


@settings(max_examples=30, deadline=None)
@given(data=st.data(), barrier=st.sampled_from(["immediate", "bounded:4"]), keep=st.integers(0, 6))
def test_what_is_forgotten_is_forgotten_under_any_cut(
    tools: Any, data: st.DataObject, barrier: str, keep: int
) -> None:
    plan, events = data.draw(queries()), data.draw(apart(tools))
    whole = answered(tools, plan, barrier, events, [], keep)
    every = list(range(1, len(events)))
    assert answered(tools, plan, barrier, events, every, keep) == whole


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("choice", ["SKIP PAST LAST EVENT", "SKIP TO NEXT", "LIMIT 2"])
@pytest.mark.parametrize("contiguity", ["", "CONTIGUITY NEXT", "CONTIGUITY STRICT"])
def test_many_events_of_which_some_are_late_under_any_cut(
    tools: Any, contiguity: str, choice: str, seed: int
) -> None:
    chance, ref = random.Random(seed), 0
    events = []
    for _ in range(120):
        ref += chance.randint(1, 6)
        late = chance.randint(10, 60) if chance.random() < 0.2 else 0
        attrs = {"v": chance.randrange(10), "k": chance.randrange(3)}
        events.append(tools.Event(chance.choice("AABBCD"), ref, release=ref + late, attrs=attrs))
    events.sort(key=lambda event: event.release)
    plan = query(f"EVENT SEQ(A a, B+ b[], C c) WITHIN 80 PARTITION BY k {contiguity} {choice}")
    assert isinstance(plan, RepeatPlan)
    whole = answered(tools, plan, "immediate", events, [], END)
    assert len(whole) > 2
    every = list(range(1, len(events)))
    assert answered(tools, plan, "immediate", events, every, END) == whole


def test_a_purge_by_promises_is_refused() -> None:
    plan = query("EVENT SEQ(A+ a[], B b) WITHIN 5")
    assert isinstance(plan, RepeatPlan)
    with pytest.raises(UserError, match="kept by their time"):
        RepeatMatcher(plan, PatternSettings(purge="promises"))
