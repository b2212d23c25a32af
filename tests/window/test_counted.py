"""Windows of so many events: examples, and what all errors of clocks make possible."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.core.released import IN_ORDER, LATE, Strings
from slackwater.engine.hosts.chain.operators import windows_of
from slackwater.engine.operators.window.base import OLD_GAPS_MAX
from slackwater.engine.operators.window.settings import WindowSettings
from slackwater.engine.query import query
from tests.window.conftest import Event, Stream, batch
from tests.window.test_windows_beside_pandas import many
from tests.window.window_results import Result, brief, results_of, standing


def test_a_window_is_emitted_when_it_is_full_and_the_rest_is_counted() -> None:
    events = tuple(Event(ref, v=ref) for ref in (1, 5, 9, 14, 20))
    found = results_of("SELECT sum(v) WINDOW ROWS 2", Stream(events))
    assert brief(found, "value", "certainty", "certain") == [
        ("+", 1, 1, 5, {"sum(v)": 6}, "confirmed", 2),
        ("+", 3, 9, 14, {"sum(v)": 23}, "confirmed", 2),
    ]
    operator = windows_of(query("SELECT sum(v) WINDOW ROWS 2"))
    operator.process(batch(Stream(events), Strings()))
    assert operator.counters()["in_no_full_window"] == 1


def test_a_late_event_shifts_its_window_and_those_behind_it() -> None:
    events = (Event(1), Event(5), Event(9), Event(14), Event(3, v=10, status=LATE))
    found = results_of("SELECT sum(v) WINDOW ROWS 2", Stream(events))
    assert brief(found, "value") == [
        ("+", 1, 1, 5, {"sum(v)": 2}), ("+", 3, 9, 14, {"sum(v)": 2}),
        ("-", 4, 1, 5, {"sum(v)": 2}), ("+", 4, 1, 3, {"sum(v)": 11}),
        ("-", 4, 9, 14, {"sum(v)": 2}), ("+", 4, 5, 9, {"sum(v)": 2}),
    ]  # fmt: skip


def test_certain_and_ambiguous_events_by_their_numbers() -> None:
    events = tuple(
        Event(ref, unc=unc) for ref, unc in ((0, 0), (10, 3), (14, 3), (30, 0), (50, 0), (70, 0))
    )
    found = results_of("SELECT count(*), sum(v) WINDOW ROWS 2", Stream(events))
    emitted = [(r["certainty"], r["certain"], r["ambiguous"], r["bounds"]["sum(v)"]) for r in found]
    assert emitted == [
        ("uncertain", 1, 2, [2, 2]), ("uncertain", 1, 2, [2, 2]), ("confirmed", 2, 0, [2, 2]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("first", "second", "certainty"),
    [
        ((33, 1), (31, 1), "uncertain"), ((31, 1), (33, 1), "uncertain"),
        ((33, 2), (31, 0), "uncertain"), ((31, 0), (33, 2), "uncertain"),
        ((34, 1), (31, 1), "confirmed"), ((31, 0), (31, 0), "confirmed"),
        ((31, 0), (31, 1), "uncertain"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("others", [(14, 21), (51, 55)])
def test_query_01_ranges_that_touch_leave_the_order_open(
    first: tuple[int, int], second: tuple[int, int], certainty: str, others: tuple[int, int]
) -> None:
    """In whichever order they come, and whether the window ends or begins between them."""
    late = LATE if second[0] < first[0] or others[0] > first[0] else IN_ORDER
    events = (
        *(Event(ref) for ref in others),
        Event(first[0], v=2, unc=first[1], status=LATE if others[0] > first[0] else IN_ORDER),
        Event(second[0], v=3, unc=second[1], status=late),
    )
    found = standing(results_of("SELECT sum(v) WINDOW ROWS 3 EVERY 1", Stream(events)))
    between = sorted(found, key=lambda r: (r["window"]["start"], r["window"]["end"]))[
        1 if others[0] > first[0] else 0
    ]
    low, high = between["bounds"]["sum(v)"]
    assert between["certainty"] == certainty
    assert (between["certain"], high - low) == ((3, 0) if certainty == "confirmed" else (2, 1))


def test_missing_counts_what_may_lie_inside() -> None:
    late = Event(7, status=LATE, seq=7, release=70)
    events = (Event(5), Event(40), Event(41), Event(60), late, Event(80, release=80))
    stream = Stream((*events, Event(90, release=90)), gaps=((1, "s0", 7, 2, 5, 40),))
    found = results_of("SELECT count(*) WINDOW ROWS 2", stream)
    assert brief(found, "missing") == [
        ("+", 1, 5, 40, 2), ("+", 3, 41, 60, 0), ("-", 70, 5, 40, 2), ("+", 70, 5, 7, 0),
        ("-", 70, 41, 60, 0), ("+", 70, 40, 41, 0), ("+", 80, 60, 80, 0),
    ]  # fmt: skip


@pytest.mark.parametrize("window", ["ROWS 4", "SESSION 1001"])
def test_what_is_missing_counts_however_long_a_window_lasts(window: str) -> None:
    events = tuple(Event(1000 * n, release=1000 * n) for n in range(8))
    stream = Stream(events, gaps=((1, "s0", 1, 3, 0, 1000), (7, "s0", 9, 5, 6000, 7000)))
    text = f"SELECT count(*) WINDOW {window}"
    settings = WindowSettings(correction_horizon_ns=10)
    whole, cut = windows_of(query(text), settings), windows_of(query(text), settings)
    found = [*whole.process(batch(stream, Strings())), *whole.finish(10**4)]
    first = brief(found, "missing")[0]
    assert first[-1] == (3 if window == "ROWS 4" else 8)
    strings, emitted = Strings(), []
    for n in range(8):
        emitted += cut.process(batch(stream, strings, n, n + 1))
        again = windows_of(query(text), settings)
        again.restore(cut.snapshot())
        cut = again
    assert [*emitted, *cut.finish(10**4)] == found


def test_what_is_missing_counts_in_a_window_that_begins_before_another_that_left_ends() -> None:
    events = tuple(Event(10 * n, release=10 * n) for n in range(9))
    stream = Stream(events, gaps=((3, "s0", 1, 2, 20, 30),))
    settings = WindowSettings(correction_horizon_ns=10)
    operator, strings = (
        windows_of(query("SELECT sum(v) WINDOW ROWS 5 EVERY 1"), settings),
        Strings(),
    )
    found = [
        result for n in range(9) for result in operator.process(batch(stream, strings, n, n + 1))
    ]
    assert brief(found, "missing") == [
        ("+", 10 * n + 40, 10 * n, 10 * n + 40, 2 if n < 3 else 0) for n in range(5)
    ]


def test_old_gaps_of_a_window_without_end_become_fewer_and_none_of_their_events_is_lost() -> None:
    n = 3 * OLD_GAPS_MAX
    events = (*(Event(10 * k, release=10 * k) for k in range(n)), Event(10 * n, release=10 * n))
    gaps = tuple((k, "s0", 2 * k, 1, 10 * k - 10, 10 * k) for k in range(1, n))
    text = "SELECT count(*) WINDOW SESSION 11"
    operator = windows_of(query(text), WindowSettings(correction_horizon_ns=10))
    strings = Strings()
    for k in range(0, n + 1, 1000):
        operator.process(batch(Stream(events, gaps=gaps), strings, k, min(k + 1000, n + 1)))
        assert len(operator.snapshot()["_missing"]["left"]) <= OLD_GAPS_MAX + 1100
    (emitted,) = operator.finish(10**6)
    assert (emitted["missing"], emitted["value"]) == (n - 1, {"count(*)": n + 1})


def test_the_horizon_ends_corrections() -> None:
    events = (Event(0), Event(1), Event(50), Event(52), Event(100), Event(51, status=LATE),
              Event(49, status=LATE), Event(0, status=LATE))  # fmt: skip
    operator = windows_of(
        query("SELECT count(*), max(ref) WINDOW ROWS 2"), WindowSettings(correction_horizon_ns=49)
    )
    found = operator.process(batch(Stream(events), Strings()))
    assert operator.counters()["too_late"] == 1
    assert [(r["op"], r["window"]["start"], r["window"]["end"]) for r in found] == [
        ("+", 0, 1), ("+", 50, 52), ("-", 50, 52), ("+", 50, 51), ("+", 52, 100),
        ("-", 50, 51), ("+", 49, 50), ("-", 52, 100), ("+", 51, 52),
    ]  # fmt: skip


def assignments(events: list[Event]) -> set[tuple[int, ...]]:
    """The orders of the events under all errors of their clocks. At one time right clocks keep the
    order as it stands; others may come either way.
    """
    found: set[tuple[int, ...]] = set()

    def go_on(order: tuple[int, ...], time: int) -> None:
        rest = [k for k in range(len(events)) if k not in order]
        if not rest:
            found.add(order)
        for k in rest:
            event = events[k]
            first = event.unc > 0 or not any(
                events[j].unc == 0 and (events[j].ref, j) < (event.ref, k) for j in rest
            )
            if first and time <= event.ref + event.unc:
                go_on((*order, k), max(time, event.ref - event.unc))

    go_on((), -(10**9))
    return found


def present(some: tuple[int, ...], events: list[Event]) -> list[tuple[int, ...]]:
    """Of ``some`` events those that are there, in every world."""
    vague = [k for k in some if events[k].chance != 1]
    return [
        tuple(k for k in some if k not in gone)
        for number in range(len(vague) + 1) for gone in itertools.combinations(vague, number)
    ]  # fmt: skip


def ends(values: list[Any]) -> list[Any]:
    """The least and the largest of those that are known."""
    known = [value for value in values if value is not None]
    return [min(known), max(known)] if known else [None, None]


@st.composite
def crowded(draw: st.DrawFn) -> tuple[Stream, tuple[int, ...]]:
    """Few events close together, some without a value, some that may not be there."""
    n = draw(st.integers(1, 7))
    refs = sorted(draw(st.lists(st.integers(0, 12), min_size=n, max_size=n)))
    kinds = st.integers(-9, 9) if draw(st.booleans()) else st.sampled_from([-1.5, 0.25, 3.0, 7.0])
    v = st.one_of(kinds, kinds, kinds, st.none())
    unc = st.integers(0, 2)
    chance = st.sampled_from([1.0, 1.0, 0.5, float("nan")])
    events = tuple(
        Event(ref, v=draw(v), unc=draw(unc), seq=i, chance=draw(chance))
        for i, ref in enumerate(refs)
    )
    return Stream(events), tuple(draw(st.lists(st.integers(0, n), max_size=2)))


@given(case=crowded(), rows=st.sampled_from([(1, 1), (2, 1), (3, 2)]))
@settings(max_examples=40)
def test_bounds_are_those_of_all_clock_errors_with_and_without_what_may_not_be_there(
    case: tuple[Stream, tuple[int, ...]], rows: tuple[int, int]
) -> None:
    stream, cuts = case
    n, every = rows
    events = list(stream.events)
    orders = assignments(events)
    calls = "count(*), count(v), sum(v), avg(v), min(v), max(v)"
    text = f"SELECT {calls} WINDOW ROWS {n} EVERY {every}"
    found = results_of(text, stream)
    assert results_of(text, stream, cuts) == found
    emitted: list[dict[str, Any] | None] = []
    for r in found:  # a clock that errs by more than any before makes emitted windows doubtful
        content = {name: value for name, value in r.items() if name not in {"op", "at"}}
        if r["op"] == "-":
            emitted[emitted.index(content)] = None
        elif None in emitted:
            emitted[emitted.index(None)] = content
        else:
            emitted.append(content)
    for r, start in zip(emitted, range(0, len(events) - n + 1, every), strict=True):
        assert r is not None
        inside = [order[start : start + n] for order in orders]
        worlds = [there for some in set(inside) for there in present(some, events)]
        held = [[v for k in there if (v := events[k].v) is not None] for there in worlds]
        bounds = r["bounds"]
        assert bounds["count(*)"] == ends([len(there) for there in worlds])
        assert r["certain"] == len(set.intersection(*map(set, worlds)))
        assert r["certain"] + r["ambiguous"] >= len(set.union(*map(set, worlds)))
        assert bounds["count(v)"] == ends([len(v) for v in held])
        assert bounds["min(v)"] == ends([min(v) if v else None for v in held])
        assert bounds["max(v)"] == ends([max(v) if v else None for v in held])
        for label, of in (("sum(v)", sum), ("avg(v)", lambda v: sum(v) / len(v))):
            expected = ends([of(v) if v else None for v in held])
            assert bounds[label] == (expected if expected[0] is None else pytest.approx(expected))


def test_events_of_one_clock_keep_within_bounds_that_hold_all_assignments() -> None:
    shared = (Event(0, v=1, unc=2, epoch=3), Event(1, v=5, unc=2, epoch=3))
    stream = Stream((*shared, Event(3, v=9, unc=2, source="t"), Event(20, v=0)))
    first = results_of("SELECT sum(v) WINDOW ROWS 2", stream)[0]
    assert first["certainty"] == "uncertain"
    assert first["bounds"]["sum(v)"] == [6, 10]  # the first is never behind the second


def test_an_event_of_a_doubtful_clock_may_lie_between_two_right_ones_of_its_time() -> None:
    stream = Stream((Event(0, v=7, unc=1), Event(0, v=1), Event(0, v=2)))
    found = results_of("SELECT max(v) WINDOW ROWS 1", stream)
    assert [r["bounds"]["max(v)"] for r in found] == [[1, 7], [1, 7], [2, 7]]


def test_with_very_many_doubtful_events_there_are_no_bounds() -> None:
    stream = Stream(tuple(Event(at, unc=60, v=at) for at in range(80)))
    found = results_of("SELECT count(*), sum(v) WINDOW ROWS 40", stream)
    assert [r["bounds"] for r in found] == [{"count(*)": [40, 40], "sum(v)": [None, None]}] * 2


def medians(results: Sequence[Result]) -> list[tuple[Any, ...]]:
    """Of the windows whose results are not retracted, with how certain they are."""
    return sorted(
        (*r["window"].values(), r["value"]["median(v)"] or 0, r["certain"], r["ambiguous"])
        for r in standing(results)
    )


@st.composite
def long_streams(draw: st.DrawFn) -> tuple[Stream, tuple[int, ...]]:
    """Many events, equal values among them, some without, some late; in half of the streams some
    clocks err.
    """
    n = draw(st.integers(1, 40))
    errors = draw(st.sampled_from([[0], [0, 0, 1, 4]]))
    floats = draw(st.booleans())
    events = []
    for k in range(n):
        v: int | float | None = draw(st.one_of(st.integers(-4, 4), st.none()))
        if floats and k > n // 2 and v is not None:
            v = v + 0.5
        late = draw(st.integers(0, 7)) == 0
        ref = draw(st.integers(0, 3 * k)) if late else 3 * k
        status, unc = LATE if late else IN_ORDER, draw(st.sampled_from(errors))
        events.append(Event(ref, v=v, unc=unc, key=k % 2, status=status, seq=k))
    return Stream(tuple(events)), tuple(draw(st.lists(st.integers(0, n), max_size=3)))


@given(
    case=long_streams(), rows=st.sampled_from([(1, 1), (5, 1), (6, 2), (7, 3), (4, 4)]),
    calls=st.sampled_from(
        ["median(v)", "median(v), count(*)", "quantile(v, 0.3), median(v), sum(v)",
         "median(v), min(v), median(key)", "median(v), count(DISTINCT v)"]
    ),
    by_key=st.booleans(), emit=st.sampled_from(["", " EMIT ON CHANGE"]),
    horizon=st.sampled_from([0, 9, 10**5]),
)  # fmt: skip
@settings(max_examples=60)
def test_values_that_slide_in_order_are_those_of_each_window(
    case: tuple[Stream, tuple[int, ...]], rows: tuple[int, int], calls: str, *, by_key: bool,
    emit: str, horizon: int,
) -> None:  # fmt: skip
    stream, cuts = case
    calls = calls.replace("median(key)", "median(g)")
    text = f"SELECT {calls}{' GROUP BY g' * by_key} WINDOW ROWS {rows[0]} EVERY {rows[1]}{emit}"
    found = results_of(text, stream, cuts, horizon)
    assert results_of(text, stream, (), horizon) == found
    added_up = results_of(text.replace("SELECT", "SELECT max(g),"), stream, cuts, horizon)
    assert medians(added_up) == medians(found)
    if horizon < 10**5:  # some come too late, and are counted
        return
    for result in standing(found):
        mine = sorted(
            (event for event in stream.events if not by_key or event.key == result["key"]["g"]),
            key=lambda event: event.ref,
        )  # fmt: skip
        first, last = result["window"]["start"], result["window"]["end"]
        places = [n for n in range(0, len(mine), rows[1]) if mine[n].ref == first]
        wanted = []
        for n in places:
            inside = mine[n : n + rows[0]]
            values = [event.v for event in inside if event.v is not None]
            if inside[-1].ref == last:
                wanted.append(statistics.median(values) if values else None)
        assert result["value"]["median(v)"] in wanted


@pytest.mark.parametrize("error", [0, 50])
def test_quantiles_of_long_windows_that_slide_take_seconds(error: int) -> None:
    """Each window sorted by itself, 50,000 values 5,000 times, took 19 s; more where clocks err."""
    released, _ = many(100_000)
    released.columns["unc"][:] = error
    operator = windows_of(query("SELECT median(v), count(*) WINDOW ROWS 50000 EVERY 10"))
    begun = time.process_time()
    assert len(operator.process(released)) + len(operator.finish(10**9)) == 5001
    assert time.process_time() - begun < 5
