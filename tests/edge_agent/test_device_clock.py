"""The clock of a device behind an agent: its offset lies in what is said, whatever its clock does.

Properties of the estimate (RFC 5905 calls it a correctness interval): the true offset at every
message is within the bound that is in force for the clock that its event names.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.edge_agent.device_clock import (
    WINDOW_MESSAGES,
    DeviceClockBound,
    DeviceClockSettings,
    FollowedClock,
)
from tests.edge_agent.slow_device_clock import World

MS, S = 10**6, 10**9


def a_clock(**changes: int) -> FollowedClock:
    declared = {"delay_min_max_ns": 100 * MS, "delay_max_ns": 20 * S, "window_ns": 10 * S}
    numbers = itertools.count(7)
    settings_ = DeviceClockSettings(**{**declared, **changes})
    return FollowedClock("monitor", settings_, numbers.__next__)


def in_force(
    said: dict[str, list[DeviceClockBound]], name: str, mono: int
) -> tuple[Fraction, Fraction]:
    """What an engine that believes all of it takes a clock's offset to lie in."""
    lows, highs = [], []
    for bound in said[name]:
        grown = Fraction(abs(mono - bound.mono) * bound.skew_ppb, S)
        lows.append(bound.low - grown)
        highs.append(bound.high + grown)
    return max(lows), min(highs)


def run(world: World, clock: FollowedClock, grain: int) -> list[tuple[str, int, int]]:
    """Name of the clock of each message's event, and by how much its offset lies within.

    A clock that is set ahead, while its messages are slower than that, shows it by a faster one:
    until then, a window at most, offsets may lie outside; then their clock's bound is refuted.
    """
    said: dict[str, list[DeviceClockBound]] = {}
    found, hidden = [], []
    for at, mono, stamp, offset in world.messages:
        clock.add_message(mono, stamp, 0 if grain == 1 else grain)
        name = clock.name_of(stamp)
        for bound in clock.take_bounds():
            if bound.refutes:
                hidden = [each for each in hidden if each[0] != bound.clock]
            else:
                said.setdefault(bound.clock, []).append(bound)
        low, high = in_force(said, name, mono)
        # The event happened then; its own stamp is rounded as the message's is.
        assert offset <= at - stamp <= high, (name, float(offset), mono / S)
        if offset < low:
            hidden.append((name, float(low - offset), mono))
        found.append((name, int(high - low), mono))
    last = world.messages[-WINDOW_MESSAGES].mono - clock.settings.window_ns
    assert not [each for each in hidden if each[2] < last]
    return found


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    steps=st.lists(
        st.tuples(
            st.integers(0, 60 * S), st.integers(-40 * S, 40 * S) | st.integers(-2 * S, 2 * S)
        ),
        max_size=3,
    ),
    fast_ppb=st.integers(-50_000, 50_000),
    grain=st.sampled_from([1, MS, S]),
    delay_most=st.sampled_from([0, 30 * MS, 3 * S]),
    apart=st.sampled_from([100 * MS, 500 * MS, 4 * S]),
    window=st.sampled_from([S, 10 * S]),
    more=st.sampled_from([0, 100 * MS]),
)
@example(1136206, [], 0, 1, 3 * S, 500 * MS, 10 * S, 0)  # 100 ms do not hold for its messages
@example(
    3642106502,
    [(6502682357, 57983672), (30819793165, -498735239), (46679790792, -1036991633)],
    35929,
    1,
    3 * S,
    500 * MS,
    10 * S,
    0,
)  # set back for the second time by the message that shows the first
@example(5, [(13 * S, 342 * MS)], 0, 1, 3 * S, 500 * MS, 10 * S, 0)
def test_the_offset_lies_in_what_is_said(
    seed: int, steps: list[tuple[int, int]], fast_ppb: int, grain: int, delay_most: int,
    apart: int, window: int, more: int,
) -> None:  # fmt: skip
    """Where what is declared of delays holds, by ``more`` or just so."""
    world = World(
        seed, steps=steps, fast_ppb=fast_ppb, grain=grain, delay_min=5 * MS,
        delay_most=delay_most, apart=apart, count=200,
    )  # fmt: skip
    least = world.delay_min_max(window, WINDOW_MESSAGES)
    clock = a_clock(
        delay_min_max_ns=least + more, delay_max_ns=world.delay_max() + more, window_ns=window
    )
    run(world, clock, grain)
    assert steps or not clock.steps


