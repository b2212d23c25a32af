"""The Spark host gives what the in-process host gives, also after being killed in mid-stream."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.chain import ChainSettings
from engine.errors import UserError
from engine.log.arrival_log import LogReader, LogWriter
from engine.order.registry import parse_order
from engine.passes.inprocess import run_in_process
from engine.query import query
from engine.query.plan import Plan
from engine.results.export import export_jsonl
from engine.results.ordered import export_ordered_jsonl
from engine.results.run_writer import RunWriter
from engine.results.side_output import SIDE_OUTPUT
from engine.spark.host import run_on_spark
from engine.stream.frame import STRING, Frame

pytestmark = [pytest.mark.spark]

WINDOW = "SELECT avg(v), count(*) GROUP BY k WINDOW TUMBLING 1 s DRIFT together"
PATTERN = "EVENT SEQ(A a, B b) WHERE a.k = b.k AND b.v > 60 WITHIN 100 ms"
SEED = 20261121


def write_log(folder: Path, events: int, rows_per_file: int) -> None:
    """Two sites of three sources each: disorder, loss, duplicates and clock offsets, by seed."""
    rng = np.random.default_rng(SEED)
    with LogWriter(folder, rows_per_file=rows_per_file) as writer:
        for site in ("north", "south"):
            names = pa.array(["a", "b", "c"])
            source = rng.integers(0, 3, events).astype(np.int32)
            true = 10**15 + np.cumsum(rng.integers(10**5, 2 * 10**6, events))
            seq = np.empty(events, np.int64)
            for each in range(3):
                seq[source == each] = np.arange((source == each).sum())
            offset = np.array([0, 5 * 10**8, -3 * 10**8])
            arrival = true + rng.integers(10**6, 40 * 10**6, events)
            chosen = np.flatnonzero(rng.random(events) > 0.01)
            chosen = np.concatenate([chosen, rng.choice(chosen, 20)])
            chosen = chosen[np.argsort(arrival[chosen], kind="stable")]
            kinds = pa.array(["A", "B"])
            sync = pa.RecordBatch.from_pydict(
                {
                    "kind": pa.array(np.full(3, 3, np.int8)),
                    "source": pa.DictionaryArray.from_arrays(
                        pa.array([0, 1, 2], pa.int32()), names
                    ),
                    "seq": pa.nulls(3, pa.int64()),
                    "type": pa.nulls(3, pa.string()).cast(STRING),
                    "ts": pa.array(np.full(3, 10**15) - offset),
                    "arrival": pa.array(np.full(3, 10**15)),
                    "offset": pa.array(offset),
                    "delay": pa.array(np.array([10**6, 4 * 10**6, 2 * 10**6])),
                    "first_seq": pa.array(np.zeros(3, np.int64)),
                }
            )
            writer.append(Frame(site, sync))
            for start in range(0, len(chosen), 500):
                rows = chosen[start : start + 500]
                types = pa.array((rows % 2).astype(np.int32))
                batch = pa.RecordBatch.from_pydict(
                    {
                        "source": pa.DictionaryArray.from_arrays(pa.array(source[rows]), names),
                        "seq": pa.array(seq[rows]),
                        "type": pa.DictionaryArray.from_arrays(types, kinds),
                        "ts": pa.array(true[rows] - offset[source[rows]]),
                        "arrival": pa.array(arrival[rows]),
                        "attrs.k": pa.array(rows % 7),
                        "attrs.v": pa.array((rows % 100).astype(float)),
                    }
                )
                writer.append(Frame(site, batch))


def settings(order: str = "sequence:latency=50ms") -> ChainSettings:
    """Two queries and the ordered stream itself."""
    plans: tuple[Plan, ...] = (query(WINDOW, name="w"), query(PATTERN, name="p"))
    if order.startswith("aq-kslack"):
        plans = plans[:1]  # it serves no patterns
    return ChainSettings(parse_order(order), plans, ordered="full", aside="full")


def answers(parts: Path) -> str:
    """Everything a pass wrote, as text."""
    results, ordered, aside = io.StringIO(), io.StringIO(), io.StringIO()
    export_jsonl(parts, results, queries=("w", "p"))
    export_ordered_jsonl(parts, ordered)
    export_ordered_jsonl(parts, aside, files=SIDE_OUTPUT)
    return results.getvalue() + ordered.getvalue() + aside.getvalue()


def facts(counters: dict) -> dict:
    """Counters that must not depend on the host or on how batches were cut."""
    sites = {site: dict(each) for site, each in counters["sites"].items()}
    for each in sites.values():
        each.pop("buffered_max_bytes")  # columns of a batch come from its frames
    return sites


def test_spark_equals_in_process(tmp_path: Path) -> None:
    log = tmp_path / "log"
    write_log(log, 6_000, rows_per_file=2_000)
    last = LogReader(log).files[-1]
    last.rename(last.with_name("zz last %41.parquet"))
    assert len(LogReader(log).files) > 4
    here = run_in_process(log, settings(), tmp_path / "here")
    there = run_on_spark(log, settings(), tmp_path / "there", "local[2]", files_per_batch=2)
    expected = answers(tmp_path / "here")
    assert expected.count('"certainty"') > 100
    assert expected.count('"window"') > 50
    assert answers(tmp_path / "there") == expected
    assert facts(there) == facts(here)
    assert len(there["batches"]) >= 3
    other = ChainSettings(parse_order("none"), settings().plans)
    with pytest.raises(UserError, match="was begun with another query, order or other settings"):
        run_on_spark(log, other, tmp_path / "there", "local[2]")


def test_a_log_that_fits_a_micro_batch_is_one(tmp_path: Path) -> None:
    log = tmp_path / "log"
    write_log(log, 1_500, rows_per_file=1_500)
    files = len(LogReader(log).files)
    run_in_process(log, settings(), tmp_path / "here")
    there = run_on_spark(log, settings(), tmp_path / "there", "local[2]", files_per_batch=files)
    assert len(there["batches"]) == 1
    assert answers(tmp_path / "there") == answers(tmp_path / "here")


@pytest.mark.slow
@pytest.mark.parametrize(
    "order",
    [
        "none", "sequence:timeout=r19,late=pass", "sequence:timeout=fixed:20ms,time=ts",
        "kslack:20ms", "mp-kslack:late=drop", "aq-kslack:error=0.05,window=100ms,agg=avg,attr=v",
        "ldop:0..2,window=10ms", "kslack-chain:5ms,30ms",
    ],
)  # fmt: skip
def test_every_order_gives_on_spark_what_it_gives_in_process(order: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    write_log(log, 3_000, rows_per_file=1_500)
    here = run_in_process(log, settings(order), tmp_path / "here")
    there = run_on_spark(log, settings(order), tmp_path / "there", "local[2]", files_per_batch=1)
    assert answers(tmp_path / "there") == answers(tmp_path / "here")
    assert facts(there) == facts(here)
    assert len(there["batches"]) >= 3


def test_a_log_that_grows_between_runs_and_during_them_equals_in_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(tmp_path / "all", 3_000, rows_per_file=1_000)
    log, left = tmp_path / "log", LogReader(tmp_path / "all").files
    log.mkdir()

    def grow() -> None:
        if left:
            shutil.copy2(left.pop(0), log)

    grow()
    (log / "manifest.json").write_text("{}")  # as a simulated log has it
    write = RunWriter.write

    def write_and_grow(self: RunWriter, *arguments: Any, **named: Any) -> None:
        write(self, *arguments, **named)
        grow()

    calls = 0
    while left:
        grow()
        run_in_process(log, settings(), tmp_path / "here")
        with monkeypatch.context() as patch:
            patch.setattr(RunWriter, "write", write_and_grow)
            there = run_on_spark(log, settings(), tmp_path / "there", "local[2]", 1)
        calls += bool(there["batches"])
        assert answers(tmp_path / "there") == answers(tmp_path / "here")
    assert calls >= 2


@pytest.mark.slow
def test_killed_and_started_again_equals_undisturbed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    write_log(log, 6_000, rows_per_file=1_000)
    run_in_process(log, settings(), tmp_path / "here")
    out = tmp_path / "there"
    command = [sys.executable, __file__, str(log), str(out)]
    first = subprocess.Popen(command, start_new_session=True)
    try:
        _wait_for_batches(out, 3, first)
    finally:
        os.killpg(first.pid, signal.SIGKILL)  # the JVM and its workers too
        first.wait()
    done = len(list((out / "ordered").glob("batch-*")))
    assert done < 10, "killed too late to prove anything"
    subprocess.run(command, check=True, timeout=200)
    assert len(list((out / "ordered").glob("batch-*"))) > done
    assert answers(out) == answers(tmp_path / "here")


def _wait_for_batches(out: Path, batches: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(3_000):
        if len(list((out / "ordered").glob("batch-*"))) >= batches:
            return
        assert process.poll() is None, "ended before it could be killed"
        time.sleep(0.05)
    pytest.fail("no batches within 150 s")


if __name__ == "__main__":
    run_on_spark(Path(sys.argv[1]), settings(), Path(sys.argv[2]), "local[2]", files_per_batch=1)
