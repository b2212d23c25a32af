"""Which windows give a row, what it says of missing events; bounds of events that share a clock."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest

from engine.kernels.jit import plain
from engine.query.plan import Drift
from engine.stream.released import LATE, LATE_DROPPED, Strings
from tests.window.test_time_windows import COUNT, FIVE, brief, operator, plan


def test_events_of_one_clock_move_together_in_bounds(tools: Any) -> None:
    # Whatever the clock's error, at most one of 100 and 199 leaves [100, 200).
    for epoch, least in ((7, 2), (-1, 1)):
        events = [
            tools.Event(ref, v=v, unc=2, epoch=epoch) for ref, v in ((100, 1), (150, 10), (199, 4))
        ]
        result = tools.run(
            lambda: operator(plan(COUNT, *FIVE, size=100)), tools.Stream(tuple(events)), (), 9
        )[1]
        assert (result["certain"], result["ambiguous"]) == (1, 2)
        assert result["bounds"]["count(*)"] == [least, 3]
        assert result["bounds"]["sum(v)"] == [10 + (least == 2), 15]
        assert result["bounds"]["max(v)"] == [10, 10]


@pytest.mark.parametrize(
    ("count", "kernels"),
    [(20, nullcontext), (64, nullcontext), (65, nullcontext), (300, nullcontext), (65, plain)],
)
def test_bounds_of_few_and_of_many_ambiguous_events_are_those_of_every_error(
    tools: Any, count: int, kernels: Callable[[], AbstractContextManager[None]]
) -> None:
    random = np.random.default_rng(count)
    refs = random.integers(94, 106, count).tolist()  # all may lie on either side of 100
    values = random.integers(-50, 50, count).tolist()
    events = tuple(
        tools.Event(ref, v=v, unc=6, epoch=7) for ref, v in zip(refs, values, strict=True)
    )
    with kernels():
        results = tools.run(
            lambda: operator(plan(COUNT, *FIVE, size=100)), tools.Stream(events), (), 9
        )
    assert [result["window"]["start"] for result in results] == [0, 100]
    for result in results:
        start = result["window"]["start"]
        inside = [
            [v for ref, v in zip(refs, values, strict=True) if start <= ref + error < start + 100]
            for error in range(-6, 7)
        ]
        assert result["ambiguous"] == count
        for label, of in (
            ("count(*)", len), ("sum(v)", sum), ("min(v)", min), ("max(v)", max),
            ("avg(v)", lambda found: sum(found) / len(found)),
        ):  # fmt: skip
            # Without values all but the count are null.
            said = [of(found) for found in inside if found or label == "count(*)"]
            assert result["bounds"][label] == [min(said), max(said)], label


def test_a_clock_whose_error_is_not_constant_is_bounded_by_what_it_grew(tools: Any) -> None:
    # The later event's error may be 3 more than the earlier one's: both can leave.
    for later, least in ((5, 1), (8, 0)):
        events = (tools.Event(100, unc=2, epoch=7), tools.Event(196, unc=later, epoch=7))
        result = tools.run(lambda: operator(plan(COUNT, size=100)), tools.Stream(events), (), 9)[1]
        assert result["bounds"]["count(*)"] == [least, 2], later


def test_a_window_that_only_possibly_has_an_event_gives_a_row(tools: Any) -> None:
    events = (tools.Event(8, v=3, unc=3),)
    results = tools.run(lambda: operator(plan(COUNT, FIVE[2])), tools.Stream(events), (), 9)
    assert brief(results, "value", "certain", "ambiguous") == [
        ("+", 0, 9, {"count(*)": 1, "avg(v)": 3.0}, 0, 1),
        ("+", 10, 9, {"count(*)": 0, "avg(v)": None}, 0, 1),
    ]
    assert results[1]["bounds"] == {"count(*)": [0, 1], "avg(v)": [3.0, 3.0]}


@pytest.mark.parametrize("by_key", [False, True])
def test_a_window_whose_events_were_all_lost_gives_a_row(tools: Any, by_key: bool) -> None:
    found = tools.Event(17, v=3, status=LATE_DROPPED, seq=1)
    stream = tools.Stream(
        (tools.Event(5), tools.Event(35), found, tools.Event(50)), gaps=((1, "s0", 1, 1, 5, 35),)
    )
    results = tools.run(lambda: operator(plan(COUNT, FIVE[4], by_key=by_key)), stream, (), 99)
    lost, nobody, key = {"count(*)": 0, "max(v)": None}, {}, {}
    if by_key:
        nobody, key = {"g": None}, {"g": 0}
    # The late event tells of its own window at once; the others are told with the next window that
    # closes that nothing is missing. 20 to 30 then has nothing to say any more.
    assert brief(results, "value", "missing", "key")[:8] == [
        ("+", 0, 1, {"count(*)": 1, "max(v)": 1}, 1, key),
        ("+", 10, 1, lost, 1, nobody),
        ("+", 20, 1, lost, 1, nobody),
        ("-", 10, 2, lost, 1, nobody),
        ("+", 10, 2, {"count(*)": 1, "max(v)": 3}, 0, key),
        ("-", 0, 3, {"count(*)": 1, "max(v)": 1}, 1, key),
        ("+", 0, 3, {"count(*)": 1, "max(v)": 1}, 0, key),
        ("-", 20, 3, lost, 1, nobody),
    ]


def test_missing_is_corrected_for_every_key_of_the_window(tools: Any) -> None:
    found = tools.Event(4, key=2, status=LATE, seq=1)
    stream = tools.Stream(
        (tools.Event(3, key=0), tools.Event(6, key=1), tools.Event(12), found, tools.Event(25)),
        gaps=((1, "s0", 1, 1, 3, 6),),
    )
    results = tools.run(lambda: operator(plan(COUNT, by_key=True)), stream, (), 99)
    net = {}
    for result in results:
        place = (result["window"]["start"], result["key"]["g"])
        if result["op"] == "+":
            net[place] = result["missing"]
        else:
            assert net.pop(place) == result["missing"]
    assert net == {(0, 0): 0, (0, 1): 0, (0, 2): 0, (10, 0): 0, (20, 0): 0}


def test_a_gap_known_after_its_window_closed_is_told_with_the_next_that_closes(tools: Any) -> None:
    stream = tools.Stream(
        (tools.Event(3), tools.Event(12), tools.Event(25)), gaps=((2, "s0", 1, 2, 3, 12),)
    )
    results = tools.run(lambda: operator(plan(COUNT)), stream)
    assert brief(results, "missing") == [
        ("+", 0, 1, 0), ("-", 0, 2, 0), ("+", 0, 2, 2), ("+", 10, 2, 2),
    ]  # fmt: skip


def test_a_gap_over_very_many_windows_gives_no_row_each_and_is_counted(tools: Any) -> None:
    year = 10**12
    stream = tools.Stream((tools.Event(3), tools.Event(year)), gaps=((1, "s0", 1, 1, 3, year),))
    made = operator(plan(COUNT))
    results = [*made.process(tools.batch(stream, Strings())), *made.finish(9)]
    assert brief(results, "missing") == [("+", 0, 1, 1), ("+", year, 9, 1)]
    assert made.counters()["wide_gaps"] == 1


@pytest.mark.parametrize("drift", [Drift.EACH, Drift.TOGETHER])
def test_one_source_with_a_long_delay_is_left_out_of_max_delay_and_counted(
    tools: Any, drift: Drift
) -> None:
    events = (tools.Event(98), tools.Event(103), tools.Event(150, unc=90), tools.Event(330))
    results = {}
    for t_a, delays in ((20_000, [20_000, 6, 2]), (6, [6, 2])):
        made = operator(plan(COUNT, size=100, drift=drift))
        released = tools.batch(tools.Stream(events, t_a=t_a), Strings())
        released.delays = np.array(delays)
        results[t_a] = list(made.process(released))
        assert made.counters()["sources_left_out_of_t_a"] == len(delays) - 2
    assert results[20_000] == results[6] != []


def test_keys_are_in_order_beside_windows_with_missing_events_alone(tools: Any) -> None:
    """Two windows have two keys each, eight have none: fewer keys than windows."""
    events = (tools.Event(0, None, 0, unc=1, seq=8), tools.Event(0, None, 2, unc=3, seq=9))
    stream = tools.Stream(events, gaps=((0, "s0", 7, 1, 0, 43),))
    made = plan(COUNT, *FIVE, size=5, drift=Drift.NONE, by_key=True)
    told = tools.run(lambda: operator(made, 0), stream, (), 1000)
    assert [line["key"]["g"] for line in told] == [0, 2, 0, 2, *[None] * 8]
    assert told == tools.Twin(made, stream, 0).run(1000)
