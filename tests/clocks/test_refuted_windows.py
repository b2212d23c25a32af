"""Windows near events of a clock whose bound was refuted, or that was found to have been set.

Nothing of them is certain, whatever WHERE said of these events by the time that they had before.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from slackwater.engine.operators.window.settings import WindowSettings
from tests.clocks.test_clock_cases import answers, event, sync
from tests.clocks.test_true_clocks import ORDERS, UNIT, WRONG, worlds

S = 10**9
LONG = WindowSettings(correction_horizon_ns=10**14)
STEP: list[dict[str, Any]] = [
    *(sync(source, 0, skew_error_ppb=1000) for source in "pq"),
    event("p", "A", 5 * S, arrival=36 * S),
    event("q", "B", 36 * S, arrival=36 * S),
    sync("p", 8 * S, 30 * S, skew_error_ppb=1000, arrival=38 * S),
    event("q", "B", 52 * S, arrival=52 * S),
    event("q", "B", 80 * S, arrival=80 * S),
]
"""The first event happened at 5 s, or at 35 s."""


@pytest.mark.parametrize("window", ["TUMBLING 10 s", "SESSION 3 s", "ROWS 1"])
def test_a_step_corrects_what_is_forgotten_before_another_window_closes(window: str) -> None:
    (first,) = answers(f"SELECT count(*) AS n WHERE type = 'A' WINDOW {window}", STEP)[:1]
    assert first["window"]["start"] <= 5 * S
    assert (first["certain"], first["ambiguous"], first["bounds"]["n"]) == (0, 1, [None, None])
    assert first.get("certainty") != "confirmed"


@pytest.mark.parametrize("where", ["", "WHERE type = 'A'", "WHERE type = 'A' AND ref >= 20 s"])
@pytest.mark.parametrize("window", ["TUMBLING 10 s", "SLIDING 20 s EVERY 10 s"])
def test_a_window_that_an_event_may_be_in_since_a_step_has_a_row(where: str, window: str) -> None:
    found = answers(f"SELECT count(*) AS n {where} GROUP BY type WINDOW {window}", STEP)
    (row,) = (each for each in found if each["window"]["start"] == 20 * S)
    assert (row["certain"], row["bounds"]["n"]) == (0, [None, None])


Holds = Callable[[Fraction], bool]
WHERE: dict[str, Holds] = {
    "": lambda _: True,
    "WHERE ref >= 100 us": lambda at: at >= 100 * UNIT,
    "WHERE ts < 60 us OR te > 140 us": lambda at: not 60 * UNIT <= at <= 140 * UNIT,
    "WHERE NOT ref BETWEEN 50 us AND 120 us": lambda at: not 50 * UNIT <= at <= 120 * UNIT,
}


FIRST, *OTHERS = WRONG


@pytest.mark.parametrize(
    "kind", [FIRST, *(pytest.param(each, marks=pytest.mark.slow) for each in OTHERS)]
)
@settings(max_examples=40, deadline=None)
@given(
    data=st.data(), where=st.sampled_from(list(WHERE)), order=st.sampled_from(ORDERS),
    window=st.sampled_from([(50, 50), (7, 7), (40, 10)]),
)  # fmt: skip
def test_windows_hold_beside_what_is_true_of_clocks_that_were_wrong(
    kind: str, data: st.DataObject, where: str, order: str, window: tuple[int, int]
) -> None:
    world = data.draw(WRONG[kind]("AB"))
    size, step = (each * UNIT for each in window)
    text = f"SELECT count(*) AS n {where} WINDOW SLIDING {size} ns EVERY {step} ns"
    found = answers(text, world.records, order=order, guard=S, window=LONG)
    rows = {row["window"]["start"]: row for row in found}
    counts = dict[int, int]()
    for each in world.events:
        last = int(each.start // step) * step
        for start in range(last, last - size, -step):
            if WHERE[where](each.start) and start + size > each.start:
                counts[start] = counts.get(start, 0) + 1
    # Of more than 4,096 windows in doubt at once none has a row for it: docs/reference/results.md.
    few = max(each.start for each in world.events) < 4_000 * step
    assert not few or set(counts) <= set(rows), "a window that has an event has no row"
    for start, row in rows.items():
        low, high = row["bounds"]["n"]
        assert row["certain"] <= counts.get(start, 0)
        assert low is None or low <= counts.get(start, 0) <= high


SESSION, ROWS = 20 * UNIT, 2
BY_EVENTS = {"SESSION": f"SESSION {SESSION} ns", "ROWS": f"ROWS {ROWS}"}


def windows_of(kind: str, events: list[Any]) -> list[int]:
    """What each window adds up to, of events that each add another power of two."""
    found, last = list[list[int]](), None
    for each in sorted(events, key=lambda each: each.start):
        begins = last is None or each.start - last >= SESSION
        if begins if kind == "SESSION" else not found or len(found[-1]) == ROWS:
            found.append([])
        found[-1].append(2**each.number)
        last = each.start
    return [sum(window) for window in found]


@pytest.mark.parametrize(
    "wrong", ["none", FIRST, *(pytest.param(each, marks=pytest.mark.slow) for each in OTHERS)]
)
@pytest.mark.parametrize("kind", BY_EVENTS)
@settings(max_examples=40, deadline=None)
@given(data=st.data(), where=st.sampled_from(list(WHERE)), order=st.sampled_from(ORDERS))
def test_windows_between_events_that_are_certain_are_true(
    kind: str, wrong: str, data: st.DataObject, where: str, order: str
) -> None:
    world = data.draw(worlds() if wrong == "none" else WRONG[wrong]("AB"))
    assume(len({each.start for each in world.events}) == len(world.events))
    text = f"SELECT sum(v) AS s {where} WINDOW {BY_EVENTS[kind]}"
    found = answers(text, world.records, order=order, guard=S, window=LONG)
    true = windows_of(kind, [each for each in world.events if WHERE[where](each.start)])
    for row in found:
        if row["certainty"] == "confirmed":
            assert row["value"]["s"] in true


def test_an_event_that_where_may_take_gives_those_behind_it_another_number() -> None:
    """The first is of 9 s or 11 s, give or take 3 s."""
    syncs = [sync("q", 0), sync("r", 0, delay=6 * S)]
    others = [event("q", "A", at * S, attrs={"v": at}, arrival=at * S) for at in range(20, 70, 10)]
    for at in (9, 11):
        first = event("r", "A", at * S, attrs={"v": at}, arrival=15 * S)
        text = "SELECT sum(v) AS s WHERE ref >= 10 s WINDOW ROWS 2"
        found = answers(text, [*syncs, first, *others])
        assert {row["certainty"] for row in found} == {"uncertain"}
        sure = answers(text.replace("10 s", "3 s"), [*syncs, first, *others])
        assert {row["certainty"] for row in sure} == {"confirmed"}
