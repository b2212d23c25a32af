"""The session of one agent with its gateway, from the first connection to the last ack.

Sans-IO: a driver (asyncio on devices, SimPy in simulation) hands in bytes, datagrams and clock
readings, and carries out the requests of ``outputs()``. Timers use the monotonic clock only, time
stamps the wall clock only. The order of messages:

    Connect -> HELLO -> WELCOME -> time sync -> SYNC (acked) -> DATA, promises -> EOS -> DONE

Data wait for the ack of the first time-sync report, so that the engine knows the source's clock
before its first event (R19 3.2.2). Messages go round robin over the
connections; unacked messages of a lost connection are resent on another one.

All connections lead to one of the gateways that the driver knows. When none is open and an attempt
fails or is refused, the session tries the next gateway. That gateway has its own clock, so data
wait for the next time-sync round, and its own log for what it acks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import wire
from slackwater.edge_agent.clock import Now, earliest
from slackwater.edge_agent.clock_reports import ClockReports
from slackwater.edge_agent.device_clock import DeviceClockBound
from slackwater.edge_agent.errors import WireError
from slackwater.edge_agent.packing import Buffer, Codes, Column, check_schemas, data_message
from slackwater.edge_agent.pool import LinkState, Pool, PooledConnection
from slackwater.edge_agent.pull_back import (
    BatchSlice,
    EventBatch,
    Events,
    TracedIntervals,
    bytes_of,
    ids_of,
)
from slackwater.edge_agent.sequence import AHEAD, Numbers, ResumedStart, check_acks
from slackwater.edge_agent.settings import Delivery, Heartbeat, PromiseRule, SessionSettings
from slackwater.edge_agent.timesync import SyncReport, SyncState, TimeSync
from slackwater.edge_agent.unacked import AckWatch, Outgoing, UnackedMessages

# Requests of a session to its driver, and its answers to the application.


class SessionState(Enum):
    """State of the session."""

    IDLE = "idle"
    CONNECTING = "connecting"
    """No WELCOME yet."""
    SYNCING = "syncing"
    """The first time-sync report is being made, or is not acked yet."""
    RUNNING = "running"
    """Data flow, whenever a connection is there."""
    FINISHING = "finishing"
    """``finish`` was called; the rest is sent and acked."""
    DONE = "done"
    """Everything is acked and every connection closed."""
    FAILED = "failed"
    """The gateway refused for good; ``failure`` says why."""

    @property
    def ended(self) -> bool:
        """Whether the session is over."""
        return self is SessionState.DONE or self is SessionState.FAILED


class Connect(NamedTuple):
    """Open this connection of the pool, then call ``connected`` or ``disconnected``.

    ``gateway``: index of the gateway among those that the driver knows.
    """

    connection: int
    gateway: int = 0


class SendBytes(NamedTuple):
    """Write these bytes, exactly one message, to this connection.

    ``spare``: drop them if much waits to be written; the gateway will ask again.
    """

    connection: int
    data: bytes
    spare: bool = False


class SendDatagram(NamedTuple):
    """Send this NTP request now: its time stamp is that of the call.

    ``place``: 0 is the gateway, a positive number a standard server, a negative one this host's
    chrony (``edge_agent.ntp``).
    """

    data: bytes
    place: int = 0


class Close(NamedTuple):
    """Close this connection; the driver reports nothing more about it."""

    connection: int
    reason: str


Output = Connect | SendBytes | SendDatagram | Close


class EmitAnswer(NamedTuple):
    """Answer to ``emit``, ``promise`` and ``begin``.

    ``reason`` of a refusal: ``full`` (try again after acks), ``finished`` or ``failed``. Refused
    rows got no numbers and are counted. ``first_seq``: number of the first row; the stream's next
    number where no row was numbered.
    """

    accepted: bool
    first_seq: int
    reason: str | None = None


# The session of one agent with its gateway, from the first connection to the last ack.


# Messages that a session makes from its own state: its identity and its clock.


def hello_message(
    settings: SessionSettings,
    streams: Sequence[m.StreamSchema],
    numbers: Numbers,
    acked: Sequence[int],
    capabilities: tuple[str, ...],
) -> m.Hello:
    """The first message of a connection; ``acked``: the next number to be acked, of the controls
    and of each stream.
    """
    declared = tuple(
        m.HelloStream(schema, numbers.first_seq, done)
        for schema, done in zip(streams, acked[1:], strict=True)
    )
    return m.Hello(
        site=settings.site,
        source=settings.source,
        token=settings.token,
        incarnation=numbers.incarnation,
        resend=settings.delivery is Delivery.RESEND,
        control_acked=acked[0],
        streams=declared,
        start=numbers.start,
        capabilities=capabilities,
    )


class SyncReports:
    """Results of time sync to send. The first one has the control number ``first``."""

    def __init__(self, unacked: UnackedMessages, first: int = 0) -> None:
        self._unacked = unacked
        self._first = first
        self._newest: Outgoing | None = None
        self._last: SyncReport | None = None

    def put(self, report: SyncReport, control_next: int, ended: bool, urgent: bool = False) -> int:
        """Send ``report`` and return the next control number.

        It replaces an earlier report that is still unsent, unless the clock was set in between:
        events that wait need the earlier one. ``ended``: no further control numbers are allowed.
        ``urgent``: the report is about another gateway and goes first, as the very first one does.
        """
        waiting, before, self._last = self._newest, self._last, report
        if waiting is not None and waiting.tries == 0 and not waiting.done:
            data = wire.encode(_sync_message(waiting.first, report))
            is_same_clock = urgent or not _contradict(before, report)
            if is_same_clock or not self._unacked.fits(len(data)):
                self._unacked.replace(waiting, data)
                return control_next
        if waiting is not None and ended:
            return control_next
        number = self._first if waiting is None else control_next
        data = wire.encode(_sync_message(number, report))
        self._newest = self._unacked.add(
            m.CONTROL, number, 1, data, urgent=urgent or waiting is None
        )
        return control_next + (waiting is not None)


def _contradict(before: SyncReport | None, after: SyncReport) -> bool:
    if before is None or before.offset_ns is None or after.offset_ns is None:
        return False
    return after.contradicts(before)


def _sync_message(number: int, report: SyncReport) -> m.Sync:
    """A round's result under control number ``number``; offset positive = the source is slow."""
    return m.Sync(
        number=number,
        offset=report.offset_ns,
        delay=report.delay_ns,
        measured_at=report.measured_at_ns,
        precision=report.precision_ns,
        skew_error_ppb=report.skew_error_ppb,
    )


