"""Events go from the inputs into the session's memory: what is not acked dies with the process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from edge_agent import clock
from edge_agent.device_clock import ClockBound
from edge_agent.drivers.agent_file import AgentSettings
from edge_agent.drivers.outlets import BaseOutlet
from edge_agent.drivers.session_driver import Address, SessionDriver
from edge_agent.drivers.status import Tellings
from edge_agent.outbox.journal import Change, KnownKeys
from edge_agent.outputs import SessionState
from edge_agent.packing import Row, columns_of
from edge_agent.session import AgentSession


class MemoryChannel(BaseOutlet):
    """Its own outlet; for devices without a disk that may be written."""

    def __init__(
        self, settings: AgentSettings, session: AgentSession, address: Address, tellings: Tellings
    ) -> None:
        super().__init__(tellings)
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
        """Waits for acks; the source ends, as its next start is another one."""
        try:
            async with asyncio.timeout(seconds):
                await self.finish()
        except TimeoutError:
            return  # what was not acked is told

    async def close(self) -> None:
        await self.driver.close()

    def spool_counts(self) -> dict[str, dict[str, int]]:
        return {}

    def told(self, tell: Callable[[str], None]) -> bool:
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
        told = self.driver.session.begin(
            stream, clock.read(), ts=ts, id=id, type=type, clock=clock_
        )
        self.driver.carry_out()
        return told.accepted

    async def put_intervals(
        self, stream: str, rows: Sequence[Row], changes: Sequence[Change], keys: Sequence[bytes]
    ) -> bool:
        del changes  # they die with the process, as the events do
        self._keys.remember(keys)
        return not rows or await self.take(stream, rows)

    def knows(self, key: bytes) -> bool:
        return key in self._keys

    async def session(self, sender: str, *, kept: bool) -> int:
        known = self._sessions.get(sender, 0)
        self._sessions[sender] = known if kept else known + 1
        return self._sessions[sender]

    async def clocks(self, bounds: Sequence[ClockBound]) -> None:
        for bound in bounds:
            self.driver.session.clock(bound, clock.read())
        self.driver.carry_out()

    async def durable(self) -> None:
        """The gateway has acked what was taken: there is no other place where it is safe."""
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
