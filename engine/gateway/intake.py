"""Converts accepted messages to records of a site's next frame; each number is recorded once."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from itertools import count
from typing import Final

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import wire
from slackwater.edge_agent.errors import SAMPLE_BYTES, WireError
from slackwater.edge_agent.pull_back import Events, columns_of, data_of, ids_of, part_of
from slackwater.edge_agent.records import Kind
from slackwater.engine.gateway.content import ContentRefused, check_data
from slackwater.engine.gateway.counters import Counters
from slackwater.engine.gateway.frames import FrameBuilder, Part, one_row
from slackwater.engine.gateway.outputs import DeadLetters
from slackwater.engine.gateway.peers import (
    GatewayPromise,
    Lane,
    OpenInterval,
    Source,
    WaitingPromises,
)
from slackwater.engine.gateway.settings import GatewaySettings

# Intervals that have begun and not arrived: the gateway requests them (Z10 5.3.2).
#
# A begin (IBP) is a separate message, so the gateway knows of intervals before it has them. An
# interval itself carries its begin and its end, so only a begin without its end can be missing, and
# the gateway detects it without knowing any query. It asks agents that declare the capability
# (``Hello.capabilities``)
#
# * ``pull_back_ns`` after the begin arrived, then after twice as long, and so on: it may last;
# * ``pull_back_ns`` after numbers of the interval's stream were found missing, which may include
# it; * at once when the source ends.
#
# The agent resends what it has, under the same numbers, so that it is in the log once. It reports
# other intervals as not ended or as gone. Open intervals are kept in memory, up to a limit over all
# sources; a restarted gateway knows of none.


COUNTS: Final = (
    "pull_back_asked", "pull_back_came", "pull_back_unended", "pull_back_gone", "pull_back_untraced"
)  # fmt: skip
"""Reasons: intervals requested (each time); intervals that arrived while a request was unanswered;
intervals reported as not ended (each time) or gone; and begins for which there was no room."""
_DOUBLED_MAX: Final = 6
_STALE_MAX: Final = 1024


class PullBack:
    """Open intervals of all sources. Instants are of the arrival clock."""

    def __init__(self, settings: GatewaySettings, counts: Counter[tuple[str, str, str]]) -> None:
        self._after_ns, self._most = settings.pull_back_ns, settings.pull_back_max
        self._counts = counts
        self._open = 0
        self._heap: list[tuple[int, int, Source, tuple[int, int], OpenInterval]] = []
        self._order = count()
        self.moved = False
        """Whether ``next_due`` may have changed since the last call."""

    def next_due(self) -> int | None:
        """When the next request may be due; None: none. Nothing may be left to request then."""
        self.moved = False
        return self._heap[0][0] if self._heap else None

    def begun(self, source: Source, stream: int, id_: int, arrival: int) -> None:
        """The begin of an interval arrived."""
        key = (stream, id_)
        if not (self._after_ns and source.answers) or key in source.open:
            return
        if self._open >= self._most:
            self._counts[*source.key, "pull_back_untraced"] += 1
            return
        self._open += 1
        source.open[key] = interval = OpenInterval(arrival + self._after_ns)
        self._push(source, key, interval)

    def came(self, source: Source, data: Events) -> None:
        """Events arrived, new ones or duplicates."""
        if not source.open:
            return
        ids, stream = set(ids_of(data)), data.stream
        if len(source.open) < len(ids):
            mine = [key for key in source.open if key[0] == stream and key[1] in ids]
        else:
            mine = [(stream, id_) for id_ in ids if (stream, id_) in source.open]
        for key in mine:
            if source.open.pop(key).is_requested:
                self._counts[*source.key, "pull_back_came"] += 1
        self._open -= len(mine)

    def gap(self, source: Source, stream: int, arrival: int) -> None:
        """Numbers of a stream are missing. Handled once per ``pull_back_ns``, because it searches
        all open intervals.
        """
        due = arrival + self._after_ns
        if not source.open or source.gap_seen + self._after_ns > arrival:
            return
        source.gap_seen = arrival
        for key, interval in source.open.items():
            if key[0] == stream:
                interval.waits = 0
                self._hurry(source, key, interval, due)

    def back(self, source: Source, arrival: int) -> None:
        """The source sent HELLO: its open intervals may be on the way now."""
        for key, interval in source.open.items():
            interval.due = arrival + self._after_ns
            self._push(source, key, interval)

    def ended(self, source: Source, arrival: int) -> None:
        """The source has ended, and leaves when this is acked."""
        for key, interval in source.open.items():
            self._hurry(source, key, interval, arrival)

    def answered(self, source: Source, answer: m.MissingIntervals) -> None:
        """Take an agent's answer about intervals that it cannot send."""
        for key in answer.unended:
            if (interval := source.open.get(key)) is not None:
                interval.is_requested = False  # it will be sent when it ends
        known = [key for key in answer.unknown if source.open.pop(key, None) is not None]
        self._open -= len(known)
        for reason, intervals in (("gone", known), ("unended", answer.unended)):
            if intervals:
                self._counts[*source.key, f"pull_back_{reason}"] += len(intervals)

    def forgot(self, source: Source) -> None:
        """Forget the open intervals of ``source``."""
        self._open -= len(source.open)
        source.open = {}

    def requests(self, arrival: int) -> Iterator[tuple[Source, m.IntervalsRequest]]:
        """Requests due by ``arrival``. A source without connections is asked when it is back."""
        keys_of: dict[Source, list[tuple[int, int]]] = {}
        self.moved = True
        while self._heap and self._heap[0][0] <= arrival:
            due, _, source, key, interval = heapq.heappop(self._heap)
            if source.open.get(key) is not interval or due != interval.due:
                continue
            if not source.connections:
                if source.ended:
                    self.forgot(source)
                continue
            interval.is_requested, interval.waits = True, min(interval.waits + 1, _DOUBLED_MAX)
            interval.due = arrival + (self._after_ns << interval.waits)
            self._push(source, key, interval)
            keys_of.setdefault(source, []).append(key)
        for source, keys in keys_of.items():
            self._counts[*source.key, "pull_back_asked"] += len(keys)
            for low in range(0, len(keys), m.INTERVALS_MAX):
                yield source, m.IntervalsRequest(tuple(keys[low : low + m.INTERVALS_MAX]))

    # --- inside

    def _hurry(
        self, source: Source, key: tuple[int, int], interval: OpenInterval, due: int
    ) -> None:
        if due < interval.due:
            interval.due = due
            self._push(source, key, interval)

    def _push(self, source: Source, key: tuple[int, int], interval: OpenInterval) -> None:
        self.moved = True
        heapq.heappush(self._heap, (interval.due, next(self._order), source, key, interval))
        if len(self._heap) > 2 * self._open + _STALE_MAX:  # most entries are stale
            live = [e for e in self._heap if e[2].open.get(e[3]) is e[4] and e[0] == e[4].due]
            self._heap = live
            heapq.heapify(self._heap)


