"""The truth that no device and no engine knows: true event times, and the error of every clock.

Two Parquet tables beside the arrival log:

``events.parquet``: one row per generated event: ``site source stream seq incarnation true_ts ts``
(``seq`` null: the agent never numbered it; ``ts`` at the source's clock; ``true_te te`` for
intervals), ``type``, and the workload's own truth columns as ``truth.NAME``.

``clocks.parquet``: per source and sample ``site source true_ns engine_ns source_ns offset_ns``;
offset = engine - source, the sign of NTP: what a perfect time sync would report.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.edge_agent.packing import Codes
from slackwater.simulator.clocks import Clock
from slackwater.simulator.workload import Batch, Span

TRUTH_PREFIX: Final = "truth."
NO_SEQ: Final = -1
_TEXTS: Final = 256
"""So many columns of one text are kept: batches of a source have few lengths."""
_NAME: Final = pa.dictionary(pa.int32(), pa.string())
_EMPTY: Final = pa.schema(
    [
        ("site", _NAME),
        ("source", _NAME),
        ("stream", _NAME),
        ("seq", pa.int64()),
        ("incarnation", pa.int64()),
        ("true_ts", pa.int64()),
        ("ts", pa.int64()),
    ]
)


class AgentStart(Protocol):
    """One start of an agent."""

    @property
    def incarnation(self) -> int: ...


@dataclass(slots=True)
class NumberedRows:
    """Rows [low, high) got the numbers from ``first_seq`` on.

    ``start``: of the agent; it says its incarnation when the run is over, as the gateway may make
    it take a larger one before its first event is sent.
    """

    low: int
    high: int
    first_seq: int
    start: AgentStart


@dataclass(slots=True)
class StampedBatch:
    """A batch of one source, stamped by its clock; ``seq`` is filled in as the agent numbers it.

    Attributes:
        batch: what happened.
        ts: starts at the source's clock, int64.
        te: ends at the source's clock, int64, or None for point events.
        numbered: runs that the agent numbered.
    """

    batch: Batch
    ts: np.ndarray
    te: np.ndarray | None
    numbered: list[NumberedRows]

    def numbered_as(self, low: int, high: int, first_seq: int, start: AgentStart) -> None:
        """Rows [low, high) got the numbers from ``first_seq`` on."""
        if self.numbered:
            run = self.numbered[-1]
            goes_on = run.high == low and run.first_seq + low - run.low == first_seq
            if goes_on and run.start is start:
                run.high = high
                return
        self.numbered.append(NumberedRows(low, high, first_seq, start))

    @classmethod
    def stamp(cls, batch: Batch, clock: Clock) -> StampedBatch:
        """The batch as the device with this clock sees it."""
        te = None if batch.end_ns is None else clock.read_many(batch.end_ns)
        return cls(batch, clock.read_many(batch.true_ns), te, [])

    def numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """Number and incarnation of each event, int64; ``NO_SEQ`` where it has none."""
        seq = np.full(self.ts.size, NO_SEQ, np.int64)
        incarnations = seq.copy()
        for run in self.numbered:
            end_seq = run.first_seq + run.high - run.low
            seq[run.low : run.high] = np.arange(run.first_seq, end_seq)
            incarnations[run.low : run.high] = run.start.incarnation
        return seq, incarnations


def event_table(made: Iterable[tuple[str, str, Iterable[StampedBatch]]]) -> pa.Table:
    """The events table from (site, source, batches), in this order."""
    parts = [
        _event_part(site, source, stamped) for site, source, batches in made for stamped in batches
    ]
    if not parts:
        return _EMPTY.empty_table()
    return pa.concat_tables(parts, promote_options="permissive").unify_dictionaries()


def _event_part(site: str, source: str, stamped: StampedBatch) -> pa.Table:
    batch = stamped.batch
    rows = batch.true_ns.size
    seq, incarnations = stamped.numbers()
    nowhere = seq == NO_SEQ
    columns: dict[str, pa.Array] = {
        "site": _same(site, rows),
        "source": _same(source, rows),
        "stream": _same(batch.stream, rows),
        "seq": pa.array(seq, mask=nowhere),
        "incarnation": pa.array(incarnations, mask=nowhere),
        "true_ts": pa.array(batch.true_ns),
        "ts": pa.array(stamped.ts),
    }
    if stamped.te is not None:
        columns |= {"true_te": pa.array(batch.end_ns), "te": pa.array(stamped.te)}
    if isinstance(batch.types, Codes):
        codes = np.asarray(batch.types.codes, np.int32)
        values = pa.array(codes, mask=codes < 0)
        names = pa.array(list(batch.types.names), pa.string())
        columns["type"] = pa.DictionaryArray.from_arrays(values, names)
    elif batch.types is not None:
        columns["type"] = _same(batch.types, rows)
    columns |= {TRUTH_PREFIX + name: pa.array(each) for name, each in batch.truth.items()}
    return pa.table(columns)


@lru_cache(maxsize=_TEXTS)
def _same(text: str, rows: int) -> pa.Array:
    codes = pa.array(np.zeros(rows, np.int32))
    return pa.DictionaryArray.from_arrays(codes, pa.array([text], pa.string()))


def clock_table(
    clocks: Iterable[tuple[str, str, Clock, Span]], engine: Clock, every_ns: int
) -> pa.Table:
    """The clocks table: every clock read each ``every_ns`` of true time within its span.

    And just before and at each step of the engine's clock: between two rows it goes straight on.
    """
    steps = [engine.origin_ns + step.at_ns for step in engine.settings.steps]
    around = np.array([at - before for at in steps for before in (1, 0)], np.int64)
    parts = []
    for site, source, clock, (start_ns, length_ns) in clocks:
        times = np.arange(start_ns, start_ns + length_ns + 1, every_ns, dtype=np.int64)
        within = (around >= start_ns) & (around <= start_ns + length_ns)
        times = np.union1d(times, around[within])
        engine_ns = engine.read_many(times)
        source_ns = clock.read_many(times)
        parts.append(
            pa.table(
                {
                    "site": _same(site, times.size),
                    "source": _same(source, times.size),
                    "true_ns": pa.array(times),
                    "engine_ns": pa.array(engine_ns),
                    "source_ns": pa.array(source_ns),
                    "offset_ns": pa.array(engine_ns - source_ns),
                }
            )
        )
    return pa.concat_tables(parts).unify_dictionaries()


def write_truth(directory: Path, events: pa.Table, clocks: pa.Table) -> None:
    """Both tables into ``directory``, which is made if need be."""
    directory.mkdir(parents=True, exist_ok=True)
    pq.write_table(events, directory / "events.parquet")
    pq.write_table(clocks, directory / "clocks.parquet")
