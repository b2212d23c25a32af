"""Scoring a run keeps numbers of its events, no Python objects for each of them."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scenarios.from_file.perfect_world import PerfectWorld
from scenarios.from_file.scoring import _of_stream

SMALL, LARGE = 20_000, 80_000
BYTES_PER_EVENT_MAX = 120
"""Some ten columns of numbers; names as Python objects took 1,000."""


def written(folder: Path, events: int) -> Path:
    """A run's truth, and its ordered stream without the last event."""
    at = np.arange(events) * 1000
    source = pa.array([f"m-{n}" for n in range(5)] * (events // 5)).dictionary_encode()
    one = pa.array(["s"] * events).dictionary_encode()
    truth = {
        "site": one, "source": source, "stream": one, "seq": np.arange(events) // 5,
        "incarnation": np.zeros(events, np.int64), "true_ts": at, "ts": at + 7, "type": one,
    }  # fmt: skip
    (folder / "truth").mkdir(parents=True)
    pq.write_table(pa.table(truth), folder / "truth" / "events.parquet")
    clocks = {"true_ns": [0, 10**9], "engine_ns": [0, 10**9]}
    pq.write_table(pa.table(clocks), folder / "truth" / "clocks.parquet")
    ordered = folder / "runs" / "main" / "ordered"
    ordered.mkdir(parents=True)
    more = {"arrival": at, "ref": at, "release": at + 9, "status": np.zeros(events, np.int8)}
    table = pa.table(truth | more).slice(0, events - 1)
    pq.write_table(table, ordered / "batch-000000000000-0.parquet")
    (folder / "manifest.json").write_text(json.dumps({"rows": {"event": events - 1}}))
    return folder


def peak(work: Callable[[], object]) -> int:
    """Bytes of Python and NumPy at the most."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_score_takes_few_bytes_an_event(tmp_path: Path) -> None:
    small, large = (written(tmp_path / str(many), many) for many in (SMALL, LARGE))
    for work in (
        lambda run: PerfectWorld.read(run, ()),
        lambda run: _of_stream(run, "main", LARGE),
    ):
        work(small)  # code is loaded
        grown = peak(lambda: work(large)) - peak(lambda: work(small))  # noqa: B023 - called here
        assert grown < BYTES_PER_EVENT_MAX * (LARGE - SMALL)


def test_what_is_scored_is_what_happened_and_what_came(tmp_path: Path) -> None:
    run = written(tmp_path, SMALL)
    world = PerfectWorld.read(run, ())
    assert len(world) == SMALL
    assert world.identity(7) == ("s", "m-2", "s", 1, 7007)
    found = _of_stream(run, "main", SMALL)
    assert found["missing"] == pytest.approx(1 / SMALL)
    assert (found["late"], found["disorder"], found["hold_p95"]) == (0.0, 0.0, 9.0)
