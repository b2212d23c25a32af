"""The streams that the benchmarks share: many sources, 12.5 % of the events up to 1 s late."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from engine.frame import STRING, Frame
from engine.log.arrival_log import LogWriter

RATE = 15_000
START_NS = 1_700_000_000 * 10**9
SIDS = 100
FRAME_ROWS = 65_536


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
    names = pa.array([f"s{number:04d}" for number in range(sources)])
    first = int(made["arrival"][0])
    everyone = np.arange(sources, dtype=np.int32)
    zeros = np.zeros(sources, np.int64)
    yield Frame(
        "main",
        pa.RecordBatch.from_pydict(
            {
                "kind": pa.array(np.full(sources, 3, np.int8)),
                "source": pa.DictionaryArray.from_arrays(pa.array(everyone), names),
                "seq": pa.nulls(sources, pa.int64()),
                "type": pa.nulls(sources, pa.string()).cast(STRING),
                "ts": pa.array(zeros + made["ts"].min() - 1),
                "arrival": pa.array(zeros + first),
                "offset": pa.array(zeros),
                "delay": pa.array(zeros + 2_000_000),
                "first_seq": pa.array(zeros),
            }
        ),
    )
    for start in range(0, len(made["ts"]), FRAME_ROWS):
        part = {name: column[start : start + FRAME_ROWS] for name, column in made.items()}
        rows = len(part["ts"])
        yield Frame(
            "main",
            pa.RecordBatch.from_pydict(
                {
                    "source": pa.DictionaryArray.from_arrays(pa.array(part["source"]), names),
                    "seq": pa.array(part["seq"]),
                    "type": pa.nulls(rows, pa.string()).cast(STRING),
                    "ts": pa.array(part["ts"]),
                    "arrival": pa.array(part["arrival"]),
                    "attrs.sid": pa.array(part["sid"]),
                    "attrs.v": pa.array(part["v"]),
                }
            ),
        )


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
