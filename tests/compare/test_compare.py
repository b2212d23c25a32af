"""Comparing orders: which are tried, which one suits, and what is refused."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.apps.compare import Measures, OrdersCompared, Reading, compare
from slackwater.engine.apps.compare.comparison import (
    MEASURED,
    choose,
    default_sweep,
    families,
    in_place,
    read_sweep,
)
from slackwater.engine.apps.compare.measure import Durations
from slackwater.engine.apps.compare.page import as_plain, fields, order_table, trade_off_figure
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.units import neat, parse_duration
from slackwater.engine.order.registry import parse_order

MS = 10**6
MakeLog = Callable[..., Path]


def measures(order: str, in_place: int, p99_ms: float, mean_ms: float = 0.0) -> Measures:
    """Of 1000 events, 100 of which had been out of order."""
    p99 = round(p99_ms * MS)
    hold = Durations(mean_ms * MS, 0, p99, p99, p99)
    late = 1000 - in_place
    return Measures(
        order, 1, 2, 1000, 1000, in_place, 100, late, late, 0, 0, 0, None, hold, hold, 5, 500, 1.0
    )


def some_log(make_log: MakeLog) -> Path:
    """Two sources 10 ms apart; every tenth event is 35 ms late."""
    records = [
        {
            "source": "ab"[n % 2], "seq": n // 2, "ts": n * 10 * MS,
            "arrival": (n * 10 + (35 if n % 10 == 4 else 1)) * MS,
            "attrs": {"true": n * 10 * MS, "left": n * 10 * MS},
        }
        for n in range(200)
    ]  # fmt: skip
    return make_log(sorted(records, key=lambda record: record["arrival"]))


def test_the_shortest_p99_hold_among_the_complete_ones_suits() -> None:
    found = choose(
        [
            measures("fast", 998, 10),
            measures("slow", 1000, 300, mean_ms=80),
            measures("good", 999, 100, mean_ms=40),
        ],
        0.999,
    )
    assert found.suits == "good"
    assert found.headline == (
        "good: 99.90 % of the events in their place; "
        "99 % held for at most 100 ms, 40 ms on average."
    )
    assert "shortest p99 hold of the 2 orders with at least 99.9 % in place" in found.reason
    assert [(each.order, each.enough, each.text) for each in found.costs] == [
        ("slow", True, "100 % in place; p99 hold 300 ms, 3 times as long; mean 80 ms"),
        ("fast", False, "99.80 % in place; p99 hold 10 ms, 0.1 times as long; mean 0 ms"),
    ]


def test_an_order_with_a_much_shorter_mean_is_named() -> None:
    found = choose([measures("a", 1000, 10, 9), measures("b", 1000, 12, 3)], 0.999)
    assert found.suits == "a"
    assert found.reason.endswith("take b: 3 ms on average instead of 9 ms.")


def test_what_an_order_without_numbers_does_not_see_is_reported() -> None:
    sees = dataclasses.replace(measures("sequence", 1000, 50), missing=7, duplicates=0)
    blind = measures("kslack:1s", 1000, 10)
    found = choose([blind, sees], 0.999)
    assert found.suits == "kslack:1s"
    said = "But it waits for no sequence numbers: nobody learns that 7 events are missing."
    assert found.reason.endswith(said)
    copies = dataclasses.replace(sees, missing=0, duplicates=3, in_place=997)
    assert "3 second copies stay in the stream." in choose([blind, copies], 0.999).reason
    assert "numbers" not in choose([blind, dataclasses.replace(sees, missing=0)], 0.999).reason
    assert "numbers" not in choose([blind], 0.999).reason
    assert "numbers" not in choose([sees], 0.999).reason


def test_numbers_that_do_not_follow_time_are_reported() -> None:
    counted = dataclasses.replace(
        measures("sequence", 700, 10), missing=0, backwards=300, backwards_ns=2_300 * MS
    )
    said = "300 of 1,000 events lie before one of their source with a smaller number, by up to 2.3"
    assert said in choose([counted, measures("kslack:3s", 1000, 50)], 0.999).reason
    assert said in choose([counted], 0.999).reason
    few = dataclasses.replace(counted, backwards=9)
    assert "smaller number" not in choose([few], 0.999).reason


def test_holds_are_read_in_a_unit_that_fits(make_log: MakeLog) -> None:
    found = compare(some_log(make_log), ["none"])
    for longest_ms, unit in ((0, "ms"), (0.5, "us"), (1, "ms"), (99_999, "ms"), (100_000, "s")):
        one = dataclasses.replace(found, orders=(measures("a", 1000, longest_ms),))
        assert one.hold_unit[0] == unit
        assert f"p99 [{unit}]" in order_table(one, one.orders)[0]


def test_of_equal_p99_the_least_mean_suits_then_the_first() -> None:
    found = [measures("a", 1000, 10, 5), measures("b", 1000, 10, 4), measures("c", 1000, 10, 4)]
    assert choose(found, 1.0).suits == "b"


def test_an_order_that_holds_nothing_and_is_complete_suits() -> None:
    found = choose([measures("none", 1000, 0), measures("k", 1000, 5)], 0.999)
    assert (found.suits, found.costs[0].text) == (
        "none",
        "100 % in place; p99 hold 5 ms instead of 0; mean 0 ms",
    )
    assert found.headline == "none: 100 % of the events in their place, none of them held."


def test_when_none_is_complete_enough_it_is_said_and_why() -> None:
    found = choose([measures("a", 900, 10), measures("b", 950, 20)], 0.999)
    assert found.suits is None
    assert found.headline == "None of these orders puts 99.9 % of the events in their place."
    assert "The most complete is b: 95.0 %" in found.reason
    assert "50 came too late for their place" in found.reason
    assert [each.order for each in found.costs] == ["a"]


def test_orders_by_the_sources_own_clocks_are_no_candidates_beside_others() -> None:
    found = choose([measures("raw", 1000, 1), measures("good", 1000, 9)], 0.999, frozenset({"raw"}))
    assert found.suits == "good"
    assert not found.costs[0].enough
    assert "not comparable" in found.costs[0].text


@given(st.integers(1, 10**9), st.integers(0, 10**9))
def test_completeness_is_never_rounded_up(arrived: int, rest: int) -> None:
    rest = min(rest, arrived)
    found = dataclasses.replace(measures("a", 0, 1), arrived=arrived, in_place=arrived - rest)
    said = float(in_place(found).removesuffix(" %"))
    assert said <= 100 * (arrived - rest) / arrived + 1e-9
    assert (said == 100) == (rest == 0)


@given(st.integers(0, 2**60))
def test_neat_durations_are_a_little_longer_and_read_back(duration_ns: int) -> None:
    read = parse_duration(neat(duration_ns))
    assert duration_ns <= read <= duration_ns * 1.02 + 1
    assert len(neat(duration_ns)) <= 12


def test_a_sweep_is_spread_evenly_over_the_logarithm() -> None:
    swept = read_sweep("kslack:10ms..10s,late=drop")
    assert (swept[0], swept[-1], len(swept)) == (
        "kslack:10ms,late=drop",
        "kslack:10s,late=drop",
        12,
    )
    slacks = [parse_order(order).k_ns for order in swept]
    steps = [later / earlier for earlier, later in itertools.pairwise(slacks)]
    assert all(math.isclose(step, 1000 ** (1 / 11), rel_tol=0.02) for step in steps)
    assert read_sweep("kslack:1..3", "s") == [
        f"kslack:{neat(round(10**9 * 3 ** (step / 11)))}" for step in range(12)
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kslack", "write a range of slacks"),
        ("kslack:1s", "write a range of slacks"),
        ("kslack:1s..x", "'x' is not a duration"),
        ("kslack:2s..1s", "begins above 0 and ends above its beginning"),
        ("kslack:0..1s", "begins above 0"),
        ("nonsense:1s..2s", "unknown operator; use one of "),
        ("sequence:1s..2s", "is not key=value"),
        ("kslack:1s..2s,late=no", "late=no"),
    ],
)
def test_a_bad_sweep_is_reported(text: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        read_sweep(text)


def test_two_orders_on_a_log(make_log: MakeLog) -> None:
    log, seen = some_log(make_log), []

    def watch(what: str) -> Any:
        seen.append(what)
        return nullcontext(lambda rows: None)

    found = compare(log, ["none", "kslack:40ms"], "kslack:10ms..100ms", watch=watch)
    none, slack = found.orders
    assert (none.disorder_after, slack.disorder_after) == (20, 0) == (found.arrivals.disorder, 0)
    assert found.choice.suits == "kslack:40ms"
    assert [each.order for each in found.sweep][::11] == ["kslack:10ms", "kslack:100ms"]
    completeness = [each.completeness for each in found.sweep]
    assert completeness == sorted(completeness)
    assert completeness[0] < 1 == completeness[-1]
    assert seen[:3] == ["as it arrived", "1 of 2: none", "2 of 2: kslack:40ms"]
    assert len(seen) == 3 + 12


def test_by_default_one_of_each_kind_is_compared(make_log: MakeLog) -> None:
    found = compare(some_log(make_log), sweep=MEASURED)
    tried = families(found.arrivals)
    shown = [each.order for each in found.orders]
    assert all(set(family) & set(shown) for family in tried)
    assert set(shown) <= {order for family in tried for order in family}
    assert [each.order for each in found.sweep] == default_sweep(found.arrivals)
    assert found.choice.suits is not None
    assert found.numbered is not None
    by_name = {each.order: each for each in found.orders}
    assert by_name["kslack:30ms"].completeness == 1  # 35 ms late, behind one that came after 5


def test_clocks_left_out_are_compared_among_themselves_only(make_log: MakeLog) -> None:
    log = some_log(make_log)
    mixed = compare(log, ["kslack:40ms", "kslack:30ms,time=ts"])
    assert mixed.choice.suits == "kslack:40ms"
    alone = compare(log, ["kslack:40ms,time=ts", "none:time=ts"])
    assert alone.choice.suits == "kslack:40ms,time=ts"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"orders": ["none", "kslak:1s"]}, "unknown operator; use one of "),
        ({"orders": ["none", "none"]}, "--order none: is given twice; name each order once"),
        ({"orders": ["kslack:1s", "kslack:1000ms"]}, "it is the same as kslack:1s"),
        ({"complete": 0.0}, "a share above 0 and at most 1"),
        ({"complete": 99.9}, "a share above 0 and at most 1"),
        ({"complete": float("nan")}, "a share above 0 and at most 1"),
        ({"time_unit": "fortnights"}, "unknown time unit"),
        ({"reading": Reading(truth="nope")}, "no attribute 'nope'"),
    ],
)
def test_bad_input_is_reported(make_log: MakeLog, arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        compare(some_log(make_log), **arguments)


def test_departures_make_latency_a_column(make_log: MakeLog) -> None:
    log = some_log(make_log)
    known = compare(log, ["none"], reading=Reading("true", "left"))
    headings, rows = order_table(known, known.orders)
    assert rows[0][headings.index("latency mean [ms]")] == "4.4"  # one in ten 35 ms, else 1
    assert "latency mean [ms]" not in order_table(compare(log, ["none"]), known.orders)[0]


def test_json_has_every_documented_field(make_log: MakeLog) -> None:
    found = as_plain(compare(some_log(make_log), ["kslack:40ms"]), "here", {"slackwater": "1"})
    of_order = found["orders"][0]
    named = {each["field"] for each in fields()}
    nested = {
        f"{name}.{inner}"
        for name, value in of_order.items()
        if isinstance(value, dict)
        for inner in value
    }
    flat = {name for name, value in of_order.items() if not isinstance(value, dict)}
    assert flat | nested == {name for name in named if not name.startswith("arrivals.")}
    for name in named - flat - nested:
        assert name.removeprefix("arrivals.") in found["arrivals"]
    # The event 40 ms behind moves the clock; where that one is late, the next does.
    assert (of_order["hold_ns"]["p50"], of_order["hold_ns"]["p99"]) == (40 * MS, 50 * MS)
    assert all(each["definition"] and "field" in each for each in fields())


def figure_of(orders: list[Measures], sweep: list[Measures], make_log: MakeLog) -> Any:
    found: OrdersCompared = compare(some_log(make_log), ["none"])
    return trade_off_figure(dataclasses.replace(found, orders=tuple(orders), sweep=tuple(sweep)))


def test_the_figure_has_every_order_labelled_and_the_swept_lines(make_log: MakeLog) -> None:
    orders = [measures("none", 900, 0), measures("a", 1000, 50, 20), measures("b", 1000, 80, 70)]
    sweep = [measures(f"kslack:{k}ms", 900 + k, k, k / 2) for k in (1, 10, 100)]
    drawn = figure_of(orders, sweep, make_log)
    traces = {trace["name"]: trace for trace in drawn.data}
    assert traces["slack swept: p99"]["y"] == pytest.approx([1, 10, 100])
    assert traces["slack swept: mean"]["x"][0] == pytest.approx(9.9)  # % out of place
    assert traces["none"]["y"][0] == traces["none"]["y"][1] < 0.5  # nothing is held: below all
    assert traces["none"]["text"][0].endswith("mean 0 ms")
    assert traces["a"]["y"] == pytest.approx([20, 50])
    right, left = traces["a"]["x"], traces["b"]["x"]
    assert right[0] == right[1] != left[0] == left[1]  # side by side, both at 100 %
    assert max(*right, *left) < min(traces["slack swept: p99"]["x"])
    assert [name for name in traces if name in {"none", "a", "b"}] == ["none", "a", "b"]
    axis = drawn.layout["xaxis"]
    assert axis["title"]["text"] == "events not released in their place [%]"
    assert axis["range"][0] > axis["range"][1]  # complete orders are on the right
    assert drawn.layout["yaxis"]["title"]["text"] == "hold time [ms]"
    for name in ("xaxis", "yaxis"):
        low, high = sorted(drawn.layout[name]["range"])
        assert drawn.layout[name]["type"] == "log"
        for trace in drawn.data:
            values = [value for value in trace[name[0]] if value is not None]
            assert all(low < math.log10(value) < high for value in values)


def test_one_point_makes_a_figure_and_without_holds_there_is_none(make_log: MakeLog) -> None:
    assert figure_of([measures("none", 900, 0)], [], make_log) is None
    for placed in (0, 500, 1000):
        drawn = figure_of([measures("a", placed, 5, 5)], [], make_log)
        assert drawn.layout["xaxis"]["range"][0] > drawn.layout["xaxis"]["range"][1]
