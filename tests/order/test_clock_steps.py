"""Steps of clocks: found by the sync after, covering what lies between; and clocks in a chain."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from clock_records import Record, corrected, event, learnt, sync
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.chain import Chain, ChainSettings
from engine.clocks.prediction import SYNCS_KEPT, ClockStep, Line, Sample, stepped
from engine.order.base import Guards
from engine.order.registry import parse_order
from engine.query import query
from engine.stream.released import NO_EPOCH

US, MS, S = 10**3, 10**6, 10**9
PPB = 10**9
FEW = settings(max_examples=30, deadline=None)


@pytest.fixture(name="order", scope="session")
def _order(ordering: Callable[..., Any]) -> Callable[[str], Any]:
    return lambda text: ordering(parse_order(text), Guards(None, 0))


def test_a_step_covers_what_lies_between_whichever_side_it_was_on() -> None:
    line = Line(anchor=0, offset=0, unc=MS, skew_ppb=0, skew_error_ppb=50_000)
    within = Sample(60 * S, 5 * MS, MS)
    assert stepped(line, within, 50_000) is None  # 1 + 1 + 60 s of 50 us are allowed
    step = stepped(line, Sample(60 * S, 5 * MS + 1, MS), 50_000)
    # Set back by up to as much again, and as the crystal's error lasted as long, by 500 ns more; so
    # much older may be what it stamped.
    back = 10 * MS + 1 + 501
    assert step == ClockStep(5 * MS + 1, back, 5 * MS + 1 + MS + 3 * MS + 500 + MS)
    forward = stepped(line, Sample(60 * S, -200 * MS, MS), 50_000)
    assert forward == ClockStep(-200 * MS, 0, 200 * MS + MS + 3 * MS + MS)


@pytest.mark.parametrize("error_ppb", [PPB - 1, PPB])
def test_a_clock_that_may_be_wrong_by_all_its_age_may_have_been_set_back_for_ever(
    error_ppb: int,
) -> None:
    line = Line(anchor=0, offset=0, unc=MS, skew_ppb=0, skew_error_ppb=error_ppb)
    step = stepped(line, Sample(1, 3 * MS, MS), error_ppb)
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
    assert epoch == [0, NO_EPOCH, NO_EPOCH, NO_EPOCH, NO_EPOCH, 1]


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


@settings(max_examples=40, deadline=None)
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


@settings(max_examples=20, deadline=None)
@given(
    trace=minutes(),
    form=st.sampled_from(["sequence:timeout=fixed:45s,late=pass", "kslack:70s", "none"]),
    data=st.data(),
)
def test_cuts_and_restarts_change_no_clock(
    order: Any, trace: list[Record], form: str, data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(trace)), max_size=4).map(sorted))
    whole, parts = order(form).process(trace).finish(), order(form)
    for start, end in itertools.pairwise([0, *cuts, len(trace)]):
        parts.process(trace[start:end]).resume()
    parts.finish()
    assert parts.released == whole.released
    assert parts.chain.counters()["clocks"] == whole.chain.counters()["clocks"]
