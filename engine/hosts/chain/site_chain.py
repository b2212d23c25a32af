"""The chain of one site: order -> operators -> barrier (DESIGN, "The one picture").

All records of a site pass one chain, in arrival order. The output is a pure function of the arrival
log: it does not depend on how the log is cut into frames and batches.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter, methodcaller
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from msgspec import structs

from slackwater.edge_agent import records as r
from slackwater.engine.barrier.base import Listener
from slackwater.engine.core.clocks.epochs import ClocksSeen
from slackwater.engine.core.clocks.prediction import SyncPoint
from slackwater.engine.core.clocks.reference import SourceClocks
from slackwater.engine.core.columns import (
    DEFAULT_STREAM_CODE,
    Columns,
    at_once,
    decode,
    join,
    promote,
    records_by_kind,
    sync_records,
)
from slackwater.engine.core.errors import ContractViolation, Interrupted, UserError
from slackwater.engine.core.frame import ATTR_PREFIX, Frame
from slackwater.engine.core.operator import (
    Operator,
    Restorable,
    Result,
    ResultColumns,
    ResultPieces,
)
from slackwater.engine.core.released import Refuted, Released, Strings
from slackwater.engine.core.timeline import by_end, from_start
from slackwater.engine.hosts.chain.operators import (
    ChainOutput,
    ChainSettings,
    ChunksOf,
    build_operator,
    cascade_of,
)
from slackwater.engine.hosts.chain.state_bytes import (
    NotPlainError,
    StateDamagedError,
    from_bytes,
    to_bytes,
)
from slackwater.engine.hosts.chain.stream_readers import (
    AttributeChecks,
    PartialIntervals,
    StreamReaders,
    announced_intervals,
    insert_halves,
)
from slackwater.engine.kernels.records import INT_MIN
from slackwater.engine.order.base import Ordered, OrderSite
from slackwater.engine.output.ordered_stream import (
    LATE,
    ORDERED,
    QUARANTINED,
    SideOutput,
    quarantined_columns,
    quarantined_sample,
    released_table,
    side_output_table,
)
from slackwater.engine.output.run_writer import FAILED, RESULTS, OutputPart
from slackwater.engine.output.spark_parts import COUNTERS
from slackwater.engine.query import needed_attributes
from slackwater.engine.query.failures import QueryFailure, QueryFailures
from slackwater.engine.query.fields import attributes_of, looked_up_attributes, names
from slackwater.engine.query.reference_tables import with_lookups

if TYPE_CHECKING:
    from slackwater.engine.operators.check.rules import Judging

__all__ = ["SNAPSHOT_VERSION", "Chain", "ChainOutput", "ChainSettings", "ChunksOf"]
_BATCH_ROWS: Final = 1 << 16
_ROWS_LEAST: Final = 32
_ROWS_MOST: Final = 1 << 18
"""Records per piece of a chain with patterns: few at first, more while they find few matches."""
_MATCHES_AT_ONCE: Final = 1 << 16
_ALWAYS: Final = frozenset({r.SOURCE, r.CLOCK, r.SEQ, "ref", "release", "status", "unc", "epoch"})
_TIMED: Final = frozenset({r.TS, r.TE, "ref", "raw_ts", "raw_te"})
_ORDERED_COLUMNS: Final = frozenset({r.TS, r.STREAM, r.TYPE, r.INCARNATION, r.TE, r.ARRIVAL})
_QUARANTINE_SHOWN: Final = 100
_TEXTS: Final = 4096
"""Least number of texts for a search for unused ones."""
_GROWTH: Final = 2
SNAPSHOT_VERSION: Final = 30
"""Version of the snapshot format."""


class Chain(Restorable):
    """One site's chain: ``process`` frames in arrival order, then call ``finish`` once.

    Args:
        settings: of the order, the queries and the outputs.
        site: its name.
        chunks: the store of a query's spilled chunks; None: as in ``settings.spill``.
    """

    state_fields = (
        "strings", "_types", "clocks", "_order", "_readers", "_cascade", "_records",
        "_lookup_missed", "_last_arrival", "_rows_at_once", "_quarantined", "_side", "judging",
        "_halves",
    )  # fmt: skip
    # ``_rows_at_once`` is among them so that a repeated batch is cut into the same pieces.

    def __init__(self, settings: ChainSettings, site: str, chunks: ChunksOf | None = None) -> None:
        self.settings = settings
        self.site = site
        self.strings = Strings([r.DEFAULT_STREAM])
        time = settings.order.time
        self.clocks = SourceClocks(
            self.strings, predict=time in ("ref", "fit"), fits=time == "fit",
            default_uncertainty_ns=settings.guards.default_uncertainty_ns, choice=settings.clock,
        )  # fmt: skip
        self._clocks_seen = dict[int, ClocksSeen]()
        """By number of the order's tap that a query reads."""
        self._site_code = self.strings.code(site) if names(settings.plans, r.SITE) else -1
        self._types: dict[str, str] = {}
        self._operators: list[Operator] = [
            build_operator(plan, settings, site, chunks and chunks(plan.name))
            for plan in settings.plans
        ]
        isolate = settings.isolate_failures
        self._failures = QueryFailures(settings.plans, self._operators, isolate=isolate)
        self._checks: AttributeChecks | None = None
        if isolate:
            self._checks = AttributeChecks(settings, self._failures)
        self._rows_at_once = _ROWS_LEAST
        self.judging: Judging | None = None
        if settings.has_checks:
            from slackwater.engine.operators.check.rules import Judging  # noqa: PLC0415 - for few runs

            self.judging = Judging(settings.plans)
        self._listeners = {
            number for number, each in enumerate(self._operators) if isinstance(each, Listener)
        }
        self._attributes, columns = self._projection()
        self._looked_up = [name for each in settings.lookups for name in each.types]
        self._lookup_missed: Counter[str] = Counter()
        at_site = OrderSite(self.clocks, settings.guards, columns, settings.readers)
        self._order = settings.order.build(at_site)
        self._records: Counter[str] = Counter()
        self._last_arrival = INT_MIN
        self._texts_most = _TEXTS
        self._quarantined: list[dict[str, Any]] = []
        self._side = SideOutput()
        self._log_readers = len(settings.readers)
        derives = len(settings.plans) > len(settings.readers)
        self._cascade = cascade_of(settings, self._operators, self._failures) if derives else None
        self._readers = StreamReaders(
            self._operators, self._log_readers, settings, self._cascade, self._failures
        )
        takes = self._readers.take_halves
        self._halves = PartialIntervals(self.clocks, settings.guards, columns) if takes else None

    def _projection(self) -> tuple[set[str] | None, set[str] | None]:
        """(attribute columns to decode, columns to gather); None = all."""
        event_detail = {self.settings.ordered, self.settings.aside}
        if "full" in event_detail:
            return None, None
        attributes = {ATTR_PREFIX + name for name in self.settings.looked_at}
        columns = set(_ALWAYS)
        if "bare" in event_detail:
            carried = {ATTR_PREFIX + name for name in self.settings.carried}
            attributes |= carried
            columns |= _ORDERED_COLUMNS | carried
        for plan, operator in zip(self.settings.plans, self._operators, strict=True):
            needed = needed_attributes(plan)
            if needed is None:
                return None, None
            attributes |= {ATTR_PREFIX + name.removeprefix(ATTR_PREFIX) for name in needed}
            attributes |= {ATTR_PREFIX + name for name in looked_up_attributes(plan)}
            columns |= operator.required_columns() - {r.SITE}
            attributes |= {r.ID} & (columns | operator.required_columns())
            columns |= _TIMED & {attribute.name for attribute in attributes_of(plan)}
        if (columns - _ALWAYS) & _TIMED:
            columns |= {r.TS, r.TE}  # an interval needs both
        return attributes, columns | {r.TS}  # read again after a clock's step

    def process(self, frames: list[Frame]) -> ChainOutput:
        """Records in arrival order, cut anywhere.

        Raises:
            UserError: arrival goes back, or an event lacks what it needs; unless the settings
                isolate failures.
            OverBudget: a query finds more than it may; likewise.
            ContractViolation: a frame of another site; likewise.
        """
        output = ChainOutput([ResultPieces() for _ in self._operators])
        for piece in self.in_pieces(frames):
            output.add(piece)
        return output

    def in_pieces(self, frames: list[Frame]) -> Iterator[ChainOutput]:
        """As ``process``, in pieces: of few records while patterns find many matches.

        So a caller that writes each piece before the next has few results in memory.
        """
        operators: list[Any] = list(self._operators)
        finders = [each for each in operators if getattr(each, "found", None) is not None]
        if not finders:
            yield self._isolated(partial(self._process, frames))
            return
        waiting = deque(frame for frame in frames if frame.rows)
        while waiting:
            rows, together = 0, list[Frame]()
            while waiting and rows < self._rows_at_once:
                frame, room = waiting.popleft(), self._rows_at_once - rows
                if frame.rows > room:
                    waiting.appendleft(frame.slice(room, frame.rows - room))
                    frame = frame.slice(0, room)
                together.append(frame)
                rows += frame.rows
            before = sum(each.found for each in finders)
            output = self._isolated(partial(self._process, together))
            found = sum(each.found for each in finders) - before
            if found > _MATCHES_AT_ONCE:
                self._rows_at_once = max(1, rows * _MATCHES_AT_ONCE // found)
            elif found <= _MATCHES_AT_ONCE // 2:
                self._rows_at_once = min(2 * self._rows_at_once, _ROWS_MOST)
            yield output

    def next_parts(self, frames: list[Frame]) -> Iterator[list[OutputPart]]:
        """``in_pieces``, as parts that sinks write."""
        for output in self.in_pieces(frames):
            yield self._parts(output)

    def end_parts(self) -> list[OutputPart]:
        """``finish``, as parts that sinks write."""
        return self._parts(self.finish())

    def last_parts(self) -> list[OutputPart]:
        """``end_parts`` and the site's counters."""
        return [*self.end_parts(), OutputPart(self.site, COUNTERS, self.counters())]

    def _parts(self, output: ChainOutput) -> list[OutputPart]:
        try:
            return parts_of(self.site, output)
        except Exception as error:
            if not self.settings.isolate_failures or isinstance(error, OSError):
                raise
            return failed_parts(self.site, [*output.failures, *self.fail(error)])

    def _isolated(self, call: Callable[[ChainOutput], None]) -> ChainOutput:
        """Return the output of ``call``, without the results of failed queries."""
        output = ChainOutput([ResultPieces() for _ in self._operators])
        if self._cascade is not None:
            self._cascade.begins()
        failures = self._failures
        if not failures.isolate:
            call(output)
            return output
        if len(failures.reasons) < len(self._operators):
            try:
                call(output)
            except (OSError, Interrupted):
                raise
            except Exception as error:
                failures.fail_all(error)
        for number in failures.reasons:
            output.results[number] = ResultPieces()
        output.failures = failures.take()
        return output

    def new_failures(self) -> list[QueryFailure]:
        """Queries that have failed since the last output or the last call."""
        return self._failures.take()

    def fail(self, error: Exception) -> list[QueryFailure]:
        """Fail all queries of the site; return those that had not failed before."""
        self._failures.fail_all(error)
        return self._failures.take()

    def _process(self, frames: list[Frame], output: ChainOutput) -> None:
        if len(self.strings.codes) >= self._texts_most:
            self._reclaim()
        parts: list[Columns] = []
        lengths: list[int] = []
        for frame in frames:
            rows = frame.batch.num_rows
            if not rows:
                continue
            self._check(frame)
            if self.settings.lookups:
                frame = with_lookups(  # noqa: PLW2901 - with what events get of tables
                    frame, self.settings.lookups, self._attributes, self._lookup_missed
                )
            columns, types = decode(frame, self.strings, self._attributes)
            for name in self._looked_up:  # only for the queries that look it up
                types.pop(name, None)
            if any(self._types.get(name) == "int" != of for name, of in types.items()):
                self._run(parts, lengths, output)  # released with their own type
            promote(columns, types, self._types, self.site)
            if self._checks is not None:
                self._checks.see(self._types)
            start = 0
            for together in at_once(sync_records(frame)) if r.KIND in columns else ():
                # Sync records pass the order as well: they advance the arrival clock, so events
                # that are due before them are released with the clocks known until then.
                end = int(together[-1]["row"]) + 1
                parts.append({name: column[start:end] for name, column in columns.items()})
                lengths.append(end - start)
                self._run(parts, lengths, output)
                for record in together:
                    self._take_sync(record)
                start = end
                if len(self.clocks.refuted.by):
                    none = {name: column[:0] for name, column in columns.items()}
                    self._to_readers(self._order.process(none, 0), output)
            if start:
                columns = {name: column[start:] for name, column in columns.items()}
            if rows > start:
                parts.append(columns)
                lengths.append(rows - start)
            if sum(lengths) >= _BATCH_ROWS:
                self._run(parts, lengths, output)
        self._run(parts, lengths, output)
        if self.judging is not None and self._last_arrival != INT_MIN:
            self.judging.judge(output.results, self.strings, self._last_arrival)

    def _reclaim(self) -> None:
        """Free the codes of unused texts, once they may be half of all.

        No output shows codes, so this may depend on how the log is cut.
        """
        used = [self._order.codes(), self.clocks.codes()]
        used += [operator.codes() for operator in self._operators]
        used += [] if self.judging is None else self.judging.codes()
        used += [np.array(seen.fixed_codes, np.int64) for seen in self._clocks_seen.values()]
        if self._site_code >= 0:
            used.append(np.array([self._site_code]))
        table = self.strings.without_unused(used)
        if table is not None:
            self.strings = self.clocks.strings = table
            self._order.adopt(table)
        self._texts_most = max(_GROWTH * len(self.strings.codes), _TEXTS)

    def _check(self, frame: Frame) -> None:
        if frame.site != self.site:
            raise ContractViolation(f"chain of site {self.site!r} got a frame of {frame.site!r}")
        arrival = frame.batch.column(r.ARRIVAL)
        first = arrival[0].as_py()
        if first < self._last_arrival:
            raise UserError(
                f"site {self.site!r}: arrival goes back from {self._last_arrival} to "
                f"{first} ns: put the log's files, or the rows of a stream, in the "
                "order of arrival"
            )
        self._last_arrival = arrival[-1].as_py()
        has_kinds = r.KIND in frame.batch.schema.names
        self._records.update(records_by_kind(frame) if has_kinds else {"event": len(arrival)})

    def _take_sync(self, record: dict[str, Any]) -> None:
        """A sync record: the first sequence number and the source's offset, if it has them.

        One with a precision and no offset: the source could not measure its offset.
        """
        if record.get(r.SOURCE) is None:
            raise ContractViolation(f"site {self.site!r}: sync record without a source")
        sync = SyncPoint.of(record)
        if self.settings.order.time != "ts":
            if record.get(r.OFFSET) is not None:
                self.clocks.learn(sync)
                self._forget_seen(self.clocks.forget_closed(sync.clock_name))
            elif sync.precision:
                self.clocks.mark_unknown(sync.clock_name)
        self._order.announce(sync)

    def _forget_seen(self, clocks: list[int]) -> None:
        for seen in self._clocks_seen.values():
            seen.forget(clocks)

    def _run(self, parts: list[Columns], lengths: list[int], output: ChainOutput) -> None:
        """Order the gathered columns and pass them to every operator; empty both lists."""
        if parts:
            columns = join(parts, lengths) if len(parts) > 1 else parts[0]
            rows = sum(lengths)
            now = int(columns[r.ARRIVAL][-1])
            parts.clear()
            lengths.clear()
            start, order = 0, self._order
            if self._listeners and r.KIND in columns:
                self._announce(columns)
            if r.TE in columns:
                columns = by_end(columns)
            ends = order.cuts(columns, rows)
            if self._halves is not None:
                ends = self._halves.cuts(columns, rows, ends)
            for end in self._causal(columns, ends):
                is_all = end - start == rows
                part = columns if is_all else {n: c[start:end] for n, c in columns.items()}
                self.clocks.remember_names(part)
                if self.clocks.unanchored:
                    self.clocks.anchor_offsets(part)
                halves = None if self._halves is None else self._halves.as_released(part)
                if r.KIND in part:
                    part = PartialIntervals.as_one_kind(part)
                self._to_readers(order.process(part, end - start), output, halves)
                unused = order.forget()
                if len(unused):
                    self._forget_seen([*unused, *self.clocks.forget(list(unused))])
                start = end
            self._call_readers(methodcaller("advance", now), output)
            if self._cascade is not None:
                self._cascade.advance(now, self.strings, output.results)

    def _causal(self, columns: Columns, ends: Sequence[int]) -> Iterator[int]:
        """``ends``, and cuts before events that arrived before they can have happened.

        At such an event the uncertainty of its clock grows (``SourceClocks.refute``).
        """
        start, guard_ns = 0, self.settings.guards.guard_ns
        for end in ends:
            looked = start
            while looked < end:
                place = self.clocks.refute(columns, looked, end, guard_ns)
                if start < place < end:
                    yield place
                    start = place
                looked = place
            yield end
            start = end

    def _announce(self, columns: Columns) -> None:
        """Pass IBPs, which announce starts of intervals, to the listeners; no order is needed."""
        begun = announced_intervals(columns, self.clocks)
        if begun is not None:
            for number in self._listeners - self._failures.reasons.keys():
                listener = self._operators[number]
                assert isinstance(listener, Listener)
                self._failures.run(number, partial(listener.begins, begun))

    def _to_readers(
        self, ordered: Ordered, output: ChainOutput,
        halves: tuple[Columns, np.ndarray] | None = None,
    ) -> None:  # fmt: skip
        """Pass the order's output to operators, the ordered output and the side output."""
        for columns in (ordered.quarantined, ordered.columns, *(t.columns for t in ordered.taps)):
            if len(columns.get(r.TE, ())):  # else no query reads starts: ref is of the ends
                from_start(columns)
        if ordered.quarantined:
            room = _QUARANTINE_SHOWN - len(self._quarantined)
            self._quarantined += quarantined_sample(ordered.quarantined, self.strings, room)
            refused = quarantined_columns(ordered) if self.settings.aside != "no" else {}
            if refused:
                output.quarantined.append(self._as_released(len(refused[r.TS]), refused, ordered))
        taps, refuted = ordered.taps[: self._log_readers], self.clocks.refuted
        if len(refuted.by):
            self.clocks.refuted = Refuted()
        for number, tap in enumerate((*taps, ordered)):
            released = self._released(tap, refuted, goes_out=tap is ordered)
            end = number + 1 if number < len(taps) else self._log_readers
            more = released
            if halves is not None and len(halves[0]["ref"]):
                both = insert_halves(tap, *halves)
                more = self._as_released(both.n, both.columns, both)
                more.refuted = refuted
            self._mark(number, more)
            if released is not more:
                self._mark(-1 - number, released)
            if more is not None:
                self._readers.process((number, end), released, more, output.results)
            if released is None:
                continue
            if tap is ordered and self.settings.ordered != "no" and ordered.n:
                output.ordered.append(released)
            if tap is ordered and self.settings.aside != "no":
                output.late += self._side.late_of(released)

    def _new_clocks_seen(self) -> ClocksSeen:
        return ClocksSeen(self.settings.clock, self.site, self.strings)

    def _mark(self, stream: int, released: Released | None) -> None:
        """Add the column ``mixed``: several clocks so far, one of them unknown."""
        is_read = bool(self.settings.plans) or self.settings.ordered != "no"
        if released is None or not is_read or self.settings.clock.exact:
            return
        if released.n:
            if stream not in self._clocks_seen:
                self._clocks_seen[stream] = self._new_clocks_seen()
            known_at, guard_ns = self.clocks.clocks["known_at"], self.settings.guards.guard_ns
            self._clocks_seen[stream].mark(released.columns, known_at, causal=guard_ns is not None)

    def _released(self, ordered: Ordered, refuted: Refuted, *, goes_out: bool) -> Released | None:
        """Return the input of query operators; None: no row and no progress.

        ``goes_out``: this is the order's own output, not a tap.
        """
        notes = (ordered.progress.row, ordered.slack.row, ordered.gaps.row, refuted.by)
        promises = ordered.promises
        if not ordered.n and not any(map(len, notes)) and not (promises and len(promises.row)):
            return None
        if ordered.n and self.clocks.next_epoch:
            self.clocks.release(ordered.columns, counts=goes_out)
            self.clocks.mark_statuses(ordered.columns)
        released = self._as_released(ordered.n, ordered.columns, ordered)
        released.refuted = refuted
        return released

    def _as_released(self, rows: int, columns: Columns, ordered: Ordered) -> Released:
        """``columns`` with defaults, types, clocks and progress, as operators read them."""
        if r.STREAM not in columns:
            columns[r.STREAM] = np.full(rows, DEFAULT_STREAM_CODE, np.int32)
        if r.TYPE not in columns:
            columns[r.TYPE] = np.full(rows, -1, np.int32)
        if self._site_code >= 0:
            columns[r.SITE] = np.full(rows, self._site_code, np.int32)
        causal = self.settings.guards.guard_ns is not None
        present = {n: t for n, t in self._types.items() if ATTR_PREFIX + n in columns}
        if r.ID in columns:
            present.update({n: t for n, t in self._types.items() if n.startswith("$")})
        return Released(
            rows, columns, present, self.strings, self.clocks.t_a, ordered.progress,
            ordered.gaps, ordered.promises, self.clocks.site.bound, ordered.slack,
            self.clocks.delays() if self.settings.asks_delays else np.empty(0, np.int64),
            # Without arrivals there is no bound on an event of an unknown clock.
            known_at=self.clocks.clocks["known_at"][: None if causal else 0],
        )  # fmt: skip

    def finish(self) -> ChainOutput:
        """End of the input, at the last arrival: every buffer and scope is closed."""
        return self._isolated(self._finish)

    def _finish(self, output: ChainOutput) -> None:
        self._to_readers(self._order.flush(), output)
        if self._last_arrival != INT_MIN:
            self._call_readers(methodcaller("finish", self._last_arrival), output)
            if self._cascade is not None:
                self._cascade.finish(self._last_arrival, self.strings, output.results)
            if self.judging is not None:
                now = self._last_arrival
                self.judging.judge(output.results, self.strings, now, end=True)

    def _call_readers(
        self, ask: Callable[[Operator], Sequence[Result]], output: ChainOutput
    ) -> None:
        """Call every operator that reads the log, and add its results to ``output``."""
        for number in range(self._log_readers):
            found = self._failures.run(number, partial(ask, self._operators[number]))
            output.results[number].extend(found)

    def counters(self) -> dict[str, Any]:
        """Counters of the site (``engine.scenario`` has the layout of the file)."""
        lanes, sources = self._order.counters(), self._order.sources()
        most, most_bytes = self._order.buffered_max, self._order.buffered_max_bytes
        queries: dict[str, dict[str, int]] = {}
        for number, plan in enumerate(self.settings.plans):
            judged = {} if self.judging is None else self.judging.counters(number)
            queries[plan.name] = self._operators[number].counters() | judged
        return {
            "t_a": self.clocks.t_a,
            "buffered_max": most,
            "buffered_max_bytes": most_bytes,
            "last_arrival": self._last_arrival,
            "records": dict(self._records),
            "lanes": self.clocks.lane_positions(lanes, self.settings.guards.default_uncertainty_ns),
            "clocks": self.clocks.counters(),
            "quarantined": self._quarantined,
            **sources,
            **self._unknown_clocks(),
            "queries": queries,
            **({"lookup_missed": dict(self._lookup_missed)} if self.settings.lookups else {}),
        }

    def _unknown_clocks(self) -> dict[str, list[str]]:
        known_at = self.clocks.clocks["known_at"]
        codes = set[int]().union(*(seen.unknown(known_at) for seen in self._clocks_seen.values()))
        names = sorted(text for code in codes if (text := self.strings.text(code)))
        return {"unknown_clocks": names} if names else {}

    def to_bytes(self) -> bytes:
        """Return the whole state, as bytes that only this version reads.

        Raises:
            UserError: a dataflow's functions return objects that cannot be serialised.
        """
        operators = self._failures.operator_states()
        state = self.snapshot() | {
            "version": SNAPSHOT_VERSION, "operators": operators,
            "seen": {stream: seen.snapshot() for stream, seen in self._clocks_seen.items()},
            "failed": self._failures.snapshot(),
        }  # fmt: skip
        try:
            return to_bytes(state)
        except NotPlainError:
            for plan, operator in zip(self.settings.plans, operators, strict=True):
                _check_state(plan.name, operator)
            raise

    @classmethod
    def restored(
        cls, settings: ChainSettings, site: str, snapshot: bytes, chunks: ChunksOf | None = None
    ) -> Chain:
        """Return the chain from a ``snapshot`` by ``to_bytes``; the settings must be equal.

        Raises:
            StateDamagedError: ``snapshot`` is damaged, or of other settings.
        """
        state = from_bytes(snapshot)
        if not isinstance(state, dict) or state.get("version") != SNAPSHOT_VERSION:
            raise StateDamagedError("is of another version")
        chain = cls(settings, site, chunks)
        try:
            chain.restore(state)
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise StateDamagedError(f"is of another chain: {error!r}") from error
        return chain

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        for stream, seen in state["seen"].items():
            self._clocks_seen[stream] = self._new_clocks_seen()
            self._clocks_seen[stream].restore(seen)
        self._failures.restore(state["failed"])
        for operator, saved in zip(self._operators, state["operators"], strict=True):
            operator.restore(saved)


def _check_state(query: str, state: dict[str, Any]) -> None:
    try:
        to_bytes(state)
    except NotPlainError as error:
        raise UserError(f"query {query!r}: what its functions give or remember: {error}") from error


# The output of a chain as parts, which sinks write (``engine.output.run_writer``).


def parts_of(site: str, output: ChainOutput) -> list[OutputPart]:
    """The parts of one call's output: results in columns and events as tables, others as a list.

    Each kind is in the order of emission; neighbours of one schema are one part.
    """
    pieces = [piece for of_query in output.results for piece in of_query.pieces]
    results = [result for piece in pieces if isinstance(piece, list) for result in piece]
    parts = [OutputPart(site, RESULTS, results)] if results else []
    tables: dict[str, list[pa.Table]] = {}
    for of_query in output.results:
        columns = [piece for piece in of_query.pieces if isinstance(piece, ResultColumns)]
        for kind, of_kind in groupby(columns, attrgetter("__class__")):
            tables.setdefault(kind.kind, []).extend(kind.tables(list(of_kind)))
    for name, of_name in tables.items():
        for _, alike in groupby(of_name, attrgetter("schema")):
            parts.append(OutputPart(site, name, pa.concat_tables(list(alike))))
    parts += [OutputPart(site, ORDERED, released_table(site, each)) for each in output.ordered]
    parts += [OutputPart(site, LATE, side_output_table(site, each)) for each in output.late]
    parts += [
        OutputPart(site, QUARANTINED, side_output_table(site, each)) for each in output.quarantined
    ]
    return parts + failed_parts(site, output.failures) if output.failures else parts


def failed_parts(site: str, failures: Sequence[QueryFailure]) -> list[OutputPart]:
    """Return the part that lists failed queries of a site; none if there are none."""
    rows = [structs.asdict(failure) for failure in failures]
    return [OutputPart(site, FAILED, rows)] if rows else []