# Converts accepted messages to records of a site's next frame; each number is recorded once.


_EVENT: Final = Kind.EVENT
_SPREAD: Final = 4
"""A frame is closed before a message that would multiply its bytes by more than this, because each
part adds columns that the other rows lack."""


class Site:
    """One site's open frame and its deadlines. Instants are of the arrival clock."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.builder = FrameBuilder(name)
        self.sources: dict[str, Source] = {}
        self.last_record = 0
        self.tick_due: int | None = None
        self.frame_due: int | None = None
        self.timer = ("site", name)
        """Key of its deadline in the core's timers."""
        self.awaits_flush = False
        """Whether the frame is due, and stays open until the sink has room."""
        self._dirty: list[Source] = []

    @property
    def due(self) -> int | None:
        """When the site next needs attention; None: no deadline."""
        tick, frame = self.tick_due, None if self.awaits_flush else self.frame_due
        if tick is None or frame is None:
            return frame if tick is None else tick
        return min(tick, frame)

    def touched(self, source: Source) -> None:
        """Mark ``source`` as having records in the frame."""
        if not source.dirty:
            source.dirty = True
            self._dirty.append(source)

    def heard(self, arrival: int, tick_every: int, frame_every: int) -> None:
        """Something of an accepted source was recorded or refused at ``arrival``."""
        self.last_record = arrival
        if tick_every:
            self.tick_due = arrival + tick_every
        if self.frame_due is None:
            self.frame_due = arrival + frame_every

    def ticked(self, arrival: int, tick_every: int, frame_every: int, *, last: bool) -> None:
        """Record that nothing came until ``arrival``; ``last``: no further tick follows."""
        self.builder.tick(arrival)
        self.tick_due = None if last else arrival + tick_every
        if self.frame_due is None:
            self.frame_due = arrival + frame_every

    def flushed(self) -> list[Source]:
        """Clear the durable frame; return the sources with records in it."""
        self.builder.clear()
        self.frame_due, self.awaits_flush = None, False
        sources, self._dirty = self._dirty, []
        for source in sources:
            source.dirty = False
        return sources


