"""``ldop``: R19 Eq 2.4 and 2.5 worked by hand, and against the slow twin."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import UserError
from engine.order.registry import parse_order
from engine.order.slack.ldop import _mean, splitmix64
from tests.order.slow_ldop import slow_ldop, slow_splitmix64
from tests.order.test_slack import as_twin, records, released

#         held  clock  LD      wait = 4 + LD      limit
BY_HAND = [
    (10, 10),  # 10                4                6
    (12, 13),  # 12                4                8
    (11, 15),  # 12   4            8                4
    (13, 16),  # 13   4            8                5
    (16, 17),  # 16   -: 12 is 4 ago, so 4 again; limit 12
    (14, 18),  # 16   4            8                8
    (15, 25),  # 16   (4 + 10)/2   11               5
    (19, 26),  # 19   7            11               8
]


def order(window: int, low: int, high: int, late: str = "pass") -> str:
    return f"ldop:{low / 1000}..{high / 1000},window={window},late={late}"


def test_r19_eq_2_5_purging_times_by_hand() -> None:
    times, arrivals = zip(*BY_HAND, strict=True)
    rows, _ = released("ldop:window=4", records(times, arrivals))
    assert [(times[seq], release, status) for seq, release, status in rows] == [
        (10, 17, 0), (11, 17, 0), (12, 17, 0),
        (13, 26, 0), (14, 26, 0), (15, 26, 0), (16, 26, 0), (19, 26, 0),
    ]  # fmt: skip


def test_without_disorder_everything_waits_for_the_window() -> None:
    rows, _ = released("ldop:window=4", records(range(20), range(100, 120)))
    assert [release - 100 - seq for seq, release, _ in rows] == [4] * 16 + [3, 2, 1, 0]


def test_a_factor_of_zero_is_kslack_of_the_window() -> None:
    times = [1, 4, 3, 5, 6, 9, 7, 8, 10, 13, 2, 20]
    for window in (1, 3, 8):
        mine, _ = released(f"ldop:0,window={window}", records(times, range(12)))
        assert mine == released(f"kslack:{window}", records(times, range(12)))[0]


def test_late_events_are_dropped_when_asked() -> None:
    times = [0, 10, 20, 1, 30]
    rows, chain = released("ldop:0,window=5,late=drop", records(times, range(5)))
    assert [status for _, _, status in rows] == [0, 0, 3, 0, 0]
    (lane,) = chain.counters()["lanes"]
    assert (lane["in_order"], lane["late_passed"], lane["late_dropped"]) == (4, 0, 1)


def test_splitmix64_gives_the_published_numbers() -> None:
    assert slow_splitmix64(0) == 0xE220A8397B1DCDAF
    assert slow_splitmix64(1) == 0x6E789E6AA1B965F4
    for number in (0, 1, 2, -1, -7, 10**18, 2**62, -(2**62)):
        assert splitmix64(number) == slow_splitmix64(number) >> 1


@pytest.mark.parametrize("n", [1, 3, 7, 2**32])
def test_the_mean_of_huge_delays_is_exact(n: int) -> None:
    for delay in (0, 1, 2**30 - 1, 2**30, 2**49 - 3, 2**49):
        assert _mean(n, n * (delay >> 30), n * (delay & (2**30 - 1))) == delay
    assert _mean(3, 0, 8) == 2
    assert _mean(0, 0, 0) == 0


@pytest.mark.parametrize("late", [0, 3 * 10**18])
def test_no_delay_makes_the_wait_leave_64_bits(late: int) -> None:
    times, arrivals = [10, 5, 11, 2**61], [20, 20 + late, 21 + late, 22 + late]
    rows, _ = released(f"ldop:1000,window={2**58}", records(times, arrivals))
    assert as_twin(rows) == [(1, 22 + late, False), (0, 22 + late, False), (2, 22 + late, False),
                             (3, 22 + late, False)]  # fmt: skip


@pytest.mark.parametrize(("window", "low", "high"), [(1, 1000, 1000), (3, 500, 500), (2, 0, 2000)])
def test_every_permutation_of_seven_events_gives_what_the_twin_gives(
    window: int, low: int, high: int
) -> None:
    for times in sorted(set(itertools.permutations([1, 2, 2, 2, 5, 9, 9]))):
        arrivals = [3, 3, 6, 8, 11, 12, 12]
        rows, _ = released(order(window, low, high), records(times, arrivals))
        assert as_twin(rows) == slow_ldop(times, arrivals, window, low, high)


@settings(max_examples=75, deadline=None)
@given(
    times=st.lists(st.integers(-20, 60) | st.integers(-400, 900), min_size=1, max_size=60),
    steps=st.lists(st.integers(0, 9), min_size=60, max_size=60),
    window=st.sampled_from([1, 5, 63, 64, 65, 200]),
    factors=st.sampled_from([(1000, 1000), (0, 0), (333, 333), (0, 3000), (700, 1300)]),
    data=st.data(),
)
def test_any_stream_cut_anywhere_gives_what_the_twin_gives(
    times: list[int], steps: list[int], window: int, factors: tuple[int, int], data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(times)), max_size=4).map(sorted))
    arrivals = list(itertools.accumulate(steps[: len(times)], initial=30))[1:]
    rows, _ = released(order(window, *factors), records(times, arrivals), cuts)
    assert as_twin(rows) == slow_ldop(times, arrivals, window, *factors)


def test_the_wait_follows_the_mean_delay_up_and_down_again() -> None:
    def hold(rows: Sequence[tuple[int, int, int]], low: int, high: int) -> float:
        held = [release - 10 * seq for seq, release, _ in rows if low <= seq < high]
        return sum(held) / len(held)

    times = [10 * row - (60 if 200 <= row < 400 and row % 4 == 0 else 0) for row in range(600)]
    rows, _ = released("ldop:window=100", records(times, range(0, 6000, 10)))
    before, during, after = hold(rows, 50, 190), hold(rows, 250, 390), hold(rows, 450, 550)
    assert before == after == 100
    assert during == pytest.approx(160 - 60 / 4, abs=5)  # the late ones came 60 later


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ldop:-1", "factor=-1: write a number such as 1.5"),
        ("ldop:1.5.2", "factor=1.5.2"),
        ("ldop:2..1", "factor=2..1: the lower end comes first"),
        ("ldop:1001", "factor=1001: at most 1000"),
        ("ldop:1.2345", "at most 3 decimals"),
        ("ldop:window=0", "window=0: at least 1 ns"),
        ("ldop:window=99999d", "window=99999d: at least 1 ns and at most 9 years"),
        ("ldop:k=3", "unknown key 'k'; known are factor, window, late, time"),
        ("ldop:late=maybe", "late=maybe: use pass or drop"),
    ],
)
def test_wrong_settings_are_told(text: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        parse_order(text)
    assert said in str(error.value)


def test_the_short_form_says_what_it_means() -> None:
    settings = parse_order("ldop:0.5..1.25,window=2s,late=drop,time=ts")
    assert (settings.factor_low_milli, settings.factor_high_milli) == (500, 1250)
    assert (settings.window_ns, settings.late, settings.time) == (2 * 10**9, "drop", "ts")
    assert parse_order("ldop").factor_low_milli == 1000
