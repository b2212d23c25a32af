"""A device: its clocks, its events, and the same agent that runs on real devices.

The agent collects events for ``poll_ns`` and emits them as one message. Polls are equidistant in
true time, because the effect of a clock error on 20 ms is negligible. All timers of the session run
on the device's monotonic clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Final

import numpy as np

from slackwater.edge_agent.abstraction.machine import IntervalBegin
from slackwater.edge_agent.clock import Now, earliest
from slackwater.edge_agent.device_clock import FollowedClock
from slackwater.edge_agent.messages import MESSAGE_MAX, ROWS_MAX, StreamSchema, Texts
from slackwater.edge_agent.packing import Row, columns_of, cut
from slackwater.edge_agent.pull_back import EventBatch
from slackwater.edge_agent.session import AgentSession, Connect, SendBytes, SendDatagram
from slackwater.edge_agent.settings import Delivery, PromiseSettings, SessionSettings
from slackwater.edge_agent.timesync import SyncSettings
from slackwater.simulator.abstracting import DeviceAbstraction
from slackwater.simulator.alarm import LocalAlarm, VirtualTime
from slackwater.simulator.clocks import BothClocks, Clock, ClockSettings
from slackwater.simulator.feed import DeviceFeed, OpenBatch
from slackwater.simulator.network import Connection, Network
from slackwater.simulator.scenario import SourceSettings
from slackwater.simulator.workload import AttributeViews, Span

COLUMN_BYTES: Final = 9
"""Most bytes of one row of one attribute: 8 bytes and a mask."""


def watched_if_set(sync: SyncSettings, clock: ClockSettings) -> SyncSettings:
    """Equivalent settings without periodic checks of a clock that is never set.

    Such a clock never jumps by more than its resolution, which is within the bound of any offset.
    In a week with few messages the checks took three quarters of the time.
    """
    steady = not clock.steps and clock.resolution_ns < sync.precision_ns
    return replace(sync, watch_ns=0) if steady else sync


class Device:
    """One source.

    Args:
        env: virtual time, at the start of the run.
        settings: of the source.
        clock: its wall clock.
        feed: its events.
        network: its links.
        cookies: random 64-bit numbers for the time sync.
        span: true time in which events happen.
        life: from when it is switched on until it is switched off.
        phase_ns: of the polls.
        promise_phase: of the promises (``PromiseSettings``).
        settled: called when the session is done or has failed permanently.
    """

    def __init__(
        self,
        env: VirtualTime,
        settings: SourceSettings,
        clock: Clock,
        feed: DeviceFeed,
        network: Network,
        cookies: np.random.Generator,
        span: Span,
        life: Span,
        phase_ns: int,
        promise_phase: float,
        settled: Callable[[], None],
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.feed = feed
        self.network = network
        self.counts: Counter[str] = Counter()
        """Events: ``polled``, ``accepted``, ``forgotten`` (``polled`` too late, at a start),
        ``abstracted`` (readings that are not sent), ``made`` (intervals); ``bytes``: sent on
        connections."""
        self.refused: Counter[str] = Counter()
        """Events that the session refused, by reason."""
        self.sessions: list[AgentSession] = []
        """One session per incarnation; the last one is running."""
        self._env = env
        timer = clock.monotonic()
        self._clocks = BothClocks(clock, timer)
        self._cookies = cookies
        self._span = span
        self._sync = watched_if_set(settings.sync, clock.settings)
        self._off_ns = life.start_ns + life.length_ns
        self._phase_ns = phase_ns
        self._promises = PromiseSettings(
            share=settings.promise_share, by_type=settings.promise_by_type, phase=promise_phase
        )
        self._on_settled = settled
        self._abstraction = DeviceAbstraction(settings.abstract, settings.workload.streams())
        self._abstracts = bool(settings.abstract)
        behind = settings.device_clock
        self._read_out_ns = 0 if behind is None else behind.read_out_ns
        self._grain_ns = 0 if behind is None or behind.resolution_ns == 1 else behind.resolution_ns
        self._behind = None
        if behind is not None:
            self._behind = FollowedClock("device", behind.declared, count(1).__next__)
        self.reported = False
        self._ended = False
        self._open: dict[int, Connection] = {}
        self._alarm = LocalAlarm(env, timer.when_reads, self._wake)
        self._rows_max = self._most_rows()
        if settings.on_ns:
            env.call_at(life.start_ns, self._forget)
        env.call_at(life.start_ns, self._start)
        for at_ns in settings.restarts_ns:
            env.call_at(env.now + at_ns, self._restart)
        env.call_at(life.start_ns, self._plan)

    @property
    def session(self) -> AgentSession:
        """The session of the current incarnation."""
        return self.sessions[-1]

    @property
    def settled(self) -> bool:
        """Whether the device will send nothing more."""
        return bool(self.sessions) and self.session.state.ended and not self.network.busy

    # --- calls of the network

    def opened(self, connection: Connection) -> None:
        if self._open.get(connection.number) is connection:
            self.session.connected(connection.number, self._now())
            self._carry_out()

    def closed(self, connection: Connection) -> None:
        if self._open.get(connection.number) is connection:
            del self._open[connection.number]
            self.session.disconnected(connection.number, self._now())
            self._carry_out()

    def received(self, connection: Connection, data: bytes) -> None:
        if self._open.get(connection.number) is connection:
            self.session.received(connection.number, data, self._now())
            self._carry_out()

    def datagram(self, data: bytes) -> None:
        self.session.datagram_received(data, self._now())
        self._carry_out()

    # --- inside

    def _now(self) -> Now:
        return self._clocks.now(self._env.now)

    def _start(self, _: Any) -> None:
        settings = self.settings
        lag_ns = settings.heartbeat_lag_ns
        silence_ns = max((each.silence_ns for each in settings.abstract), default=0)
        session = AgentSession(
            SessionSettings(
                source=settings.name,
                site=settings.site,
                connections=settings.connections,
                delivery=Delivery.RESEND if settings.resend else Delivery.ONCE,
                sync=self._sync,
                heartbeat_ns=settings.heartbeat_ns,
                heartbeat_lag_ns=(
                    2 * settings.poll_ns + self._read_out_ns + silence_ns
                    if lag_ns is None
                    else lag_ns
                ),
                promises=self._promises,
                unacked_bytes_max=settings.unacked_bytes_max,
                pull_back_bytes=settings.pull_back_bytes,
            ),
            self._streams(),
            incarnation=len(self.sessions) if settings.counts_boots else 0,
            cookie=lambda: int(self._cookies.integers(2**64, dtype=np.uint64)),
        )
        self.sessions.append(session)
        session.start(self._now())
        for name in settings.promise_first:
            now = self._now()
            session.promise(now, now.wall_ns - session.settings.heartbeat_lag_ns, type=name)
        if self._ended:
            session.finish(self._now())
        self._carry_out()

    def _restart(self, _: Any) -> None:
        """Power off and on: connections break, and unsent and unpolled events are lost."""
        if not self.sessions or self.session.state.ended:
            return
        for connection in self._open.values():
            connection.close_from_agent()
        self._open.clear()
        self._forget()
        if not self.settings.counts_boots:
            self._abstraction.restart(len(self.sessions))
        self._start(None)

    def _forget(self, _: Any = None) -> None:
        """Drop events that have happened and were not polled."""
        for part in self.feed.take(self._env.now - self._read_out_ns):
            self.counts["polled"] += part.high - part.low
            self.counts["forgotten"] += part.high - part.low

    def _plan(self, _: Any = None) -> None:
        """Schedule the poll that finds the next event, or the end."""
        due_ns, poll_ns = self.feed.due_ns, self.settings.poll_ns
        due_ns = None if due_ns is None else due_ns + self._read_out_ns
        if due_ns is None or (self.settings.off_ns is not None and due_ns > self._off_ns):
            self._env.call_at(self._off_ns, self._finish)
        elif poll_ns == 0:
            self._env.call_at(due_ns, self._poll)
        else:
            first_ns = self._span.start_ns + self._phase_ns
            polls = max(-(-(due_ns - first_ns) // poll_ns), 0)
            self._env.call_at(first_ns + polls * poll_ns, self._poll)

    def _poll(self, _: Any) -> None:
        true_ns = self._env.now
        now = self._clocks.now(true_ns)
        for part in self.feed.take(true_ns - self._read_out_ns):
            clocks = None if self._behind is None else self._stamped(self._behind, part, now)
            if part.columns is not None:
                self._abstract(part, part.columns, now, clocks)
            if self._abstracts and not self._abstraction.passes(part.stamped.batch.stream):
                self.counts["polled"] += part.high - part.low
                self.counts["abstracted"] += part.high - part.low
                continue
            if part.high - part.low <= self._rows_max:
                self._emit(part, part.low, part.high, now, clocks)
                continue
            for low in range(part.low, part.high, self._rows_max):
                self._emit(part, low, min(low + self._rows_max, part.high), now, clocks)
        self._send()
        if self._abstracts or self.sessions[-1].sooner:
            self._wait()
        self._plan()

    def _emit(
        self, part: OpenBatch, low: int, high: int, now: Now, clocks: Sequence[str] | None
    ) -> None:
        session, rows = self.sessions[-1], high - low
        if clocks is None:
            accepted, first_seq, reason = session.emit_part(part.batch, now, low, high)
        else:
            whole = _named(clocks[low - part.low : high - part.low], part, low, high)
            accepted, first_seq, reason = session.emit_part(whole, now, 0, rows)
        self.counts["polled"] += rows
        if accepted:
            self.counts["accepted"] += rows
            part.stamped.numbered_as(low, high, first_seq, session)
        else:
            assert reason is not None
            self.refused[reason] += rows

    def _stamped(self, clock: FollowedClock, part: OpenBatch, now: Now) -> list[str]:
        """The clock that stamped each event; its bounds are reported first."""
        ts = part.stamped.ts[part.low : part.high].tolist()
        clock.add_message(now.mono_ns, max(ts), self._grain_ns)
        named = [clock.name_of(each) for each in ts]
        for bound in clock.take_bounds():
            self.session.clock(bound, now)
        return named

    def _abstract(
        self, part: OpenBatch, columns: AttributeViews, now: Now, clocks: Sequence[str] | None
    ) -> None:
        stamped, low, high = part.stamped, part.low, part.high
        ts = stamped.ts[low:high].tolist()
        self._abstraction.take(stamped.batch.stream, ts, columns, low, high, now.mono_ns, clocks)
        self._tell(now)

    def _tell(self, now: Now) -> None:
        """Send begins and intervals from the abstraction."""
        for stream, made in self._abstraction.outputs():
            rows = []
            for each in made:
                if isinstance(each, IntervalBegin):
                    self.session.begin(
                        stream, now, ts=each.ts, id=each.id, type=each.type, clock=each.clock
                    )
                else:
                    rows.append(each)
            if rows:
                self._emit_intervals(stream, rows, now)

    def _emit_intervals(self, stream: str, rows: Sequence[Row], now: Now) -> None:
        schema = self._abstraction.streams[stream]
        for low in range(0, len(rows), self._rows_max):
            some = rows[low : low + self._rows_max]
            ts, te, ids, types, attrs, clocks = columns_of(schema, some)
            emitted = self.session.emit(
                stream,
                now,
                ts=ts,
                te=te,
                ids=ids,
                types=types,
                attrs=attrs,
                clocks=clocks,
            )
            self.counts["made"] += len(some)
            if emitted.accepted:
                self.counts["accepted"] += len(some)
            else:
                assert emitted.reason is not None
                self.refused[emitted.reason] += len(some)

    def _finish(self, _: Any) -> None:
        self._ended = True
        self._abstraction.finish()
        self._tell(self._now())
        self.session.finish(self._now())
        self._carry_out()

    def _wake(self) -> None:
        now = self._now()
        self._abstraction.wake(now.mono_ns)
        self._tell(now)
        self.session.wake(now)
        self._carry_out()

    def _carry_out(self) -> None:
        """Execute the session's outputs, and set an alarm for its next deadline."""
        self._send()
        self._wait()
        if not self.reported and self.session.state.ended:
            self.reported = True
            self._on_settled()

    def _wait(self) -> None:
        due = self.session.next_wake()
        if self._abstracts:
            due = earliest(due, self._abstraction.next_wake())
        self._alarm.set(due)

    def _send(self) -> None:
        for output in self.sessions[-1].outputs():
            if isinstance(output, SendBytes):
                number, data, _ = output
                size = len(data)
                self.counts["bytes"] += size
                self._open[number].send_up(data, size)
            elif isinstance(output, SendDatagram):
                self.network.ask(output.data, self)
            elif isinstance(output, Connect):
                self._open[output.connection] = self.network.connect(output.connection, self)
            else:
                connection = self._open.pop(output.connection, None)
                if connection is not None:
                    connection.close_from_agent()

    def _streams(self) -> list[StreamSchema]:
        return [*self.settings.workload.streams(), *self._abstraction.streams.values()]

    def _most_rows(self) -> int:
        widest = max(len(schema.attrs) for schema in self._streams()) + 4
        return min(ROWS_MAX, MESSAGE_MAX // 2 // (COLUMN_BYTES * widest))


def _named(clocks: Sequence[str], part: OpenBatch, low: int, high: int) -> EventBatch:
    """Events [low, high) of a batch, with the clock that stamped each."""
    names = list(dict.fromkeys(clocks))
    codes = np.array([names.index(name) for name in clocks], "<i4").tobytes()
    return EventBatch(
        cut(part.batch.data, low, high, 0)._replace(clocks=Texts(names, codes)), part.batch.name
    )