class Intake:
    """Writes messages of accepted sources into their site's frame."""

    def __init__(
        self,
        counts: Counter[tuple[str, str, str]],
        limits: GatewaySettings,
        dead_letters: DeadLetters,
        counters: Counters,
    ) -> None:
        self._counters = counters
        self._dead_letters = dead_letters
        self._counts = counts
        self._limits = limits
        self.pull_back = PullBack(limits, counts)
        self._bytes_most = _SPREAD * limits.frame_bytes
        self._islands = 0
        self._promises = 0

    def forgot(self, source: Source) -> None:
        """Free what was kept for the gaps of ``source``, which has left."""
        self._islands -= sum(lane.received.islands for lane in (source.control, *source.lanes))
        self._promises -= source.promises.keys
        source.promises = WaitingPromises()
        self.pull_back.forgot(source)
        if not source.announced:
            self._counters.forget(source)

    def fits(self, source: Source, site: Site, data: Events) -> bool:
        """Whether the site's frame may also take ``data``: each part adds columns to all rows."""
        builder, schemas = site.builder, source.schemas
        if not builder.rows or data.stream >= len(schemas):
            return True
        return builder.bytes_with(data, schemas[data.stream]) <= self._bytes_most

    def data(
        self, connection: Hashable, source: Source, site: Site, data: Events, arrival: int
    ) -> bool:
        """Record the events of ``data`` that are new; False: all are duplicates.

        Events with invalid content become dead letters; their numbers count as received.

        Raises:
            WireError: ``stream`` (not declared), or ``islands_max``: too many gaps before it.
        """
        if data.stream >= len(source.lanes):
            raise WireError("stream", f"stream {data.stream} of {len(source.lanes)}")
        parts: Sequence[tuple[int | None, Events]] = ((data.first_seq, data),)
        new = False
        if source.counts_itself:
            try:
                parts = self._counters.numbered(source, data)
            except ContentRefused as refused:
                self._counts[*source.key, "received"] += data.rows
                refused.rows = data.rows
                self._refused(connection, source, data, refused, arrival)
                return True
        for number, part in parts:
            try:
                if number is None:
                    self._unnumbered(source, site, part, arrival)
                elif not self._events(source, site, part, arrival):
                    continue
            except ContentRefused as refused:
                self._refused(connection, source, part, refused, arrival)
            new = True
        return new

    def _refused(
        self, connection: Hashable, source: Source, data: Events, why: ContentRefused, arrival: int
    ) -> None:
        self._counts[*source.key, why.reason] += 1
        self._counts[*source.key, "refused"] += why.rows
        self._dead_letters.add(
            arrival, (*source.key, str(connection)), why.reason, why.detail,
            wire.encode(data_of(data))[:SAMPLE_BYTES], why.rows,
        )  # fmt: skip

    def _events(self, source: Source, site: Site, data: Events, arrival: int) -> bool:
        """As ``data``, for events with unique numbers.

        Raises:
            ContentRefused: the content is invalid; its numbers count as received.
            WireError: ``islands_max``.
        """
        lane, schema = source.lanes[data.stream], source.schemas[data.stream]
        first, rows, counts = data.first_seq, data.rows, self._counts
        end = first + rows
        if source.open:
            self.pull_back.came(source, data)
        counts[source.site, source.name, "received"] += rows
        parts, new = [(first, end)], rows
        if not lane.received.take_next(first, end):
            parts = lane.received.new_parts(first, end)
            new = sum(b - a for a, b in parts)
            if new < rows:
                counts[source.site, source.name, "duplicate"] += rows - new
            if not parts:
                return False
            self._out_of_order(source, lane, data, new, arrival)
        if not source.dirty:
            site.touched(source)
        try:
            check_data(data, schema)
            self._check_clocks(source, data)
        except ContentRefused as refused:
            refused.rows = new
            self._proven(source, site, data.stream, arrival)
            raise
        if not source.announced:
            ts = int.from_bytes(data.ts[:8], "little", signed=True)
            self._announce(source, site, None, ts, arrival)
        name, stream, start = source.name, schema.name, source.incarnation
        for a, b in parts:
            some = data if b - a == rows else part_of(data, a - first, b - first)
            site.builder.add(Part(_EVENT, arrival, some, name, stream, a, start, schema))
        counts[source.site, name, "recorded"] += new
        if source.promises.keys:
            self._proven(source, site, data.stream, arrival)
        return True

    def _unnumbered(self, source: Source, site: Site, data: Events, arrival: int) -> None:
        """Record events whose numbers belong to other events of their source."""
        self._counts[*source.key, "received"] += data.rows
        try:
            self._check_clocks(source, data)
        except ContentRefused as refused:
            refused.rows = data.rows
            raise
        if not source.announced:
            ts = int.from_bytes(data.ts[:8], "little", signed=True)
            self._announce(source, site, None, ts, arrival)
        for reason in ("recorded", "reused"):
            self._counts[*source.key, reason] += data.rows
        site.touched(source)
        schema = source.schemas[data.stream]
        site.builder.add(
            Part(_EVENT, arrival, data, source.name, schema.name, None, source.incarnation, schema)
        )

    def _check_clocks(self, source: Source, data: Events) -> None:
        clocks, most = columns_of(data)[0].clocks, self._limits.clocks_max
        if clocks is not None and not source.named(clocks.names, most):
            raise ContentRefused("clocks_max", f"{most} clocks of one source")

    def _out_of_order(
        self, source: Source, lane: Lane, data: Events, new: int, arrival: int
    ) -> None:
        first, end = data.first_seq, data.first_seq + data.rows
        try:
            self._make_room(source, lane, first, end)
        except WireError:
            self._counts[*source.key, "put_off"] += (
                new  # its connection closes, and they are resent
            )
            raise
        if first > lane.received.next:
            self.pull_back.gap(source, data.stream, arrival)
        self._came(lane, first, end)

    def heard_again(
        self, source: Source, site: Site, hello: m.Hello, arrival: int, frame_every: int
    ) -> None:
        """Take the numbers in the HELLO of a start: those below ``acked`` are not sent again.

        An agent's disk may have lost some; these are given up, and later ones are acked as soon as
        they are durable.
        """
        self.pull_back.back(source, arrival)
        acked = (hello.control_acked, *(stream.acked for stream in hello.streams))
        for index, (lane, end) in enumerate(
            zip((source.control, *source.lanes), acked, strict=True), m.CONTROL
        ):
            gone = sum(b - a for a, b in lane.received.new_parts(0, end) if a < b)
            if not gone:
                continue
            self._came(lane, 0, end)
            lane.written, lane.durable = max(lane.written, end), max(lane.durable, end)
            site.touched(source)
            if site.frame_due is None:
                site.frame_due = arrival + frame_every
            if index != m.CONTROL:
                self._counts[*source.key, "given_up"] += gone
                self._proven(source, site, index, arrival)

    def control(self, source: Source, site: Site, message: m.Control, arrival: int) -> bool:
        """Record a message that has a control number; False: a duplicate.

        Raises:
            WireError: ``stream`` (not declared), ``numbers``, or ``islands_max``.
        """
        lane, number = source.control, message.number
        if not lane.received.new_parts(number, number + 1):
            self._counts[*source.key, "duplicate_control"] += 1
            return False
        self._make_room(source, lane, number, number + 1)
        match message:
            case m.Sync():
                self._sync(source, site, message, arrival)
            case m.Promise():
                self._promise(source, site, message, arrival)
            case m.Begin():
                self._begin(source, site, message, arrival)
            case m.Eos():
                self._eos(source, site, message, arrival)
        self._came(lane, number, number + 1)
        site.touched(source)
        return True

    def _came(self, lane: Lane, first: int, end: int) -> None:
        before = lane.received.islands
        lane.received.add(first, end)
        self._islands += lane.received.islands - before

    def _make_room(self, source: Source, lane: Lane, first: int, end: int) -> None:
        received, limits = lane.received, self._limits
        full = received.islands >= limits.islands_max or self._islands >= limits.islands_total_max
        if not full or not received.makes_island(first, end):
            return
        if source.resend or not received.islands:
            # The first gap will be resent: closing makes the agent begin there.
            raise WireError("islands_max", f"{received.islands} gaps before number {first}")
        self._counts[*source.key, "given_up"] += received.give_up_first_gap()
        self._islands -= 1

    def _announce(
        self, source: Source, site: Site, sync: m.Sync | None, ts: int, arrival: int
    ) -> None:
        """Record once per incarnation the first number of each stream."""
        source.announced = True
        for schema, lane in zip(source.schemas, source.lanes, strict=True):
            self._sync_row(source, site, sync, schema.name, lane.start, ts, arrival)

    def _sync(self, source: Source, site: Site, sync: m.Sync, arrival: int) -> None:
        ts = sync.measured_at
        if sync.clock is not None and not source.named((sync.clock,), self._limits.clocks_max):
            self._counts[*source.key, "clocks_max"] += 1
            return
        if not source.announced and sync.clock is not None:
            self._announce(source, site, None, ts, arrival)
        if source.announced:
            self._sync_row(source, site, sync, source.schemas[0].name, None, ts, arrival)
        else:
            self._announce(source, site, sync, ts, arrival)

    def _sync_row(
        self,
        source: Source,
        site: Site,
        sync: m.Sync | None,
        stream: str,
        first_seq: int | None,
        ts: int,
        arrival: int,
    ) -> None:
        values: tuple[int | None, ...] = (None, None, first_seq, None, None)
        clock = None
        if sync is not None:
            values = (sync.offset, sync.delay, first_seq, sync.precision, sync.skew_error_ppb)
            clock = sync.clock
        site.builder.add(
            Part(
                Kind.SYNC, arrival, one_row(ts, clock=clock), source.name, stream, None,
                source.incarnation, sync=values,
            )
        )  # fmt: skip

    def _promise(self, source: Source, site: Site, promise: m.Promise, arrival: int) -> None:
        if max(stream for stream, _ in promise.streams) >= len(source.lanes):
            raise WireError("stream", "a promise for a stream that was not declared")
        if not source.announced:
            self._announce(source, site, None, promise.ts, arrival)
        for stream, named in promise.streams:
            next_seq = self._border(source, stream, named)
            promised = GatewayPromise(promise.type, next_seq, promise.ts)
            # Numbers that are not resent may be lost: only the engine can give them up.
            if not source.resend or next_seq <= source.lanes[stream].received.next:
                self._pog(source, site, stream, promised, arrival)
            else:
                before = source.promises.keys
                room = self._promises < self._limits.promises_max
                kept = room and source.promises.wait(stream, promised)
                self._promises += source.promises.keys - before
                self._counts[*source.key, "promise_waited" if kept else "promise_dropped"] += 1

    def _border(self, source: Source, stream: int, number: int) -> int:
        return self._counters.border(source, stream, number) if source.counts_itself else number

    def _proven(self, source: Source, site: Site, stream: int, arrival: int) -> None:
        """Record promises that waited for the numbers that have just arrived."""
        before = source.promises.keys
        for promised in source.promises.proven(stream, source.lanes[stream].received.next):
            self._pog(source, site, stream, promised, arrival)
        self._promises += source.promises.keys - before

    def _pog(
        self, source: Source, site: Site, stream: int, promised: GatewayPromise, arrival: int
    ) -> None:
        row, name = one_row(promised.ts, promised.type), source.schemas[stream].name
        site.builder.add(
            Part(Kind.POG, arrival, row, source.name, name, promised.next_seq, source.incarnation)
        )

    def _begin(self, source: Source, site: Site, begin: m.Begin, arrival: int) -> None:
        if begin.stream >= len(source.lanes):
            raise WireError("stream", "an interval of a stream that was not declared")
        if not source.announced:
            self._announce(source, site, None, begin.ts, arrival)
        if begin.clock is not None and not source.named((begin.clock,), self._limits.clocks_max):
            self._counts[*source.key, "clocks_max"] += 1
            return
        row = one_row(begin.ts, begin.type, begin.id, begin.clock)
        name = source.schemas[begin.stream].name
        site.builder.add(Part(Kind.IBP, arrival, row, source.name, name, None, source.incarnation))
        self.pull_back.begun(source, begin.stream, begin.id, arrival)

    def _eos(self, source: Source, site: Site, eos: m.Eos, arrival: int) -> None:
        if len(eos.next_seqs) != len(source.lanes):
            raise WireError("numbers", f"{len(eos.next_seqs)} for {len(source.lanes)} streams")
        if not source.announced:
            self._announce(source, site, None, eos.ts, arrival)
        source.ended = True
        self.pull_back.ended(source, arrival)
        for stream, (schema, named) in enumerate(zip(source.schemas, eos.next_seqs, strict=True)):
            row, next_seq = one_row(eos.ts), self._border(source, stream, named)
            site.builder.add(
                Part(Kind.EOS, arrival, row, source.name, schema.name, next_seq, source.incarnation)
            )