def test_a_clock_20_s_slow_is_known_to_the_delay_that_is_declared() -> None:
    world = World(3, steps=[], fast_ppb=0, grain=1, delay_min=2 * MS, delay_most=20 * MS,
                  apart=500 * MS, count=200)  # fmt: skip
    found = run(world, a_clock(), 1)
    assert {name for name, *_ in found} == {"monitor#7"}
    assert found[0][1] >= 20 * S  # one message says that it took no more than the longest
    assert found[-1][1] <= 310 * MS


@pytest.mark.parametrize("by", [30 * S, -10 * S])
def test_a_step_begins_a_clock_of_another_name(by: int) -> None:
    world = World(4, steps=[(50 * S, by)], fast_ppb=0, grain=1, delay_min=2 * MS,
                  delay_most=20 * MS, apart=500 * MS, count=300)  # fmt: skip
    clock = a_clock()
    found = run(world, clock, 1)
    assert found[0][0] == "monitor#7"
    assert found[-1][0] == "monitor#8"
    assert clock.steps == 1
    assert abs(clock.last_step_ns + by) < 11 * S
    doubtful = [mono for name, _, mono in found if name.startswith("monitor#7.")]
    assert bool(doubtful) == (by < 0)  # a clock that is set ahead shows it at once
    assert all(50 * S <= mono <= 75 * S for mono in doubtful)


@pytest.mark.slow
def test_40_ppm_over_a_day_are_within_the_bound() -> None:
    world = World(5, steps=[], fast_ppb=40_000, grain=1, delay_min=2 * MS, delay_most=50 * MS,
                  apart=30 * S, count=2880)  # fmt: skip
    clock = a_clock(window_ns=600 * S)
    found = run(world, clock, 1)
    assert clock.steps == 0
    assert found[-1][1] <= 500 * MS


def test_an_old_event_of_before_a_step_is_of_a_clock_in_doubt() -> None:
    clock = a_clock()
    for second in range(40):
        clock.add_message(second * S + 5 * MS, second * S)
    assert clock.name_of(39 * S) == "monitor#7"
    clock.add_message(40 * S + 5 * MS, 70 * S)
    assert clock.name_of(70 * S) == "monitor#8"
    assert clock.name_of(39 * S) == "monitor#8.0"
    said = {bound.clock: bound for bound in clock.take_bounds()}
    old, new = 0, -30 * S
    assert said["monitor#8.0"].low <= new
    assert old <= said["monitor#8.0"].high


def test_an_answer_bounds_both_sides_and_shows_a_step_at_once() -> None:
    clock = a_clock()
    clock.add_answer(10 * S, 10 * S + MS, 24 * S)
    assert clock.name_of(24 * S) == "monitor#7"
    (bound,) = clock.take_bounds()
    assert bound.low <= 10 * S - 24 * S <= bound.high
    assert bound.high - bound.low <= 3 * MS
    clock.add_answer(20 * S, 20 * S + MS, 34 * S + 200 * MS)
    assert clock.name_of(34 * S + 200 * MS) == "monitor#8"
    assert [each.clock for each in clock.take_bounds()] == ["monitor#7", "monitor#8"]


def test_a_late_message_asks_for_an_answer_and_is_in_doubt_until_then() -> None:
    clock = a_clock()
    clock.add_answer(10 * S, 10 * S + MS, 10 * S)
    assert not clock.needs_answer
    clock.add_message(15 * S, 12 * S)
    assert clock.needs_answer
    assert clock.name_of(12 * S) == "monitor#7.5"
    clock.add_answer(15 * S, 15 * S + MS, 15 * S)
    assert not clock.needs_answer
    assert clock.name_of(15 * S) == "monitor#7"


def test_coarser_stamps_than_before_begin_an_epoch() -> None:
    clock = a_clock()
    clock.add_message(10 * S, 10 * S, MS)
    clock.add_message(11 * S, 11 * S, S)
    assert clock.name_of(11 * S) == "monitor#8"
    assert clock.steps == 0


def test_a_device_that_began_again_begins_an_epoch() -> None:
    clock = a_clock()
    clock.add_message(10 * S, 10 * S)
    clock.restart()
    clock.add_message(20 * S, 90 * S)
    assert clock.name_of(90 * S) == "monitor#8"
