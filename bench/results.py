"""The paths of results alone, from an operator's columns to a file: results per second of CPU.

Goals (issue 11): of windows and of matches, 1 M/s to Parquet and 300,000/s to JSON lines. The
baseline is what the file takes at the least: its rows, read back as one table, by pyarrow's own
writers (for lines, its CSV writer, as it has none for JSON).

``python -m bench.results [EVENTS]``
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from bench.workload import event_frames, pattern_stream
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.hosts.chain.site_chain import parts_of
from slackwater.engine.order.registry import parse_order
from slackwater.engine.output.export import export_jsonl, export_table
from slackwater.engine.output.part_store import HELD_BYTES, PartStore
from slackwater.engine.output.run_writer import COUNTERS, OutputPart, RunWriter
from slackwater.engine.query import query

SOURCES = 20
ROUNDS = 3
RUNS = (
    ("windows", "SELECT avg(v), count(*) GROUP BY key WINDOW TUMBLING 6 ms"),
    ("matches", "EVENT SEQ(A a, B b) WHERE a.key = b.key WITHIN 6 s"),
)


def made(events: int, text: str) -> list[list[OutputPart]]:
    """What a chain gives over events of ten types and 1,000 keys, batch by batch."""
    chain = Chain(ChainSettings(parse_order("none"), (query(text),)), "main")
    parts = []
    for piece in pattern_stream(events, SOURCES):
        frames = event_frames(piece, SOURCES)
        parts += [parts_of("main", chain.process([frame])) for frame in frames]
    return [*parts, chain.last_parts()]


def spent(job: Callable[[], object]) -> float:
    """The least CPU of some rounds [s]."""
    seconds = []
    for _ in range(ROUNDS):
        started = time.process_time()
        job()
        seconds.append(time.process_time() - started)
    return min(seconds)


def stored(parts: list[list[OutputPart]], folder: Path) -> PartStore:
    """The parts as a pass leaves them."""
    store = PartStore(folder, HELD_BYTES)
    writer = RunWriter(store)
    writer.clear()
    for number, each in enumerate(parts):
        writer.write(number, each)
    return store


def plain(table: pa.Table) -> pa.Table:
    """Its columns that a CSV writer takes: numbers and texts, also those in objects."""
    flat = table.flatten().flatten()
    return flat.select([n for n in flat.column_names if not pa.types.is_nested(flat[n].type)])


def measured(kind: str, parts: list[list[OutputPart]], folder: Path) -> str:
    """One line of the table."""
    tables = [part.payload for each in parts for part in each if part.kind != COUNTERS]
    n = sum(len(table) for table in tables if isinstance(table, pa.Table))
    work, out, lines = folder / kind, folder / f"{kind}.parquet", folder / f"{kind}.jsonl"
    to_table = spent(lambda: export_table(stored(parts, work), out, kind))
    to_lines = spent(lambda: export_jsonl(stored(parts, work), lines))
    table = pq.read_table(out)
    least_table = spent(lambda: pq.write_table(table, folder / "least.parquet"))
    least_lines = spent(lambda: pa_csv.write_csv(plain(table), folder / "least.csv"))
    return (
        f"{n:,} {kind}: Parquet {n / to_table / 1e6:.2f} M/s ({to_table / least_table:.1f} x "
        f"pyarrow's writer), JSON lines {n / to_lines / 1e6:.2f} M/s ({to_lines / least_lines:.1f} "
        "x its CSV writer)"
    )


def main() -> None:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as name:
        for kind, text in RUNS:
            print(measured(kind, made(events, text), Path(name)))


if __name__ == "__main__":
    main()
