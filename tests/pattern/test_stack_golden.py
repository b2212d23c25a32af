"""The papers' examples of what stacks keep and drop, and what a late event finds in them."""

from __future__ import annotations

from typing import Any

import pytest

from engine.pattern.alone import Alone
from engine.pattern.seq import SeqMatcher
from engine.pattern.settings import PatternSettings
from engine.query.plan import SeqPlan, Step
from engine.stream.released import IN_ORDER, Strings

FIG = "a3 c5 b6 a7 d10 b11 c13 d15 f16"
"""The stream of L10 Fig 4.2 and L09 Fig 2."""


def plan(text: str, within: int) -> SeqPlan:
    """``a !c b``: aliases; a type is its alias without digits, in upper case."""
    steps = tuple(
        Step(word.lstrip("!"), word.strip("!0123456789").upper(), negated=word.startswith("!"))
        for word in text.split()
    )
    return SeqPlan("q", "", steps, within_ns=within)


def stream(tools: Any, text: str) -> list[Any]:
    """``a3 b6``: types and times, in order of arrival."""
    return [tools.Event(word[0].upper(), int(word[1:]), status=IN_ORDER) for word in text.split()]


def matches(tools: Any, made: SeqPlan, text: str, slack: int) -> list[tuple[int, ...]]:
    settings = PatternSettings(keep_late_ns=slack)
    results = tools.run(lambda: SeqMatcher(made, settings), stream(tools, text))
    assert {result["op"] for result in results} <= {"+"}
    return [tuple(event["ref"] for event in result["events"]) for result in results]


def held(tools: Any, matcher: Alone, text: str, pogs: Any = None) -> list[int]:
    """How many events the matcher holds after each event of the stream."""
    events, strings, counts = stream(tools, text), Strings(), []
    for row in range(len(events)):
        mine = tools.batch(events, strings, row, row + 1, pogs=pogs)
        matcher.process(mine)
        counts.append(matcher.counters()["buffered"])
    return counts


def test_l10_example_4_8_a_late_first_event_goes_straight_to_its_partners(tools: Any) -> None:
    """The events that may follow a1 begin at b3, those that may follow b3 at d4, b7 at d8."""
    text, strings = "b3 d4 b7 d8 a1", Strings()
    events = stream(tools, text)
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
