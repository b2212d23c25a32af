"""Pump of one start of an agent: commits its outbox and feeds its session."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from slackwater.edge_agent import clock
from slackwater.edge_agent.drivers.agent_file import AgentSettings
from slackwater.edge_agent.drivers.session_driver import SessionDriver
from slackwater.edge_agent.drivers.status import LineWriter
from slackwater.edge_agent.outbox.inspection import IntervalSearch, look_for
from slackwater.edge_agent.outbox.outbox import Outbox
from slackwater.edge_agent.outbox.spool import Record
from slackwater.edge_agent.outbox.spooled_session import DrainLimit, SpooledSession
from slackwater.edge_agent.session import SessionState
from slackwater.edge_agent.units import NS_PER

_READ_BYTES: Final = 1 << 18
_RETRY_SECONDS: Final = 1.0
"""Wait before a failed disk operation is retried."""
_SETTLE_SECONDS: Final = 1.0
"""Longest time between two writes of the position."""

OnDisk = Callable[..., Awaitable[Any]]
DriverOf = Callable[[Outbox], tuple[SessionDriver, SpooledSession]]


class SpoolPump:
    """``write`` and ``send`` run concurrently, each until it is cancelled or all is done."""

    def __init__(
        self, outbox: Outbox, driver_of: DriverOf, on_disk: OnDisk, settings: AgentSettings,
        messages: LineWriter, draw: Callable[[], int],
    ) -> None:  # fmt: skip
        """``draw``: returns 64 random bits; ``driver_of``: makes an outbox's driver and session."""
        self.outbox = outbox
        self._driver_of = driver_of
        self._draw = draw
        self.ending = outbox.start.ended
        """Whether no more events will be appended."""
        self._on_disk = on_disk
        self._sync_seconds = settings.sync_every_ns / NS_PER["s"]
        self._drain = DrainLimit(settings.drain_max)
        self._messages = messages
        self._settled = 0.0
        self._gone_events = 0
        self.lost = False
        """Whether events are lost that were not dropped for lack of room."""
        self._acked_before = 0
        self._begin()

    def _begin(self) -> None:
        """Make a session that continues from the outbox."""
        self.driver, self.session = self._driver_of(self.outbox)
        self.driver.before_sending = self._remember
        self._records: list[deque[Record]] = [deque() for _ in self.outbox.spools]
        self._offered_to = list(self.outbox.resumed().acked)
        self._finished = False

    @property
    def done(self) -> bool:
        """Whether the gateway has all events and the EOS."""
        return self.session.state is SessionState.DONE

    def acked_events(self) -> int:
        """Number of events that the gateway has acked to this process."""
        return self._acked_before + self.session.counts["acked"]

    def waiting_events(self) -> int:
        """Number of events that the gateway has not acked."""
        acked = self.session.acked_seqs()
        return sum(
            max(spool.next - ack, 0) for spool, ack in zip(self.outbox.spools, acked, strict=True)
        )

    async def write(self) -> None:
        """Commit what was appended, at intervals of ``sync_every`` or more, until cancelled."""
        while True:
            version = self.driver.version
            if not self.outbox.unwritten:
                await self.driver.changed(since=version)
                continue
            try:
                await self._on_disk(self.outbox.commit)
            except OSError as error:
                self._messages.write_limited(f"{self.outbox.folder}: {error.strerror}; tried again")
                await asyncio.sleep(_RETRY_SECONDS)
            self.driver.notify()
            await asyncio.sleep(self._sync_seconds)

    async def send(self) -> None:
        """Connect, and send until all is acked (if nothing is added) or the session fails."""
        self._tell_faults()
        await self._send_on()
        while (received := self.session.received_beyond) is not None:
            await self._renew(received)
            await self._send_on()

    async def _renew(self, received: Sequence[int]) -> None:
        """Begin a new start, because the disk has lost events that the gateway has."""
        lost = [
            f"{self.outbox.start.streams[i].name} (the gateway has {have}, this disk {local})"
            for i, (have, local) in enumerate(zip(received, self.outbox.start.unsent, strict=True))
            if have > local
        ]
        while True:
            try:
                await self._on_disk(self.outbox.renew, received, self._draw())
                break
            except OSError as error:
                self._messages.write_limited(f"{self.outbox.folder}: {error.strerror}; tried again")
                await asyncio.sleep(_RETRY_SECONDS)
        former = self.driver
        self._acked_before = self.acked_events()
        self._begin()
        what = f"events of stream {', '.join(lost)}" if lost else "how far it was sent"
        twice = self.outbox.counts["possible_duplicates"]
        self._messages.tell(
            f"{self.outbox.folder}: the disk has lost {what}; what is new is sent as a new start, "
            f"incarnation {self.outbox.start.incarnation}"
            + f"; {twice} of its events may be in the log already"
            * (twice > 0)
        )
        former.notify()
        await former.close()

    async def _send_on(self) -> None:
        self.driver.start()
        while not self.driver.settled:
            version = self.driver.version
            for index in range(len(self._records)):
                await self._offer(index)
            await self._look_for_requests()
            self.outbox.acked(self.session.acked_seqs())
            if self.ending and not self._finished and self._all_offered():
                self._finished = True
                self.session.finish(clock.read())
                self.driver.carry_out()
            await self._settle()
            wait = self._drain.wait_ns(clock.read().mono_ns) / NS_PER["s"]
            await self.driver.changed(min(wait or _SETTLE_SECONDS, _SETTLE_SECONDS), since=version)
        self.outbox.acked(self.session.acked_seqs())

    async def _look_for_requests(self) -> None:
        """Send intervals that the gateway has requested, ahead of their turn."""
        intervals, self.session.intervals.pending_requests = (
            self.session.intervals.pending_requests,
            {},
        )
        if not intervals:
            return
        try:
            looked: IntervalSearch = await self._on_disk(look_for, self.outbox, list(intervals))
        except OSError as error:
            self._messages.write_limited(
                f"{self.outbox.folder}: {error.strerror}; it will be asked again"
            )
            return
        self.session.send_found(looked.records, looked.unknown)
        self.driver.carry_out()

    async def _offer(self, index: int) -> None:
        """Offer records to the session while it has room."""
        records, some = self._records[index], False
        while True:
            if not records:
                records.extend(await self._read(index))
                if not records:
                    self._pass_over(index)
            if not records or not self._offer_one(index, records[0]):
                break
            records.popleft()
            some = True
        if some:
            self.driver.carry_out()

    def _offer_one(self, index: int, record: Record) -> bool:
        """Offer a record; True if the session took it or it is acked already."""
        expected, acked = self._offered_to[index], self.session.acked_seqs()[index]
        now = clock.read()
        if record.end > acked and (
            self._drain.wait_ns(now.mono_ns) or not self.session.has_room(len(record.data))
        ):
            return False
        if record.first > expected:
            if acked < expected:
                return False  # a gap is skipped when everything before it is acked
            self._gone(index, record.first)
        self._offered_to[index] = record.end
        if record.end > acked:
            self._drain.sent(record.rows, now.mono_ns)
            self.session.offer(index, record, now)
        return True

    def _pass_over(self, index: int) -> None:
        """Skip lost events at the end of the stream, after which no record follows."""
        expected, end = self._offered_to[index], self.outbox.spools[index].looked_to
        if end > expected and self.session.acked_seqs()[index] >= expected:
            self._gone(index, end)
            self._offered_to[index] = end
            self.driver.carry_out()

    def _gone(self, index: int, end: int) -> None:
        name = self.outbox.start.streams[index].name
        self._gone_events += end - self._offered_to[index]
        dropped = sum(spool.counts["dropped"] for spool in self.outbox.spools)
        self.lost = self.lost or self._gone_events > dropped
        self._messages.tell(
            f"{self.outbox.folder}: events {self._offered_to[index]} to {end - 1} of stream {name} "
            "are gone"
        )
        self.session.skip_to(index, end, clock.read())

    def _tell_faults(self) -> None:
        for spool in self.outbox.spools:
            while spool.faults:
                self.lost = True
                self._messages.tell(f"{self.outbox.folder}/{spool.faults.popleft()}")

    async def _read(self, index: int) -> list[Record]:
        spool = self.outbox.spools[index]
        if spool.committed <= self._offered_to[index]:
            return []
        try:
            found: list[Record] = await self._on_disk(spool.read, _READ_BYTES)
        except OSError as error:
            self._messages.write_limited(f"{self.outbox.folder}: {error.strerror}; read again")
            return []
        self._tell_faults()
        return found

    def _all_offered(self) -> bool:
        return all(
            spool.next <= offered
            for spool, offered in zip(self.outbox.spools, self._offered_to, strict=True)
        )

    async def _settle(self) -> None:
        now = asyncio.get_running_loop().time()
        if self.outbox.due() or now - self._settled >= _SETTLE_SECONDS:
            self._settled = now
            await self._on_disk(self.outbox.settle)

    def _remember(self) -> None:
        """Store that a gateway has welcomed this start, before anything is sent to it."""
        if self.session.has_welcome and self.outbox.start.quiet:
            self.outbox.welcomed(self.session.incarnation)
