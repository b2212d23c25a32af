"""``timeout=r19-code``: what each fact on docs/papers/r19.md makes of a few events, by hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order

Record = dict[str, Any]
MS = 10**6
LATENCY = 500 * MS


def timeouts(
    ordering: Callable[..., Any], events: list[tuple[int, float, float]], settings: str = ""
) -> list[float]:
    """After each (number, event time [ms], arrival [ms]) the timeout [ms]."""
    run = ordering(parse_order(f"sequence:timeout=r19-code{settings}"), Guards(None))
    found = []
    for seq, ts, arrival in events:
        run.process([{"source": "a", "seq": seq, "ts": int(ts * MS), "arrival": int(arrival * MS)}])
        found.append(run.counters["a", "events"]["gap_timeout"] / MS)
    return found


# Events 10 ms apart; 3 comes 40 ms late, so that 4 waited 30 ms and 5 waited 20 ms.
GAP = [(0, 0, 0), (1, 10, 10), (2, 20, 20), (4, 40, 40), (5, 50, 50), (3, 30, 70)]


def test_it_is_the_larger_average_once_both_are_known(ordering: Callable[..., Any]) -> None:
    # the interval is 10, of delays 30 and then 20 the average is 25; in order again: 6, 7, 8
    more = [(6, 60, 80), (7, 160, 160), (8, 260, 260)]
    found = timeouts(ordering, [*GAP, *more])
    # the last event in order was 3, at 30
    assert found == [500, 500, 500, 500, 500, 25, 25, 60, 80]


def test_smoothing_factors_can_be_set(ordering: Callable[..., Any]) -> None:
    assert timeouts(ordering, GAP, ",beta=0.9")[-1] == 29


def test_the_threshold_caps_it(ordering: Callable[..., Any]) -> None:
    assert timeouts(ordering, GAP, ",latency=12ms") == [12] * 6


@pytest.mark.parametrize(
    ("unit", "latest"), [("ms", 25), ("us", 500), ("ns", 500), ("ps", 500), ("", 25)]
)
def test_units_of_event_times_count_as_ms(
    ordering: Callable[..., Any], unit: str, latest: float
) -> None:
    assert timeouts(ordering, GAP, unit and f":{unit}")[-1] == latest


def test_equal_stamps_leave_the_threshold_in_force(ordering: Callable[..., Any]) -> None:
    assert timeouts(ordering, [(seq, 0, arrival) for seq, _, arrival in GAP])[-1] == 500


def test_a_time_that_goes_back_is_the_new_base(ordering: Callable[..., Any]) -> None:
    back = [(6, 5, 80), (7, 105, 90), (8, 205, 100)]
    assert timeouts(ordering, [*GAP, *back])[-3:] == [25, 55, 77.5]


def test_late_events_add_how_long_ago_smaller_numbers_came(ordering: Callable[..., Any]) -> None:
    # 3 and 5 are given up after 500 ms each; 4 and 6 are what timed out.
    events = [*GAP[:3], (4, 40, 40), (6, 60, 600), (5, 50, 1200)]
    # 5 adds the 1160 ms since 4 came (not the 600 since 6); 8 and then 10 wait for 4 ms.
    events += [(8, 80, 1210), (7, 70, 1214), (10, 100, 1220), (9, 90, 1224)]
    assert timeouts(ordering, events)[-2:] == [500, 293]


def test_a_late_event_before_all_that_timed_out_adds_nothing(
    ordering: Callable[..., Any],
) -> None:
    events = [*GAP[:3], (4, 40, 40), (5, 50, 2000), (3, 30, 2010), (7, 70, 2020), (6, 60, 2024)]
    assert timeouts(ordering, events)[-2:] == [500, 15]


@settings(max_examples=15, deadline=None)
@given(
    steps=st.lists(st.sampled_from([0, 1, 7, 30]), min_size=200, max_size=400),
    delays=st.lists(st.sampled_from([0, 0, 0, 5, 40, 300, 2000]), min_size=400, max_size=400),
    lost=st.sets(st.integers(0, 400), max_size=40),
    back=st.sets(st.integers(0, 400), max_size=4),
    latency=st.sampled_from([3, 50, 1000]),
    data=st.data(),
)
def test_long_streams_give_what_the_twin_gives(
    both: Callable[..., Any],
    steps: list[int],
    delays: list[int],
    lost: set[int],
    back: set[int],
    latency: int,
    data: st.DataObject,
) -> None:
    """So long that more events time out than are remembered; clocks are set back."""
    sent = list(itertools.accumulate(steps))
    clock = [ts - 60 * sum(place <= seq for place in back) for seq, ts in enumerate(sent)]
    arrivals = sorted(
        (at + delay, seq)
        for seq, (at, delay) in enumerate(zip(sent, delays, strict=False))
        if seq not in lost
    )
    trace = [{"source": "a", "seq": seq, "ts": clock[seq], "arrival": at} for at, seq in arrivals]
    cuts = data.draw(st.lists(st.integers(0, len(trace)), max_size=4))
    both(
        timeout="r19-code", latency=latency, alpha=500, beta=500,
        late=data.draw(st.sampled_from(["drop", "pass"])),
    ).agree(trace, sorted(cuts))  # fmt: skip
