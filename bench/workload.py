"""The streams that the benchmarks share: many sources, 12.5 % of the events up to 1 s late.

``columns`` and ``frames`` make a finite stream in memory; typed events with keys, piece by piece,
are those of ``slackwater bench`` (``engine/speed/stream.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from engine.log.arrival_log import LogWriter
from engine.speed.stream import RATE, START_NS, event_frames, sync_frame
from engine.stream.frame import Frame

SIDS = 100


def columns(events: int, sources: int, late: float = 0.125, seed: int = 1) -> dict[str, np.ndarray]:
    """Event columns in arrival order: source, seq, ts, arrival [ns], sid, v."""
    rng = np.random.default_rng(seed)
    gap = np.maximum(1, rng.exponential(1e9 / RATE, events)).astype(np.int64)
    ts = START_NS + np.cumsum(gap)
    source = rng.integers(0, sources, events).astype(np.int32)
    seq = np.empty(events, np.int64)
    for number in range(sources):
        mine = source == number
        seq[mine] = np.arange(mine.sum())
    delayed = rng.random(events) < late
    arrival = ts + 5_000_000 + np.where(delayed, rng.uniform(0, 1e9, events), 0).astype(np.int64)
    order = np.argsort(arrival, kind="stable")
    made = {
        "source": source, "seq": seq, "ts": ts, "arrival": arrival,
        "sid": rng.integers(0, SIDS, events), "v": np.round(rng.normal(100, 15, events), 4),
    }  # fmt: skip
    return {name: column[order] for name, column in made.items()}


def frames(made: dict[str, np.ndarray], sources: int) -> Iterator[Frame]:
    """The columns as frames of site ``main``, after one sync record per source."""
    yield sync_frame(sources, int(made["ts"].min()) - 1, int(made["arrival"][0]))
    yield from event_frames(made, sources)


def write_log(made: dict[str, np.ndarray], sources: int, folder: Path) -> None:
    """The columns as an arrival log."""
    with LogWriter(folder) as writer:
        for frame in frames(made, sources):
            writer.append(frame)


def write_rows(made: dict[str, np.ndarray], folder: Path, rows_per_file: int) -> None:
    """The columns as row-wise Parquet files, for engines that read rows."""
    folder.mkdir(parents=True)
    table = pa.table(made)
    for number, start in enumerate(range(0, table.num_rows, rows_per_file)):
        pq.write_table(table.slice(start, rows_per_file), folder / f"part-{number:05d}.parquet")
