"""``kslack`` and ``mp-kslack``: the goldens of SPEC 3.3, and against their slow twins."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.chain import Chain, ChainSettings
from engine.errors import UserError
from engine.order.base import Guards
from engine.order.registry import parse_order
from tests.order.conftest import frame
from tests.order.slow_slack import Released, slow_kslack, slow_mp_kslack

FIG_2_6 = [1, 4, 3, 5, 6, 9, 7, 8, 10, 13]


def records(times: Sequence[int], arrivals: Sequence[int]) -> list[dict[str, Any]]:
    return [
        {"source": "a", "seq": row, "ts": time, "arrival": arrival}
        for row, (time, arrival) in enumerate(zip(times, arrivals, strict=True))
    ]


def released(
    order: str, given: Sequence[dict[str, Any]], cuts: Sequence[int] = (), guard: int | None = None
) -> tuple[list[tuple[int, int, int]], Chain]:
    """(seq, release, status) of everything in release order; the chain is restored at each cut."""
    chosen = ChainSettings(parse_order(order), guards=Guards(guard), ordered="full")
    chain, out = Chain(chosen, "main"), []
    for start, end in itertools.pairwise([0, *cuts, len(given)]):
        if end > start:
            out += chain.process([frame(given[start:end])]).ordered
            chain = Chain.restored(chosen, "main", chain.snapshot())
    out += chain.finish().ordered
    rows = [
        row
        for each in out
        for row in zip(
            *(each.columns[name].tolist() for name in ("seq", "release", "status")), strict=True
        )
    ]
    return rows, chain


def as_twin(rows: Sequence[tuple[int, int, int]]) -> Released:
    return [(seq, release, status == 2) for seq, release, status in rows]


def test_spec_3_3_mp_kslack_of_r19_fig_2_6() -> None:
    arrivals = range(len(FIG_2_6))
    _, slacks, left = slow_mp_kslack(FIG_2_6, arrivals)
    assert slacks == [0, 0, 0, 2, 2, 2, 2, 2, 3, 3]
    assert left == 1  # 13 stays until the end
    rows, _ = released("mp-kslack", records(FIG_2_6, arrivals))
    assert [FIG_2_6[seq] for seq, _, _ in rows] == [1, 4, 3, 5, 6, 7, 8, 9, 10, 13]
    assert [release for _, release, _ in rows] == [0, 1, 3, 5, 5, 8, 9, 9, 9, 9]
    assert [seq for seq, _, status in rows if status == 2] == [2]  # 3 came after 4 had gone


def test_spec_3_3_kslack_releases_what_the_clock_has_passed_by_k() -> None:
    rows, _ = released("kslack:2", records(FIG_2_6, range(10)))
    assert [FIG_2_6[seq] for seq, _, _ in rows] == [1, 3, 4, 5, 6, 7, 8, 9, 10, 13]
    assert [release for _, release, _ in rows] == [1, 3, 4, 5, 5, 6, 8, 9, 9, 9]
    assert {status for _, _, status in rows} == {0}


@pytest.mark.parametrize("order", ["kslack:0", "kslack:2", "mp-kslack"])
def test_every_permutation_of_six_events_gives_what_the_twin_gives(order: str) -> None:
    for times in itertools.permutations([1, 2, 2, 5, 6, 9]):
        rows, _ = released(order, records(times, range(6)))
        assert as_twin(rows) == _twin(order, times, range(6))


@pytest.mark.deep
@pytest.mark.parametrize("order", ["kslack:3", "mp-kslack", "kslack-chain:1,3"])
def test_every_permutation_of_seven_events_gives_what_the_twin_gives(order: str) -> None:
    for times in sorted(set(itertools.permutations([1, 2, 2, 5, 6, 9, 12]))):
        rows, _ = released(order, records(times, range(7)))
        assert as_twin(rows) == _twin(order.replace("kslack-chain:1,", "kslack:"), times, range(7))


def _twin(order: str, times: Sequence[int], arrivals: Sequence[int]) -> Released:
    if order == "mp-kslack":
        return slow_mp_kslack(times, arrivals)[0]
    return slow_kslack(times, arrivals, int(order.partition(":")[2]))


@settings(max_examples=100, deadline=None)
@given(
    times=st.lists(st.integers(0, 40), min_size=1, max_size=60),
    order=st.sampled_from(["kslack:0", "kslack:1", "kslack:7", "mp-kslack"]),
    data=st.data(),
)
def test_any_stream_cut_anywhere_gives_what_the_twin_gives(
    times: list[int], order: str, data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(times)), max_size=4).map(sorted))
    arrivals = [row // 3 for row in range(len(times))]
    rows, chain = released(order, records(times, arrivals), cuts)
    assert as_twin(rows) == _twin(order, times, arrivals)
    (lane,) = chain.counters()["lanes"]
    late = sum(status == 2 for _, _, status in rows)
    assert (lane["arrived"], lane["in_order"], lane["late_passed"]) == (
        len(times), len(times) - late, late,
    )  # fmt: skip


def test_late_events_are_dropped_when_asked() -> None:
    rows, chain = released("mp-kslack:late=drop", records(FIG_2_6, range(10)))
    assert [status for _, _, status in rows].count(3) == 1
    (lane,) = chain.counters()["lanes"]
    assert (lane["in_order"], lane["late_passed"], lane["late_dropped"]) == (9, 0, 1)


@pytest.mark.parametrize(
    "order",
    [
        "kslack:10", "mp-kslack", "kslack-chain:5,10", "ldop:window=10", "none",
        "aq-kslack:error=0.1,window=20",
    ],
)  # fmt: skip
def test_one_event_from_the_future_changes_nothing_with_the_guard(order: str) -> None:
    good = records(range(0, 200, 2), range(1, 201, 2))
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
    good = records(range(0, 200, 2), range(1, 201, 2))
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


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ("kslack", "kslack needs its slack, as in kslack:2s"),
        ("kslack:late=pass", "kslack needs its slack"),
        ("kslack:2,3", "'3' is not key=value"),
        ("kslack:-2", "-2"),
        ("kslack:99999d", "at most"),
        ("mp-kslack:k=3", "unknown key 'k'; known are late, time"),
        ("none:late=pass", "unknown key 'late'; known are time"),
        ("mp-kslack:time=x", "time=x: use ref or ts"),
    ],
)
def test_wrong_settings_are_told(order: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        parse_order(order)
    assert said in str(error.value)
