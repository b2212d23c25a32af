"""Every event names the clock that stamped it (SPEC 2): read, kept, corrected by, and shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import slackwater
from slackwater.engine.log.arrival_log import LogWriter
from slackwater.engine.log.input.trace import TraceRead
from slackwater.engine.log.row_export import write_rows
from slackwater.engine.output.json_lines import write_trace

Record = dict[str, Any]
WALL = {"kind": "sync", "source": "a", "clock": "wall", "offset": 100, "delay": 0,
        "skew_error_ppb": 0, "ts": 0, "arrival": 0}  # fmt: skip
OWN = WALL | {"source": "b", "clock": "badge", "offset": -50}
TRACE = [
    WALL, OWN,
    {"type": "A", "source": "a", "clock": "wall", "ts": 1000, "arrival": 1110},
    {"type": "B", "source": "b", "clock": "wall", "ts": 1002, "arrival": 1111},
    {"type": "B", "source": "b", "ts": 1107, "arrival": 1112},
    {"type": "B", "source": "b", "clock": "badge", "ts": 1158, "arrival": 1113},
]  # fmt: skip
"""Two sources of one clock, and one source of three: the second its own, unsynchronised."""


def written(path: Path, records: list[Record]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.mark.parametrize("order", ["sequence", "kslack:1us", "none", "mp-kslack"])
def test_an_offset_is_of_the_clock_and_not_of_the_source(tmp_path: Path, order: str) -> None:
    ordered = slackwater.order(written(tmp_path / "t.jsonl", TRACE), order, clock="exact")
    found = [(e["source"], e.get("clock"), e["ref"]) for e in ordered]
    assert sorted(found, key=lambda of: of[2]) == [
        ("a", "wall", 1100), ("b", "wall", 1102), ("b", None, 1107), ("b", "badge", 1108),
    ]  # fmt: skip


def test_events_of_one_clock_share_its_error_whatever_their_sources(tmp_path: Path) -> None:
    """20 ns of error on either side: 2 ns apart on one clock is certain, on two it is not."""
    wide = [{**WALL, "delay": 40}, {**OWN, "delay": 40}, *TRACE[2:4], TRACE[5]]
    found = slackwater.query(written(tmp_path / "t.jsonl", wide), "EVENT SEQ(A a, B b) WITHIN 1 us")
    certainty = {m["events"][1].get("clock"): m["certainty"] for m in found}
    assert certainty["wall"] == "confirmed"
    assert certainty["badge"] == "uncertain"


def test_every_file_of_the_same_records_gives_the_same(tmp_path: Path) -> None:
    trace = written(tmp_path / "t.jsonl", TRACE)
    frames = list(TraceRead(trace, "ns"))
    with (tmp_path / "again.jsonl").open("w") as out:
        write_trace(frames, out)
    write_rows(frames, tmp_path / "t.csv")
    write_rows(frames, tmp_path / "t.parquet")
    with LogWriter(tmp_path / "t.log") as log:
        for frame in frames:
            log.append(frame)
    want = list(slackwater.order(trace, clock="exact"))
    assert [event.get("clock") for event in want] == ["wall", "wall", None, "badge"]
    for name in ("again.jsonl", "t.csv", "t.parquet", "t.log"):
        assert list(slackwater.order(tmp_path / name, clock="exact")) == want, name
