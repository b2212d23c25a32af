"""Clocks of sources (SPEC 2): offsets predicted by a line between syncs, and steps of a clock.

How wrong a line may be, and what a step leaves in doubt: against true clocks and the slow twin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest
import slow_clock
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.engine.core.clocks.prediction import (
    ClockStep,
    Line,
    Sample,
    SyncPoint,
    bounded_offset,
    find_step,
    fit_line,
    fit_newest,
    zero_order_hold,
)
from slackwater.engine.core.clocks.reference import SourceClocks
from slackwater.engine.core.released import NO_EPOCH, Strings
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query

US, MS, S = 10**3, 10**6, 10**9
PPB = 10**9
SKEW_MAX_PPB, WANDER_PPB, SYNCS_KEPT = 500_000, 2_000, 8
"""NTP's frequency tolerance (RFC 5905), a crystal's wander within minutes, syncs of a line."""
FEW = settings(max_examples=30, deadline=None)
Record = dict[str, Any]


@pytest.fixture(name="order", scope="session")
def _order(ordering: Callable[..., Any]) -> Callable[[str], Any]:
    return lambda text: ordering(parse_order(text), Guards(None, 0))


def sync(at: int, offset: int, **given: Any) -> Record:
    """Source a measured ``offset`` at its own time ``at``; the report arrives a second later."""
    return {"kind": "sync", "source": "a", "ts": at, "offset": offset, "delay": 2 * MS,
            "skew_error_ppb": 50_000, "arrival": at + S, **given}  # fmt: skip


def event(seq: int, at: int, **given: Any) -> Record:
    return {"source": "a", "seq": seq, "ts": at, "arrival": at + S, **given}


def learnt(reports: Sequence[Sample], stated: int) -> SourceClocks:
    clocks = SourceClocks(Strings(["a"]), fits=True)
    for ts, offset, unc in reports:
        sync = SyncPoint("a", "events", 0, offset, 2 * unc, ts, skew_error_ppb=stated)
        clocks.learn(sync)
    return clocks


def corrected(clocks: SourceClocks, times: Sequence[int]) -> tuple[list[int], ...]:
    source = np.zeros(len(times), np.int32)
    columns = clocks.correct(source, np.array(times, np.int64), 0)
    return tuple(column.tolist() for column in columns)


# A clock that falls back 50 us a second, as fast as it says it may.
THREE = [sync(0, 0), sync(60 * S, 3 * MS), sync(120 * S, 6 * MS)]
AFTER = [event(0, 120 * S), event(1, 150 * S), event(2, 179 * S)]


def test_spec_2_golden_from_the_third_sync_on_the_offset_has_a_slope(order: Any) -> None:
    done = order("sequence:timeout=fixed:10,time=fit").process([*THREE, *AFTER]).finish()
    # By hand: lines through all three intervals of +- 1 ms (the older ones 2 ppm of their age
    # wider) rise by 3.76 ms in 120 s at least; 2 ppm of wander below that is 29,333 ppb, and
    # 50,000 is the most that is possible. So the slope of 50,000 is wrong by 20,667 ppb at most.
    # The middle between 5 and 7 ms is the line's own 6; 2 ns are for rounding.
    assert [row[6] - row[4] for row in done.released] == [6 * MS, 7_500_000, 8_950_000]
    assert [row[7] for row in done.released] == [
        MS + 2, MS + 2 + 30 * 20_667, MS + 2 + 59 * 20_667,
    ]  # fmt: skip
    counters = done.chain.counters()["clocks"]
    assert counters == [
        {
            "source": "a", "syncs": 3, "offset_ns": 6 * MS, "uncertainty_ns": MS + 2,
            "skew_ppb": 50_000, "skew_error_ppb": 20_667, "clock_steps": 0, "last_step_ns": 0,
            "released_before_step": 0, "refuted_ns": 0,
        }
    ]  # fmt: skip


@pytest.mark.parametrize("form", ["sequence:timeout=fixed:10,time=hold", "none:time=hold"])
def test_r19_holds_every_offset_until_the_next(order: Any, form: str) -> None:
    done = order(form).process([*THREE, *AFTER]).finish()
    assert [row[6] - row[4] for row in done.released] == [6 * MS] * 3
    assert [row[7] for row in done.released] == [MS, MS + 30 * 50_000, MS + 59 * 50_000]


def test_two_syncs_or_syncs_without_a_time_are_held(order: Any) -> None:
    two = order("none:time=fit").process([*THREE[1:], *AFTER])
    untimed = [record | {"ts": None} for record in THREE]
    never = order("none:time=fit").process([*untimed, *AFTER])
    assert [row[6] - row[4] for row in two.released] == [6 * MS] * 3
    assert [row[7] for row in two.released] == [MS, MS + 30 * 50_000, MS + 59 * 50_000]
    assert [row[6] - row[4] for row in never.released] == [6 * MS] * 3
    # They age from the newest event that had been seen: here from the first one on.
    assert [row[7] for row in never.released] == [MS, MS + 30 * 50_000, MS + 59 * 50_000]


def test_a_sync_that_states_no_skew_error_loses_certainty_at_50_ppm(order: Any) -> None:
    for when in ({"ts": 0}, {"ts": None}):
        for stated, ppb in ((None, 50_000), (0, 0), (7_000, 7_000)):
            sync = {"kind": "sync", "source": "a", "offset": 0, "delay": 2 * MS, "arrival": 0}
            events = [{"source": "a", "seq": n, "ts": n * 60 * S, "arrival": n * 60 * S + 1}
                      for n in range(3)]  # fmt: skip
            trace = [{**sync, **when, "skew_error_ppb": stated}, *events]
            for done in (
                order("none").process(trace),
                order("none").process(trace[:1]).process(trace[1:2]).process(trace[2:]),
            ):
                assert [row[7] for row in done.released] == [MS + n * 60 * ppb for n in range(3)]


def test_a_clock_that_states_nothing_may_run_off_by_more_than_50_ppm(order: Any) -> None:
    """That is how fast certainty is lost, not a bound that would make each sync a step."""
    syncs = [{"kind": "sync", "source": "a", "offset": n * 12 * MS, "delay": 2 * MS,
              "ts": n * 60 * S, "arrival": n * 60 * S} for n in range(4)]  # fmt: skip
    last = {"source": "a", "seq": 0, "ts": 240 * S, "arrival": 240 * S}
    done = order("none:time=fit").process([*syncs, last])
    (row,) = done.released
    assert abs(row[6] - row[4] - 48 * MS) <= row[7] < 20 * MS


def test_a_report_given_for_every_stream_is_one_sync(order: Any) -> None:
    trace = [sync(0, 0), sync(60 * S, 3 * MS), *(sync(60 * S, 3 * MS, stream=s) for s in "xyz")]
    done = order("none").process(trace)
    assert done.chain.counters()["clocks"][0]["syncs"] == 2


def test_events_before_a_sync_keep_the_line_before_it(order: Any) -> None:
    late = [event(3, 119 * S, arrival=200 * S), event(4, 59 * S, arrival=201 * S)]
    done = order("none").process([*THREE, *late])
    assert [row[6] - row[4] for row in done.released] == [3 * MS, 0]


# ---- how wrong a line may be ----------------------------------------------------------------


class Truth:
    """A clock whose frequency changes at each sync, never by more than a crystal's wander."""

    def __init__(self, ends: Sequence[int], skews: Sequence[int], last: int) -> None:
        self.ends, self.skews, self.last = ends, skews, last

    def offset(self, ts: int) -> Fraction:
        """Exact, at the source's time; ``skews[i]`` [ppb] holds until ``ends[i]``."""
        found, at = Fraction(0), 0
        for end, skew in zip([*self.ends, max(ts, self.ends[-1])], [*self.skews, self.last],
                             strict=True):  # fmt: skip
            upto = min(end, ts)
            if upto > at:
                found += Fraction((upto - at) * skew, PPB)
                at = upto
        return found


