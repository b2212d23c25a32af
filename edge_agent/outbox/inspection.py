"""Read-only inspection of an outbox, and the search for intervals that the gateway requests."""

from __future__ import annotations

import json
import sys
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import records as r
from slackwater.edge_agent import wire
from slackwater.edge_agent.errors import AgentError
from slackwater.edge_agent.messages import Data
from slackwater.edge_agent.outbox.disk import DiskFiles, load
from slackwater.edge_agent.outbox.outbox import POSITION, START, Outbox, OutboxStart, starts
from slackwater.edge_agent.outbox.spool import (
    DAMAGED,
    HEADER,
    SEGMENT_NAME,
    UNREADABLE,
    Record,
    Spool,
    missing_newest,
    records,
)
from slackwater.edge_agent.pull_back import Interval, ids_of
from slackwater.edge_agent.wire import PREFIX_BYTES

# Search for requested intervals among the events on the disk, by stream and id.


LOOK_BYTES: Final = 8 << 20
"""Bytes of the newest segments of a stream that one search reads; older events are sent soon."""


class IntervalSearch(NamedTuple):
    """Result of a search: records with requested intervals, and intervals that no record has."""

    records: list[tuple[int, Record]]
    unknown: list[Interval]


def look_for(outbox: Outbox, intervals: Sequence[Interval]) -> IntervalSearch:
    """*Disk.* Search for ``intervals``; those in unread or unwritten events are in neither list.

    Raises:
        OSError: a segment cannot be read.
    """
    ids: dict[int, set[int]] = defaultdict(set)
    for stream, id_ in intervals:
        ids[stream].add(id_)
    found = IntervalSearch([], [])
    for stream, stream_ids in ids.items():
        if stream >= len(outbox.spools):
            found.unknown.extend((stream, id_) for id_ in stream_ids)
            continue
        spool = outbox.spools[stream]
        whole = not spool.unwritten and spool.bytes <= LOOK_BYTES
        found.records.extend((stream, record) for record in _having(spool, stream_ids))
        if whole:
            found.unknown.extend((stream, id_) for id_ in sorted(stream_ids))
    return found


def _having(spool: Spool, stream_ids: set[int]) -> list[Record]:
    """Find records with these ids; removes the ids that it finds from ``stream_ids``."""
    found = []
    for record in spool.newest(LOOK_BYTES):
        if not stream_ids:
            break
        message = wire.decode(record.data[PREFIX_BYTES:])
        assert isinstance(message, Data)
        mine = stream_ids.intersection(ids_of(message))
        if mine:
            stream_ids -= mine
            found.append(record)
    return found


# Read-only inspection of an outbox, also while an agent is running on it.


