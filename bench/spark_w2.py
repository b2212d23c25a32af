"""W2 on Spark local[2]: ours beside plain Spark. ``SEQ(A a, !C c, B b)`` on equal keys WITHIN 5 s.

Plain Spark is what its users would write: stream-stream joins, 10 files of 20,000 events per
micro-batch as the measured peers do. Both read the same events from 20 sources, 12.5 % of them up
to 1 s late. Steady state: JVM start, planning, the first micro-batch and the end of the input are
left out. Goal (issue 4): at least 600,000 events/s. Plain Spark, far slower, gets fewer events.

``python -m bench.spark_w2 [EVENTS]``
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.spark_w1 import (
    FILE_ROWS,
    PEERS_FILE_ROWS,
    PEERS_FILES_PER_BATCH,
    drained,
    measured,
    plain_session,
    said,
)
from bench.workload import TYPES, event_frames, pattern_stream, sync_frame
from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.hosts.spark.host import FILES_PER_BATCH, run_on_spark
from slackwater.engine.log.arrival_log import LogWriter
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query

SOURCES = 20
QUERY = "EVENT SEQ(A a, !C c, B b) WHERE a.key = b.key AND c.key = a.key WITHIN 5 s"
PEERS_EVENTS = 1_000_000


def ours(folder: Path, events: int) -> dict[str, float]:
    """Steady rate of our chain."""
    out = Path(tempfile.mkdtemp(dir=folder))
    barrier = parse_barrier("bounded:1s")
    settings = ChainSettings(parse_order("none"), (query(QUERY),), barrier)
    counters = run_on_spark(folder / "log", settings, out, "local[2]")
    seconds = sum(batch["seconds"] for batch in counters["batches"][1:-1])
    return {"rate": (events - FILES_PER_BATCH * FILE_ROWS) / seconds, "events": events}


def peers(folder: Path, events: int) -> dict[str, float]:
    """Steady rate of row-wise Spark in the way of the measured peers."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    out = Path(tempfile.mkdtemp(dir=folder))
    session = plain_session(out)
    rows = (
        session.readStream.schema("ts long, type string, key long")
        .option("maxFilesPerTrigger", PEERS_FILES_PER_BATCH)
        .parquet(str(folder / "peers"))
        .withColumn("rt", F.timestamp_micros(F.expr("ts div 1000")))
    )
    a, b, c = (
        rows.where(F.col("type") == letter.upper())
        .select(*(F.col(name).alias(letter + name) for name in ("key", "ts", "rt")))
        .withWatermark(letter + "rt", "1 second")
        for letter in "abc"
    )
    pairs = a.join(
        b,
        F.expr(
            "akey = bkey AND brt >= art AND brt <= art + interval 5 seconds AND bts > ats "
            "AND bts - ats <= 5000000000"
        ),
    ).select("akey", "ats", "art", "bts")
    without = pairs.join(
        c,
        F.expr(
            "akey = ckey AND crt >= art AND crt <= art + interval 5 seconds AND cts > ats "
            "AND cts < bts"
        ),
        "left_outer",
    )
    # Each event is read three times; a file of the source once.
    rate = drained(without.where("ckey IS NULL").select("ats", "bts"), out, reads=3)
    return {"rate": rate, "events": events}


def write(folder: Path, events: int) -> None:
    """The stream as our log, and its beginning as rows."""
    (folder / "peers").mkdir()
    number = 0
    with LogWriter(folder / "log") as writer:
        for piece, made in enumerate(pattern_stream(events, SOURCES)):
            if not piece:
                begin, arrival = int(made["ts"].min()) - 1, int(made["arrival"][0])
                writer.append(sync_frame(SOURCES, begin, arrival, delay_ns=0))
            for frame in event_frames(made, SOURCES):
                writer.append(frame)
            rows = pa.table(
                {
                    "ts": made["ts"],
                    "type": pa.array(np.array(TYPES)[made["type"]]),
                    "key": made["key"],
                }
            )
            for start in range(0, rows.num_rows, PEERS_FILE_ROWS):
                if number * PEERS_FILE_ROWS < PEERS_EVENTS:
                    path = folder / "peers" / f"part-{number:05d}.parquet"
                    pq.write_table(rows.slice(start, PEERS_FILE_ROWS), path)
                    number += 1


def main() -> None:
    if len(sys.argv) > 2:
        side = {"ours": ours, "peers": peers}[sys.argv[1]]
        print(json.dumps(side(Path(sys.argv[2]), int(sys.argv[3]))))
        return
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    with tempfile.TemporaryDirectory(prefix="slackwater-bench-") as name:
        folder = Path(name)
        write(folder, events)
        for _ in range(3):
            mine = measured("spark_w2", "ours", folder, events)
            theirs = measured("spark_w2", "peers", folder, PEERS_EVENTS)
            ratio = mine["rate"] / theirs["rate"]
            print(f"spark local[2], {events:,} events: ours {said(mine)}")
            print(f"  plain Spark, 200 k rows a batch: {said(theirs)}; ours is {ratio:.2f} x")


if __name__ == "__main__":
    main()
