"""Tumbling and sliding windows: R19's and SPEC 4.4's words first, then the twin, then any cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import UserError
from engine.query.plan import Aggregate, Attribute, Comparison, Constant, Drift, WindowPlan
from engine.stream.released import IN_ORDER, LATE, LATE_DROPPED, RESIDUAL, Strings
from engine.window.kinds import windows_of
from engine.window.time_windows import TimeWindows, WindowSettings

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


def test_spec_4_4_windows_align_to_the_epoch_and_close_when_progress_passes(tools: Any) -> None:
    events = tuple(tools.Event(ref) for ref in (-1, 3, 9, 10, 19, 20))
    results = tools.run(lambda: operator(plan(COUNT)), tools.Stream(events), (), 99)
    assert brief(results, "value") == [
        ("+", -10, 1, {"count(*)": 1}),
        ("+", 0, 3, {"count(*)": 2}),
        ("+", 10, 5, {"count(*)": 2}),
        ("+", 20, 99, {"count(*)": 1}),
    ]


def test_r19_figure_3_4_three_windows_and_five_kinds_of_events(tools: Any) -> None:
    # w = [100, 200), T_a = 20: the kinds lie in 90-100, 100-110, 110-190, 190-200, 200-210.
    refs = (89, 95, 105, 150, 195, 205, 210)
    stream = tools.Stream(tuple(tools.Event(ref, v=1 << i) for i, ref in enumerate(refs)), t_a=20)
    made = plan(Aggregate("sum", V, "s"), size=100, drift=Drift.TOGETHER)
    first, second = tools.run(lambda: operator(made), stream)
    assert first["window"] == {"start": 0, "end": 100}
    assert [first[n]["s"] for n in ("low", "middle", "high")] == [1, 3, 7]
    assert second["at"] == 6  # when 210 passes HIGH's end
    assert [second[n]["s"] for n in ("low", "middle", "high")] == [2 + 4 + 8, 4 + 8 + 16, 56]
    assert second["value"] == {"s": (14 + 28 + 56) / 3}


def test_r19_odd_max_delay_shifts_by_its_exact_half(tools: Any) -> None:
    # T_a = 5: LOW is [100 - 2.5, 200 - 2.5), HIGH [102.5, 202.5).
    refs = (97, 98, 102, 103, 197, 198, 202, 203)
    stream = tools.Stream(tuple(tools.Event(ref) for ref in refs), t_a=5)
    made = plan(Aggregate("min", Attribute("ts"), "a"), Aggregate("max", Attribute("ts"), "z"),
                size=100, drift=Drift.TOGETHER)  # fmt: skip
    second = tools.run(lambda: operator(made), stream)[1]
    assert second["low"] == {"a": 98, "z": 197}
    assert second["middle"] == {"a": 102, "z": 198}
    assert second["high"] == {"a": 103, "z": 202}


def test_r19_emit_each_gives_three_results_when_each_closes(tools: Any) -> None:
    refs = (105, 150, 195, 205, 215)
    stream = tools.Stream(tuple(tools.Event(ref) for ref in refs), t_a=20)
    results = tools.run(lambda: operator(plan(COUNT, size=100, drift=Drift.EACH)), stream)
    of_100 = [r for r in results if r["window"]["start"] == 100]
    assert brief(of_100, "drift", "value", "certain") == [
        ("+", 100, 2, "low", {"count(*)": 2}, None),
        ("+", 100, 3, "middle", {"count(*)": 3}, None),
        ("+", 100, 4, "high", {"count(*)": 3}, 3),
    ]


@pytest.mark.parametrize("drift", [Drift.EACH, Drift.TOGETHER])
def test_spec_4_4_window_not_longer_than_max_delay_is_an_error_that_says_so(
    tools: Any, drift: Drift
) -> None:
    stream = tools.Stream((tools.Event(1),), t_a=10)
    with pytest.raises(UserError, match=r"'q'.* 10 ns is not longer .* T_a = 10 ns"):
        operator(plan(COUNT, drift=drift)).process(tools.batch(stream, Strings()))
    assert operator(plan(COUNT, size=11, drift=drift)).process(tools.batch(stream, Strings())) == []
    assert operator(plan(COUNT)).process(tools.batch(stream, Strings())) == []


def test_spec_4_4_certain_ambiguous_and_bounds(tools: Any) -> None:
    events = (
        tools.Event(98, v=-4, unc=3), tools.Event(101, v=5, unc=3), tools.Event(150, v=2, unc=3),
        tools.Event(199, v=7, unc=3), tools.Event(202, v=100, unc=3), tools.Event(203, v=1, unc=3),
    )  # fmt: skip
    made = plan(COUNT, *FIVE, size=100)
    result = tools.run(lambda: operator(made), tools.Stream(events))[1]
    assert (result["window"]["start"], result["certain"], result["ambiguous"]) == (100, 1, 4)
    assert result["bounds"] == {
        "count(*)": [1, 5], "count(v)": [1, 5], "sum(v)": [2 - 4, 2 + 5 + 7 + 100],
        "avg(v)": [-1.0, 51.0], "min(v)": [-4, 2], "max(v)": [2, 100],
    }  # fmt: skip


def test_spec_4_4_missing_counts_gaps_that_could_belong_and_late_rows_fill_them(tools: Any) -> None:
    late = tools.Event(12, v=5, status=LATE_DROPPED, seq=7)
    stream = tools.Stream(
        (tools.Event(5), tools.Event(15), tools.Event(25), late, tools.Event(31)),
        gaps=((1, "s0", 7, 2, 5, 15), (2, "other", 1, 1, 15, 19)),
    )
    # The window before the late event's own counted it too: corrected with the next that closes.
    results = tools.run(lambda: operator(plan(COUNT)), stream)
    assert brief(results, "value", "missing") == [
        ("+", 0, 1, {"count(*)": 1}, 2),
        ("+", 10, 2, {"count(*)": 1}, 3),
        ("-", 10, 3, {"count(*)": 1}, 3),
        ("+", 10, 3, {"count(*)": 2}, 2),
        ("-", 0, 4, {"count(*)": 1}, 2),
        ("+", 0, 4, {"count(*)": 1}, 1),
        ("+", 20, 4, {"count(*)": 1}, 0),
    ]


def test_spec_4_4_late_event_retracts_and_corrects_until_the_horizon(tools: Any) -> None:
    events = (
        tools.Event(5, v=1), tools.Event(10, v=1),
        tools.Event(7, v=2, status=RESIDUAL),  # frontier 10: the window is kept
        tools.Event(14, v=1),
        tools.Event(8, v=4, status=LATE),  # frontier 14 < 10 + 5
        tools.Event(15, v=1),
        tools.Event(9, v=8, status=LATE),  # frontier 15: given up
    )  # fmt: skip
    made = operator(plan(Aggregate("sum", V, "s")), horizon=5)
    results = made.process(tools.batch(tools.Stream(events), Strings()))
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


def test_default_horizon_is_a_minute_or_a_longer_window(tools: Any) -> None:
    minute = 60 * 10**9
    for size, kept in ((10**9, minute), (2 * minute, 2 * minute)):
        for frontier, count in ((size + kept - 1, 2), (size + kept, 0)):
            made = operator(plan(COUNT, size=size))
            events = (tools.Event(1), tools.Event(frontier), tools.Event(2, status=LATE))
            results = made.process(tools.batch(tools.Stream(events), Strings()))
            assert len([r for r in results if r["at"] == 2]) == count
            assert made.counters()["too_late"] == (count == 0)


def test_progress_without_rows_closes_at_its_own_instant(tools: Any) -> None:
    stream = tools.Stream((tools.Event(5),), steps=((0, 4, 70), (1, 9, 71), (1, 10, 72)))
    assert brief(tools.run(lambda: operator(plan(COUNT)), stream)) == [("+", 0, 72)]


def test_rows_filtered_by_where_and_stream_move_progress_but_do_not_count(tools: Any) -> None:
    events = (
        tools.Event(1, v=1), tools.Event(2, v=5), tools.Event(3, v=5, stream="other"),
        tools.Event(30, v=1),
    )  # fmt: skip
    made = WindowPlan("q", "", (COUNT,), ("events",), 10, where=Comparison(">", V, Constant(2)))
    results = tools.run(lambda: operator(made), tools.Stream(events), (), 99)
    assert brief(results, "value") == [("+", 0, 3, {"count(*)": 1})]


def test_keys_are_values_sorted_null_first(tools: Any) -> None:
    for keys in (("b", "a", None, "c"), (3, -1, None, 2), (2.5, None, -0.0, float("nan"))):
        events = tuple(tools.Event(i, key=key) for i, key in enumerate(keys))
        results = tools.run(
            lambda: operator(plan(COUNT, by_key=True)), tools.Stream(events), (2,), 99
        )
        known = sorted({key for key in keys if key is not None and key == key})
        assert [r["key"]["g"] for r in results] == [None, *known]


def test_group_by_record_field_and_after_restore_without_a_batch(tools: Any) -> None:
    made = WindowPlan("q", "", (COUNT,), (), 10, group_by=(Attribute("source"), G))
    first = operator(made)
    first.process(tools.batch(tools.Stream((tools.Event(1, source="x", key="k"),)), Strings()))
    second = operator(made)
    second.restore(first.snapshot())
    (result,) = second.finish(7)
    assert result["key"] == {"source": "x", "g": "k"}


def test_integer_sums_are_exact_beyond_int64_and_floats_compensated(tools: Any) -> None:
    big = 2**63 - 1
    for values, total in (
        ((big, big, big, -3), 3 * big - 3),
        ((-(2**63), -(2**63), 1), -(2**64) + 1),
        ((1e16, 1.0, -1e16), 1.0),
        ((0.1,) * 10, 1.0),
    ):
        events = tuple(tools.Event(1, v=value) for value in values)
        made = plan(Aggregate("sum", V, "s"))
        (result,) = tools.run(lambda made=made: operator(made), tools.Stream(events), (1,), 9)
        assert result["value"] == {"s": total}


def test_stddev_of_the_population_and_quantile_interpolated(tools: Any) -> None:
    values = (2, 4, 4, 4, 5, 5, 7, 9)
    made = plan(
        Aggregate("stddev", V, "d"), Aggregate("quantile", V, "m", 0.5),
        Aggregate("quantile", V, "q", 0.9), drift=Drift.TOGETHER,
    )  # fmt: skip
    # Two parts of the window (T_a = 4): their moments are joined.
    events = tuple(
        tools.Event(ref, v=v) for ref, v in zip((1, 1, 1, 5, 5, 5, 5, 9), values, strict=True)
    )
    stream = tools.Stream(events, t_a=4)
    results = tools.run(lambda: operator(made), stream, (3, 4), 99)
    (result,) = [r for r in results if r["window"]["start"] == 0]
    assert result["middle"]["d"] == pytest.approx(2.0, abs=1e-15)
    assert result["middle"]["m"] == 4.5
    assert result["middle"]["q"] == pytest.approx(np.quantile(values, 0.9))
    assert result["low"]["q"] == pytest.approx(np.quantile(values[:-1], 0.9))
    assert result["high"]["d"] == pytest.approx(np.std(values[3:]))
    assert result["bounds"] == {}


def test_nulls_and_nan_are_skipped(tools: Any) -> None:
    events = (tools.Event(1, v=None), tools.Event(2, v=float("nan")), tools.Event(11, v=2.0))
    results = tools.run(lambda: operator(plan(COUNT, *FIVE)), tools.Stream(events), (), 99)
    nothing = {"sum(v)": None, "avg(v)": None, "min(v)": None, "max(v)": None}
    assert results[0]["value"] == {"count(*)": 2, "count(v)": 0, **nothing}
    assert results[1]["value"]["sum(v)"] == 2.0


def test_integers_become_floats_when_a_later_frame_has_floats(tools: Any) -> None:
    events = (tools.Event(1, v=3), tools.Event(2, v=2**53 + 1), tools.Event(3, v=0.5))
    made = plan(Aggregate("sum", V, "s"), Aggregate("max", V, "m"))
    (result,) = tools.run(lambda: operator(made), tools.Stream(events), (1, 2), 99)
    assert result["value"] == {"s": float(2**53 + 4), "m": float(2**53 + 1)}


def test_text_in_a_sum_is_the_users_error_and_may_be_counted(tools: Any) -> None:
    stream = tools.Stream((tools.Event(1, v="x"), tools.Event(2, v=None)))
    with pytest.raises(UserError, match="'v' is text"):
        operator(plan(Aggregate("sum", V, "s"))).process(tools.batch(stream, Strings()))
    (result,) = tools.run(lambda: operator(plan(FIVE[0])), stream, (), 9)
    assert result["value"] == {"count(v)": 1}


def test_group_key_that_changes_its_type_is_the_users_error(tools: Any) -> None:
    made, strings = operator(plan(COUNT, by_key=True)), Strings()
    made.process(tools.batch(tools.Stream((tools.Event(1, key=1),)), strings))
    with pytest.raises(UserError, match="GROUP BY g was int before and is str now"):
        made.process(tools.batch(tools.Stream((tools.Event(1, key="a"),)), strings))


def test_groups_beyond_the_limit_are_refused_and_counted(tools: Any) -> None:
    made = TimeWindows(plan(COUNT, by_key=True), WindowSettings(cells_max=256))
    events = tuple(tools.Event(1, key=key) for key in range(300))
    made.process(tools.batch(tools.Stream(events), Strings()))
    assert len(made.finish(9)) == 255
    assert made.counters()["refused_groups"] == 45


def test_memory_stays_bounded_on_an_endless_stream(tools: Any) -> None:
    made, strings = operator(plan(*FIVE, by_key=True), horizon=20), Strings()
    sizes = set()
    for start in range(0, 20_000, 100):
        events = tuple(tools.Event(start + i, key=i * start, unc=2) for i in range(100))
        made.process(tools.batch(tools.Stream(events), strings))
        state = made.snapshot()
        sizes.add(len(state["cells"]["window"]))
        sizes |= {len(state["standing"]["next"]), len(state["kept"]["next"])}
        assert state["kept"]["tally"]["live"][0] < 60
    assert sizes == {256}


def test_results_share_nothing_with_later_retractions(tools: Any) -> None:
    made, strings = operator(plan(COUNT, FIVE[1])), Strings()
    events = (tools.Event(1), tools.Event(10), tools.Event(2, v=5, status=LATE))
    stream = tools.Stream(events)
    (first,) = made.process(tools.batch(stream, strings, 0, 2))
    for part in ("window", "key", "value", "middle", "bounds"):
        first[part].clear()
    retracted, corrected = made.process(tools.batch(stream, strings, 2, 3))
    assert (retracted["op"], retracted["value"]["sum(v)"]) == ("-", 1)
    assert retracted["bounds"] == {"count(*)": [1, 1], "sum(v)": [1, 1]}
    assert corrected["value"]["sum(v)"] == 6


def test_uncertainty_beyond_a_window_is_capped_and_counted(tools: Any) -> None:
    made = operator(plan(COUNT))
    made.process(tools.batch(tools.Stream((tools.Event(105, unc=1000),)), Strings()))
    results = made.finish(9)
    assert brief(results, "value", "certain", "ambiguous") == [
        ("+", start, 9, {"count(*)": count}, 0, 1) for start, count in ((90, 0), (100, 1), (110, 0))
    ]
    assert made.counters()["capped_uncertainty"] == 1


def test_ambiguous_events_are_waited_for_when_uncertainty_exceeds_half_of_max_delay(
    tools: Any,
) -> None:
    events = (tools.Event(5, unc=3), tools.Event(12, unc=3), tools.Event(13, unc=3))
    results = tools.run(lambda: operator(plan(COUNT)), tools.Stream(events))
    assert brief(results, "certain", "ambiguous") == [("+", 0, 2, 1, 1)]


# ---- the twin, and any cut ------------------------------------------------------------------

EVENT = {
    "ref": st.integers(0, 60), "v": st.integers(-6, 6) | st.none(), "key": st.integers(0, 2),
    "unc": st.sampled_from([0, 0, 0, 0, 1, 3, 30]), "seq": st.integers(0, 9),
    "epoch": st.sampled_from([-1, -1, 0, 1]), "source": st.sampled_from(["s0", "s0", "s1"]),
    "status": st.sampled_from([IN_ORDER] * 5 + [RESIDUAL, LATE, LATE_DROPPED]),
}  # fmt: skip


@st.composite
def streams(draw: st.DrawFn, tools: Any, t_a: list[int]) -> Any:
    events = draw(st.lists(st.builds(tools.Event, **EVENT), max_size=12))
    if draw(st.booleans()):
        events.sort(key=lambda event: event.ref)
    # The uncertainty of a clock grows with its age, and never by as much.
    worst, grows = draw(st.sampled_from([0, 1, 3, 12])), draw(st.sampled_from([0, 0, 1, 3]))
    events = [
        event if event.epoch < 0 else tools.replace(event, unc=worst + event.ref * grows // 60)
        for event in events
    ]
    if draw(st.booleans()):
        events = [tools.replace(e, v=None if e.v is None else e.v / 4) for e in events]
    rows = st.integers(0, len(events))
    steps = draw(st.lists(st.tuples(rows, st.integers(0, 70), st.integers(0, 99)), max_size=3))
    gap = st.tuples(rows, st.just("s0"), st.integers(0, 9), st.integers(1, 3),
                    st.integers(0, 60), st.integers(0, 60))  # fmt: skip
    gaps = draw(st.lists(gap, max_size=3))
    return tools.Stream(
        tuple(events), tuple(sorted(steps, key=lambda step: step[0])),
        tuple(sorted(gaps, key=lambda one: (one[0], one[2] % 2 == 0))), draw(st.sampled_from(t_a)),
    )  # fmt: skip


@given(data=st.data(), drift=st.sampled_from(Drift), size=st.sampled_from([5, 10, 17]),
       by_key=st.booleans(), horizon=st.sampled_from([0, 7, 1000]))  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_equals_windows_by_definition_under_any_cut(
    tools: Any, data: st.DataObject, drift: Drift, size: int, by_key: bool, horizon: int
) -> None:
    # Without DRIFT a T_a longer than the window is allowed: LOW and HIGH then lie elsewhere.
    t_a = [0, 3, 4, 23] if drift is Drift.NONE else [0, 3, 4]
    stream = data.draw(streams(tools, t_a))
    if not by_key:
        stream = tools.replace(
            stream, events=tuple(tools.replace(event, key=None) for event in stream.events)
        )
    every = data.draw(st.none() | st.integers(1, size))
    made = plan(COUNT, *FIVE, size=size, drift=drift, by_key=by_key, every_ns=every)
    twin = tools.Twin(made, stream, horizon)
    expected = twin.run(1000)
    whole = tools.run(lambda: operator(made, horizon), stream, (), 1000)
    assert whole == expected
    cuts = data.draw(st.lists(st.integers(0, len(stream.events)), max_size=6))
    assert tools.run(lambda: operator(made, horizon), stream, cuts, 1000) == expected


def test_any_cut_gives_bit_identical_floats(tools: Any) -> None:
    generator = np.random.default_rng(3)
    events = tuple(
        tools.Event(int(ref), v=float(v), key=int(key), unc=40, status=int(status))
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
    stream = tools.Stream(events, t_a=60)
    whole = tools.run(lambda: operator(made), stream, (), 9999)
    assert len(whole) > 60
    cuts = sorted(generator.integers(0, 3000, 40).tolist())
    assert tools.run(lambda: operator(made), stream, cuts, 9999) == whole
    corrected = [r for r in whole if r["op"] == "-"]
    assert corrected
    for result in whole:
        if result["middle"]["d"] is not None:
            assert result["bounds"]["avg(v)"][0] <= result["middle"]["avg(v)"]
