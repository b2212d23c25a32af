"""Simulated clocks: sign, integers, purity, inverse; against a slow twin in Python's integers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.edge_agent.ntp import NtpExchange
from slackwater.simulator.clocks import (
    SECOND,
    BothClocks,
    Clock,
    ClockSettings,
    Rates,
    Step,
    draw_rates,
)
from slackwater.simulator.seeds import Seeds

NOW = 1_767_225_600 * SECOND


def reading_twin(settings: ClockSettings, rates: Rates, origin_ns: int, true_ns: int) -> int:
    """A reading by walking through every line in unbounded integers."""
    starts, ppb = rates.starts_ns.tolist(), rates.rates_ppb.tolist()
    since = true_ns - origin_ns
    borders = sorted({*starts, *(step.at_ns for step in settings.steps)})
    offset = settings.offset_ns
    for at, border in enumerate(borders):
        offset += sum(step.by_ns for step in settings.steps if step.at_ns == border)
        last = at + 1 == len(borders) or since < borders[at + 1]
        until = since if last else borders[at + 1]
        rate = ppb[max(i for i, start in enumerate(starts) if start <= border)]
        offset += (until - border) * rate // SECOND
        if last:
            break
    reading = true_ns - offset
    return reading - reading % settings.resolution_ns


@st.composite
def clocks(draw: st.DrawFn) -> tuple[Clock, Rates]:
    times = draw(st.lists(st.integers(1, 20 * SECOND), max_size=4, unique=True))
    steps = tuple(Step(at, draw(st.integers(-SECOND, SECOND))) for at in sorted(times))
    settings = ClockSettings(
        offset_ns=draw(st.integers(-(10**15), 10**15)),
        skew_ppb=draw(st.integers(-(10**8), 10**8)),
        wander_ppb=draw(st.sampled_from([0.0, 50.0, 10_000.0])),
        wander_period_ns=draw(st.sampled_from([SECOND, 3 * SECOND])),
        steps=steps,
        resolution_ns=draw(st.sampled_from([1, 7, 1000, 10**6])),
    )
    generator = Seeds(draw(st.integers(0, 9))).generator("clock")
    rates = draw_rates(settings, 10 * SECOND, generator)
    origin = draw(st.sampled_from([0, NOW]))
    return Clock(settings, origin, rates), rates


def test_the_sign_is_that_of_ntp() -> None:
    # SPEC 2: offset = ((t2-t1)+(t3-t4))/2; symmetric legs of 5 ms give it exactly.
    leg = 5_000_000
    for offset_ns in (3600 * SECOND, -3600 * SECOND, 1):
        source = Clock(ClockSettings(offset_ns=offset_ns))
        there, back = source.read(NOW), source.read(NOW + 2 * leg)
        exchange = NtpExchange(there, NOW + leg, NOW + leg, back)
        assert (exchange.offset_ns, exchange.delay_ns) == (offset_ns, 2 * leg)


def test_one_century_of_skew_does_not_overflow() -> None:
    century = 36525 * 86400 * SECOND
    clock = Clock(ClockSettings(skew_ppb=100_000_000))
    assert clock.read(century) == century - century // 10
    assert clock.read_many(np.array([century])).tolist() == [century - century // 10]


@given(clocks(), st.lists(st.integers(0, 40 * SECOND), min_size=1, max_size=20))
def test_scalar_array_and_twin_agree_and_reading_changes_nothing(
    made: tuple[Clock, Rates], since: list[int]
) -> None:
    clock, rates = made
    times = [clock.origin_ns + s for s in since]
    twin = [reading_twin(clock.settings, rates, clock.origin_ns, t) for t in times]
    assert clock.read_many(np.array(times)).tolist() == twin
    assert [clock.read(t) for t in reversed(times)] == twin[::-1]
    assert clock.read_many(np.array(times)).tolist() == twin


@given(clocks(), st.integers(0, 25 * SECOND), st.integers(-2 * SECOND, 25 * SECOND))
def test_when_reads_is_the_first_instant(
    made: tuple[Clock, Rates], not_before: int, ahead: int
) -> None:
    clock, _ = made
    begin = clock.origin_ns + not_before
    reading = clock.read(begin) + ahead
    due = clock.when_reads(reading, begin)
    assert due >= begin
    assert clock.read(due) >= reading
    earlier = np.unique(np.linspace(begin, due - 1, 50).astype(np.int64)) if due > begin else []
    assert all(clock.read(int(t)) < reading for t in earlier if begin <= t < due)
    if due > begin:
        assert clock.read(due - 1) < reading


def test_the_monotonic_clock_shares_the_crystal_and_is_never_set() -> None:
    settings = ClockSettings(
        offset_ns=10**12, skew_ppb=20_000, steps=(Step(SECOND, 10**9),), resolution_ns=10**6
    )
    timer = Clock(settings, NOW).monotonic()
    assert [timer.read(NOW + t) - NOW for t in (0, 2 * SECOND)] == [0, 2 * SECOND - 40_000]


def test_wander_is_a_walk_of_the_frequency() -> None:
    settings = ClockSettings(skew_ppb=1000, wander_ppb=100)
    rates = draw_rates(settings, 4000 * SECOND, Seeds(3).generator("clock"))
    changes = np.diff(rates.rates_ppb)
    assert rates.rates_ppb[0] == 1000
    assert abs(changes.mean()) < 5
    assert 95 < changes.std() < 105


@given(
    st.integers(-(10**8), 10**8),
    st.lists(st.integers(1, 20 * SECOND), max_size=4, unique=True),
    st.lists(st.integers(0, 40 * SECOND), min_size=1, max_size=20),
)
def test_a_clock_that_does_not_wander_reads_as_one_with_a_row_for_each_period(
    skew_ppb: int, steps: list[int], since: list[int]
) -> None:
    settings = ClockSettings(
        skew_ppb=skew_ppb, steps=tuple(Step(at, at % 1013 - 500) for at in sorted(steps))
    )
    periods = np.arange(31, dtype=np.int64) * SECOND
    each = Clock(settings, NOW, Rates(periods, np.full(31, skew_ppb, np.int64)))
    few = Clock(settings, NOW, draw_rates(settings, 30 * SECOND, Seeds(1).generator("clock")))
    times = NOW + np.array(since)
    assert few.read_many(times).tolist() == each.read_many(times).tolist()
    readings = [each.read(time) + 10**8 for time in times.tolist()]
    for time, reading in zip(times.tolist(), readings, strict=True):
        assert few.when_reads(reading, time) == each.when_reads(reading, time)


def test_a_clock_that_does_not_wander_has_no_row_for_each_second_of_a_year() -> None:
    settings = ClockSettings(skew_ppb=1000, steps=(Step(1_500_000_000, 5),))
    rates = draw_rates(settings, 365 * 86_400 * SECOND, Seeds(1).generator("clock"))
    assert rates.starts_ns.tolist() == [0, 2 * SECOND]


@given(clocks(), st.lists(st.integers(-SECOND, 25 * SECOND), min_size=1, max_size=20))
def test_both_clocks_read_together_show_what_each_shows(
    made: tuple[Clock, Rates], times: list[int]
) -> None:
    clock, _ = made
    timer = clock.monotonic()
    both = BothClocks(clock, timer)
    for time in times:  # also back and forth, over steps and changes of the frequency
        true_ns = clock.origin_ns + time
        assert both.now(true_ns) == (clock.read(true_ns), timer.read(true_ns))