# The session of one agent with its gateway, from the first connection to the last ack.


class AgentSession:
    """One run of an agent (see the module). Every method may add to ``outputs``."""

    def __init__(
        self, settings: SessionSettings, streams: Sequence[m.StreamSchema], incarnation: int,
        cookie: Callable[[], int], jitter: Callable[[int], int] = int,
        resumed: ResumedStart | None = None,
    ) -> None:  # fmt: skip
        """Set up; nothing is sent before ``start``.

        Args:
            settings: identity and timeouts.
            streams: in the order of their indices.
            incarnation: in [0, 2**62), larger than at all earlier starts that the device knows of
                (``edge_agent.sequence``).
            cookie: returns 64 random bits per call.
            jitter: maps the longest wait [ns] to a random wait.
            resumed: where an outbox resumes; None: a new start.

        Raises:
            SettingsError: a stream's name, an attribute or the incarnation is out of its range.
        """
        check_schemas(streams)
        self.settings = settings
        self.streams = tuple(streams)
        self.state = SessionState.IDLE
        self.failure: m.ErrorMessage | None = None
        self.counts: Counter[str] = Counter()
        """Rows: ``emitted acked refused_full refused_finished refused_failed``. Occurrences:
        ``refused_controls resent_messages heartbeats heartbeats_skipped bad_message disconnected
        ack_timeout hello_timeout incarnation_raised error_REASON``; ``clocks_left_out``: messages
        whose clocks the gateway is too old to know."""
        self._index = {stream.name: index for index, stream in enumerate(self.streams)}
        begin = resumed or ResumedStart.nothing(len(streams), cookie() % (1 << 64))
        self._numbers = begin.numbers(incarnation)
        self._control_first, self._control_next = begin.control_first, begin.control_first + 1
        self._acked = dict(enumerate((begin.control_first, *begin.acked), m.CONTROL))
        self._unacked = UnackedMessages(list(self._acked), settings.unacked_bytes_max)
        self._sync = TimeSync(settings.sync, cookie, settings.ntp_key, settings.time_places)
        self._reports = SyncReports(self._unacked, begin.control_first)
        self._clocks = ClockReports(self._unacked)
        waits = settings.reconnect_ns, settings.reconnect_ns_max
        self._pool = Pool(settings.connections, *waits, jitter)
        self._gateway = self._synced_with = 0
        self._refused_by: set[int] = set()
        """Gateways that refused for good since the last WELCOME."""
        self._awaits_sync = False
        """Whether time sync with the current gateway is outstanding, after one with another."""
        self._outputs: list[Output] = []
        self._heartbeat = Heartbeat(len(self.streams), settings.heartbeat_ns)
        self._promising = [PromiseRule(settings.promises) for _ in self.streams]
        self._ack_watch = AckWatch(self._unacked, settings)
        self.intervals = TracedIntervals(settings.pull_back_bytes)
        self._capabilities = (
            m.CLOCKS,
            m.NUMBERS,
            *((m.PULL_BACK,) if settings.pull_back_bytes else ()),
        )
        self._eos_made = self.sooner = False
        """``sooner``: whether ``emit`` has made ``next_wake`` earlier since the last call of it."""

    @property
    def incarnation(self) -> int:
        """The incarnation in use: the gateway may have required a larger one."""
        return self._numbers.incarnation

    @property
    def sync_state(self) -> SyncState:
        return self._sync.state

    def clock_states(self, now: Now) -> list[dict[str, Any]]:
        """As ``ClockReports.states``, for the status file."""
        return self._clocks.states(self._sync.status(now), now)

    @property
    def sync_counts(self) -> Counter[str]:
        """Counters of ``TimeSync``."""
        return self._sync.counts

    @property
    def time_refusal(self) -> str:
        """Why the answer of this host's chrony was not used; empty: it was."""
        return self._sync.refusal

    @property
    def unacked_bytes(self) -> int:
        return self._unacked.bytes

    def next_seq(self, stream: str) -> int:
        """The number that the next row of ``stream`` will get."""
        return self._numbers.next[self._index[stream]]

    def outputs(self) -> list[Output]:
        """Requests to the driver, in this order. Drained; call it after every input."""
        made, self._outputs = self._outputs, []
        return made

    # --- calls of the application

    def start(self, now: Now) -> None:
        """Ask for the connections. Called once."""
        assert self.state is SessionState.IDLE
        self.state = SessionState.CONNECTING
        for link in self._pool.links:
            self._connect(link, now)

    def emit(
        self, stream: str, now: Now, *, ts: Buffer, te: Buffer | None = None,
        ids: Buffer | None = None, types: str | Codes | None = None,
        attrs: Mapping[str, Column] | None = None, clocks: str | Codes | None = None,
    ) -> EmitAnswer:  # fmt: skip
        """Events of ``stream`` as columns; they become one message and get consecutive numbers.

        ``ts``, ``te`` (default ``ts``) and ``ids`` (of intervals) are int64 buffers; ``types`` is
        one type for all rows, or Codes; an attribute that is left out is null. ``clocks``: names
        of the clocks that stamped them, null: the agent's own. All is copied.
        Raises KeyError (no such stream) or ValueError: columns do not fit it, or too many rows.
        """
        index = self._index[stream]
        schema = self.streams[index]
        data = data_message(
            index, schema, ts=ts, te=te, ids=ids, types=types, attrs=attrs, clocks=clocks
        )
        return self._emit(data, now)

    def emit_part(self, batch: EventBatch, now: Now, start: int, end: int) -> EmitAnswer:
        """As ``emit``, for rows [start, end) of ``batch``, which is sent by reference."""
        return self._emit(BatchSlice(batch, start, end, self._numbers.next[batch.stream]), now)

    def _emit(self, message: Events, now: Now) -> EmitAnswer:
        index, rows = message.stream, message.rows
        stream, first = self.streams[index].name, self._numbers.next[index]
        reason = None if self.state is SessionState.RUNNING else self._refusal()
        if reason is None:
            packed = bytes_of(message, first, stream)
            if self._unacked.fits(size := len(packed)):
                self._numbers.take(index, rows)
                self._unacked.add(index, first, rows, packed, size=size)
                if self.intervals.open:
                    self.intervals.put_end(message, packed)
                self.counts["emitted"] += rows
                self._heartbeat.put_event(index, now.mono_ns)
                self._pump(now)
                if self.settings.promises.share:
                    promised = now.wall_ns - self.settings.heartbeat_lag_ns
                    for name in self._promising[index].due(rows, message.types):
                        self.promise(now, promised, stream=stream, type=name)
                return EmitAnswer(True, first)
            reason = "full"
        self.intervals.remove_open(index, ids_of(message))
        self.counts[f"refused_{reason}"] += rows
        return EmitAnswer(False, first, reason)

    def promise(
        self, now: Now, ts: int, *, stream: str | None = None, type: str | None = None,  # noqa: A002
    ) -> EmitAnswer:  # fmt: skip
        """POG: no event emitted from now on has event time below ``ts`` [ns, source's clock].

        It is about ``stream`` (None: every stream) and ``type`` (None: every type). The gateway
        applies it after all earlier numbers have arrived, so it may overtake them.
        """
        indices = range(len(self.streams)) if stream is None else [self._index[stream]]
        pairs = tuple((index, self._numbers.next[index]) for index in indices)
        return self._control(now, m.Promise(self._control_next, ts, type, pairs))

    def begin(
        self, stream: str, now: Now, *, ts: int, id: int, type: str, clock: str | None = None,  # noqa: A002
    ) -> EmitAnswer:  # fmt: skip
        """IBP: interval ``id`` (unique per source) of ``type`` began at ``ts``, by ``clock`` (None:
        the agent's own).
        """
        index = self._index[stream]
        answer = self._control(now, m.Begin(self._control_next, index, ts, id, type, clock))
        if answer.accepted:
            self.intervals.put_begin(index, id)
        return answer

    def clock(self, bound: DeviceClockBound, now: Now) -> None:
        """Report a bound of a device's clock; call it before the events that depend on it."""
        if self.state.ended or self._eos_made:
            return
        self._control_next = self._clocks.put(bound, self._control_next)
        self._pump(now)

    def finish(self, now: Now) -> None:
        """End the input: send EOS, and stop when the gateway has acked everything."""
        if self.state.ended or self._eos_made:
            return
        self._sync.report_jump(now)  # a round that measures it may come too late
        self._after_sync(now)
        eos = m.Eos(self._control_next, now.wall_ns, tuple(self._numbers.next))
        self._unacked.add(m.CONTROL, eos.number, 1, wire.encode(eos))
        self._control_next += 1
        self._eos_made = True
        self._heartbeat.stop()
        if self.state is SessionState.RUNNING:
            self.state = SessionState.FINISHING
        self._pump(now)

    # --- calls of the driver

    def connected(self, connection: int, now: Now) -> None:
        """A requested connection is open."""
        link = self._pool.links[connection]
        if link.state is not LinkState.CONNECTING:
            return
        self._pool.greeting(link, now.mono_ns + self.settings.hello_timeout_ns)
        acked = list(self._acked.values())
        hello = hello_message(self.settings, self.streams, self._numbers, acked, self._capabilities)
        self._outputs.append(SendBytes(connection, wire.encode(hello)))

    def disconnected(self, connection: int, now: Now) -> None:
        """A connection was lost, or could not be opened."""
        link = self._pool.links[connection]
        if link.state is LinkState.ABSENT:
            return
        self.counts["disconnected"] += 1
        self._lose(link, now)
        self._pump(now)

    def received(self, connection: int, data: bytes, now: Now) -> None:
        """Bytes from the gateway. A malformed message closes the connection, nothing else."""
        link = self._pool.links[connection]
        if not link.is_open():
            return
        try:
            for message in link.decoder.feed(data):
                self._take(link, message, now)
                if not link.is_open():
                    break
        except WireError as error:
            self.counts["bad_message"] += 1
            self._drop(link, error.reason, now)
        self._pump(now)
        self._end_if_done()

    def datagram_received(self, data: bytes, now: Now) -> None:
        """A datagram that may answer an NTP question."""
        self._sync.received(data, now)
        self._after_sync(now)

    def next_wake(self) -> int | None:
        """Monotonic instant [ns] at which ``wake`` is due; None: no timer runs."""
        links, sync, self.sooner = self._pool.next_due, self._sync, False
        return earliest(links, sync.due, sync.look_due, self._heartbeat.due, self._ack_watch.due)

    def wake(self, now: Now) -> None:
        """Act on every timer that is due; harmless when none is."""
        for link in self._pool.links:
            if link.due is not None and link.due <= now.mono_ns:
                if link.state is LinkState.ABSENT:
                    self._connect(link, now)
                else:
                    self.counts["hello_timeout"] += 1
                    self._drop(link, "hello timeout", now)
        if self._ack_watch.due is not None and self._ack_watch.due <= now.mono_ns:
            self._check_acks(now)
        if self._heartbeat.due is not None and self._heartbeat.due <= now.mono_ns:
            self._promise_for_silent(now)
        self._sync.wake(now)
        self._after_sync(now)

    # --- inside

    def _refusal(self) -> str | None:
        failed = self.state is SessionState.FAILED
        return "failed" if failed else "finished" if self._eos_made else None

    def _control(self, now: Now, message: m.Promise | m.Begin) -> EmitAnswer:
        index = message.stream if isinstance(message, m.Begin) else message.streams[0][0]
        first, data = self._numbers.next[index], wire.encode(message)
        reason = self._refusal() or (None if self._unacked.fits(len(data)) else "full")
        if reason is not None:
            self.counts["refused_controls"] += 1
            return EmitAnswer(False, first, reason)
        self._control_next += 1
        self._unacked.add(m.CONTROL, message.number, 1, data)
        self._pump(now)
        return EmitAnswer(True, first)

    def _connect(self, link: PooledConnection, now: Now) -> None:
        self._pool.connecting(link, now.mono_ns + self.settings.hello_timeout_ns)
        self._outputs.append(Connect(link.number, self._gateway))

    def _lose(self, link: PooledConnection, now: Now) -> None:
        was_ready = link.state is LinkState.READY
        self._pool.lost(link, now.mono_ns)
        self.counts["resent_messages"] += self._unacked.lost(link.number)
        if was_ready or self._pool.ready or self.settings.gateways == 1:
            return
        self._gateway = (self._gateway + 1) % self.settings.gateways
        for other in self._pool.links:  # they were requested for the former gateway
            if other.state is not LinkState.ABSENT:
                self._outputs.append(Close(other.number, "another gateway"))
                self._pool.lost(other, now.mono_ns)

    def _drop(self, link: PooledConnection, reason: str, now: Now) -> None:
        self._outputs.append(Close(link.number, reason))
        self._lose(link, now)

    def _take(self, link: PooledConnection, message: m.Message, now: Now) -> None:
        match message:
            case m.Ack() if link.state is LinkState.READY:
                self._acks((message.control_next, *message.next_seqs), now.mono_ns)
            case m.Welcome() if link.state is LinkState.GREETING:
                if self._numbers.foreign((message.control_next, *message.next_seqs), self._acked):
                    self._refused(link, self._numbers.foreign_start(), now)
                    return
                self._acks((message.control_next, *message.next_seqs), None)
                self._welcomed(link, message, now)
            case m.IntervalsRequest() if link.state is LinkState.READY:
                answers = self.intervals.answer(message.intervals)
                for data in answers:
                    self._send(link, data, spare=True)
            case m.ErrorMessage():
                self.counts[f"error_{message.reason}"] += 1
                if message.reason == "length" and link.state is LinkState.GREETING:
                    self._capabilities = ()  # an older gateway, whose HELLO lacks this field
                self._refused(link, message, now)
            case _:
                raise WireError("unexpected", type(message).__name__)

    def _welcomed(self, link: PooledConnection, message: m.Welcome, now: Now) -> None:
        self._numbers.welcomed = True
        self._refused_by.clear()
        link.knows_clocks = m.CLOCKS in message.capabilities
        was_cut_off = self._pool.welcomed(link)
        if self.state is SessionState.CONNECTING:
            self.state = SessionState.SYNCING
        if self._gateway != self._synced_with:
            self.counts["gateway_changed"] += 1
            self._awaits_sync, self._synced_with = True, self._gateway
            self._sync.restart(now)
        elif was_cut_off:
            self._sync.start(now)
        self._after_sync(now)

    def _refused(self, link: PooledConnection, error: m.ErrorMessage, now: Now) -> None:
        again = error.retry
        # If two connections were refused for the same reason, only the first changes something.
        ahead, above = error.reason == AHEAD, error.above
        if above is not None and (above < self._numbers.incarnation) is ahead:
            again = self._numbers.exceed(above)
            self.counts["incarnation_lowered" if ahead else "incarnation_raised"] += again
            for other in self._pool.links:
                if again and other.is_open() and other is not link:
                    self._drop(other, error.reason, now)  # it uses the former incarnation
        self._refused_by.add(self._gateway)
        elsewhere = above is None and len(self._refused_by) < self.settings.gateways
        if again or elsewhere:
            self._drop(link, error.reason, now)
        else:
            self._fail(error)

    def _acks(self, acks: tuple[int, ...], came_mono_ns: int | None) -> None:
        """Take acks of the controls and of each stream; ``came_mono_ns`` None: from a WELCOME."""
        check_acks(acks, (self._control_next, *self._numbers.next))
        for lane, ack in zip(self._acked, acks, strict=True):
            if ack > self._acked[lane]:
                self._acked[lane] = ack
                freed = self._ack_watch.acked(lane, ack, came_mono_ns)
                self.counts["acked"] += freed if lane != m.CONTROL else 0
        if self.state is SessionState.SYNCING and self._acked[m.CONTROL] > self._control_first:
            self.state = SessionState.FINISHING if self._eos_made else SessionState.RUNNING

    def _fail(self, error: m.ErrorMessage) -> None:
        self.state = SessionState.FAILED
        self.failure = error
        self._stop(error.reason)

    def _end_if_done(self) -> None:
        if self.state is SessionState.FINISHING and len(self._unacked) == 0:
            self.state = SessionState.DONE
            self._stop("done")

    def _stop(self, reason: str) -> None:
        self._sync.stop()
        self._heartbeat.stop()
        self._ack_watch.stop()
        self._outputs += [Close(link.number, reason) for link in self._pool.close()]

    def _after_sync(self, now: Now) -> None:
        self._outputs += [SendDatagram(data, self._sync.place) for data in self._sync.requests()]
        for report in self._sync.reports():
            changed, self._awaits_sync = self._awaits_sync, False
            self._control_next = self._reports.put(
                report, self._control_next, self._eos_made, urgent=changed
            )
            if not self._eos_made:
                self._control_next = self._clocks.put_agent(report, now, self._control_next)
            if changed:
                self._resend_clocks(report)
        self._pump(now)

    def _resend_clocks(self, report: SyncReport) -> None:
        """Restate unacked syncs, which compare clocks with that of the former gateway."""
        for waiting in self._unacked.of_lane(m.CONTROL):
            former = wire.decode(waiting.data[wire.PREFIX_BYTES :])
            if not isinstance(former, m.Sync):
                continue
            sync = _sync_message(former.number, report)
            if former.clock is not None:
                sync = self._clocks.by_gateway(former.number, former.clock, former.measured_at)
            self._unacked.replace(waiting, wire.encode(sync))

    def _pump(self, now: Now) -> None:
        """Give waiting messages to connections; before RUNNING only the first sync report."""
        if self._awaits_sync:
            return
        running, unacked, mono_ns = self.state is SessionState.RUNNING, self._unacked, now.mono_ns
        gated = not (running or self.state is SessionState.FINISHING)
        while self._pool.ready and (unacked.fresh or unacked.others):
            if (message := unacked.next_waiting(gated)) is None:
                break
            link, message.tries = self._pool.next_ready(), message.tries + 1
            message.connection, message.sent_mono_ns = link.number, mono_ns
            self._send(link, message.data)
            if self.settings.delivery is Delivery.ONCE and message.lane != m.CONTROL:
                unacked.forget(message)
            elif self._ack_watch.due is None:
                self._ack_watch.sent(mono_ns)
                self.sooner = True
        if running and self._heartbeat.due is None:
            self._heartbeat.start(mono_ns)

    def _send(self, link: PooledConnection, data: bytes, *, spare: bool = False) -> None:
        """Send a message, without names of clocks to an old gateway, which cannot log them."""
        if not link.knows_clocks and isinstance(data, bytes) and wire.names_clocks(data):
            self.counts["clocks_left_out"] += 1
            message = wire.decode(data[wire.PREFIX_BYTES :])
            if isinstance(message, m.Sync):
                report = self._clocks.without_clock(message.number, message.measured_at)
                data = wire.encode(report)
            else:
                data = wire.without_clocks(data)
        self._outputs.append(SendBytes(link.number, data, spare=spare))

    def _check_acks(self, now: Now) -> None:
        for number in self._ack_watch.late(now.mono_ns):
            self.counts["ack_timeout"] += 1
            self._drop(self._pool.links[number], "ack timeout", now)
        self._ack_watch.checked()

    def _promise_for_silent(self, now: Now) -> None:
        silent = self._heartbeat.take_silent(now.mono_ns)
        if silent:
            pairs = tuple((index, self._numbers.next[index]) for index in silent)
            ts = now.wall_ns - self.settings.heartbeat_lag_ns
            message = m.Promise(self._control_next, ts, None, pairs)
            sent = self._pool.ready and self._control(now, message).accepted
            self.counts["heartbeats" if sent else "heartbeats_skipped"] += 1
