"""The logs of several gateways as one: in order of arrival, each numbered event once.

An agent sends to one gateway at a time, and to the next one after a failure, so each log has a part
of a site, and some events are in two. Each gateway stamps arrivals by its own clock; two clocks
differ by at most ``apart``. The first log's clock is the reference:

* the error of a sync that another gateway measured grows by ``apart``;
* no event happened after it arrived, so arrivals at another gateway count ``apart`` later: its
  clock may be behind by as much;
* a promise or an end says that all events before it have arrived. Events that arrived before it at
  another gateway may get later stamps, by at most twice ``apart``, and so it counts that much
later; * if several gateways report the first number of a start, the smallest one holds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from statistics import median_high, median_low
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.edge_agent import records as r
from slackwater.edge_agent.records import DELAY_MAX_NS, Kind
from slackwater.engine.core.clocks.prediction import SyncPoint, limit_ppb
from slackwater.engine.core.columns import sync_records
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import Frame
from slackwater.engine.gateway.recall import ReceivedSet
from slackwater.engine.log.arrival_log import LogReader
from slackwater.engine.log.describe import group_rows, ints, string_codes
from slackwater.engine.log.log_files import LOCK, log_files

Start = tuple[str, str, str, int]
"""Site, source, stream, incarnation."""
_KEY: Final = (r.SOURCE, r.STREAM, r.INCARNATION)
_LATER_KINDS: Final = (int(Kind.POG), int(Kind.EOS))


@dataclass(frozen=True, slots=True)
class ClockComparison:
    """Comparison of two gateways' clocks, from ``changes`` moves of agents between them.

    ``log``'s clock was ahead of that of ``other`` by ``low_ns`` to ``high_ns``. These are medians,
    because a move during which an agent's clock was set has wrong bounds.
    """

    log: Path
    other: Path
    changes: int
    low_ns: int
    high_ns: int


class MergedLogs:
    """The frames of the logs ``folders``. After one iteration, ``copies`` is the number of dropped
    duplicates, and ``comparisons`` gives the differences of the clocks.

    Memory: the first arrival of each frame, rows of one log that are ahead of the others, and the
    gaps in the numbers.

    Raises:
        UserError: a folder is no log, or has no arrivals; or all logs are empty.
    """

    kind: Final = "log"
    arrival_given: Final = True

    def __init__(self, folders: Sequence[Path], apart_ns: int) -> None:
        self.copies = 0
        """Events dropped because a log, the same or another, had them before."""
        self._apart = apart_ns
        self._logs = [LogReader(folder) for folder in folders if not _is_unused(folder)]
        if not self._logs:
            raise UserError(f"{', '.join(map(str, folders))}: nothing came to these gateways")
        for log in self._logs:
            if not log.arrival_given:
                raise UserError(
                    f"{log.directory}: was imported from a file without arrivals, so nothing says "
                    "where its records belong among those of a gateway"
                )
        self._received: dict[Start, ReceivedSet] = {}
        self._syncs: dict[tuple[str, str, int], tuple[int, SyncPoint]] = {}
        """The newest sync of each start of an agent, and the number of its log."""
        self._ahead: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        """By two logs, bounds of how far the clock of the first was ahead, one per move."""

    def comparisons(self) -> list[ClockComparison]:
        """Comparisons of all pairs of gateways that an agent has used in succession."""
        found = []
        for (log, other), bounds in sorted(self._ahead.items()):
            low = median_low(low for low, _ in bounds)
            high = median_high(high for _, high in bounds)
            folders = self._logs[log].directory, self._logs[other].directory
            found.append(ClockComparison(*folders, len(bounds), low, high))
        return found

    def __iter__(self) -> Iterator[Frame]:
        first_seqs = self._first_seqs()
        waiting: dict[str, list[pa.Table]] = defaultdict(list)
        for site, log, frame, until in self._by_arrival():
            self._compare(log, frame)
            waiting[site].append(self._on_one_clock(site, log, frame, first_seqs))
            table = _in_order(site, waiting[site])
            ready = int(np.searchsorted(table[r.ARRIVAL].to_numpy(), until))
            waiting[site] = [table.slice(ready)] if ready < table.num_rows else []
            yield from self._frames(site, table.slice(0, ready))

    def _by_arrival(self) -> Iterator[tuple[str, int, Frame, float]]:
        """(site, number of the log, frame, arrival before which all of the site was yielded)."""
        spans = [list(log.spans()) for log in self._logs]
        firsts: list[dict[str, list[int]]] = []  # of each log by site, the next one last
        for of_log in spans:
            by_site: dict[str, list[int]] = defaultdict(list)
            for site, first, _ in reversed(of_log):
                by_site[site].append(first)
            firsts.append(by_site)
        frames = [iter(log) for log in self._logs]
        places = [0] * len(spans)
        while left := [n for n, of_log in enumerate(spans) if places[n] < len(of_log)]:
            log = min(left, key=lambda n: spans[n][places[n]][1])
            site = spans[log][places[log]][0]
            places[log] += 1
            firsts[log][site].pop()
            until = min((each[site][-1] for each in firsts if each[site]), default=inf)
            yield site, log, next(frames[log]), until

    def _first_seqs(self) -> dict[Start, int]:
        """The smallest first number in the logs, per start of a source and stream."""
        found: dict[Start, int] = {}
        for log in self._logs:
            for frame in log:
                if r.FIRST_SEQ not in frame.batch.schema.names:
                    continue
                for start, first in _announced(frame.site, _whole(pa.table(frame.batch))):
                    found[start] = min(first, found.get(start, first))
        return found

    def _compare(self, log: int, frame: Frame) -> None:
        """Compare two gateways' clocks if an agent's syncs are from both."""
        for record in sync_records(frame) if r.KIND in frame.batch.schema.names else ():
            sync = SyncPoint.of(record)
            if record.get(r.OFFSET) is None or sync.ts is None or sync.clock_name != sync.source:
                continue
            key = frame.site, sync.source, sync.incarnation
            other, before = self._syncs.get(key, (log, sync))
            self._syncs[key] = log, sync
            if other == log:
                continue
            moved = abs(sync.ts - (before.ts or 0)) * limit_ppb(sync.skew_error_ppb) // 10**9 + 1
            wrong = sync.uncertainty + before.uncertainty + moved
            ahead = (sync.offset - before.offset) * (1 if log > other else -1)
            pair = max(log, other), min(log, other)
            self._ahead[pair].append((ahead - wrong, ahead + wrong))

    def _on_one_clock(
        self, site: str, log: int, frame: Frame, first_seqs: dict[Start, int]
    ) -> pa.Table:
        table = _whole(pa.table(frame.batch))
        later = pc.is_in(table[r.KIND], pa.array(_LATER_KINDS, pa.int8()))
        shift = self._apart if log else 0
        arrival = pc.add(table[r.ARRIVAL], pc.if_else(later, 2 * self._apart, shift))
        table = _with(table, r.ARRIVAL, arrival)
        if log and r.DELAY in table.column_names:
            wider = pc.min_element_wise(
                pc.add(table[r.DELAY], 2 * self._apart), pa.scalar(DELAY_MAX_NS), skip_nulls=False
            )
            table = _with(table, r.DELAY, wider)
        if r.FIRST_SEQ in table.column_names:
            firsts = table[r.FIRST_SEQ].combine_chunks()
            smallest = [first_seqs[start] for start, _ in _announced(site, table)]
            said = pc.replace_with_mask(firsts, firsts.is_valid(), pa.array(smallest, pa.int64()))
            table = _with(table, r.FIRST_SEQ, said)
        return table

    def _frames(self, site: str, table: pa.Table) -> Iterator[Frame]:
        """Yield ``table`` as frames, without events that came before."""
        new = self._new(site, table)
        self.copies += len(new) - int(new.sum())
        if not new.all():
            table = table.filter(pa.array(new))
        encoded = [
            column.dictionary_encode() if pa.types.is_string(column.type) else column
            for column in table.columns
        ]
        table = pa.table(encoded, table.column_names).combine_chunks()
        for batch in table.to_batches():
            yield Frame(site, batch)

    def _new(self, site: str, table: pa.Table) -> np.ndarray:
        """Mask of rows that are not events with a number that came before."""
        new = np.ones(table.num_rows, np.bool_)
        seq = pc.fill_null(table[r.SEQ], -1).to_numpy()
        numbered = np.flatnonzero((seq >= 0) & (table[r.KIND].to_numpy() == Kind.EVENT))
        if not len(numbered):
            return new
        keys = table.select(_KEY).take(pa.array(numbered))
        source, stream, incarnation = (keys[name].combine_chunks() for name in _KEY)
        codes = [string_codes(source)[0], string_codes(stream)[0], ints(incarnation)[0]]
        groups = group_rows(codes)
        for group in np.split(groups.order, groups.starts[1:]):
            rows = group[np.argsort(seq[numbered[group]], kind="stable")]
            start: Start = (site, *(keys[name][int(rows[0])].as_py() for name in _KEY))
            received = self._received.setdefault(start, ReceivedSet())
            numbers = seq[numbered[rows]]
            is_first = np.append(True, np.diff(numbers) > 0)
            came = np.zeros(len(rows), np.bool_)
            runs = np.flatnonzero(np.append(True, np.diff(numbers) > 1))
            for low, high in zip(runs, [*runs[1:], len(rows)], strict=True):
                first, end = int(numbers[low]), int(numbers[high - 1]) + 1
                for a, b in received.new_parts(first, end):
                    came |= (numbers >= a) & (numbers < b)
                received.add(first, end)
            new[numbered[rows]] = is_first & came
        return new


def _is_unused(folder: Path) -> bool:
    """Whether it is the log of a gateway that received nothing, such as a standby."""
    return (folder / LOCK).exists() and not log_files(folder)


def _announced(site: str, table: pa.Table) -> Iterator[tuple[Start, int]]:
    """Start and first number of each record that announces one."""
    table = table.filter(pc.is_valid(table[r.FIRST_SEQ]))
    columns = (table[name].to_pylist() for name in (*_KEY, r.FIRST_SEQ))
    for source, stream, incarnation, first in zip(*columns, strict=True):
        yield (site, source, stream, incarnation), first


def _whole(table: pa.Table) -> pa.Table:
    """Add columns that a frame omits if all its rows have the default."""
    rows = table.num_rows
    absent = {
        r.KIND: (int(Kind.EVENT), pa.int8()),
        r.STREAM: (r.DEFAULT_STREAM, pa.string()),
        r.INCARNATION: (0, pa.int64()),
    }
    for name, (value, type_) in absent.items():
        if name not in table.column_names:
            table = table.append_column(name, pa.array([value] * rows, type_))
    return table


def _with(table: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    field = table.schema.field(name)
    return table.set_column(table.column_names.index(name), field, column.cast(field.type))


def _in_order(site: str, tables: list[pa.Table]) -> pa.Table:
    """Sort by arrival; rows with one arrival keep their order."""
    plain = []
    for table in tables:
        types = [
            pa.field(field.name, pa.string()) if pa.types.is_dictionary(field.type) else field
            for field in table.schema
        ]
        plain.append(table.cast(pa.schema(types)))
    try:
        table = pa.concat_tables(plain, promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        raise UserError(
            f"site {site!r}: an attribute has another type in one log than in another: {error}"
        ) from error
    return table.take(pc.array_sort_indices(table[r.ARRIVAL].combine_chunks()))
