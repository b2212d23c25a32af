"""The streams that the benchmarks share: many sources, 12.5 % of the events up to 1 s late.

``columns`` and ``frames`` make a finite stream in memory; ``pattern_stream`` makes typed events
with keys piece by piece, as long as wanted, in the memory of one piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.engine.core.frame import STRING, Frame
from slackwater.engine.log.arrival_log import LogWriter

SIDS = 100
RATE = 15_000
"""Events a second of event time."""
START_NS = 1_700_000_000 * 10**9
FRAME_ROWS = 65_536
PIECE_ROWS = 1_000_000
TYPES = tuple("ABCDEFGHIJ")


def pattern_stream(
    events: int, sources: int = 20, keys: int = 1_000, late: float = 0.125,
    promise_every: int = 0, seed: int = 1,
) -> Iterator[dict[str, np.ndarray]]:  # fmt: skip
    """Columns in arrival order, piece by piece: ``kind``, ``source``, ``seq``, ``ts`` [ns],
    ``arrival`` [ns], ``type`` (place in ``TYPES``), ``key``, ``v``.

    Args:
        events: how many, of ``sources`` that number theirs from 0.
        sources: an event is of each with equal chance.
        keys: values of ``key``, 0 and up, with equal chance.
        late: share of the events that arrive up to 1 s later than the rest.
        promise_every: a source's events per punctuation of that source (``kind`` 1), which comes
            with its event; 0 = none.
        seed: of all that is random.
    """
    rng = np.random.default_rng(seed)
    clock, numbers = START_NS, np.zeros(sources, np.int64)
    waiting: dict[str, np.ndarray] | None = None
    for start in range(0, events, PIECE_ROWS):
        rows = min(PIECE_ROWS, events - start)
        gap = np.maximum(1, rng.exponential(1e9 / RATE, rows)).astype(np.int64)
        ts = clock + np.cumsum(gap)
        clock = int(ts[-1])
        source = rng.integers(0, sources, rows).astype(np.int32)
        seq = np.empty(rows, np.int64)
        for number in range(sources):
            mine = source == number
            seq[mine] = numbers[number] + np.arange(mine.sum())
            numbers[number] += mine.sum()
        delay = np.where(rng.random(rows) < late, rng.uniform(0, 1e9, rows), 0).astype(np.int64)
        piece: dict[str, np.ndarray] = {
            "kind": np.zeros(rows, np.int8), "source": source, "seq": seq, "ts": ts,
            "arrival": ts + 5_000_000 + delay, "type": rng.integers(0, len(TYPES), rows),
            "key": rng.integers(0, keys, rows), "v": np.round(rng.normal(100, 15, rows), 4),
        }  # fmt: skip
        if promise_every:
            rows_promised = np.flatnonzero(seq % promise_every == promise_every - 1)
            promise = {name: column[rows_promised] for name, column in piece.items()}
            promise["kind"] += 1
            promise["seq"] += 1
            promise["ts"] += 1
            promise["arrival"] = ts[rows_promised] + 5_000_000
            piece = _joined(piece, promise)
        if waiting is not None:
            piece = _joined(waiting, piece)
        order = np.argsort(piece["arrival"], kind="stable")
        piece = {name: column[order] for name, column in piece.items()}
        # What arrives later than the next piece may begin waits for it.
        ready = np.searchsorted(piece["arrival"], clock + 5_000_000, "right")
        if start + rows >= events:
            ready = np.int64(len(order))
        waiting = {name: column[ready:] for name, column in piece.items()}
        yield {name: column[:ready] for name, column in piece.items()}


def _joined(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.concatenate((first[name], second[name])) for name in first}


def sync_frame(sources: int, ts: int, arrival: int, delay_ns: int = 2_000_000) -> Frame:
    """A sync record of each source: no offset, a round trip of ``delay_ns``."""
    names = pa.array([f"s{number:04d}" for number in range(sources)])
    everyone = np.arange(sources, dtype=np.int32)
    zeros = np.zeros(sources, np.int64)
    return Frame(
        "main",
        pa.RecordBatch.from_pydict(
            {
                "kind": pa.array(np.full(sources, 3, np.int8)),
                "source": pa.DictionaryArray.from_arrays(pa.array(everyone), names),
                "seq": pa.nulls(sources, pa.int64()),
                "type": pa.nulls(sources, pa.string()).cast(STRING),
                "ts": pa.array(zeros + ts),
                "arrival": pa.array(zeros + arrival),
                "offset": pa.array(zeros),
                "delay": pa.array(zeros + delay_ns),
                "first_seq": pa.array(zeros),
            }
        ),
    )


def event_frames(made: dict[str, np.ndarray], sources: int) -> Iterator[Frame]:
    """The columns as frames of site ``main``; ``key``, ``sid`` and ``v`` are attributes."""
    names = pa.array([f"s{number:04d}" for number in range(sources)])
    for start in range(0, len(made["ts"]), FRAME_ROWS):
        part = {name: column[start : start + FRAME_ROWS] for name, column in made.items()}
        rows = len(part["ts"])
        fields = {
            "source": pa.DictionaryArray.from_arrays(pa.array(part["source"]), names),
            "seq": pa.array(part["seq"]),
            "type": pa.nulls(rows, pa.string()).cast(STRING),
            "ts": pa.array(part["ts"]),
            "arrival": pa.array(part["arrival"]),
        }
        if "type" in part:
            # Of a promise: all types.
            place = pa.array(part["type"].astype(np.int32), mask=part["kind"] != 0)
            fields["type"] = pa.DictionaryArray.from_arrays(place, pa.array(TYPES))
        if "kind" in part and part["kind"].any():
            fields["kind"] = pa.array(part["kind"])
        for name in ("key", "sid", "v"):
            if name in part:
                fields[f"attrs.{name}"] = pa.array(part[name])
        yield Frame("main", pa.RecordBatch.from_pydict(fields))


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
