"""The path of events from the inputs to the gateway: through memory or an outbox."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

from slackwater.edge_agent import clock
from slackwater.edge_agent.device_clock import DeviceClockBound
from slackwater.edge_agent.drivers.agent_file import AgentSettings
from slackwater.edge_agent.drivers.outlets import BaseOutlet
from slackwater.edge_agent.drivers.session_driver import Address, SessionDriver
from slackwater.edge_agent.drivers.spool_pump import SpoolPump
from slackwater.edge_agent.drivers.status import LineWriter
from slackwater.edge_agent.inputs.base import Outlet
from slackwater.edge_agent.outbox.journal import Change, KnownKeys
from slackwater.edge_agent.outbox.outbox import Outbox, OutboxFolder
from slackwater.edge_agent.outbox.spool import Record
from slackwater.edge_agent.outbox.spooled_session import SpooledSession
from slackwater.edge_agent.packing import Row, columns_of, data_message, encoded_data
from slackwater.edge_agent.pull_back import ids_of
from slackwater.edge_agent.session import AgentSession, SessionState


class Channel(Protocol):
    """Path of all inputs' events to the gateway. Start it once and close it once."""

    counts: Counter[str]
    """Events: ``read``, ``dropped_full``, ``dropped_oldest``, ``too_long``; ``bad`` records."""

    @property
    def driver(self) -> SessionDriver:
        """The driver of the running session, which may be replaced by another."""

    @property
    def outlet(self) -> Outlet:
        """The outlet to which inputs pass their events."""

    def begin(
        self, stream: str, ts: int, id: int, type: str, clock_: str | None = None,  # noqa: A002
    ) -> bool:  # fmt: skip
        """Send the begin of an interval (IBP); False: there was no room for it."""

    async def put_intervals(
        self, stream: str, rows: Sequence[Row], changes: Sequence[Change], keys: Sequence[bytes]
    ) -> bool:
        """Take ended intervals and the ``changes`` of the open ones (``outbox.journal``).

        With an outbox both are as durable as events, and atomic if ``rows`` fit into one wire
        message. ``keys``: of messages whose readings leave no other trace. Returns False if some
        intervals had no room.
        """

    def spool_counts(self) -> dict[str, dict[str, int]]:
        """Per stream, size and counters of its part of the outbox; empty without an outbox."""

    async def start(self) -> None:
        """Start connecting."""

    async def finish(self) -> None:
        """After all inputs have ended: return when everything is acked, or the session failed."""

    async def ended(self) -> None:
        """Return when nothing can be sent any more."""

    async def stop(self, seconds: float) -> None:
        """Stop before the inputs have ended; take ``seconds`` at most."""

    async def close(self) -> None:
        """Stop everything; always called, as the last method."""

    def report(self, tell: Callable[[str], None]) -> bool:
        """Report what became of the events; return whether nothing was lost."""


# Events in the session's memory: events that are not acked are lost with the process.


class MemoryChannel(BaseOutlet):
    """A channel for devices without a writable disk; it is its own outlet."""

    def __init__(
        self, settings: AgentSettings, session: AgentSession, address: Address, messages: LineWriter
    ) -> None:
        super().__init__(messages)
        self.driver = SessionDriver(session, address)
        self._schemas = {stream.name: stream for stream in settings.streams}
        self._when_full = settings.when_full
        self._keys = KnownKeys()
        self._sessions: dict[str, int] = {}

    @property
    def outlet(self) -> MemoryChannel:
        return self

    async def start(self) -> None:
        self.driver.start()

    async def finish(self) -> None:
        self.driver.session.finish(clock.read())
        self.driver.carry_out()
        await self.driver.until_settled()

    async def ended(self) -> None:
        await self.driver.until_settled()

    async def stop(self, seconds: float) -> None:
        """Wait for acks; the source ends, because its next run is a new start."""
        try:
            async with asyncio.timeout(seconds):
                await self.finish()
        except TimeoutError:
            return  # ``report`` names what was not acked

    async def close(self) -> None:
        await self.driver.close()

    def spool_counts(self) -> dict[str, dict[str, int]]:
        return {}

    def report(self, tell: Callable[[str], None]) -> bool:
        session = self.driver.session
        emitted, acked = session.counts["emitted"], session.counts["acked"]
        if session.state is SessionState.DONE:
            tell(f"done: {acked} events acked")
            return True
        tell(f"stopped: {emitted - acked} of {emitted} events are not acked")
        return session.state is not SessionState.FAILED and emitted == acked

    def begin(
        self, stream: str, ts: int, id: int, type: str, clock_: str | None = None,  # noqa: A002
    ) -> bool:  # fmt: skip
        answer = self.driver.session.begin(
            stream, clock.read(), ts=ts, id=id, type=type, clock=clock_
        )
        self.driver.carry_out()
        return answer.accepted

    async def put_intervals(
        self, stream: str, rows: Sequence[Row], changes: Sequence[Change], keys: Sequence[bytes]
    ) -> bool:
        del changes  # they are lost with the process, as the events are
        self._keys.remember(keys)
        return not rows or await self.take(stream, rows)

    def knows(self, key: bytes) -> bool:
        return key in self._keys

    async def session(self, sender: str, *, kept: bool) -> int:
        known = self._sessions.get(sender, 0)
        self._sessions[sender] = known if kept else known + 1
        return self._sessions[sender]

    async def clocks(self, bounds: Sequence[DeviceClockBound]) -> None:
        for bound in bounds:
            self.driver.session.clock(bound, clock.read())
        self.driver.carry_out()

    async def durable(self) -> None:
        """Return when the gateway has acked what was taken: no other place is safe."""
        counts = self.driver.session.counts
        taken = counts["emitted"]
        while counts["acked"] < taken:
            await self.driver.changed()

    async def _put(self, stream: str, rows: Sequence[Row], keys: Sequence[bytes]) -> bool:
        while True:
            ts, te, ids, types, attrs, clocks = columns_of(self._schemas[stream], rows)
            emitted = self.driver.session.emit(
                stream, clock.read(), ts=ts, te=te, ids=ids, types=types, attrs=attrs,
                clocks=clocks,
            )  # fmt: skip
            self.driver.carry_out()
            if emitted.reason != "full":
                self._keys.remember(keys)
                return True
            if self._when_full[stream] != "block":
                self.counts["dropped_full"] += len(rows)
                return False
            await self.driver.changed()


