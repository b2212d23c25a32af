"""``kslack``, ``mp-kslack``, ``kslack-chain`` and ``ldop``: worked by hand, and against twins."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.released import LATE_DROPPED
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.order.base import Guards
from slackwater.engine.order.query_defaults import AGGREGATES
from slackwater.engine.order.registry import parse_order
from slackwater.engine.order.slack.aq_kslack import normal_quantile_ppm
from slackwater.engine.order.slack.ldop import _mean, splitmix64
from slackwater.engine.query import query
from slackwater.engine.query.plan import Plan
from tests.order.conftest import frame, numbered, released, with_late
from tests.order.slow_aq import Settings, SlowAq
from tests.order.slow_ldop import slow_ldop, slow_splitmix64
from tests.order.slow_slack import Released, slow_kslack, slow_mp_kslack

FIG_2_6 = [1, 4, 3, 5, 6, 9, 7, 8, 10, 13]


def test_spec_3_3_mp_kslack_of_r19_fig_2_6() -> None:
    arrivals = range(len(FIG_2_6))
    _, slacks, left = slow_mp_kslack(FIG_2_6, arrivals)
    assert slacks == [0, 0, 0, 2, 2, 2, 2, 2, 3, 3]
    assert left == 1  # 13 stays until the end
    rows, _ = released("mp-kslack", numbered(FIG_2_6, arrivals))
    assert [FIG_2_6[seq] for seq, _, _ in rows] == [1, 4, 3, 5, 6, 7, 8, 9, 10, 13]
    assert [release for _, release, _ in rows] == [0, 1, 3, 5, 5, 8, 9, 9, 9, 9]
    assert [seq for seq, _, status in rows if status == 2] == [2]  # 3 came after 4 had gone


def test_spec_3_3_kslack_releases_what_the_clock_has_passed_by_k() -> None:
    rows, _ = released("kslack:2", numbered(FIG_2_6, range(10)))
    assert [FIG_2_6[seq] for seq, _, _ in rows] == [1, 3, 4, 5, 6, 7, 8, 9, 10, 13]
    assert [release for _, release, _ in rows] == [1, 3, 4, 5, 5, 6, 8, 9, 9, 9]
    assert {status for _, _, status in rows} == {0}


@pytest.mark.deep
@pytest.mark.parametrize("order", ["kslack:3", "mp-kslack", "kslack-chain:1,3"])
def test_every_permutation_of_seven_events_gives_what_the_twin_gives(order: str) -> None:
    for times in sorted(set(itertools.permutations([1, 2, 2, 5, 6, 9, 12]))):
        rows, _ = released(order, numbered(times, range(7)))
        assert with_late(rows) == _twin(order, times, range(7))


def arrived(times: Sequence[int]) -> list[int]:
    """Three events at an instant."""
    return [row // 3 for row in range(len(times))]


def _twin(order: str, times: Sequence[int], arrivals: Sequence[int]) -> Released:
    if order == "mp-kslack":
        return slow_mp_kslack(times, arrivals)[0]
    return slow_kslack(times, arrivals, int(re.split("[:,]", order)[-1]))


@settings(max_examples=80, deadline=None)
@given(
    times=st.lists(st.integers(0, 40), min_size=1, max_size=60),
    order=st.sampled_from(["kslack:0", "kslack:1", "kslack:7", "mp-kslack", "kslack-chain:1,4"]),
    data=st.data(),
)
def test_kslack_cut_anywhere_gives_what_the_twin_gives(
    times: list[int], order: str, data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(times)), max_size=4).map(sorted))
    rows, chain = released(order, numbered(times, arrived(times)), cuts)
    assert with_late(rows) == _twin(order, times, arrived(times))
    (lane,) = chain.counters()["lanes"]
    late = sum(status == 2 for _, _, status in rows)
    assert (lane["arrived"], lane["in_order"], lane["late_passed"]) == (
        len(times), len(times) - late, late,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("order", "times"),
    [("mp-kslack:late=drop", FIG_2_6), ("ldop:0,window=5,late=drop", [0, 10, 20, 1, 30])],
)
def test_late_events_are_dropped_when_asked(order: str, times: list[int]) -> None:
    rows, chain = released(order, numbered(times, range(len(times))))
    assert [status for _, _, status in rows].count(LATE_DROPPED) == 1
    (lane,) = chain.counters()["lanes"]
    on_time = len(times) - 1
    assert (lane["in_order"], lane["late_passed"], lane["late_dropped"]) == (on_time, 0, 1)


@pytest.mark.parametrize(
    "order",
    [
        "kslack:10", "mp-kslack", "kslack-chain:5,10", "ldop:window=10", "none",
        "aq-kslack:error=0.1,window=20",
    ],
)  # fmt: skip
def test_one_event_from_the_future_changes_nothing_with_the_guard(order: str) -> None:
    good = numbered(range(0, 200, 2), range(1, 201, 2))
    bad = [dict(each) for each in good]
    bad.insert(50, {"source": "bad", "seq": 0, "ts": 7_200, "arrival": good[50]["arrival"]})
    undisturbed, _ = released(order, good, guard=20)
    guarded, chain = released(order, bad, guard=20)
    assert guarded == undisturbed
    assert [each["source"] for each in chain.counters()["quarantined"]] == ["bad"]
    if order != "none":  # which lets everything go at once, whatever came before
        unguarded, _ = released(order, bad)
        place = unguarded.index(next(row for row in unguarded if row[0] == 0 and row[1] > 90))
        assert unguarded[:place] + unguarded[place + 1 :] != undisturbed


def test_one_wrong_time_in_a_sequence_changes_no_other_event_with_the_guard() -> None:
    good = numbered(range(0, 200, 2), range(1, 201, 2))
    good[60:62] = good[61], good[60]
    bad = [dict(each) for each in good]
    bad[50]["ts"] += 7_200
    undisturbed, _ = released("sequence:timeout=fixed:30", good, guard=20)
    guarded, chain = released("sequence:timeout=fixed:30", bad, guard=20)
    assert guarded == [row for row in undisturbed if row[0] != 50]
    assert [each["seq"] for each in chain.counters()["quarantined"]] == [50]
    unguarded, _ = released("sequence:timeout=fixed:30", bad)
    assert [status for seq, _, status in unguarded if seq > 50] == [1] * 49  # all below it


def test_raw_time_shows_what_uncompared_clocks_do() -> None:
    given = [
        {"kind": "sync", "source": "b", "offset": 100, "delay": 0, "arrival": 0},
        {"source": "a", "seq": 0, "ts": 1, "arrival": 1},
        {"source": "b", "seq": 1, "ts": -98, "arrival": 2},
        {"source": "a", "seq": 2, "ts": 3, "arrival": 3},
    ]
    corrected, _ = released("kslack:2", given)
    assert [(seq, status) for seq, _, status in corrected] == [(0, 0), (1, 0), (2, 0)]
    raw, _ = released("kslack:2,time=ts", given)
    assert [seq for seq, _, _ in raw] == [1, 0, 2]


# ---- a chain of buffers ------------------------------------------------------------------------

QUERIES = tuple(
    query("SELECT count(*), sum(v) FROM events WINDOW TUMBLING 4 ns", name=f"q{number}")
    for number in range(3)
)


def answered(
    order: str, times: Sequence[int], cuts: Sequence[int] = (), queries: Sequence[Plan] = QUERIES
) -> tuple[list[list[str]], list[tuple[int, int, bool]], Chain]:
    """(results per query, the ordered stream, the chain), restored at each cut."""
    given = [
        {**each, "source": f"s{row % 2}", "attrs": {"v": row}}
        for row, each in enumerate(numbered(times, arrived(times)))
    ]
    chosen = ChainSettings(parse_order(order), tuple(queries), guards=Guards(None), ordered="full")
    chain = Chain(chosen, "main")
    results: list[list[str]] = [[] for _ in queries]
    ordered, outputs = [], []
    for start, end in itertools.pairwise([0, *cuts, len(given)]):
        if end > start:
            outputs.append(chain.process([frame(given[start:end])]))
            chain = Chain.restored(chosen, "main", chain.to_bytes())
    for output in (*outputs, chain.finish()):
        for mine, emitted in zip(results, output.results, strict=True):
            mine.extend(repr({**each, "query": ""}) for each in emitted)
        for each in output.ordered:
            columns = (each.columns[name].tolist() for name in ("seq", "release", "status"))
            ordered += [(seq, at, status == 2) for seq, at, status in zip(*columns, strict=True)]
    return results, ordered, chain


@settings(max_examples=20, deadline=None)
@given(
    times=st.lists(st.integers(0, 40), min_size=1, max_size=60),
    ks=st.lists(st.integers(0, 15), min_size=1, max_size=3).map(sorted),
    data=st.data(),
)
def test_every_query_reads_what_its_own_kslack_would_give(
    times: list[int], ks: list[int], data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(times)), max_size=3).map(sorted))
    results, ordered, chain = answered("kslack-chain:" + ",".join(map(str, ks)), times, cuts)
    for number in range(3):
        k = ks[min(number, len(ks) - 1)]
        alone, _, _ = answered(f"kslack:{k}", times)
        assert results[number] == alone[number]
    assert ordered == slow_kslack(times, arrived(times), ks[-1])
    _, _, single = answered(f"kslack:{ks[-1]}", times)
    assert chain.counters()["lanes"] == single.counters()["lanes"]
    assert chain.counters()["buffered_max"] == single.counters()["buffered_max"]


BY_QUALITY = (
    ("SELECT count(*) FROM events WINDOW TUMBLING 4 ns", "count", 4, 4),
    ("SELECT sum(v) FROM events WINDOW TUMBLING 9 ns", "sum", 9, 9),
    ("SELECT avg(v) FROM events WINDOW SLIDING 7 ns EVERY 3 ns", "avg", 7, 7),
)


@settings(max_examples=30, deadline=None)
@given(
    times=st.lists(st.integers(0, 60), min_size=1, max_size=80),
    errors=st.lists(st.sampled_from([0.01, 0.2, 0.6]), min_size=1, max_size=3),
    asked=st.permutations(BY_QUALITY).flatmap(lambda a: st.sampled_from([a, a[:2], a[:1]])),
    control=st.sampled_from(["relative", "r19"]),
    data=st.data(),
)
def test_by_quality_every_query_reads_what_its_own_aq_kslack_would_give(
    times: list[int], errors: list[float], asked: list[tuple[str, str, int, int]], control: str,
    data: st.DataObject,
) -> None:  # fmt: skip
    """And the last one what the slow twin gives, so that each is compared with it in turn."""
    cuts = data.draw(st.lists(st.integers(0, len(times)), max_size=3).map(sorted))
    queries = [query(text, name=f"q{number}") for number, (text, *_) in enumerate(asked)]
    more = f"control={control},confidence=0.7,horizon=0.9,kp=0.6,kd=0.2"
    listed = ",".join(map(str, errors))
    results, ordered, chain = answered(f"kslack-chain:error={listed},{more}", times, cuts, queries)
    for number, (_, agg, window, slide) in enumerate(asked):
        error = errors[min(number, len(errors) - 1)]
        alone, stream, _ = answered(
            f"aq-kslack:error={error},{more}", times, queries=[queries[number]]
        )
        assert results[number] == alone[0]
        twin = SlowAq(
            Settings(error_ppm=round(error * 10**6), agg=agg, window=window, slide=slide,
                     z_ppm=normal_quantile_ppm(700_000, AGGREGATES[agg]), tail_ppm=100_000,
                     kp=600, kd=200, control=control),
            times, arrived(times), list(map(float, range(len(times)))) if agg != "count" else (),
        )  # fmt: skip
        assert stream == twin.run()
        policy = chain._order._indexes[number].policy[0]
        assert [policy[name] for name in ("alpha", "slack", "horizon")] == [
            twin.alpha, twin.k, twin.horizon,
        ]  # fmt: skip
    assert ordered == stream


def test_by_quality_events_are_stored_once_and_a_pattern_is_refused() -> None:
    times = [row - 20 * (row % 7 == 0) for row in range(400)]
    queries = [query(text, name=f"q{number}") for number, (text, *_) in enumerate(BY_QUALITY)]
    _, _, chain = answered("kslack-chain:error=0.6,0.01", times, queries=queries)
    alone = [
        answered(f"aq-kslack:error={error}", times, queries=[each])[2].counters()["buffered_max"]
        for error, each in zip((0.6, 0.01, 0.01), queries, strict=True)
    ]
    assert chain.counters()["buffered_max"] == max(alone) < sum(alone)
    pattern = query("EVENT SEQ(A a, B b) WITHIN 5 ns", name="p")
    with pytest.raises(UserError, match="p is a pattern, which has none"):
        answered("kslack-chain:error=0.1", times, queries=[*queries, pattern])
    assert (
        answered("kslack-chain:error=0.1", times, queries=[])[1]
        == (answered("aq-kslack:error=0.1", times, queries=[])[1])
    )


def test_events_are_held_once_for_the_largest_slack() -> None:
    _, _, chain = answered("kslack-chain:10,20,30", range(100))
    assert chain.counters()["buffered_max"] == 30


# ---- ldop -----------------------------------------------------------------------------------

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


def test_r19_eq_2_5_purging_times_by_hand() -> None:
    times, arrivals = zip(*BY_HAND, strict=True)
    rows, _ = released("ldop:window=4", numbered(times, arrivals))
    assert [(times[seq], release, status) for seq, release, status in rows] == [
        (10, 17, 0), (11, 17, 0), (12, 17, 0),
        (13, 26, 0), (14, 26, 0), (15, 26, 0), (16, 26, 0), (19, 26, 0),
    ]  # fmt: skip


def test_splitmix64_gives_the_published_numbers() -> None:
    assert slow_splitmix64(0) == 0xE220A8397B1DCDAF
    assert slow_splitmix64(1) == 0x6E789E6AA1B965F4
    for number in (0, 1, 2, -1, -7, 10**18, 2**62, -(2**62)):
        assert splitmix64(number) == slow_splitmix64(number) >> 1


def test_the_last_arrival_of_a_source_is_counted() -> None:
    _, chain = released("kslack:3", numbered([5, 9, 7], [10, 11, 25]))
    (lane,) = chain.counters()["lanes"]
    assert (lane["arrived"], lane["last_arrival"], lane["last_event"]) == (3, 25, 9)


@pytest.mark.parametrize("n", [1, 3, 7, 2**32])
def test_the_mean_of_huge_delays_is_exact(n: int) -> None:
    for delay in (0, 1, 2**30 - 1, 2**30, 2**49 - 3, 2**49):
        assert _mean(n, n * (delay >> 30), n * (delay & (2**30 - 1))) == delay
    assert _mean(3, 0, 8) == 2
    assert _mean(0, 0, 0) == 0


@pytest.mark.parametrize("late", [0, 3 * 10**18])
def test_no_delay_makes_the_wait_leave_64_bits(late: int) -> None:
    times, arrivals = [10, 5, 11, 2**61], [20, 20 + late, 21 + late, 22 + late]
    rows, _ = released(f"ldop:1000,window={2**58}", numbered(times, arrivals))
    assert with_late(rows) == [(seq, 22 + late, False) for seq in (1, 0, 2, 3)]


@settings(max_examples=50, deadline=None)
@given(
    times=st.lists(st.integers(-20, 60) | st.integers(-400, 900), min_size=1, max_size=60),
    steps=st.lists(st.integers(0, 9), min_size=60, max_size=60),
    window=st.sampled_from([1, 5, 63, 64, 65, 200]),
    factors=st.sampled_from([(1000, 1000), (0, 0), (333, 333), (0, 3000), (700, 1300)]),
    data=st.data(),
)
def test_ldop_cut_anywhere_gives_what_the_twin_gives(
    times: list[int], steps: list[int], window: int, factors: tuple[int, int], data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(times)), max_size=4).map(sorted))
    arrivals = list(itertools.accumulate(steps[: len(times)], initial=30))[1:]
    low, high = (each / 1000 for each in factors)
    rows, _ = released(f"ldop:{low}..{high},window={window}", numbered(times, arrivals), cuts)
    assert with_late(rows) == slow_ldop(times, arrivals, window, *factors)
