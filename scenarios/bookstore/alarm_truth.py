"""Which books the query should report, by brute force over the reads and their true times.

There are three truths, each by tag: the stolen books (the world), every read of the readers, and
the reads that arrived in the log. No engine can do better than the third.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.log import Kind, LogReader
from slackwater.scenarios.bookstore.readers import Zone
from slackwater.scenarios.bookstore.shop import Fate
from slackwater.simulation import LOG, TRUTH

QUERY: Final = "thefts"
BOOKS: Final = "books.parquet"
ReadKey = tuple[str, int]
"""Source and number of a read; no agent restarts in this scenario."""


@dataclass(frozen=True, slots=True)
class ShopRead:
    """One event of a reader, at its true time."""

    zone: str
    tag: int
    true_ns: int


@dataclass(frozen=True, slots=True)
class ShopTruth:
    """What happened, what was seen and what arrived.

    Attributes:
        fates: fate of every book that was taken, by tag.
        exit_ns: true instant of each tag's arrival at the exit.
        reads: every read that an agent numbered.
        arrived: those in the log.
        unnumbered: number of reads that no agent took.
    """

    fates: dict[int, Fate]
    exit_ns: dict[int, int]
    reads: dict[ReadKey, ShopRead]
    arrived: frozenset[ReadKey]
    unnumbered: int

    @classmethod
    def read(cls, directory: Path) -> ShopTruth:
        """The truth of the run in ``directory``."""
        books = pq.read_table(directory / TRUTH / BOOKS).to_pylist()
        rows = pq.read_table(directory / TRUTH / "events.parquet").to_pylist()
        reads = {
            (row["source"], row["seq"]): ShopRead(row["type"], row["truth.tag"], row["true_ts"])
            for row in rows
            if row["seq"] is not None
        }
        return cls(
            fates={book["tag"]: Fate(book["fate"]) for book in books},
            exit_ns={b["tag"]: b["exit_ns"] for b in books if b["exit_ns"] is not None},
            reads=reads,
            arrived=_logged(directory),
            unnumbered=len(rows) - len(reads),
        )

    @property
    def stolen(self) -> frozenset[int]:
        """Tags of the stolen books."""
        return frozenset(tag for tag, fate in self.fates.items() if fate is Fate.STOLEN)

    def answers(self, within_ns: int, *, arrived: bool) -> frozenset[int]:
        """Tags for which the query has a match by true time, over all reads or those in the log."""
        keys = self.arrived if arrived else self.reads.keys()
        return tags_of_matches([self.reads[key] for key in keys], within_ns)


def tags_of_matches(reads: list[ShopRead], within_ns: int) -> frozenset[int]:
    """Tags with ``SEQ(SHELF s, !COUNTER c, EXIT e)`` by true time: every pair is tried."""
    times: dict[tuple[str, int], list[int]] = defaultdict(list)
    for each in reads:
        times[each.zone, each.tag].append(each.true_ns)
    return frozenset(
        tag
        for zone, tag in times
        if zone == Zone.EXIT.value
        and any(
            0 < left - taken <= within_ns
            and not any(taken < paid < left for paid in times.get((Zone.COUNTER.value, tag), ()))
            for left in times[zone, tag]
            for taken in times.get((Zone.SHELF.value, tag), ())
        )
    )


def _logged(directory: Path) -> frozenset[ReadKey]:
    found: set[ReadKey] = set()
    for frame in LogReader(directory / LOG):
        columns = {name: frame.batch.column(name) for name in ("source", "seq")}
        kinds: Any = None
        if "kind" in frame.batch.schema.names:
            kinds = frame.batch.column("kind").to_pylist()
        sources = columns["source"].cast(pa.string()).to_pylist()
        for at, (source, seq) in enumerate(zip(sources, columns["seq"].to_pylist(), strict=True)):
            if kinds is None or kinds[at] == Kind.EVENT:
                found.add((source, seq))
    return frozenset(found)