_FORMATS: Final = {"int": "q", "float": "d"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentReport:
    """One segment: its valid records and the number of bytes that belong to none."""

    path: Path
    stream: int
    found: tuple[Record, ...]
    bad_bytes: int
    """Invalid bytes before or between records."""
    torn_bytes: int
    """Invalid bytes after the last record: cut at the next start if this segment is the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartReport:
    """One start of the agent. ``start`` None: the file with its identity is lost."""

    path: Path
    start: OutboxStart | None
    acked: dict[str, int]
    segments: tuple[SegmentReport, ...]
    damaged: int
    """Number of damaged segments that were set aside."""
    missing: tuple[str, ...]
    """Names of segments that should exist and do not."""

    def waiting(self, stream: int) -> list[Record]:
        """The records of a stream that are not fully acked, each once, in order."""
        name = "" if self.start is None else self.start.streams[stream].name
        at = self.acked.get(name, 0)
        found: list[Record] = []
        for segment in self.segments:
            if segment.stream == stream:
                for record in segment.found:
                    if record.end > at:
                        found.append(record)
                        at = record.end
        return found


def inspect_outbox(folder: Path) -> list[StartReport]:
    """The starts in an outbox, from oldest to newest.

    Raises:
        AgentError: the folder does not exist or cannot be read.
    """
    try:
        return [_start(path) for path in starts(folder)]
    except OSError as error:
        raise AgentError(f"{folder}: {error.strerror}") from error


def _start(path: Path) -> StartReport:
    files = DiskFiles(path)
    known = load(files, START)
    acked = load(files, POSITION) or {}
    names = sorted(files.names())
    return StartReport(
        path=path,
        start=None if known is None else OutboxStart.from_dict(known),
        acked={name: int(number) for name, number in acked.items()},
        segments=tuple(_segment(path / n) for n in names if SEGMENT_NAME.fullmatch(n)),
        damaged=sum(name.endswith(DAMAGED) for name in names),
        missing=tuple(
            name
            for index in range(len((known or {}).get("streams", ())))
            if (name := missing_newest(files, index)) is not None
        ),
    )


def _segment(path: Path) -> SegmentReport:
    named = SEGMENT_NAME.fullmatch(path.name)
    assert named is not None
    stream = int(named[1])
    try:
        content = path.read_bytes()
    except OSError as error:
        if error.errno not in UNREADABLE:
            raise
        size = max(path.stat().st_size, 1)
        return SegmentReport(path=path, stream=stream, found=(), bad_bytes=size, torn_bytes=0)
    end = begin = len(HEADER) if content.startswith(HEADER) else 0
    bad = 0 if begin else min(len(content), len(HEADER))
    found = []
    for each in records(content, begin):
        found.append(each.record)
        bad += each.skipped
        end = each.end
    return SegmentReport(
        path=path, stream=stream, found=tuple(found), bad_bytes=bad, torn_bytes=len(content) - end
    )


def trace_lines(report: StartReport) -> Iterator[str]:
    """The unacked events as lines of a trace (JSON)."""
    if report.start is None:
        return
    for index, schema in enumerate(report.start.streams):
        for record in report.waiting(index):
            data = wire.decode(record.data[wire.PREFIX_BYTES :])
            assert isinstance(data, m.Data)
            for row in _rows(data, schema):
                yield json.dumps(
                    {
                        r.SITE: report.start.site, r.SOURCE: report.start.source,
                        r.STREAM: schema.name, r.INCARNATION: report.start.incarnation, **row,
                    }
                )  # fmt: skip


def _rows(data: m.Data, schema: m.StreamSchema) -> Iterator[dict[str, Any]]:
    columns: dict[str, list[Any]] = {r.TS: _numbers(data.ts, "q")}
    if data.te is not None:
        columns[r.TE] = _numbers(data.te, "q")
    if data.ids is not None:
        columns[r.ID] = _numbers(data.ids, "q")
    if data.types is not None:
        columns[r.TYPE] = _values(data.types, "str", data.rows)
    attrs = {
        name: _values(column, kind, data.rows)
        for (name, kind), column in zip(schema.attrs.items(), data.attrs, strict=True)
        if column is not None
    }
    for place in range(data.rows):
        row: dict[str, Any] = {r.SEQ: data.first_seq + place}
        row |= {name: values[place] for name, values in columns.items()}
        row_attrs = {name: values[place] for name, values in attrs.items()}
        row[r.ATTRS] = {name: value for name, value in row_attrs.items() if value is not None}
        yield {name: value for name, value in row.items() if value is not None and value != {}}


def _numbers(packed: m.Packed, form: str) -> list[Any]:
    found = array(form)
    found.frombytes(packed)
    if sys.byteorder == "big":
        found.byteswap()
    return found.tolist()


def _values(column: m.Values | m.Texts, kind: str, rows: int) -> list[Any]:
    if isinstance(column, m.Texts):
        if column.codes is None:
            return [column.names[0]] * rows
        return [None if code < 0 else column.names[code] for code in _numbers(column.codes, "i")]
    values: list[Any] = (
        [byte != 0 for byte in column.values]
        if kind == "bool"
        else _numbers(column.values, _FORMATS[kind])
    )
    if column.valid is None:
        return values
    return [value if valid else None for value, valid in zip(values, column.valid, strict=True)]
