"""W1 on Spark local[2]: ours (sequence + merge + 10 s drift window) beside plain Spark.

Plain Spark is what its users would write: rows, withWatermark, the built-in window average. Twice:
in the way of the measured peers, 10 files of 20,000 events per micro-batch, and with micro-batches
as large as ours, which suits it best. All read the same 8 M events from 20 sources, 12.5 % of them
up to 1 s late. Steady state: JVM start, planning and the first micro-batch are left out. Goal
(issue 2): at least 1,000,000 events/s, at least 5 times plain Spark in the peers' way, below 4 GB
over the process tree.

``python -m bench.spark_w1 [EVENTS]``
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.workload import columns, write_log, write_rows
from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.hosts.spark.class_archive import VARIABLE as JAVA_OPTIONS
from slackwater.engine.hosts.spark.host import run_on_spark, spark_session
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SOURCES = 20
QUERY = "SELECT avg(v), count(*) GROUP BY sid WINDOW TUMBLING 10 s DRIFT together"
FILE_ROWS = 524_288
FILES_PER_BATCH = 4
PEERS_FILE_ROWS = 20_000
PEERS_FILES_PER_BATCH = 10
ROUNDS = 3


def ours(folder: Path, events: int) -> dict[str, float]:
    """Steady rate of our chain."""
    out = Path(tempfile.mkdtemp(dir=folder))
    settings = ChainSettings(parse_order("sequence:latency=1100ms"), (query(QUERY),))
    counters = run_on_spark(folder / "log", settings, out, "local[2]", FILES_PER_BATCH)
    batches = counters["batches"][1:-1]  # without the first and the end of the input
    seconds = sum(batch["seconds"] for batch in batches)
    return {"rate": len(batches) * FILES_PER_BATCH * FILE_ROWS / seconds, "events": events}


def peers(folder: Path, events: int) -> dict[str, float]:
    """Steady rate of row-wise Spark in the way of the measured peers."""
    return _plain(folder / "peers", folder, events, PEERS_FILES_PER_BATCH)


def plain(folder: Path, events: int) -> dict[str, float]:
    """Steady rate of row-wise Spark in micro-batches of our size."""
    return _plain(folder / "rows", folder, events, FILES_PER_BATCH)


def _plain(rows_at: Path, folder: Path, events: int, files_per_batch: int) -> dict[str, float]:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    out = Path(tempfile.mkdtemp(dir=folder))
    session = plain_session(out)
    rows = (
        session.readStream.schema("source int, seq long, ts long, arrival long, sid long, v double")
        .option("maxFilesPerTrigger", files_per_batch)
        .parquet(str(rows_at))
        .withColumn("rt", F.timestamp_micros(F.expr("ts div 1000")))
        .withWatermark("rt", "1 second")
        .groupBy(F.window("rt", "10 seconds"), "sid")
        .agg(F.avg("v"), F.count("*"))
    )
    rate = drained(rows.select("window.start", "sid", "avg(v)", "count(1)"), out)
    return {"rate": rate, "events": events}


def plain_session(out: Path) -> SparkSession:
    """Spark with the JVM's options and its default state store."""
    os.environ[JAVA_OPTIONS] = ""
    session = spark_session("local[2]", out / "spark.log")
    session.conf.set(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    )
    return session


def drained(answers: DataFrame, out: Path, reads: int = 1) -> float:
    """Events/s of a stream that is written to ``out`` until its input, read ``reads`` times, ends.

    Without the first micro-batch.
    """
    stream = (
        answers.writeStream.format("parquet")
        .option("path", str(out / "result"))
        .option("checkpointLocation", str(out / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    stream.awaitTermination()
    batches = [each for each in stream.recentProgress if each.numInputRows][1:]
    seconds = sum(each.durationMs["triggerExecution"] for each in batches) / 1000
    return sum(each.numInputRows for each in batches) / reads / seconds


def _tree_memory(root: int) -> int:
    """Proportional memory [bytes] of a process and its descendants, now."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue  # it has just ended
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    tree = {root}
    while True:
        more = {child for child, parent in parents.items() if parent in tree} - tree
        if not more:
            break
        tree |= more
    total = 0
    for process in tree:
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue  # it has just ended
        total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
    return total


def measured(module: str, side: str, folder: Path, events: int) -> dict[str, float]:
    """Run one side of a benchmark in a process of its own; adds the peak memory of its tree."""
    command = [sys.executable, "-m", f"bench.{module}", side, str(folder), str(events)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak = [0]

    def watch() -> None:
        while process.poll() is None:
            peak[0] = max(peak[0], _tree_memory(process.pid))
            time.sleep(0.5)

    watcher = threading.Thread(target=watch)
    watcher.start()
    output, _ = process.communicate()
    watcher.join()
    if process.returncode:
        raise SystemExit(f"{side} failed with exit code {process.returncode}")
    found: dict[str, float] = json.loads(output.strip().splitlines()[-1])
    return {**found, "memory": peak[0]}


def main() -> None:
    if len(sys.argv) > 2:
        side = {"ours": ours, "peers": peers, "plain": plain}[sys.argv[1]]
        print(json.dumps(side(Path(sys.argv[2]), int(sys.argv[3]))))
        return
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 8_000_000
    with tempfile.TemporaryDirectory(prefix="slackwater-bench-") as name:
        folder = Path(name)
        made = columns(events, SOURCES)
        write_log(made, SOURCES, folder / "log")
        write_rows(made, folder / "rows", FILE_ROWS)
        write_rows(made, folder / "peers", PEERS_FILE_ROWS)
        del made
        for _ in range(ROUNDS):
            mine = measured("spark_w1", "ours", folder, events)
            print(f"spark local[2], {events:,} events: ours {said(mine)}")
            for side, way in (("peers", "200 k rows a batch"), ("plain", "2 M rows a batch")):
                theirs = measured("spark_w1", side, folder, events)
                ratio = mine["rate"] / theirs["rate"]
                print(f"  plain Spark, {way}: {said(theirs)}; ours is {ratio:.2f} x")


def said(found: dict[str, float]) -> str:
    """Speed and memory of a side."""
    return f"{found['rate'] / 1e6:.2f} M events/s, {found['memory'] / 2**30:.2f} GB"


if __name__ == "__main__":
    main()
