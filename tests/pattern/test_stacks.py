"""What stacks keep and drop: the papers' examples, and purges and options that change no result
(L10 4.5, L09 VI).
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.core.released import IN_ORDER, LATE, Strings
from slackwater.engine.operators.match.seq import Alone, SeqMatcher
from slackwater.engine.query import query
from slackwater.engine.query.pattern_settings import PatternSettings
from slackwater.engine.query.plan import OrPlan, SeqPlan
from tests.pattern.conftest import FIG, plan, stream
from tests.pattern.random_patterns import plans


def matches(tools: Any, made: SeqPlan, text: str, slack: int) -> list[tuple[int, ...]]:
    settings = PatternSettings(keep_late_ns=slack)
    results = tools.run(lambda: SeqMatcher(made, settings), stream(text))
    assert {result["op"] for result in results} <= {"+"}
    return [tuple(event["ref"] for event in result["events"]) for result in results]


def held(tools: Any, matcher: Alone, text: str, pogs: Any = None) -> list[int]:
    """How many events the matcher holds after each event of the stream."""
    events, strings, counts = stream(text), Strings(), []
    for row in range(len(events)):
        mine = tools.batch(events, strings, row, row + 1, pogs=pogs)
        matcher.process(mine)
        counts.append(matcher.counters()["buffered"])
    return counts


def test_l10_example_4_8_a_late_first_event_goes_straight_to_its_partners(tools: Any) -> None:
    """The events that may follow a1 begin at b3, those that may follow b3 at d4, b7 at d8."""
    text, strings = "b3 d4 b7 d8 a1", Strings()
    events = stream(text)
    matcher = Alone(SeqMatcher(plan("a b d", 10), PatternSettings(keep_late_ns=10)))
    assert not len(matcher.process(tools.batch(events, strings, 0, 4)))
    before = matcher.counters()["looked_at"]
    results = matcher.process(tools.batch(events, strings, 4, 5))
    found = [tuple(event["ref"] for event in result["events"]) for result in results]
    assert found == [(1, 3, 4), (1, 3, 8), (1, 7, 8)]
    looked_at = matcher.counters()["looked_at"] - before
    assert looked_at == len([3, 7]) + len([4, 8]) + len([8]), "none in vain"


# ---- window plus K (L10 4.5.3) --------------------------------------------------------------


@pytest.mark.parametrize(
    ("slack", "more"),
    [
        # b8 comes when the clock stands at 17, so 9 late: a3 is still needed.
        (9, [(3, 8, 10), (7, 8, 10), (7, 8, 15)]),
        # Purged by a smaller K (or, as SASE does, by the window alone), a3 is missed.
        (3, [(7, 8, 10), (7, 8, 15)]),
    ],
)
def test_l10_example_4_5_a_late_event_needs_what_the_window_alone_has_left(
    tools: Any, slack: int, more: list[tuple[int, ...]]
) -> None:
    made = plan("a b d", 10)
    found = matches(tools, made, FIG.replace("f16", "f17 b8"), slack)
    assert found == [(3, 6, 10), (7, 11, 15), *more]


def test_l10_example_4_9_what_is_purged_and_when(tools: Any) -> None:
    # a3 at c13, b6 at f16, d10 at f21; a7 and b11 go at f21 too, which the example does not say.
    matcher = Alone(SeqMatcher(plan("a b d", 7), PatternSettings(keep_late_ns=2)))
    counts = held(tools, matcher, FIG + " f21")
    assert dict(zip((FIG + " f21").split(), counts, strict=True)) == {
        "a3": 1, "c5": 1, "b6": 2, "a7": 3, "d10": 4, "b11": 5, "c13": 4, "d15": 5, "f16": 4,
        "f21": 1,
    }  # fmt: skip


def test_slack_purge_drops_what_no_event_within_k_needs(tools: Any) -> None:
    slack = PatternSettings(purge="slack", slack_ns=5)
    made, strings = Alone(SeqMatcher(plan("a b", 10), slack)), Strings()
    events = stream("a0 a15 b10 a16 b9", LATE)
    results = [len(made.process(tools.batch(events, strings, i, i + 1))) for i in range(5)]
    # a0 is kept until the clock passes 0 + 10 + 5.
    assert results == [0, 0, 1, 0, 0]
    assert made.counters()["buffered"] == 4


# ---- promises (L09 VI-B); the paper's <A, 1> is "none at 1 or before", so our <A, 2> ---


@pytest.mark.parametrize(
    ("text", "left"),
    [
        # No a before b1: it can be part of no match any more, and so not d2 either.
        ("b1 c5 d17 d2", 2),
        # The example's stream has a0; then Algorithm 1 (line 13) must keep b1, and so must we.
        ("b1 c5 d17 a0 d2", 5),
    ],
)
def test_l09_example_3_a_promise_of_one_type(tools: Any, text: str, left: int) -> None:
    """After <A, 1>: b1 goes if no a lies before it (c5 and d17 stay)."""
    matcher = Alone(SeqMatcher(plan("a b !c d", 7), PatternSettings(purge="promises")))
    rows = len(text.split())
    assert held(tools, matcher, text, [(rows, "A", None, 2)])[-1] == left


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        # No d in [11, 17], and none to come: a7 can be part of no match.
        ("a7 b6 d10 b11 c13 f16 b4", True),
        # With d15, <b6 a7 b11 d15 f16> is a match, and another f may come.
        ("a7 b6 d10 b11 c13 d15 f16 b4", False),
    ],
)
def test_l09_example_4_promises_of_two_types(tools: Any, text: str, gone: bool) -> None:
    """After <B, 17> and <D, 17>: a7 goes if no d follows a b that follows it, within 10."""
    made = plan("b a b2 d f", 10)
    rows = len(text.split())
    with_a = Alone(SeqMatcher(made, PatternSettings(purge="promises")))
    counts = held(tools, with_a, text, [(rows, "B", None, 18), (rows, "D", None, 18)])
    without = Alone(SeqMatcher(made, PatternSettings(purge="promises")))
    rest = held(
        tools,
        without,
        text.removeprefix("a7 "),
        [(rows - 1, "B", None, 18), (rows - 1, "D", None, 18)],
    )
    assert counts[-1] - rest[-1] == (0 if gone else 1)


# ---- options --------------------------------------------------------------------------------
EVENT = {
    "type": st.sampled_from("AABBCNM"), "ref": st.integers(0, 15),
    "unc": st.sampled_from([0, 0, 0, 0, 3]), "source": st.sampled_from(["s1", "s0"]),
    "status": st.just(LATE),
    "attrs": st.fixed_dictionaries({}, optional={"k": st.integers(0, 1), "v": st.integers(-2, 2)}),
}  # fmt: skip


def pattern(text: str) -> SeqPlan | OrPlan:
    plan_of = query(text)
    assert isinstance(plan_of, SeqPlan | OrPlan)
    return plan_of


@settings(max_examples=25, deadline=None)
@given(data=st.data(), text=plans(), keep=st.sampled_from([0, 4, 1000]))
def test_the_divider_changes_no_result(
    tools: Any, data: st.DataObject, text: str, keep: int
) -> None:
    asked = pattern(text)
    events = data.draw(st.lists(st.builds(tools.Event, **EVENT), max_size=12))
    step = st.tuples(st.integers(0, len(events)), st.integers(0, 30), st.just(0))
    steps = sorted(data.draw(st.lists(step, max_size=2)))
    cuts = data.draw(st.lists(st.integers(0, len(events)), max_size=3))

    def results(divider: bool) -> Any:
        chosen = PatternSettings(keep_late_ns=keep, divider=divider)
        return tools.run(lambda: SeqMatcher(asked, chosen), events, cuts, steps=steps)

    assert results(False) == results(True)


def test_the_divider_on_long_streams_with_purge_and_growing_stacks(tools: Any) -> None:
    asked = pattern("EVENT SEQ(A a, B b, !N n, C c) WHERE a.k = b.k AND b.k = c.k WITHIN 60")
    events = [
        tools.Event("ABCABCNABC"[i % 10], 2 * i - (i % 5 == 0) * (i % 37), attrs={"k": i % 2},
                    status=LATE if i % 5 == 0 else IN_ORDER)
        for i in range(600)
    ]  # fmt: skip

    def results(divider: bool) -> Any:
        chosen = PatternSettings(keep_late_ns=60, divider=divider)
        return tools.run(lambda: SeqMatcher(asked, chosen), events, (100, 101, 400))

    wanted = results(True)
    assert len(wanted) > 200
    assert results(False) == wanted


def promised(events: list[Any]) -> list[tuple[int, str | None, str | None, int]]:
    """After every second event the most that can truly be promised for each type."""
    pogs: list[tuple[int, str | None, str | None, int]] = []
    for row in range(0, len(events) + 1, 2):
        for kind in "ABCNM":
            later = [event.ref for event in events[row:] if event.type == kind]
            pogs.append((row, kind, None, min(later, default=99)))
    return pogs


@settings(max_examples=40, deadline=None)
@given(data=st.data(), text=plans(), barrier=st.sampled_from(["immediate", "punctuation"]))
def test_a_purge_by_true_promises_changes_nothing(
    tools: Any, data: st.DataObject, text: str, barrier: str
) -> None:
    """L09 Algorithms 1 and 2: only what no future event needs."""
    asked = pattern(text)
    exact = dict(EVENT, unc=data.draw(st.sampled_from([st.just(0), EVENT["unc"]])))
    events = data.draw(st.lists(st.builds(tools.Event, **exact), max_size=12))
    pogs = promised(events)
    cuts = data.draw(st.lists(st.integers(0, len(events)), max_size=3))

    def results(purge: str, cuts: Any) -> Any:
        chosen = PatternSettings(keep_late_ns=1000, purge=purge)
        made = parse_barrier(barrier)
        return tools.run(lambda: Alone(SeqMatcher(asked, chosen), made), events, cuts, pogs=pogs)

    assert results("promises", ()) == results("late", ())
    assert results("promises", cuts) == results("late", ())


def test_state_stays_flat_under_promises_alone(tools: Any) -> None:
    """Nothing is in order, so only promises can tell what is not needed any more."""
    asked = pattern("EVENT SEQ(A a, !N n, B b) WITHIN 20")
    events, pogs = [], []
    for i in range(3000):
        events.append(tools.Event("ANB"[i % 3], i - 5 * (i % 2), status=LATE))
        if i % 10 == 9:
            pogs += [(i + 1, kind, None, i - 10) for kind in "ANB"]
    held = {}
    for purge in ("late", "promises"):
        made, strings = Alone(SeqMatcher(asked, PatternSettings(purge=purge))), Strings()
        for start in range(0, 3000, 100):
            made.process(tools.batch(events, strings, start, start + 100, pogs=pogs))
        held[purge] = made.counters()["buffered"]
    assert held["late"] == 3000
    assert held["promises"] < 60


@pytest.mark.parametrize(("within", "least", "most"), [(10, 11, 11), (60, 80, 92)])
def test_a_set_purge_looks_at_each_event_a_constant_number_of_times(
    tools: Any, within: int, least: int, most: int
) -> None:
    """A at t is of use up to t + WITHIN. With a promise after each event a small state is always
    what is of use; a larger one grows by half, and only then are all looked at again.
    """
    events = [tools.Event("A", i, status=LATE) for i in range(500)]
    pogs = [(i + 1, "B", None, i + 1) for i in range(500)]
    asked = PatternSettings(purge="promises")
    made, strings, counts = Alone(SeqMatcher(plan("a b", within), asked)), Strings(), []
    for i in range(500):
        made.process(tools.batch(events, strings, i, i + 1, pogs=pogs))
        counts.append(made.counters()["buffered"])
    assert min(counts[200:]) <= within + 1
    assert least <= max(counts[200:]) <= most
