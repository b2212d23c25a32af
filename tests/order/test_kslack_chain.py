"""``kslack-chain``: query i gets what ``kslack:K(i)`` gives it, from one buffer (R19 2.3.5)."""

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
from engine.query import query
from tests.order.conftest import frame
from tests.order.slow_slack import slow_kslack

QUERIES = tuple(
    query("SELECT count(*), sum(v) FROM events WINDOW TUMBLING 4 ns", name=f"q{number}")
    for number in range(3)
)


def records(times: Sequence[int], arrivals: Sequence[int]) -> list[dict[str, Any]]:
    return [
        {"source": f"s{row % 2}", "seq": row, "ts": time, "arrival": at, "attrs": {"v": row}}
        for row, (time, at) in enumerate(zip(times, arrivals, strict=True))
    ]


def run(
    order: str, given: Sequence[dict[str, Any]], queries: int, cuts: Sequence[int] = ()
) -> tuple[list[list[str]], list[tuple[int, int, bool]], Chain]:
    """(results per query, the ordered stream, the chain), restored at each cut."""
    chosen = ChainSettings(
        parse_order(order), QUERIES[:queries], guards=Guards(None), ordered="full"
    )
    chain = Chain(chosen, "main")
    results: list[list[str]] = [[] for _ in range(queries)]
    ordered = []
    outputs = []
    for start, end in itertools.pairwise([0, *cuts, len(given)]):
        if end > start:
            outputs.append(chain.process([frame(given[start:end])]))
            chain = Chain.restored(chosen, "main", chain.snapshot())
    for output in (*outputs, chain.finish()):
        for mine, told in zip(results, output.results, strict=True):
            mine.extend(repr({**each, "query": ""}) for each in told)
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
    arrivals = [row // 3 for row in range(len(times))]
    given = records(times, arrivals)
    order = "kslack-chain:" + ",".join(map(str, ks))
    results, ordered, chain = run(order, given, 3, cuts)
    for number in range(3):
        k = ks[min(number, len(ks) - 1)]
        alone, _, _ = run(f"kslack:{k}", given, 3)
        assert results[number] == alone[number]
    assert ordered == slow_kslack(times, arrivals, ks[-1])
    _, _, single = run(f"kslack:{ks[-1]}", given, 3)
    assert chain.counters()["lanes"] == single.counters()["lanes"]
    assert chain.counters()["buffered_max"] == single.counters()["buffered_max"]


def test_every_permutation_of_six_events_with_and_without_readers() -> None:
    for times in itertools.permutations([1, 2, 2, 5, 6, 9]):
        expected = slow_kslack(times, range(6), 4)
        for readers in (0, 2):
            assert run("kslack-chain:1,4", records(times, range(6)), readers)[1] == expected


def test_events_are_held_once_for_the_largest_slack() -> None:
    times = list(range(100))
    _, _, chain = run("kslack-chain:10,20,30", records(times, times), 3)
    assert chain.counters()["buffered_max"] == 30


@pytest.mark.parametrize(
    ("order", "ks"),
    [
        ("kslack-chain:1ms,2s", (1_000_000, 2_000_000_000)),
        ("kslack-chain:[5, 7,7]", (5, 7, 7)),
        ("kslack-chain", (500_000_000,)),
        ("kslack-chain:3,late=drop", (3,)),
    ],
)
def test_slacks_are_listed(order: str, ks: tuple[int, ...]) -> None:
    assert parse_order(order).ks_ns == ks  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ("kslack-chain:5,3", "ascending"),
        ("kslack-chain:5,-3", "-3"),
        ("kslack-chain:99999d", "at most"),
        ("kslack-chain:5,k=3", "unknown key 'k'; known are ks, late, time"),
    ],
)
def test_wrong_slacks_are_told(order: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        parse_order(order)
    assert said in str(error.value)
