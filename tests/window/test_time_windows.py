"""Tumbling and sliding windows: R19's and SPEC 4.4's words first, then the twin, then any cut."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.released import IN_ORDER, LATE, LATE_DROPPED, RESIDUAL, Strings
from slackwater.engine.hosts.chain.operators import windows_of
from slackwater.engine.kernels.jit import plain
from slackwater.engine.operators.window.time_windows import PaneWindows, TimeWindows, WindowSettings
from slackwater.engine.query import query
from slackwater.engine.query.plan import (
    Aggregate,
    Attribute,
    Comparison,
    Constant,
    Drift,
    WindowPlan,
)
from tests.window.conftest import Event, Stream, Twin, batch, run

V, G = Attribute("v"), Attribute("g")
COUNT = Aggregate("count", None, "count(*)")
FIVE = tuple(
    Aggregate(function, V, f"{function}(v)") for function in ("count", "sum", "avg", "min", "max")
)


def plan(
    *aggregates: Aggregate, size: int = 10, drift: Drift = Drift.NONE, by_key: bool = False,
    **more: Any,
) -> WindowPlan:  # fmt: skip
    group = (G,) if by_key else ()
    return WindowPlan("q", "", aggregates, (), size, group_by=group, drift=drift, **more)


def operator(made: WindowPlan, horizon: int | None = None) -> TimeWindows:
    return windows_of(made, WindowSettings(correction_horizon_ns=horizon))


def brief(results: list[dict[str, Any]], *fields: str) -> list[tuple[Any, ...]]:
    return [(r["op"], r["window"]["start"], r["at"], *(r[f] for f in fields)) for r in results]


def test_spec_4_4_windows_align_to_the_epoch_and_close_when_progress_passes() -> None:
    events = tuple(Event(ref) for ref in (-1, 3, 9, 10, 19, 20))
    results = run(lambda: operator(plan(COUNT)), Stream(events), (), 99)
    assert brief(results, "value") == [
        ("+", -10, 1, {"count(*)": 1}),
        ("+", 0, 3, {"count(*)": 2}),
        ("+", 10, 5, {"count(*)": 2}),
        ("+", 20, 99, {"count(*)": 1}),
    ]


def test_r19_figure_3_4_three_windows_and_five_kinds_of_events() -> None:
    # w = [100, 200), T_a = 20: the kinds lie in 90-100, 100-110, 110-190, 190-200, 200-210.
    refs = (89, 95, 105, 150, 195, 205, 210)
    stream = Stream(tuple(Event(ref, v=1 << i) for i, ref in enumerate(refs)), t_a=20)
    made = plan(Aggregate("sum", V, "s"), size=100, drift=Drift.TOGETHER)
    first, second = run(lambda: operator(made), stream)
    assert first["window"] == {"start": 0, "end": 100}
    assert [first[n]["s"] for n in ("low", "middle", "high")] == [1, 3, 7]
    assert second["at"] == 6  # when 210 passes HIGH's end
    assert [second[n]["s"] for n in ("low", "middle", "high")] == [2 + 4 + 8, 4 + 8 + 16, 56]
    assert second["value"] == {"s": (14 + 28 + 56) / 3}


def test_r19_odd_max_delay_shifts_by_its_exact_half() -> None:
    # T_a = 5: LOW is [100 - 2.5, 200 - 2.5), HIGH [102.5, 202.5).
    refs = (97, 98, 102, 103, 197, 198, 202, 203)
    stream = Stream(tuple(Event(ref) for ref in refs), t_a=5)
    made = plan(Aggregate("min", Attribute("ts"), "a"), Aggregate("max", Attribute("ts"), "z"),
                size=100, drift=Drift.TOGETHER)  # fmt: skip
    second = run(lambda: operator(made), stream)[1]
    assert second["low"] == {"a": 98, "z": 197}
    assert second["middle"] == {"a": 102, "z": 198}
    assert second["high"] == {"a": 103, "z": 202}


def test_r19_emit_each_gives_three_results_when_each_closes() -> None:
    refs = (105, 150, 195, 205, 215)
    stream = Stream(tuple(Event(ref) for ref in refs), t_a=20)
    results = run(lambda: operator(plan(COUNT, size=100, drift=Drift.EACH)), stream)
    of_100 = [r for r in results if r["window"]["start"] == 100]
    assert brief(of_100, "drift", "value", "certain") == [
        ("+", 100, 2, "low", {"count(*)": 2}, None),
        ("+", 100, 3, "middle", {"count(*)": 3}, None),
        ("+", 100, 4, "high", {"count(*)": 3}, 3),
    ]


@pytest.mark.parametrize("drift", [Drift.EACH, Drift.TOGETHER])
def test_spec_4_4_window_not_longer_than_max_delay_is_an_error_that_says_so(drift: Drift) -> None:
    stream = Stream((Event(1),), t_a=10)
    with pytest.raises(UserError, match=r"'q'.* 10 ns is not longer .* T_a = 10 ns"):
        operator(plan(COUNT, drift=drift)).process(batch(stream, Strings()))
    assert operator(plan(COUNT, size=11, drift=drift)).process(batch(stream, Strings())) == []
    assert operator(plan(COUNT)).process(batch(stream, Strings())) == []


def test_spec_4_4_certain_ambiguous_and_bounds() -> None:
    events = (
        Event(98, v=-4, unc=3), Event(101, v=5, unc=3), Event(150, v=2, unc=3),
        Event(199, v=7, unc=3), Event(202, v=100, unc=3), Event(203, v=1, unc=3),
    )  # fmt: skip
    made = plan(COUNT, *FIVE, size=100)
    result = run(lambda: operator(made), Stream(events))[1]
    assert (result["window"]["start"], result["certain"], result["ambiguous"]) == (100, 1, 4)
    assert result["bounds"] == {
        "count(*)": [1, 5], "count(v)": [1, 5], "sum(v)": [2 - 4, 2 + 5 + 7 + 100],
        "avg(v)": [-1.0, 51.0], "min(v)": [-4, 2], "max(v)": [2, 100],
    }  # fmt: skip


def test_spec_4_4_missing_counts_gaps_that_could_belong_and_late_rows_fill_them() -> None:
    late = Event(12, v=5, status=LATE_DROPPED, seq=7)
    stream = Stream(
        (Event(5), Event(15), Event(25), late, Event(31)),
        gaps=((1, "s0", 7, 2, 5, 15), (2, "other", 1, 1, 15, 19)),
    )
    # The window before the late event's own counted it too: corrected with the next that closes.
    results = run(lambda: operator(plan(COUNT)), stream)
    assert brief(results, "value", "missing") == [
        ("+", 0, 1, {"count(*)": 1}, 2),
        ("+", 10, 2, {"count(*)": 1}, 3),
        ("-", 10, 3, {"count(*)": 1}, 3),
        ("+", 10, 3, {"count(*)": 2}, 2),
        ("-", 0, 4, {"count(*)": 1}, 2),
        ("+", 0, 4, {"count(*)": 1}, 0),  # number 8 lies behind the late 7
        ("+", 20, 4, {"count(*)": 1}, 0),
    ]


def test_spec_4_4_late_event_retracts_and_corrects_until_the_horizon() -> None:
    events = (
        Event(5, v=1), Event(10, v=1),
        Event(7, v=2, status=RESIDUAL),  # frontier 10: the window is kept
        Event(14, v=1),
        Event(8, v=4, status=LATE),  # frontier 14 < 10 + 5
        Event(15, v=1),
        Event(9, v=8, status=LATE),  # frontier 15: given up
    )  # fmt: skip
    made = operator(plan(Aggregate("sum", V, "s")), horizon=5)
    results = made.process(batch(Stream(events), Strings()))
    assert brief(results, "value") == [
        ("+", 0, 1, {"s": 1}),
        ("-", 0, 2, {"s": 1}),
        ("+", 0, 2, {"s": 3}),
        ("-", 0, 4, {"s": 3}),
        ("+", 0, 4, {"s": 7}),
    ]
    assert made.counters() == {
        "too_late": 1, "refused_groups": 0, "capped_uncertainty": 0, "wide_gaps": 0,
    }  # fmt: skip


def test_default_horizon_is_a_minute_or_a_longer_window() -> None:
    minute = 60 * 10**9
    for size, kept in ((10**9, minute), (2 * minute, 2 * minute)):
        for frontier, count in ((size + kept - 1, 2), (size + kept, 0)):
            made = operator(plan(COUNT, size=size))
            events = (Event(1), Event(frontier), Event(2, status=LATE))
            results = made.process(batch(Stream(events), Strings()))
            assert len([r for r in results if r["at"] == 2]) == count
            assert made.counters()["too_late"] == (count == 0)


def test_rows_filtered_by_where_and_stream_move_progress_but_do_not_count() -> None:
    events = (
        Event(1, v=1), Event(2, v=5), Event(3, v=5, stream="other"),
        Event(30, v=1),
    )  # fmt: skip
    made = WindowPlan("q", "", (COUNT,), ("events",), 10, where=Comparison(">", V, Constant(2)))
    results = run(lambda: operator(made), Stream(events), (), 99)
    assert brief(results, "value") == [("+", 0, 3, {"count(*)": 1})]


def test_keys_are_values_sorted_null_first() -> None:
    for keys in (("b", "a", None, "c"), (3, -1, None, 2), (2.5, None, -0.0, float("nan"))):
        events = tuple(Event(i, key=key) for i, key in enumerate(keys))
        results = run(lambda: operator(plan(COUNT, by_key=True)), Stream(events), (2,), 99)
        known = sorted({key for key in keys if key is not None and key == key})
        assert [r["key"]["g"] for r in results] == [None, *known]


def test_integer_sums_are_exact_beyond_int64_and_floats_compensated() -> None:
    big = 2**63 - 1
    for values, total in (
        ((big, big, big, -3), 3 * big - 3),
        ((-(2**63), -(2**63), 1), -(2**64) + 1),
        ((1e16, 1.0, -1e16), 1.0),
        ((0.1,) * 10, 1.0),
    ):
        events = tuple(Event(1, v=value) for value in values)
        made = plan(Aggregate("sum", V, "s"))
        (result,) = run(lambda made=made: operator(made), Stream(events), (1,), 9)
        assert result["value"] == {"s": total}


def test_nulls_and_nan_are_skipped() -> None:
    events = (Event(1, v=None), Event(2, v=float("nan")), Event(11, v=2.0))
    results = run(lambda: operator(plan(COUNT, *FIVE)), Stream(events), (), 99)
    nothing = {"sum(v)": None, "avg(v)": None, "min(v)": None, "max(v)": None}
    assert results[0]["value"] == {"count(*)": 2, "count(v)": 0, **nothing}
    assert results[1]["value"]["sum(v)"] == 2.0


def test_integers_become_floats_when_a_later_frame_has_floats() -> None:
    events = (Event(1, v=3), Event(2, v=2**53 + 1), Event(3, v=0.5))
    made = plan(Aggregate("sum", V, "s"), Aggregate("max", V, "m"))
    (result,) = run(lambda: operator(made), Stream(events), (1, 2), 99)
    assert result["value"] == {"s": float(2**53 + 4), "m": float(2**53 + 1)}


def test_text_in_a_sum_is_the_users_error_and_may_be_counted() -> None:
    stream = Stream((Event(1, v="x"), Event(2, v=None)))
    with pytest.raises(UserError, match="'v' is text"):
        operator(plan(Aggregate("sum", V, "s"))).process(batch(stream, Strings()))
    (result,) = run(lambda: operator(plan(FIVE[0])), stream, (), 9)
    assert result["value"] == {"count(v)": 1}


def test_group_key_that_changes_its_type_is_the_users_error() -> None:
    made, strings = operator(plan(COUNT, by_key=True)), Strings()
    made.process(batch(Stream((Event(1, key=1),)), strings))
    with pytest.raises(UserError, match="GROUP BY g was int before and is str now"):
        made.process(batch(Stream((Event(1, key="a"),)), strings))


def test_groups_beyond_the_limit_are_refused_and_counted() -> None:
    made = TimeWindows(plan(COUNT, by_key=True), WindowSettings(cells_max=256))
    events = tuple(Event(1, key=key) for key in range(300))
    made.process(batch(Stream(events), Strings()))
    emitted = made.finish(9)
    assert len(emitted) == 255
    assert made.counters()["refused_groups"] == 45
    # What found no room may be of any of them, so nothing bounds what they say.
    assert {str(each["bounds"]) for each in emitted} == {"{'count(*)': [None, None]}"}


def test_memory_stays_bounded_on_an_endless_stream() -> None:
    made, strings = operator(plan(*FIVE, by_key=True), horizon=20), Strings()
    sizes = set()
    for start in range(0, 20_000, 100):
        events = tuple(Event(start + i, key=i * start, unc=2) for i in range(100))
        made.process(batch(Stream(events), strings))
        state = made.snapshot()
        sizes.add(len(state["cells"]["window"]))
        sizes |= {len(state["results"]["next"]), len(state["kept"]["next"])}
        assert state["kept"]["tally"]["live"][0] < 60
    assert max(sizes) <= 256


def test_results_share_nothing_with_later_retractions() -> None:
    made, strings = operator(plan(COUNT, FIVE[1])), Strings()
    events = (Event(1), Event(10), Event(2, v=5, status=LATE))
    stream = Stream(events)
    (first,) = made.process(batch(stream, strings, 0, 2))
    for part in ("window", "key", "value", "middle", "bounds"):
        first[part].clear()
    retracted, corrected = made.process(batch(stream, strings, 2, 3))
    assert (retracted["op"], retracted["value"]["sum(v)"]) == ("-", 1)
    assert retracted["bounds"] == {"count(*)": [1, 1], "sum(v)": [1, 1]}
    assert corrected["value"]["sum(v)"] == 6


# ---- which windows give a row, and bounds of many


@pytest.mark.parametrize(
    ("count", "kernels"),
    [(20, nullcontext), (64, nullcontext), (65, nullcontext), (300, nullcontext), (65, plain)],
)
def test_bounds_of_few_and_of_many_ambiguous_events_are_those_of_every_error(
    count: int, kernels: Callable[[], AbstractContextManager[None]]
) -> None:
    random = np.random.default_rng(count)
    refs = random.integers(94, 106, count).tolist()  # all may lie on either side of 100
    values = random.integers(-50, 50, count).tolist()
    events = tuple(Event(ref, v=v, unc=6, epoch=7) for ref, v in zip(refs, values, strict=True))
    with kernels():
        results = run(lambda: operator(plan(COUNT, *FIVE, size=100)), Stream(events), (), 9)
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


@pytest.mark.parametrize("by_key", [False, True])
def test_a_window_whose_events_were_all_lost_gives_a_row(by_key: bool) -> None:
    found = Event(17, v=3, status=LATE_DROPPED, seq=1)
    stream = Stream((Event(5), Event(35), found, Event(50)), gaps=((1, "s0", 1, 1, 5, 35),))
    results = run(lambda: operator(plan(COUNT, FIVE[4], by_key=by_key)), stream, (), 99)
    lost, nobody, key = {"count(*)": 0, "max(v)": None}, {}, {}
    if by_key:
        nobody, key = {"g": None}, {"g": 0}
    # The late event tells of its own window at once; the others come with the next window that
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


def test_a_gap_over_very_many_windows_gives_no_row_each_and_is_counted() -> None:
    year = 10**12
    stream = Stream((Event(3), Event(year)), gaps=((1, "s0", 1, 1, 3, year),))
    made = operator(plan(COUNT))
    results = [*made.process(batch(stream, Strings())), *made.finish(9)]
    assert brief(results, "missing") == [("+", 0, 1, 1), ("+", year, 9, 1)]
    assert made.counters()["wide_gaps"] == 1


@pytest.mark.parametrize("drift", [Drift.EACH, Drift.TOGETHER])
def test_one_source_with_a_long_delay_is_left_out_of_max_delay_and_counted(drift: Drift) -> None:
    events = (Event(98), Event(103), Event(150, unc=90), Event(330))
    results = {}
    for t_a, delays in ((20_000, [20_000, 6, 2]), (6, [6, 2])):
        made = operator(plan(COUNT, size=100, drift=drift))
        released = batch(Stream(events, t_a=t_a), Strings())
        released.delays = np.array(delays)
        results[t_a] = list(made.process(released))
        assert made.counters()["sources_left_out_of_t_a"] == len(delays) - 2
    assert results[20_000] == results[6] != []


def test_keys_are_in_order_beside_windows_with_missing_events_alone() -> None:
    """Two windows have two keys each, eight have none: fewer keys than windows."""
    events = (Event(0, None, 0, unc=1, seq=8), Event(0, None, 2, unc=3, seq=9))
    stream = Stream(events, gaps=((0, "s0", 7, 1, 0, 43),))
    made = plan(COUNT, *FIVE, size=5, drift=Drift.NONE, by_key=True)
    emitted = run(lambda: operator(made, 0), stream, (), 1000)
    assert [line["key"]["g"] for line in emitted] == [0, 2, 0, 2, *[None] * 8]
    assert emitted == Twin(made, stream, 0).run(1000)


# ---- windows that slide
CALLS = "count(*), count(v), sum(v), avg(v), min(v), max(v), stddev(v), var(v)"


def test_li_2008_windows_of_4_every_2_hold_an_event_twice() -> None:
    asked = query("SELECT count(*), sum(v) WINDOW SLIDING 4 EVERY 2")
    events = tuple(Event(ref, v=ref) for ref in (1, 2, 3, 5, 8))
    late = Event(4, v=10, status=LATE)
    results = run(lambda: windows_of(asked), Stream((*events, late)), (2,), 99)
    assert [(r["op"], r["window"]["start"], *r["value"].values()) for r in results] == [
        ("+", -2, 1, 1), ("+", 0, 3, 6), ("+", 2, 3, 10), ("+", 4, 1, 5),
        ("-", 2, 3, 10), ("+", 2, 4, 20), ("-", 4, 1, 5), ("+", 4, 2, 15),
        ("+", 6, 1, 8), ("+", 8, 1, 8),
    ]  # fmt: skip


def test_a_window_between_two_events_of_which_one_is_missing_is_given_though_empty() -> None:
    asked = query("SELECT count(*) WINDOW SLIDING 4 EVERY 2")
    stream = Stream((Event(1), Event(20)), gaps=((1, "s0", 7, 1, 9, 10),))
    results = run(lambda: windows_of(asked), stream)
    assert [(r["window"]["start"], r["value"]["count(*)"], r["missing"]) for r in results] == [
        (-2, 1, 0), (0, 1, 0), (6, 0, 1), (8, 0, 1), (10, 0, 1),
    ]  # fmt: skip


def moved(seed: int) -> Stream:
    """Rows of keys in disorder, of clocks that err by little and by much, some late."""
    random = np.random.default_rng(seed)
    n = 100
    ref = np.sort(random.integers(0, 300, n)) + random.integers(-30, 1, n)
    values = random.normal(size=n)
    return Stream(
        tuple(
            Event(
                int(ref[i]), v=values[i].item(), key=int(random.integers(0, 3)),
                unc=int(random.choice([0, 1, 3, 40])),
                status=int(random.choice([IN_ORDER, IN_ORDER, IN_ORDER, RESIDUAL, LATE])),
            )
            for i in range(n)
        ),
        t_a=6,
    )  # fmt: skip


@pytest.mark.parametrize("drift", list(Drift))
@pytest.mark.parametrize(("size", "every"), [(40, 2), (50, 7), (8, 8)])
def test_panes_and_nodes_say_what_each_window_says_by_itself(
    drift: Drift, size: int, every: int
) -> None:
    ending = "" if drift is Drift.NONE else f" DRIFT {drift}"
    asked = query(f"SELECT {CALLS} GROUP BY g WINDOW SLIDING {size} EVERY {every}{ending}")
    kept = WindowSettings(correction_horizon_ns=100)
    stream = moved(size)
    made = run(lambda: PaneWindows(asked, kept), stream, (20, 21, 70), 9999)
    whole = run(lambda: TimeWindows(asked, kept), stream, (), 9999)
    assert len(made) == len(whole) > 30
    assert run(lambda: PaneWindows(asked, kept), stream, (), 9999) == made
    for one, other in zip(made, whole, strict=True):
        for name in ("op", "at", "window", "key", "certain", "ambiguous", "missing"):
            assert one[name] == other[name]
        for name in ("value", "low", "middle", "high"):
            assert one[name] == (other[name] and pytest.approx(other[name], abs=1e-9))
        for label, pair in (one["bounds"] or {}).items():
            assert pair == pytest.approx(other["bounds"][label], abs=1e-9)


@pytest.mark.parametrize("unc", [0, 7, 8, 19, 20])
def test_an_event_that_may_lie_in_many_slides_is_certain_where_all_of_it_lies(unc: int) -> None:
    """Up to 15 slides go to a pane; more than that, or than a window, to each window."""
    asked = query("SELECT count(*) WINDOW SLIDING 40 EVERY 1")
    found = run(lambda: windows_of(asked), Stream((Event(100, unc=unc), Event(200))))
    emitted = [(r["window"]["start"], r["value"]["count(*)"], r["certain"]) for r in found]
    starts = range(100 - unc - 39, 100 + unc + 1)
    assert [row for row in emitted if row[0] <= starts[-1]] == [
        (start, int(60 < start <= 100), int(60 + unc < start <= 100 - unc)) for start in starts
    ]


def test_panes_are_forgotten_when_no_window_needs_them() -> None:
    operator = windows_of(
        query("SELECT sum(v) GROUP BY g WINDOW SLIDING 64 EVERY 2"),
        WindowSettings(correction_horizon_ns=0),
    )
    assert isinstance(operator, PaneWindows)
    stream = Stream(tuple(Event(3 * i, key=i % 5) for i in range(4000)))
    strings = Strings()
    sizes = []
    for start in range(0, 4000, 1000):
        operator.process(batch(stream, strings, start, start + 1000))
        sizes.append(len(operator.snapshot()["panes"]["cells"]["window"]))
    assert sizes[0] == sizes[-1] <= 512


# ---- the twin, and any cut ------------------------------------------------------------------

EVENT = {
    "ref": st.integers(0, 60), "v": st.integers(-6, 6) | st.none(), "key": st.integers(0, 2),
    "unc": st.sampled_from([0, 0, 0, 0, 1, 3, 30]), "seq": st.integers(0, 9),
    "epoch": st.sampled_from([-1, -1, 0, 1]), "source": st.sampled_from(["s0", "s0", "s1"]),
    "status": st.sampled_from([IN_ORDER] * 5 + [RESIDUAL, LATE, LATE_DROPPED]),
}  # fmt: skip


@st.composite
def streams(draw: st.DrawFn, t_a: list[int]) -> Any:
    events = draw(st.lists(st.builds(Event, **EVENT), max_size=12))
    if draw(st.booleans()):
        events.sort(key=lambda event: event.ref)
    # The uncertainty of a clock grows with its age, and never by as much.
    worst, grows = draw(st.sampled_from([0, 1, 3, 12])), draw(st.sampled_from([0, 0, 1, 3]))
    events = [
        event if event.epoch < 0 else replace(event, unc=worst + event.ref * grows // 60)
        for event in events
    ]
    if draw(st.booleans()):
        events = [replace(e, v=None if e.v is None else e.v / 4) for e in events]
    rows = st.integers(0, len(events))
    steps = draw(st.lists(st.tuples(rows, st.integers(0, 70), st.integers(0, 99)), max_size=3))
    gap = st.tuples(rows, st.just("s0"), st.integers(0, 9), st.integers(1, 3),
                    st.integers(0, 60), st.integers(0, 60))  # fmt: skip
    gaps = draw(st.lists(gap, max_size=3))
    return Stream(
        tuple(events), tuple(sorted(steps, key=lambda step: step[0])),
        tuple(
            (*one[:4], *sorted(one[4:]))
            for one in sorted(gaps, key=lambda one: (one[0], one[2] % 2 == 0))
        ),
        draw(st.sampled_from(t_a)),
    )  # fmt: skip


@given(data=st.data(), drift=st.sampled_from(Drift), size=st.sampled_from([5, 10, 17]),
       by_key=st.booleans(), horizon=st.sampled_from([0, 7, 1000]))  # fmt: skip
@settings(max_examples=40)
def test_equals_windows_by_definition_under_any_cut(
    data: st.DataObject, drift: Drift, size: int, by_key: bool, horizon: int
) -> None:
    # Without DRIFT a T_a longer than the window is allowed: LOW and HIGH then lie elsewhere.
    t_a = [0, 3, 4, 23] if drift is Drift.NONE else [0, 3, 4]
    stream = data.draw(streams(t_a))
    if not by_key:
        stream = replace(stream, events=tuple(replace(event, key=None) for event in stream.events))
    every = data.draw(st.none() | st.integers(1, size))
    made = plan(COUNT, *FIVE, size=size, drift=drift, by_key=by_key, every_ns=every)
    twin = Twin(made, stream, horizon)
    expected = twin.run(1000)
    whole = run(lambda: operator(made, horizon), stream, (), 1000)
    assert whole == expected
    cuts = data.draw(st.lists(st.integers(0, len(stream.events)), max_size=6))
    assert run(lambda: operator(made, horizon), stream, cuts, 1000) == expected


def test_any_cut_gives_bit_identical_floats() -> None:
    generator = np.random.default_rng(3)
    events = tuple(
        Event(int(ref), v=float(v), key=int(key), unc=40, status=int(status))
        for ref, v, key, status in zip(
            np.sort(generator.integers(0, 3000, 3000)) + generator.integers(-20, 1, 3000),
            generator.lognormal(0, 8, 3000),
            generator.integers(0, 7, 3000),
            generator.choice([IN_ORDER] * 9 + [RESIDUAL], 3000),
            strict=True,
        )
    )
    extra = (Aggregate("stddev", V, "d"), Aggregate("quantile", V, "m", 0.25))
    made = plan(*FIVE, *extra, size=500, drift=Drift.TOGETHER, by_key=True)
    stream = Stream(events, t_a=60)
    whole = run(lambda: operator(made), stream, (), 9999)
    assert len(whole) > 60
    cuts = sorted(generator.integers(0, 3000, 40).tolist())
    assert run(lambda: operator(made), stream, cuts, 9999) == whole
    corrected = [r for r in whole if r["op"] == "-"]
    assert corrected
    for result in whole:
        if result["middle"]["d"] is not None:
            assert result["bounds"]["avg(v)"][0] <= result["middle"]["avg(v)"]
