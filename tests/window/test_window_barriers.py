"""Barriers of windows in a chain: delay against corrections, the same under any cut and order."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.barrier.registry import parse_barrier
from engine.chain import Chain, ChainSettings
from engine.errors import UserError
from engine.order.base import Guards
from engine.order.registry import parse_order
from engine.query import explain, query
from engine.window.settings import parse_window
from tests.order.conftest import frame
from tests.window.test_emit import net

COUNT = "SELECT count(*) AS n WINDOW TUMBLING 10"
ORDERS = ("none", "sequence:timeout=fixed:5,latency=9", "kslack:4", "mp-kslack")
BARRIERS = ("immediate", "punctuation", "bounded:5", "hold:3", "hold:20", "bounded:5,ordered")


def answers(
    records: list[dict[str, Any]], barrier: str | None, order: str = "none", text: str = COUNT,
    cuts: tuple[int, ...] = (),
) -> list[dict[str, Any]]:  # fmt: skip
    """All results; the chain is restored at each cut."""
    chosen = ChainSettings(
        parse_order(order), (query(text),), guards=Guards(None), window=parse_window("horizon=60s"),
        barrier=None if barrier is None else parse_barrier(barrier),
    )  # fmt: skip
    chain, found = Chain(chosen, "main"), []
    for start, end in itertools.pairwise([0, *sorted({*cuts} - {0, len(records)}), len(records)]):
        found += list(chain.process([frame(records[start:end])]).results[0])
        chain = Chain.restored(chosen, "main", chain.snapshot())
    return found + list(chain.finish().results[0])


def event(ts: int, arrival: int, seq: int, source: str = "a") -> dict[str, Any]:
    return {"source": source, "seq": seq, "ts": ts, "arrival": arrival}


def brief(results: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(r["op"], r["at"], r["window"]["start"], r["value"]["n"]) for r in results]


LATE = [event(ts, 100 + n, n) for n, ts in enumerate((1, 4, 12, 7, 14, 16, 19, 22, 31))]


@pytest.mark.parametrize(
    ("barrier", "first"),
    [
        (None, [("+", 102, 0, 2), ("-", 103, 0, 2), ("+", 103, 0, 3)]),
        ("immediate", [("+", 102, 0, 2), ("-", 103, 0, 2), ("+", 103, 0, 3)]),
        ("bounded:4", [("+", 104, 0, 3)]),
        ("bounded:2", [("+", 102, 0, 2), ("-", 103, 0, 2), ("+", 103, 0, 3)]),
        ("hold:3", [("+", 105, 0, 3)]),
        ("hold:1", [("+", 103, 0, 3)]),  # records go first at one instant
        ("hold:0", [("+", 102, 0, 2), ("-", 103, 0, 2), ("+", 103, 0, 3)]),
        ("punctuation", [("+", 108, 0, 3)]),
    ],
)
def test_a_barrier_waits_so_that_less_is_corrected(
    barrier: str | None, first: list[tuple[Any, ...]]
) -> None:
    assert brief([r for r in answers(LATE, barrier) if r["window"]["start"] == 0]) == first


def test_promises_of_all_types_and_sources_close_windows_in_no_order() -> None:
    def pog(ts: int, arrival: int, source: str, **more: Any) -> dict[str, Any]:
        return {"kind": "pog", "ts": ts, "arrival": arrival, "source": source, **more}

    records = [
        event(1, 100, 0), event(2, 101, 0, "b"), pog(10, 102, "a"), pog(30, 103, "b", type="E"),
        pog(12, 104, "b"), event(9, 105, 1), event(40, 106, 2),
    ]  # fmt: skip
    found = answers(records, "punctuation")
    assert brief(found) == [
        ("+", 104, 0, 2), ("-", 105, 0, 2), ("+", 105, 0, 3), ("+", 106, 40, 1),
    ]  # fmt: skip


def test_an_idle_site_is_told_by_a_promise_and_under_hold_by_the_arrival_clock() -> None:
    idle = [event(1, 100, 0), {"kind": "pog", "ts": 50, "arrival": 110, "source": "a"}]
    ticks = [{"kind": "tick", "arrival": at} for at in (115, 121, 130)]
    for barrier, at in ((None, 110), ("punctuation", 110), ("hold:10", 120)):
        for order in ("sequence", "none"):
            if order == "sequence" or barrier == "punctuation":
                found = answers([*idle, *ticks], barrier, order)
                assert brief(found) == [("+", at, 0, 1)], (barrier, order)


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[dict[str, Any]], tuple[int, ...]]:
    """Two sources, each in any disorder, with gaps, promises and ticks."""
    records: list[dict[str, Any]] = []
    arrival, clock, seqs = 100, 0, {"a": 0, "b": 0}
    for _ in range(draw(st.integers(1, 16))):
        arrival += draw(st.integers(0, 4))
        clock += draw(st.integers(0, 5))
        kind = draw(st.sampled_from(("event",) * 6 + ("pog", "tick")))
        source = draw(st.sampled_from("ab"))
        if kind == "event":
            seqs[source] += draw(st.sampled_from((1, 1, 1, 2, 3)))
            ts = clock - draw(st.sampled_from((0, 0, 0, 2, 9)))
            seq = seqs[source] - draw(st.sampled_from((0, 0, 0, 1)))
            records.append(event(ts, arrival, seq, source))
        elif kind == "pog":
            records.append({"kind": "pog", "ts": clock - 3, "arrival": arrival, "source": source})
        else:
            records.append({"kind": "tick", "arrival": arrival})
    cuts = tuple(draw(st.lists(st.integers(0, len(records)), max_size=4)))
    return records, cuts


WINDOWS = (
    "TUMBLING 10", "SLIDING 10 EVERY 4", "SESSION 6", "ROWS 2", "TUMBLING 10 EMIT EARLY EVERY 3",
    "SESSION 6 EMIT ON CHANGE", "ROWS 3 EVERY 2 EMIT EARLY EVERY 4",
)  # fmt: skip


@given(
    case=logs(), order=st.sampled_from(ORDERS), barrier=st.sampled_from(BARRIERS),
    window=st.sampled_from(WINDOWS),
)  # fmt: skip
@settings(max_examples=75, deadline=None)
def test_behind_every_order_results_do_not_depend_on_cuts_and_end_the_same(
    case: tuple[list[dict[str, Any]], tuple[int, ...]], order: str, barrier: str, window: str
) -> None:
    records, cuts = case
    text = f"SELECT count(*) AS n, max(ts) GROUP BY source WINDOW {window}"
    whole = answers(records, barrier, order, text)
    assert answers(records, barrier, order, text, cuts) == whole
    assert [r["at"] for r in whole] == sorted(r["at"] for r in whole)
    plain = answers(records, None, order, text.partition(" EMIT")[0])
    assert net(whole) == net(plain)


def test_a_longer_wait_never_corrects_more() -> None:
    corrected = [
        sum(r["op"] == "-" for r in answers(LATE, f"bounded:{slack}")) for slack in range(8)
    ]
    assert corrected == sorted(corrected, reverse=True)
    assert corrected[0] > corrected[-1] == 0


def test_adaptive_is_refused_with_a_remedy() -> None:
    message = (
        "barrier adaptive is not of windows, which q1 has: it goes by how many matches are taken "
        "back, and a window is told once, when it closes; use immediate, punctuation, bounded:K, "
        "hold:H, or ask for patterns in a call of their own"
    )
    with pytest.raises(UserError) as error:
        answers(LATE, "adaptive")
    assert str(error.value) == message
    with pytest.raises(UserError) as error:
        explain(query(COUNT), parse_barrier("adaptive,ordered"))
    assert str(error.value) == message
    ChainSettings(
        parse_order("none"), (query("EVENT SEQ(A a, B b) WITHIN 5"),),
        barrier=parse_barrier("adaptive"),
    )  # fmt: skip