@st.composite
def clocks(draw: st.DrawFn, wander: int = WANDER_PPB) -> tuple[Truth, list[Sample], int]:
    """A clock that keeps its word, the syncs of it, and what it states."""
    stated = draw(st.sampled_from([0, 100, 5_000, 50_000, 500_000, 10**8]))
    limit = stated or SKEW_MAX_PPB
    last = draw(st.integers(-limit, limit))
    ends, skews, samples = [], [], []
    now = 0
    for gap in draw(st.lists(st.integers(S, 4000 * S), min_size=3, max_size=SYNCS_KEPT)):
        now += gap
        ends.append(now)
        moved = last + draw(st.integers(-wander, wander))
        skews.append(min(max(moved, -limit), limit))
    truth = Truth(ends, skews, last)
    for end in ends:
        unc = draw(st.integers(1, 50 * MS) | st.integers(1, 100 * US))
        error = draw(st.integers(1 - unc, unc))
        samples.append(Sample(end, floor(truth.offset(end)) + error, unc))
    return truth, samples, stated


@FEW
@given(clock=clocks(), ages=st.lists(st.integers(0, 10_000 * S), min_size=1, max_size=5))
def test_a_line_is_never_wrong_by_more_than_it_says_nor_less_certain_than_its_last_sync(
    clock: tuple[Truth, list[Sample], int], ages: list[int]
) -> None:
    truth, samples, stated = clock
    kept, line = fit_newest(samples, stated)
    assert kept == samples
    for age in ages:
        ts = samples[-1].ts + age
        error = line.offset_at(ts) - truth.offset(ts)
        assert abs(error) <= line.unc_after(age, line.skew_error_ppb)
    alone = zero_order_hold(samples[-1], stated)
    assert line == fit_line(samples, stated)
    assert line.unc <= alone.unc + 2
    assert line.skew_error_ppb <= (alone.skew_error_ppb or SKEW_MAX_PPB)
    assert abs(line.skew_ppb) <= SKEW_MAX_PPB
    slow = slow_clock.line(samples, stated)
    assert (line.offset, line.unc, line.skew_ppb, line.skew_error_ppb) == slow
    for n in range(1, len(samples)):  # a clock that keeps its word never steps
        _, before = fit_newest(samples[:n], stated)
        assert find_step(before, samples[n], stated) is None