# Events go from the inputs to the disk, and from there to the gateway.
#
# One thread runs the disk operations, one at a time; everything else runs in the event loop. Starts
# that an earlier process left unfinished are finished first; meanwhile the inputs' events are
# already written to the current start.


MakeSession = Callable[[Outbox], SpooledSession]


class OutboxChannel(BaseOutlet):
    """A channel through an outbox; it is its own outlet."""

    def __init__(
        self, settings: AgentSettings, folder: OutboxFolder, outboxes: Sequence[Outbox],
        session_of: MakeSession, address: Address, messages: LineWriter, draw: Callable[[], int],
    ) -> None:  # fmt: skip
        """``outboxes``: earlier starts to finish, and last the current one; ``draw``: returns 64
        random bits.
        """
        super().__init__(messages)
        self._settings = settings
        self._folder = folder
        self._draw = draw
        self._disk = ThreadPoolExecutor(1, "disk")

        def driver_of(outbox: Outbox) -> tuple[SessionDriver, SpooledSession]:
            session = session_of(outbox)
            return SessionDriver(session, address), session

        self._pumps = [
            SpoolPump(outbox, driver_of, self.on_disk, settings, messages, draw)
            for outbox in outboxes
        ]
        self._live = self._pumps[-1]
        self.counts = self._live.outbox.counts  # of the whole outbox, not of streams
        self._earlier = self._pumps[:-1]
        for pump in self._earlier:
            pump.ending = True
        self._sending = self._pumps[0]
        self._acked_before = 0
        """Acked events of finished starts."""
        self._lost_before = False
        self._places = {stream.name: i for i, stream in enumerate(settings.streams)}
        self._changes: dict[str, tuple[int, Sequence[Change], Sequence[bytes]]] = {}
        """Per stream: number after its next intervals, the changes they cause, and message keys."""
        self._running: list[asyncio.Task[None]] = []
        self._counters = {
            f"{each.name} {counters.bits}": counters
            for each in settings.inputs
            for counters in each.counters
        }
        for name, newest in self._live.outbox.counters.items():
            if name in self._counters:
                self._counters[name].resume(newest)

    @property
    def outlet(self) -> OutboxChannel:
        return self

    @property
    def driver(self) -> SessionDriver:
        """The driver of the running session, which may be replaced by another."""
        return self._sending.driver

    async def on_disk(self, action: Callable[..., Any], *arguments: Any) -> Any:
        """Call ``action`` in the disk thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._disk, partial(action, *arguments))

    async def start(self) -> None:
        self._running = [
            asyncio.create_task(self._send()),
            *(asyncio.create_task(pump.write()) for pump in self._pumps),
        ]

    async def finish(self) -> None:
        self._live.ending = True
        await self.on_disk(self._live.outbox.ended)
        self._live.driver.notify()
        await self.ended()

    async def ended(self) -> None:
        await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)

    async def stop(self, seconds: float) -> None:
        """Return at once: events that are not acked are on the disk."""
        del seconds

    async def close(self) -> None:
        for task in self._running:
            task.cancel()
        ended = await asyncio.gather(*self._running, return_exceptions=True)
        for pump in self._pumps:
            await pump.driver.close()
        try:
            for pump in self._pumps:
                if pump in self._earlier or not pump.done:
                    await self.on_disk(pump.outbox.close)
            if self._counters and not self._live.done:
                newest = {name: each.newest() for name, each in self._counters.items()}
                await self.on_disk(self._live.outbox.stopped, newest)
        except OSError as error:
            self._messages.tell(
                f"{self._folder.folder}: {error.strerror}; the newest events are lost"
            )
        finally:
            self._disk.shutdown()
            self._folder.close()
        for problem in ended:
            if isinstance(problem, Exception):
                raise problem  # a programming error must not be hidden

    def begin(
        self, stream: str, ts: int, id: int, type: str, clock_: str | None = None,  # noqa: A002
    ) -> bool:  # fmt: skip
        answer = self._live.session.begin(
            stream, clock.read(), ts=ts, id=id, type=type, clock=clock_
        )
        self._live.driver.carry_out()
        return answer.accepted

    async def put_intervals(
        self, stream: str, rows: Sequence[Row], changes: Sequence[Change], keys: Sequence[bytes]
    ) -> bool:
        index = self._places[stream]
        outbox = self._live.outbox
        if changes or keys:
            self._changes[stream] = outbox.spools[index].next + len(rows), changes, keys
        put = not rows or await self.take(stream, rows)
        left = self._changes.pop(stream, None)
        if left is not None:  # there were no rows, or no room for them
            outbox.intervals.add(index, outbox.spools[index].next, changes, keys)
            self._live.driver.notify()
        return put

    def knows(self, key: bytes) -> bool:
        return any(
            key in pump.outbox.keys or key in pump.outbox.intervals.messages for pump in self._pumps
        )

    async def session(self, sender: str, *, kept: bool) -> int:
        outbox = self._live.outbox
        number = await self.on_disk(partial(outbox.session, sender, self._draw(), kept=kept))
        assert isinstance(number, int)
        return number

    async def clocks(self, bounds: Sequence[DeviceClockBound]) -> None:
        """Store the bounds on the disk before the events that these clocks stamped."""
        await self.on_disk(self._live.outbox.clocks, bounds)
        for bound in bounds:
            self._live.session.clock(bound, clock.read())
        self._live.driver.carry_out()

    async def durable(self) -> None:
        """Return when what was taken is fsynced, with the keys that came with it."""
        spools = self._live.outbox.spools
        ends = [spool.next for spool in spools]
        intervals = self._live.outbox.intervals
        changes = intervals.added
        while True:
            version = self._live.driver.version
            written = intervals.written >= changes
            if written and all(
                spool.committed >= end for spool, end in zip(spools, ends, strict=True)
            ):
                return
            await self._live.driver.changed(since=version)

    def spool_counts(self) -> dict[str, dict[str, int]]:
        outbox = self._live.outbox
        return {
            stream.name: {
                "bytes": spool.bytes, "unwritten_bytes": spool.unwritten_bytes,
                "committed": spool.committed, **spool.counts,
            }
            for stream, spool in zip(outbox.start.streams, outbox.spools, strict=True)
        }  # fmt: skip

    def report(self, tell: Callable[[str], None]) -> bool:
        waiting = sum(pump.waiting_events() for pump in self._pumps)
        acked = self._acked_before + sum(pump.acked_events() for pump in self._pumps)
        lost = self._lost_before or any(pump.lost for pump in self._pumps)
        gone = ", others are gone" if lost else ""
        if self._live.done:
            tell(f"done: {acked} events acked{gone}")
            return not lost
        tell(f"stopped: {acked} events acked, {waiting} wait in {self._folder.folder}{gone}")
        return not lost and self.driver.session.state is not SessionState.FAILED

    # --- inside

    async def _send(self) -> None:
        """Send one start after another, then remove the finished ones."""
        while self._earlier:
            pump = self._sending = self._earlier[0]
            await pump.send()
            if not pump.done:
                return
            await self.on_disk(self._folder.remove, pump.outbox)
            self._acked_before += pump.acked_events()
            self._lost_before = self._lost_before or pump.lost
            self._earlier.pop(0)
            self._pumps.remove(pump)
        self._sending = self._live
        await self._live.send()
        if self._live.done:
            await self.on_disk(self._folder.remove, self._live.outbox)

    async def _put(self, stream: str, rows: Sequence[Row], keys: Sequence[bytes]) -> bool:
        index = self._places[stream]
        schema, spool = self._settings.streams[index], self._live.outbox.spools[index]
        ts, te, ids, types, attrs, clocks = columns_of(schema, rows)
        message = data_message(
            index, schema, ts=ts, te=te, ids=ids, types=types, attrs=attrs, clocks=clocks
        )
        while True:
            version = self._live.driver.version
            record = Record(spool.next, len(rows), encoded_data(message, spool.next, schema.name))
            if spool.fits(record.size):
                self._live.outbox.keys.add(index, record, keys)
                if stream in self._changes:
                    end, changes, messages = self._changes.pop(stream)
                    self._live.outbox.intervals.add(index, end, changes, messages)
                spool.append(record)
                self._live.session.intervals.remove_open(index, ids_of(message))
                self._live.session.count_numbered(index, len(rows), message.types, clock.read())
                self._live.driver.carry_out()
                return True
            match self._settings.when_full[stream]:
                case "drop-newest":
                    self._live.session.intervals.remove_open(index, ids_of(message))
                    self.counts["dropped_full"] += len(rows)
                    return False
                case "drop-oldest":
                    dropped = await self.on_disk(spool.drop_oldest)
                    self.counts["dropped_oldest"] += len(dropped)
                    if dropped:
                        continue
            await self._live.driver.changed(since=version)
