"""What an order dropped for coming late takes no part in patterns, and corrects windows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.chain import Chain, ChainSettings
from engine.order.base import Guards
from engine.order.registry import parse_order
from engine.query import query
from tests.order.conftest import frame

QUERIES = ("EVENT SEQ(A a, !C c, B b) WITHIN 50", "SELECT count(*) WINDOW TUMBLING 100")


def answers(order: str, records: list[dict[str, Any]], cut: int = 0) -> list[list[dict[str, Any]]]:
    chosen = ChainSettings(
        parse_order(order), tuple(query(text) for text in QUERIES), guards=Guards(None)
    )
    chain = Chain(chosen, "main")
    found: list[list[dict[str, Any]]] = [[], []]
    for part in (records[:cut], records[cut:]):
        if part:
            for mine, results in zip(found, chain.process([frame(part)]).results, strict=True):
                mine += list(results)
    for mine, results in zip(found, chain.finish().results, strict=True):
        mine += list(results)
    return found


def event(seq: int, kind: str, ts: int, arrival: int) -> dict[str, Any]:
    return {"source": "a", "seq": seq, "type": kind, "ts": ts, "arrival": arrival}


@pytest.mark.parametrize(("late", "signs"), [("drop", ["+"]), ("pass", ["+", "-"])])
def test_late_drop_keeps_late_events_out_of_patterns(late: str, signs: list[str]) -> None:
    records = [
        event(0, "A", 10, 10), event(2, "B", 30, 12), event(3, "D", 130, 130),
        event(1, "C", 20, 140), event(4, "D", 260, 260),
    ]  # fmt: skip
    matches, windows = answers(f"sequence:timeout=fixed:5,late={late}", records)
    assert [match["op"] for match in matches] == signs
    first = [
        w["value"]["count(*)"] for w in windows if w["window"]["start"] == 0 and w["op"] == "+"
    ]
    assert first[-1] == 3


@given(
    kinds=st.lists(st.sampled_from("ABC"), min_size=2, max_size=8),
    delays=st.lists(st.sampled_from([0, 0, 0, 3, 30]), min_size=8, max_size=8),
    cut=st.integers(0, 8),
)
@settings(max_examples=30, deadline=None)
def test_patterns_answer_as_if_what_was_dropped_had_never_come(
    kinds: list[str], delays: list[int], cut: int
) -> None:
    records = [
        event(seq, kind, 10 * seq, 10 * seq + delay)
        for seq, (kind, delay) in enumerate(zip(kinds, delays, strict=False))
    ]
    records.sort(key=lambda record: record["arrival"])
    order = "sequence:timeout=fixed:5,late=drop,residual=drop"
    chain = Chain(ChainSettings(parse_order(order), guards=Guards(None), ordered="bare"), "main")
    out = [*chain.process([frame(records)]).ordered, *chain.finish().ordered]
    dropped = {
        int(seq)
        for released in out
        for seq, status in zip(released.columns["seq"], released.columns["status"], strict=True)
        if status == 3
    }
    matches = answers(order, records, cut)[0]
    net: dict[tuple[int, ...], int] = {}
    for match in matches:
        seqs = tuple(one["seq"] for one in match["events"])
        net[seqs] = net.get(seqs, 0) + (1 if match["op"] == "+" else -1)
    left = [r for r in records if r["seq"] not in dropped]
    expected = {
        (a["seq"], b["seq"])
        for a in left for b in left
        if (a["type"], b["type"]) == ("A", "B") and a["ts"] < b["ts"] <= a["ts"] + 50
        and not any(c["type"] == "C" and a["ts"] < c["ts"] < b["ts"] for c in left)
    }  # fmt: skip
    assert {seqs for seqs, n in net.items() if n} == expected