@FEW
@given(
    clock=clocks(wander=10**9), ages=st.lists(st.integers(0, 10_000 * S), min_size=1, max_size=5)
)
def test_what_is_stated_bounds_an_offset_however_its_frequency_moves_within_that(
    clock: tuple[Truth, list[Sample], int], ages: list[int]
) -> None:
    truth, samples, stated = clock
    kept, line = bounded_offset(samples, stated)
    assert kept == samples
    assert (line.skew_ppb, line.skew_error_ppb) == (0, stated)
    for age in ages:
        error = line.offset - truth.offset(samples[-1].ts + age)
        assert abs(error) <= line.unc_after(age, stated or SKEW_MAX_PPB) + 1
    assert line.unc <= samples[-1].unc
    low, high = slow_clock.level(samples, stated)
    assert (line.offset, line.unc) == ((low + high) // 2, high - (low + high) // 2)


def test_the_oldest_syncs_go_when_no_line_explains_all() -> None:
    # 50 ppm up for three minutes, then 50 ppm down: no line passes within 10 us of all.
    up = [Sample(60 * i * S, 3 * i * MS, 10 * US) for i in range(4)]
    down = [Sample(60 * (3 + i) * S, (9 - 3 * i) * MS, 10 * US) for i in range(1, 4)]
    kept, line = fit_newest([*up, *down], 100_000)
    assert kept == [up[3], *down]
    assert line.skew_ppb == -50_000
    kept, line = fit_newest([*up, down[0]], 100_000)
    assert kept == [up[3], down[0]]
    assert line == zero_order_hold(down[0], 100_000)


def test_a_clock_faster_than_any_crystal_keeps_the_order_of_its_events() -> None:
    # It states 10 %, and runs so: the slope stays at 500 ppm, and the rest is uncertainty.
    samples = [Sample(i * S, -i * 100 * MS, MS) for i in range(5)]
    line = fit_line(samples, 10**8)
    assert line is not None
    assert line.skew_ppb == -SKEW_MAX_PPB
    assert line.skew_error_ppb > 99 * MS
    refs = [ts + line.offset_at(ts) for ts in range(4 * S, 4 * S + 20_000)]
    assert refs == sorted(refs)
    # Two events of 2 us apart or more have different times, too.
    assert all(b > a for a, b in zip(refs, refs[2:], strict=False))


# ---- the table of epochs, and the kernel that reads it ----------------------------------------


@FEW
@given(clock=clocks(), far=st.lists(st.integers(-(2**61), 2**61), max_size=9))
def test_the_kernel_reads_the_line_to_the_nanosecond(
    clock: tuple[Truth, list[Sample], int], far: list[int]
) -> None:
    _, samples, stated = clock
    slow = slow_clock.SlowClock(fits=True)
    for ts, offset, unc in samples:
        slow.learn({"ts": ts, "offset": offset, "delay": 2 * unc, "skew_error_ppb": stated}, None)
    near = [ts + by for ts, _, _ in samples for by in (-1, 0, 1, S)]
    times = sorted([*near, *far])
    if stated > SKEW_MAX_PPB:  # beyond 10 years its uncertainty is beyond int64
        times = [ts for ts in times if abs(ts) < 10 * 365 * 86_400 * S]
    ref, unc, _ = corrected(learnt(samples, stated), times)
    found = [slow.find(ts) for ts in times]
    expected = [epoch.at(ts) for epoch, ts in zip(found, times, strict=True)]
    assert ref == [ts + offset for ts, (offset, _) in zip(times, expected, strict=True)]
    assert unc == [wrong + epoch.refuted for epoch, (_, wrong) in zip(found, expected, strict=True)]


def test_an_event_before_the_first_sync_is_as_uncertain_as_one_behind_it() -> None:
    hour = 3600 * S
    slow = slow_clock.SlowClock(fits=True)
    slow.learn({"ts": hour, "offset": 0, "delay": 2 * MS, "skew_error_ppb": 50_000}, None)
    wanted = [slow.find(ts).at(ts)[1] for ts in (0, hour, 2 * hour)]
    assert wanted == [181 * MS, MS, 181 * MS]  # 1 ms, and 50 us of each second
    _, unc, _ = corrected(learnt([Sample(hour, 0, MS)], 50_000), [0, hour, 2 * hour])
    assert unc == wanted


# ---- steps ------------------------------------------------------------------------------------


def test_a_step_covers_what_lies_between_whichever_side_it_was_on() -> None:
    line = Line(anchor=0, offset=0, unc=MS, skew_ppb=0, skew_error_ppb=50_000)
    within = Sample(60 * S, 5 * MS, MS)
    assert find_step(line, within, 50_000) is None  # 1 + 1 + 60 s of 50 us are allowed
    step = find_step(line, Sample(60 * S, 5 * MS + 1, MS), 50_000)
    # Set back by up to as much again, and as the crystal's error lasted as long, by 500 ns more; so
    # much older may be what it stamped.
    back = 10 * MS + 1 + 501
    assert step == ClockStep(5 * MS + 1, back, 5 * MS + 1 + MS + 3 * MS + 500 + MS)
    forward = find_step(line, Sample(60 * S, -200 * MS, MS), 50_000)
    assert forward == ClockStep(-200 * MS, 0, 200 * MS + MS + 3 * MS + MS)


@pytest.mark.parametrize("error_ppb", [PPB - 1, PPB])
def test_a_clock_that_may_be_wrong_by_all_its_age_may_have_been_set_back_for_ever(
    error_ppb: int,
) -> None:
    line = Line(anchor=0, offset=0, unc=MS, skew_ppb=0, skew_error_ppb=error_ppb)
    step = find_step(line, Sample(1, 3 * MS, MS), error_ppb)
    assert step is not None
    assert step.back >= 4 * MS * S  # by a billion times what was measured, or whatever there is


@st.composite
def set_clocks(draw: st.DrawFn) -> tuple[int, int, int, list[Sample], int]:
    """(skew, jump, when it was set, syncs up to the one after, engine's time of the last sync)."""
    skew = draw(st.integers(-49_900, 49_900))  # of the engine's time, hence a little less
    jump = draw(st.sampled_from([-1, 1])) * draw(st.integers(20 * MS, 5 * S) | st.just(3600 * S))
    before = draw(st.integers(1, SYNCS_KEPT))
    unc = draw(st.integers(1, 3 * MS))
    set_at = (before - 1) * 60 * S + draw(st.integers(1, 60 * S - 1))
    samples = []
    for number in range(before + 1):
        at = number * 60 * S
        offset = true_offset(at, skew, jump, set_at)
        error = draw(st.integers(1 - unc, unc - 1))
        samples.append(Sample(at - offset, offset + error, unc))
    return skew, jump, set_at, samples, before * 60 * S


def true_offset(at: int, skew: int, jump: int, set_at: int) -> int:
    """Of the engine's time ``at``; the source shows ``at`` less that."""
    return 1000 * S + at * skew // PPB + (jump if at >= set_at else 0)


@FEW
@given(clock=set_clocks(), data=st.data())
def test_what_arrives_after_a_step_was_found_is_covered(
    clock: tuple[int, int, int, list[Sample], int], data: st.DataObject
) -> None:
    set_at, now = clock[2], clock[-1]
    span = st.integers(now - 60 * S, now + 90 * S)
    near = st.integers(-2 * MS, 2 * MS).map(lambda by: set_at + by)
    covers(clock, data.draw(st.lists(span | near, min_size=1, max_size=20)))


def test_a_crystal_at_its_limit_is_wrong_for_as_long_as_it_ran_not_as_its_clock_shows() -> None:
    # Set back by 124 ms; what it stamped before was in doubt for 6 us (50 ppm of that) too little.
    syncs = [Sample(-1000 * S, 1000 * S, 1), Sample(-940_121_280_001, 1_000_121_280_001, 1)]
    covers((-49_899, 124_273_941, 1, syncs, 60 * S), [1])


def covers(clock: tuple[int, int, int, list[Sample], int], times: list[int]) -> None:
    skew, jump, set_at, samples, now = clock
    clocks = learnt(samples, 50_000)
    counters = clocks.counters()[0]
    assert counters["clock_steps"] == 1
    # Of a jump ahead the prediction takes a part for skew, as it ages by the clock that jumped.
    assert abs(counters["last_step_ns"] - jump) <= 10 * MS + abs(jump) // 10_000
    # Of the time before the last sync but one, that clock's own line still holds.
    times = [at for at in times if at >= now - 60 * S]
    stamps = [at - true_offset(at, skew, jump, set_at) for at in times]
    ref, unc, epoch = corrected(clocks, stamps)
    for at, *found in zip(times, ref, unc, epoch, strict=True):
        assert abs(found[0] - at) <= found[1] + 2
        if at < now - 1:  # rounded offsets: the sync may bear the stamp of 1 ns before
            assert found[2] == NO_EPOCH
    later = [at - true_offset(at, skew, jump, set_at) for at in (now, now + 30 * S)]
    if jump < 0:
        assert max(corrected(clocks, later)[1]) < 10 * MS  # a clock set ahead is soon known again


def test_a_clock_set_back_is_in_doubt_for_as_long_again() -> None:
    # At 60 s it was found slow by 10 s, and 5 ms are allowed, 50 ppm of the 10 s more: 50..60 s
    # were shown twice, and so may 60..70 s have been.
    clocks = learnt([Sample(0, 0, MS), Sample(60 * S, 10 * S, MS)], 50_000)
    back = (10 * S + 5 * MS) * 20_000 // 19_999 + 1
    times = [-back - 1, -back, 59 * S, 60 * S, 60 * S + back - 1, 60 * S + back]
    ref, unc, epoch = corrected(clocks, times)
    assert [b - a for a, b in zip(times, ref, strict=True)] == [0, 0, 0, 10 * S, 10 * S, 10 * S]
    wide = 10 * S + MS + 70 * 50_000 + 250 + MS
    assert [u >= wide for u in unc] == [False, True, True, True, True, False]
    assert epoch[0] not in (NO_EPOCH, 1)
    assert epoch[1:] == [NO_EPOCH, NO_EPOCH, NO_EPOCH, NO_EPOCH, 1]


def test_held_events_are_widened_and_released_ones_are_counted(order: Any) -> None:
    # b is silent and blocks the merge, so that a's events after 25 s wait for the third sync.
    blocking = {"source": "b", "seq": 0, "ts": 25 * S, "arrival": 26 * S}
    trace = [
        {"kind": "sync", "source": "b", "first_seq": 0, "arrival": 0},
        sync(0, 0),
        *[event(i, 10 * S * i) for i in range(3)],
        blocking,
        *[event(i, 10 * S * i) for i in range(3, 6)],
        sync(60 * S, -200 * MS),
        event(6, 59 * S, arrival=62 * S),  # stamped before the sync, came after it
        event(7, 60 * S, arrival=62 * S),
    ]
    done = order("sequence:timeout=fixed:1000s").process(trace).finish()
    rows = {row[3]: row for row in done.released if row[0] == "a"}
    assert [rows[i][7] for i in range(3)] == [MS, MS + 500_000, MS + 1_000_000]
    wide = 200 * MS + MS + 3 * MS + MS
    assert [rows[i][7] for i in range(3, 7)] == [wide] * 4
    assert rows[7][6:8] == (60 * S - 200 * MS, MS)
    counters = done.chain.counters()["clocks"][0]
    assert counters["source"] == "a"
    assert (counters["clock_steps"], counters["last_step_ns"]) == (1, -200 * MS)
    assert counters["released_before_step"] == 3


ORDERS = ("none", "sequence", "kslack:100s", "mp-kslack", "kslack-chain:10s,20s", "ldop:window=10s",
          "aq-kslack:error=0.05,window=10s")  # fmt: skip


@pytest.mark.parametrize("form", ORDERS)
def test_every_order_counts_what_went_out_before_a_step(order: Any, form: str) -> None:
    trace = [sync(0, 0), *[event(i, S * i) for i in range(50)], sync(60 * S, S)]
    ahead = order(form).process(trace)
    out = sum(1 for row in ahead.released if row[4] < 60 * S)
    assert ahead.chain.counters()["clocks"][0]["released_before_step"] == out
    assert [row[7] >= S for row in ahead.finish().released] == [False] * out + [True] * (50 - out)


def test_in_a_chain_of_buffers_the_last_one_counts(frame_of: Callable[..., Any]) -> None:
    plans = tuple(query("SELECT count(*) FROM events WINDOW TUMBLING 1 s", name=n) for n in "pq")
    chosen = parse_order("kslack-chain:10s,20s")
    chain = Chain(ChainSettings(chosen, plans, guards=Guards(None)), "main")
    trace = [sync(0, 0), *[event(i, S * i) for i in range(50)], sync(60 * S, S)]
    chain.process([frame_of(trace)])
    # The event clock stands at 49 s: the second buffer has let 0..29 s go, the first 0..39 s.
    assert chain.counters()["clocks"][0]["released_before_step"] == 30


def test_two_events_on_either_side_of_a_step_are_not_told_apart_by_their_clock(
    frame_of: Callable[..., Any],
) -> None:
    """A at 20 s and B at 30 s, but the clock was set back by 15 s between: B's stamp is smaller."""
    plan = query("EVENT SEQ(A a, B b) WITHIN 60 s", name="q")
    stamped = [event(0, 20 * S, type="A"), event(1, 15 * S, type="B")]

    def answers(trace: list[Record]) -> list[str]:
        guards = Guards(None)
        chain = Chain(ChainSettings(parse_order("kslack:100s"), (plan,), guards=guards), "main")
        first, last = chain.process([frame_of(trace)]), chain.finish()
        return [result["certainty"] for output in (first, last) for result in output.results[0]]

    arriving = [event | {"arrival": 40 * S} for event in stamped]
    assert answers([sync(0, 0), *arriving]) == []
    assert answers([sync(0, 0), *arriving, sync(45 * S, 15 * S)]) == ["uncertain"]


# ---- cuts, and the whole order against its twin ------------------------------------------------


@st.composite
def minutes(draw: st.DrawFn) -> list[Record]:
    """Two sources that run for minutes, with syncs, steps, late events and restarts of reports."""
    records = []
    for source in draw(st.sampled_from([["a"], ["a", "b"]])):
        skew, jump = draw(st.integers(-60_000, 60_000)), 0
        seq, unc = 0, draw(st.sampled_from([0, 50 * US, 5 * MS]))
        stated = draw(st.sampled_from([0, 50_000]))
        for at in range(0, draw(st.integers(3, 16)) * 30 * S, 30 * S):
            offset = at * skew // PPB + jump
            if at % (60 * S) == 0:
                error = draw(st.integers(-unc, unc))
                lost = draw(st.integers(0, 9))
                if lost:
                    records.append(
                        sync(at - offset, offset + error, source=source, delay=2 * unc,
                             skew_error_ppb=stated, arrival=at + 100 * MS)
                        | ({"ts": None} if lost == 1 else {})
                    )  # fmt: skip
            for _ in range(draw(st.integers(0, 2))):
                happened = at + draw(st.integers(0, 30 * S - 1))
                delay = draw(st.sampled_from([MS, 10 * MS, S, 40 * S]))
                records.append({"source": source, "seq": seq, "ts": happened - offset,
                                "arrival": happened + delay})  # fmt: skip
                seq += 1
            if draw(st.integers(0, 7)) == 0:
                jump += draw(st.sampled_from([-S, -20 * MS, 200 * MS, 100 * S]))
    return sorted(records, key=lambda record: record["arrival"])


def test_the_first_offset_holds_for_all_that_comes_after_it(both: Callable[..., Any]) -> None:
    """Also for what was stamped before its sync, and after what had gone out by then."""
    trace = [
        {"source": "a", "seq": 0, "ts": 0, "arrival": MS},
        sync(60 * S - 60, 60, delay=0, skew_error_ppb=0),
        {"source": "a", "seq": 1, "ts": 30 * S - 30, "arrival": 70 * S},
    ]
    done = both(fixed=45 * S, guard=None).agree(trace)
    refs = [(ref, unc) for *_, ref, unc, _, _ in done.kernel.released]
    assert refs == [(0, 0), (30 * S + 30, 0)]


def _moved(at: int, offset: int, ts: int | None = None) -> Record:
    return {
        "kind": "sync", "source": "b", "ts": ts, "offset": offset, "delay": 0,
        "skew_error_ppb": 0, "arrival": at,
    }  # fmt: skip


FIRST_AT_NO_TIME: list[Record] = [
    _moved(S // 10, 0),
    _moved(60 * S + S // 10, -999_998_980, 60_999_998_980),
    {"source": "b", "seq": 0, "ts": 90_999_998_470, "arrival": 90 * S + 10**6},
    _moved(120 * S + S // 10, -999_997_960, 120_999_997_960),
    {"source": "b", "seq": 1, "ts": 121_028_569_389, "arrival": 121_028_571_429},
]
"""The first sync is as old as the first event, which comes after a sync at a stated time."""
BEFORE_AN_EVENT: list[Record] = [
    _moved(S // 10, 0),
    {"source": "b", "seq": 0, "ts": 61 * S + 1, "arrival": 60 * S + 10**6 + 1},
    _moved(60 * S + S // 10, -S, 61 * S),
]
"""A sync at a stated time overtakes none at no stated time."""


@settings(max_examples=30, deadline=None)
@example(trace=FIRST_AT_NO_TIME, cuts=[], late="drop")
@example(trace=BEFORE_AN_EVENT, cuts=[], late="drop")
@given(
    trace=minutes(),
    cuts=st.lists(st.integers(0, 40), max_size=4).map(sorted),
    late=st.sampled_from(["drop", "pass"]),
)
def test_minutes_of_clocks_give_what_the_twin_gives(
    both: Callable[..., Any], trace: list[Record], cuts: list[int], late: str
) -> None:
    cuts = [cut for cut in cuts if cut < len(trace)]
    done = both(fixed=45 * S, late=late, guard=None).agree(trace, cuts)
    steps = {row["source"]: row for row in done.kernel.chain.counters()["clocks"]}
    for source, clock in done.twin.clocks.items():
        assert steps[source]["clock_steps"] == len(clock.steps)
        assert steps[source]["last_step_ns"] == (clock.steps or [0])[-1]
