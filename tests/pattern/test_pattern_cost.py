"""What patterns cost as the input grows: processor time at n and at 4 n events, at most sixfold.

The number of results grows no faster than n in all of these. Quick ones are few and small: they
find what is quadratic with much work for each pair of events; the slow ones find the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from slackwater.engine.core.released import Strings
from slackwater.engine.operators.match.repetition.matcher import RepeatMatcher
from slackwater.engine.operators.match.seq import Alone, SeqMatcher
from slackwater.engine.query import query
from slackwater.engine.query.pattern_settings import PatternSettings
from slackwater.engine.query.plan import SeqPlan
from slackwater.engine.query.repeat_plan import RepeatPlan

MOST = 6.0
"""Of the ratio; 4 is linear, 16 quadratic."""
QUICK, LONG = 1_000, 20_000
ROUNDS = 3
TRIES = 3

APART = [
    "EVENT SEQ(A a, B b) WITHIN 50", "EVENT SEQ(A a, !C c, B b) WITHIN 50",
    "EVENT SEQ(A a, B b, !C c) WITHIN 50", "EVENT AND(A a, B b) WITHIN 50",
    "EVENT A+ x[] WITHIN 50 CONTIGUITY STRICT", "EVENT SEQ(A a, B+ b[], C c) WITHIN 90",
    "EVENT SEQ(A a, B+ b[], C c) WITHIN 90 CONTIGUITY NEXT",
    "EVENT SEQ(A+ a[] UNTIL a.v > 2, B b) WITHIN 90 CONTIGUITY NEXT SKIP TO NEXT",
    "EVENT SEQ(A{1,2} a[], B b) WHERE a[i].v >= b.v WITHIN 90 CONTIGUITY NEXT",
    "EVENT SEQ(A a, !C c, B+ b[]) WITHIN 90 LIMIT 2",
    "EVENT SEQ(A+ a[], A? b, B c) WITHIN 90 CONTIGUITY NEXT",
]  # fmt: skip
"""Of events some time apart."""
UNCERTAIN = [APART[0], APART[1], APART[3], APART[6]]
"""Of events of which two neighbours may be the other way round."""
TIED = [
    "EVENT A+ x[] WITHIN 10 CONTIGUITY STRICT SKIP PAST LAST EVENT",
    "EVENT A+ x[] WITHIN 10 CONTIGUITY STRICT", "EVENT A+ x[] WITHIN 10 CONTIGUITY NEXT",
    "EVENT A+ x[] UNTIL x.v > 2 WITHIN 10 CONTIGUITY NEXT SKIP TO NEXT",
    "EVENT A+ x[] WITHIN 10 LIMIT 1", "EVENT A+ x[] WITHIN 10", "EVENT SEQ(A a, A b) WITHIN 10",
    "EVENT SEQ(A a, !B n, A+ b[]) WITHIN 10 CONTIGUITY NEXT SKIP PAST LAST EVENT",
    "EVENT SEQ(A a, B b) WITHIN 10",
]  # fmt: skip
"""Of events at one instant."""
BY_KEY = [
    "EVENT SEQ(A a, B b) WHERE a.k = b.k WITHIN 10000000",
    "EVENT SEQ(A a, !C c, B b) WHERE a.k = b.k AND c.k = a.k WITHIN 10000000",
    "EVENT SEQ(A a, B+ b[], C c) WITHIN 10000000 PARTITION BY k CONTIGUITY NEXT",
    "EVENT SEQ(A a, B+ b[], C c) WITHIN 10000000 PARTITION BY k LIMIT 1",
    "EVENT SEQ(A{1,2} a[], B b) WITHIN 10000000 PARTITION BY k CONTIGUITY STRICT",
]  # fmt: skip
"""Of few events each of many keys, all within WITHIN."""


def one_by_one(tools: Any, n: int) -> list[Any]:
    return [
        tools.Event("ABCA"[row % 4], 10 * row, attrs={"v": row % 5, "k": 1}) for row in range(n)
    ]


def at_one_instant(tools: Any, n: int) -> list[Any]:
    return [tools.Event("A", 5, attrs={"v": 1 + row % 3, "k": 1}) for row in range(n)]


def of_many_keys(tools: Any, n: int) -> list[Any]:
    keys = n // 4
    return [
        tools.Event("ABC"[row // keys % 3], 10 * row, attrs={"v": row % 5, "k": row % keys})
        for row in range(n)
    ]


def with_uncertain_clocks(tools: Any, n: int, unc: int = 6) -> list[Any]:
    return [tools.replace(event, unc=unc) for event in one_by_one(tools, n)]


CASES = [
    *((text, one_by_one) for text in APART), *((text, at_one_instant) for text in TIED),
    *((text, of_many_keys) for text in BY_KEY),
    *((text, with_uncertain_clocks) for text in UNCERTAIN),
]  # fmt: skip
FEW = {APART[1], APART[6], APART[8], TIED[0], TIED[6], BY_KEY[1], BY_KEY[2]}
"""Of each kind of search and of events."""


def seconds(tools: Any, text: str, events: list[Any]) -> float:
    """Of the fastest of some rounds."""
    plan = query(text)
    assert isinstance(plan, SeqPlan)
    kind: Callable[..., SeqMatcher] = RepeatMatcher if isinstance(plan, RepeatPlan) else SeqMatcher
    taken = []
    for _ in range(ROUNDS):
        released = tools.batch(events, Strings(), 0, len(events))
        operator = Alone(kind(plan, PatternSettings(keep_late_ns=0)))
        begun = time.process_time()
        operator.process(released)
        taken.append(time.process_time() - begun)
    return min(taken)


def grows(tools: Any, text: str, made: Callable[[Any, int], list[Any]], n: int) -> float:
    """How often the time for n it takes for 4 n; a busy machine gets two more tries."""
    seconds(tools, text, made(tools, 40))  # compiled
    found = []
    while len(found) < TRIES and min(found, default=MOST + 1) > MOST:
        found.append(
            seconds(tools, text, made(tools, 4 * n)) / seconds(tools, text, made(tools, n))
        )
    return min(found)


@pytest.mark.parametrize(("text", "made"), [case for case in CASES if case[0] in FEW])
def test_four_times_the_events_take_at_most_six_times_as_long(
    tools: Any, text: str, made: Callable[[Any, int], list[Any]]
) -> None:
    assert grows(tools, text, made, QUICK) <= MOST


@pytest.mark.slow
@pytest.mark.parametrize(("text", "made"), CASES)
def test_many_events_take_no_longer_each(
    tools: Any, text: str, made: Callable[[Any, int], list[Any]]
) -> None:
    n = LONG // 5 if made is with_uncertain_clocks else LONG
    assert grows(tools, text, made, n) <= MOST


@pytest.mark.parametrize("text", [APART[0], APART[3]])
def test_clocks_that_err_four_times_as_much_take_at_most_six_times_as_long(
    tools: Any, text: str
) -> None:
    """There are four times as many pairs whose order is open. With a negated step each of these has
    four times as many events that may lie in its gap, too.
    """

    def made(tools: Any, width: int) -> list[Any]:
        return with_uncertain_clocks(tools, 2000, width)

    assert grows(tools, text, made, 40) <= MOST
