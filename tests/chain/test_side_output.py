"""Late and quarantined events: each is kept with its reason and balances with the counters. What
is dropped takes no part in patterns, and corrects windows nonetheless.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.cli.app import run
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.output.ordered_stream import REASONS
from slackwater.engine.query import query
from tests.order.conftest import frame

TRACE: list[dict[str, Any]] = [
    {"kind": "sync", "source": "a", "first_seq": 0, "offset": 3, "delay": 0, "arrival": 0},
    {"source": "a", "seq": 0, "ts": 7, "arrival": 10, "attrs": {"v": 1}},
    {"source": "a", "seq": 2, "ts": 17, "arrival": 20, "attrs": {"v": 2}},
    {"source": "b", "seq": 0, "ts": 5, "arrival": 40, "type": "X"},
    {"source": "a", "seq": 1, "ts": 12, "arrival": 45, "attrs": {"v": 3}},
    {"source": "a", "seq": 3, "ts": 9_000_000_000, "arrival": 50},
    {"source": "a", "seq": 900_000, "ts": 52, "arrival": 56},
    {"source": "a", "seq": 2, "ts": 17, "arrival": 57, "attrs": {"v": 2}},
]


def test_each_has_its_reason_and_how_late_it_was(tmp_path: Path) -> None:
    trace, side, out = (tmp_path / name for name in ("t.jsonl", "side.jsonl", "out.jsonl"))
    trace.write_text("".join(json.dumps(record) + "\n" for record in TRACE))
    shared = ["--input", str(trace), "--in-process", "--quiet", "--late", str(side)]
    order = "sequence:timeout=fixed:5"
    assert run(["order", *shared, "--order", order, "--out", str(out)]) == 0
    emitted = [json.loads(line) for line in side.read_text().splitlines()]
    assert emitted == [
        {"source": "b", "seq": 0, "type": "X", "ts": 5, "arrival": 40, "ref": 5, "release": 40,
         "reason": "residual", "lateness": 15, "dropped": False},
        {"source": "a", "seq": 1, "ts": 12, "arrival": 45, "ref": 15, "release": 45,
         "reason": "late", "lateness": 5, "dropped": True, "attrs": {"v": 3}},
        {"source": "a", "seq": 3, "ts": 9_000_000_000, "arrival": 50, "ref": 9_000_000_003,
         "release": 50, "reason": "future", "dropped": True},
        {"source": "a", "seq": 900_000, "ts": 52, "arrival": 56, "ref": 55, "release": 56,
         "reason": "jump", "dropped": True},
        {"source": "a", "seq": 2, "ts": 17, "arrival": 57, "ref": 20, "release": 57,
         "reason": "duplicate", "dropped": True, "attrs": {"v": 2}},
    ]  # fmt: skip
    table = tmp_path / "side.parquet"
    shared[-1] = str(table)
    count = "SELECT count(*) WINDOW TUMBLING 50 ns"
    assert run(["query", count, *shared, "--order", order + ",residual=drop,late=pass",
                "--out", str(out)]) == 0  # fmt: skip
    rows = pq.read_table(table).to_pylist()
    assert [(row["reason"], row["lateness"], row["dropped"]) for row in rows] == [
        ("residual", 15, True), ("late", 5, False), ("future", None, True), ("jump", None, True),
        ("duplicate", None, True),
    ]  # fmt: skip
    assert [row["attrs.v"] for row in rows] == [None, 3, None, None, 2]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("out.jsonl", "--out and --late name the same file"),
        ("side.txt", "name it .jsonl, .parquet or .csv"),
        ("no/side.jsonl", "there is no folder"),
    ],
)
def test_a_place_that_will_not_do_is_reported_before_the_work(
    name: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "t.jsonl"
    trace.write_text(json.dumps(TRACE[1]) + "\n")
    places = ["--out", str(tmp_path / "out.jsonl"), "--late", str(tmp_path / name)]
    assert run(["order", "--input", str(trace), "--in-process", *places]) == 2
    assert said in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.jsonl"]


EVENTS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.integers(0, 60)), max_size=40
)


@settings(max_examples=20)
@given(
    events=EVENTS,
    order=st.sampled_from(
        [
            "none", "kslack:3", "mp-kslack:late=drop", "kslack-chain:1,3", "ldop:window=5",
            "aq-kslack:error=0.2,window=9", "sequence:timeout=fixed:3",
            "sequence:timeout=fixed:3,late=pass", "sequence:timeout=r19,residual=drop",
        ]
    ),
)  # fmt: skip
def test_the_side_output_balances_with_the_counters(
    events: list[tuple[str, int, int]], order: str
) -> None:
    records = [
        {"source": source, "seq": seq, "ts": ts, "arrival": at}
        for at, (source, seq, ts) in enumerate(events)
    ]
    chosen = ChainSettings(parse_order(order), guards=Guards(30), ordered="full", aside="full")
    chain = Chain(chosen, "main")
    outputs = ([chain.process([frame(records)])] if records else []) + [chain.finish()]
    emitted: Counter[str] = Counter()
    dropped = 0
    for output in outputs:
        for released in (*output.late, *output.quarantined):
            emitted.update(REASONS[code] for code in released.columns["reason"].tolist())
            dropped += int(released.columns["dropped"].sum())
            assert (released.columns["lateness"] >= -1).all()
    lanes = chain.counters()["lanes"]

    def counted(*names: str) -> int:
        return sum(lane.get(name, 0) for lane in lanes for name in names)

    assert emitted["late"] == counted("late_passed", "late_dropped")
    assert emitted["residual"] == counted("residual", "residual_dropped")
    assert emitted["future"] == counted("quarantined_future")
    assert emitted["jump"] == counted("quarantined_jump")
    assert emitted["duplicate"] == counted("duplicate")
    gone = (
        "late_dropped", "residual_dropped", "quarantined_future", "quarantined_jump", "duplicate",
    )  # fmt: skip
    assert dropped == counted(*gone)


def test_a_marker_with_a_senseless_number_is_no_event() -> None:
    records: list[dict[str, Any]] = [
        {"source": "a", "seq": 0, "ts": 0, "arrival": 0},
        {"kind": "eos", "source": "a", "seq": 10**8, "arrival": 1},
    ]
    settings = ChainSettings(parse_order("sequence"), guards=Guards(None), aside="full")
    chain = Chain(settings, "main")
    assert chain.process([frame(records)]).quarantined == []
    assert [each["reason"] for each in chain.counters()["quarantined"]] == ["sequence jump"]


def test_a_run_keeps_it_per_pass_and_its_rows_balance_with_the_counters(tmp_path: Path) -> None:
    order = ["--order", "sequence:timeout=fixed:1ms"]
    shape = ["--set", "duration=1s", "--set", "seed=7", "--out", str(tmp_path / "r")]
    assert run(["run", "soccer", "--in-process", "--quiet", *order, *shape]) == 0
    names = {
        "late": ("late_dropped", "late_passed"),
        "residual": ("residual_dropped", "residual"),
        "future": ("quarantined_future",),
        "jump": ("quarantined_jump",),
        "duplicate": ("duplicate",),
    }
    checked = 0
    for counters in (tmp_path / "r" / "runs").glob("*/counters.json"):
        sites = json.loads(counters.read_text())["sites"].values()
        rows: Counter[str] = Counter()
        for part in counters.parent.glob("[lq]*/*.parquet"):
            rows.update(pq.read_table(part).column("reason").to_pylist())
        for reason in REASONS:
            lanes = [lane for site in sites for lane in site["lanes"]]
            counted = sum(lane.get(name, 0) for lane in lanes for name in names[reason])
            assert rows[reason] == counted
        checked += sum(rows.values())
    assert checked


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
@settings(max_examples=20)
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
