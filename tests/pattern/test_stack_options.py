"""Options of the stacks and purges: other costs and state, the same results (L10 4.5, L09 VI)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.barrier.registry import parse_barrier
from engine.errors import UserError
from engine.pattern.alone import Alone
from engine.pattern.seq import SeqMatcher
from engine.pattern.settings import PatternSettings, StackOptions
from engine.query import query
from engine.query.plan import OrPlan, SeqPlan
from engine.stream.released import IN_ORDER, LATE, Strings
from tests.pattern.slow_patterns import plans

EVENT = {
    "type": st.sampled_from("AABBCNM"), "ref": st.integers(0, 15),
    "unc": st.sampled_from([0, 0, 0, 0, 3]), "source": st.sampled_from(["s1", "s0"]),
    "status": st.just(LATE),
    "attrs": st.fixed_dictionaries({}, optional={"k": st.integers(0, 1), "v": st.integers(-2, 2)}),
}  # fmt: skip
OPTIONS = [StackOptions(*bits) for bits in itertools.product([False, True], repeat=5)]


def pattern(text: str) -> SeqPlan | OrPlan:
    plan = query(text)
    assert isinstance(plan, SeqPlan | OrPlan)
    return plan


@settings(max_examples=75, deadline=None)
@given(data=st.data(), text=plans(), keep=st.sampled_from([0, 4, 1000]))
def test_every_option_gives_the_same_results(
    tools: Any, data: st.DataObject, text: str, keep: int
) -> None:
    plan = pattern(text)
    events = data.draw(st.lists(st.builds(tools.Event, **EVENT), max_size=12))
    step = st.tuples(st.integers(0, len(events)), st.integers(0, 30), st.just(0))
    steps = sorted(data.draw(st.lists(step, max_size=2)))
    cuts = data.draw(st.lists(st.integers(0, len(events)), max_size=3))

    def results(options: StackOptions) -> Any:
        chosen = PatternSettings(keep_late_ns=keep, stacks=options)
        return tools.run(lambda: SeqMatcher(plan, chosen), events, cuts, steps=steps)

    wanted = results(StackOptions())
    for options in data.draw(st.lists(st.sampled_from(OPTIONS), min_size=3, max_size=3)):
        assert results(options) == wanted


def test_every_option_on_long_streams_with_purge_and_growing_stacks(tools: Any) -> None:
    plan = pattern("EVENT SEQ(A a, B b, !N n, C c) WHERE a.k = b.k AND b.k = c.k WITHIN 60")
    events = [
        tools.Event("ABCABCNABC"[i % 10], 2 * i - (i % 5 == 0) * (i % 37), attrs={"k": i % 2},
                    status=LATE if i % 5 == 0 else IN_ORDER)
        for i in range(1500)
    ]  # fmt: skip

    def results(options: StackOptions) -> Any:
        chosen = PatternSettings(keep_late_ns=60, stacks=options)
        return tools.run(lambda: SeqMatcher(plan, chosen), events, (300, 301, 900))

    wanted = results(StackOptions())
    assert len(wanted) > 500
    for options in OPTIONS:
        assert results(options) == wanted


# ---- purges ---------------------------------------------------------------------------------


def promised(events: list[Any]) -> list[tuple[int, str | None, str | None, int]]:
    """After every second event the most that can truly be promised for each type."""
    pogs: list[tuple[int, str | None, str | None, int]] = []
    for row in range(0, len(events) + 1, 2):
        for kind in "ABCNM":
            later = [event.ref for event in events[row:] if event.type == kind]
            pogs.append((row, kind, None, min(later, default=99)))
    return pogs


@settings(max_examples=125, deadline=None)
@given(data=st.data(), text=plans(), barrier=st.sampled_from(["immediate", "punctuation"]))
def test_a_purge_by_true_promises_changes_nothing(
    tools: Any, data: st.DataObject, text: str, barrier: str
) -> None:
    """L09 Algorithms 1 and 2: only what no future event needs."""
    plan = pattern(text)
    exact = dict(EVENT, unc=data.draw(st.sampled_from([st.just(0), EVENT["unc"]])))
    events = data.draw(st.lists(st.builds(tools.Event, **exact), max_size=12))
    pogs = promised(events)
    cuts = data.draw(st.lists(st.integers(0, len(events)), max_size=3))

    def results(purge: str, cuts: Any) -> Any:
        chosen = PatternSettings(keep_late_ns=1000, purge=purge)
        made = parse_barrier(barrier)
        return tools.run(lambda: Alone(SeqMatcher(plan, chosen), made), events, cuts, pogs=pogs)

    assert results("promises", ()) == results("late", ())
    assert results("promises", cuts) == results("late", ())


def test_state_stays_flat_under_promises_alone(tools: Any) -> None:
    """Nothing is in order, so only promises can tell what is not needed any more."""
    plan = pattern("EVENT SEQ(A a, !N n, B b) WITHIN 20")
    events, pogs = [], []
    for i in range(3000):
        events.append(tools.Event("ANB"[i % 3], i - 5 * (i % 2), status=LATE))
        if i % 10 == 9:
            pogs += [(i + 1, kind, None, i - 10) for kind in "ANB"]
    held = {}
    for purge in ("late", "promises"):
        made, strings = Alone(SeqMatcher(plan, PatternSettings(purge=purge))), Strings()
        for start in range(0, 3000, 100):
            made.process(tools.batch(events, strings, start, start + 100, pogs=pogs))
        held[purge] = made.counters()["buffered"]
    assert held["late"] == 3000
    assert held["promises"] < 60


def test_slack_purge_drops_what_no_event_within_k_needs(tools: Any) -> None:
    plan = pattern("EVENT SEQ(A a, B b) WITHIN 10")
    settings = PatternSettings(purge="slack", slack_ns=5)
    made, strings = Alone(SeqMatcher(plan, settings)), Strings()
    events = [tools.Event("A", 0, status=LATE), tools.Event("A", 15, status=LATE),
              tools.Event("B", 10, status=LATE), tools.Event("A", 16, status=LATE),
              tools.Event("B", 9, status=LATE)]  # fmt: skip
    results = [len(made.process(tools.batch(events, strings, i, i + 1))) for i in range(5)]
    # a0 is kept until the clock passes 0 + 10 + 5.
    assert results == [0, 0, 1, 0, 0]
    assert made.counters()["buffered"] == 4


def test_an_unknown_purge_is_refused() -> None:
    with pytest.raises(UserError, match="purge 'often': use late, slack, promises"):
        SeqMatcher(pattern("EVENT SEQ(A a, B b)"), PatternSettings(purge="often"))
