"""Writes data sets as arrival logs: one or more sources, their clocks, their sync records.

Streams through time: only a slice of every source is in memory besides the data set itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from slackwater.log import ATTR_PREFIX, FIXED_TYPES, STRING, Frame, LogWriter
from slackwater.log import records as r
from slackwater.scenarios.papers.r19.clock_sync import SyncResult
from slackwater.scenarios.papers.r19.data_sets import DataSet
from slackwater.scenarios.papers.r19.football import START_NS

DEPARTED: Final = "departed"
"""Attribute: the instant at which an event left its source [ns, engine's clock]."""
TRUE_TS: Final = "true_ts"
"""Attribute: true event time [ns, engine's clock]; written where some clock is off."""
SHIFT_NS: Final = 3_000_000
"""R19 5.1.2: each source's events happen so much later than those of the one before it."""
SITE: Final = "main"
_ROWS_PER_FRAME: Final = 100_000
_SYNC_BEFORE_NS: Final = 1_000_000_000

Advanced = Callable[[int], None]
_Columns = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class PublishedSource:
    """One source that publishes a whole data set, ``shift_ns`` later than the first one does.

    ``ahead_ns``: how far its clock is ahead of the engine's. ``sync``: what a time sync before the
    first event measured; None: there was none.
    """

    name: str
    shift_ns: int = 0
    ahead_ns: int = 0
    sync: SyncResult | None = None


def sources(count: int) -> tuple[PublishedSource, ...]:
    """``count`` sources with right clocks, 3 ms apart."""
    return tuple(PublishedSource(str(number), number * SHIFT_NS) for number in range(count))


def write_log(
    directory: Path,
    data: DataSet,
    publishers: Sequence[PublishedSource],
    attributes: Sequence[str],
    advanced: Advanced = lambda _rows: None,
) -> Path:
    """An arrival log in which every source publishes ``data``; gives ``directory``.

    Args:
        directory: of the new log.
        data: the events.
        publishers: one or more sources of one site.
        attributes: which of the events' own to write; ``departed`` always is, and ``true_ts``
            where some source's clock is off.
        advanced: called with the number of records after each frame.
    """
    with LogWriter(directory) as writer:
        for frame in frames(data, publishers, attributes):
            writer.append(frame)
            advanced(frame.rows)
    return directory


def frames(
    data: DataSet, publishers: Sequence[PublishedSource], attributes: Sequence[str]
) -> Iterator[Frame]:
    """The frames of ``write_log``, in order of arrival."""
    feed = _PublishedFeed(data, attributes)
    return _frames([feed] * len(publishers), publishers)


def merged_frames(
    data: Sequence[DataSet], publishers: Sequence[PublishedSource], attributes: Sequence[str]
) -> Iterator[Frame]:
    """The frames of a log in which every source publishes a data set of its own."""
    return _frames([_PublishedFeed(each, attributes) for each in data], publishers)


class _PublishedFeed:
    """A data set in order of arrival."""

    def __init__(self, data: DataSet, attributes: Sequence[str]) -> None:
        order = np.argsort(data.arrival, kind="stable")
        self.arrival = data.arrival[order]
        self._columns: _Columns = {
            r.SEQ: order,
            r.TS: data.events.ts[order],
            **{ATTR_PREFIX + name: data.events.attributes[name][order] for name in attributes},
        }

    def published(self, rows: slice, source: PublishedSource, *, is_off: bool) -> _Columns:
        """These rows as ``source`` sends them."""
        part = {name: column[rows] for name, column in self._columns.items()}
        true_ns = part[r.TS] + source.shift_ns
        part[r.TS] = true_ns + source.ahead_ns
        part[r.ARRIVAL] = self.arrival[rows] + source.shift_ns
        part[ATTR_PREFIX + DEPARTED] = true_ns
        if is_off:
            part[ATTR_PREFIX + TRUE_TS] = true_ns
        return part


def _frames(
    feeds: Sequence[_PublishedFeed], publishers: Sequence[PublishedSource]
) -> Iterator[Frame]:
    synced = [(source, source.sync) for source in publishers if source.sync is not None]
    if synced:
        yield _sync_frame(synced)
    is_off = any(source.ahead_ns for source in publishers)
    names = pa.array([source.name for source in publishers])
    starts = [0] * len(publishers)
    for until in _cuts(feeds, publishers):
        parts = []
        for number, (feed, source) in enumerate(zip(feeds, publishers, strict=True)):
            end = int(np.searchsorted(feed.arrival, until - source.shift_ns))
            parts.append(feed.published(slice(starts[number], end), source, is_off=is_off))
            starts[number] = end
        batch = _merged(parts, names)
        if batch.num_rows:
            yield Frame(SITE, batch)


def _cuts(feeds: Sequence[_PublishedFeed], publishers: Sequence[PublishedSource]) -> Iterator[int]:
    """Ends of the slices of time, such that each holds about ``_ROWS_PER_FRAME`` records."""
    per_source = max(_ROWS_PER_FRAME // len(publishers), 1)
    last = max(int(feed.arrival[-1]) for feed in feeds)
    yield from feeds[0].arrival[per_source::per_source].tolist()
    yield last + max(source.shift_ns for source in publishers) + 1


def _merged(parts: list[_Columns], names: pa.Array) -> pa.RecordBatch:
    """Parts of all sources as one batch in order of arrival."""
    source = np.repeat(np.arange(len(parts), dtype=np.int32), [len(p[r.SEQ]) for p in parts])
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if len(parts) > 1:
        order = np.argsort(columns[r.ARRIVAL], kind="stable")
        source = source[order]
        columns = {name: column[order] for name, column in columns.items()}
    coded = pa.DictionaryArray.from_arrays(pa.array(source), names)
    arrays = {name: pa.array(column) for name, column in columns.items()}
    return pa.RecordBatch.from_pydict({r.SOURCE: coded, **arrays})


def _sync_frame(synced: Sequence[tuple[PublishedSource, SyncResult]]) -> Frame:
    """The sources' sync records; they arrive one after another, before any event."""
    first = START_NS - _SYNC_BEFORE_NS
    rows = [
        {
            r.KIND: int(r.Kind.SYNC),
            r.SOURCE: source.name,
            r.SEQ: None,
            r.TS: first + number + source.ahead_ns,
            r.ARRIVAL: first + number,
            r.OFFSET: measured.offset_ns,
            r.DELAY: measured.delay_ns,
            r.SKEW_ERROR_PPB: 0,  # R19's uncertainty does not grow
        }
        for number, (source, measured) in enumerate(synced)
    ]
    schema = pa.schema({n: STRING if n == r.SOURCE else FIXED_TYPES[n] for n in rows[0]})
    return Frame(SITE, pa.RecordBatch.from_pylist(rows, schema=schema))
