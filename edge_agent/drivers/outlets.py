"""Outlets to which inputs pass rows: as messages, as intervals of readings, or printed."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from slackwater.edge_agent import clock
from slackwater.edge_agent import records as r
from slackwater.edge_agent.abstraction.machine import (
    Abstraction,
    EndedInterval,
    EventReader,
    IntervalBegin,
)
from slackwater.edge_agent.abstraction.stored_state import changes_of, interval_rows
from slackwater.edge_agent.clock import earliest
from slackwater.edge_agent.device_clock import DeviceClockBound
from slackwater.edge_agent.drivers.agent_file import AgentSettings
from slackwater.edge_agent.drivers.status import LineWriter
from slackwater.edge_agent.inputs.base import Outlet, StatelessOutlet
from slackwater.edge_agent.messages import StreamSchema
from slackwater.edge_agent.outbox.journal import Change
from slackwater.edge_agent.packing import Row

# Common to all outlets: rows become messages; a batch that is too long is halved.


class BaseOutlet(ABC):
    """Counts events and splits batches; a subclass implements ``_put``."""

    def __init__(self, messages: LineWriter) -> None:
        self.counts: Counter[str] = Counter()
        self._messages = messages

    async def take(self, stream: str, rows: Sequence[Row], keys: Sequence[bytes] = ()) -> bool:
        """Put ``rows``; without room they wait, or are dropped and counted."""
        self.counts["read"] += len(rows)
        return await self._cut(stream, rows, keys)

    def bad(self, what: str, place: str) -> None:
        """Count and report a record that was skipped."""
        self.counts["bad"] += 1
        self._messages.write_limited(f"{place}: {what}")

    def trouble(self, what: str, place: str) -> None:
        """Report a fault that loses no record by itself."""
        self._messages.write_limited(f"{place}: {what}")

    @abstractmethod
    async def _put(self, stream: str, rows: Sequence[Row], keys: Sequence[bytes]) -> bool:
        """Put the rows; False: no room. Raises ValueError: too long for one message."""

    async def _cut(self, stream: str, rows: Sequence[Row], keys: Sequence[bytes]) -> bool:
        try:
            return await self._put(stream, rows, keys)
        except ValueError as error:
            if len(rows) == 1:
                self.counts["too_long"] += 1
                self.bad(str(error), f"an event of stream {stream}")
                return False
            middle = len(rows) // 2
            first = await self._cut(stream, rows[:middle], ())
            return await self._cut(stream, rows[middle:], keys) and first


# Between inputs and channel: readings become intervals if the settings say so.


_READINGS_MAX: Final = 100
"""Readings per step: their intervals fit into one message, which is therefore written to the disk
atomically with the changes of the open intervals."""


class IntervalSink(Protocol):
    """The part of ``Channel`` that intervals need."""

    counts: Counter[str]

    @property
    def outlet(self) -> Outlet: ...

    def begin(
        self, stream: str, ts: int, id: int, type: str, clock_: str | None = None,  # noqa: A002
    ) -> bool: ...  # fmt: skip

    async def put_intervals(
        self, stream: str, rows: Sequence[Row], changes: Sequence[Change], keys: Sequence[bytes]
    ) -> bool: ...


class AbstractingOutlet:
    """An ``Outlet`` that applies the abstractions; rows of other streams pass unchanged."""

    def __init__(
        self,
        channel: IntervalSink,
        machines: Sequence[Abstraction],
        schemas: Sequence[StreamSchema],
    ) -> None:
        """``schemas``: of all streams, including those of intervals."""
        self._channel = channel
        self._schemas = {schema.name: schema for schema in schemas}
        self._readers: dict[str, list[EventReader]] = {}
        for machine in machines:
            reader = EventReader(machine, self._schemas[machine.settings.stream])
            self._readers.setdefault(machine.settings.stream, []).append(reader)
        self._machines = list(machines)
        self._one_at_a_time = asyncio.Lock()
        """Keeps intervals in the order in which they ended, also while one waits for room."""
        self._earlier = asyncio.Event()
        """Set when something is due before ``_armed``."""
        self._armed: int | None = None

    async def take(self, stream: str, rows: Sequence[Row], keys: Sequence[bytes] = ()) -> bool:
        """Make intervals of readings; pass on rows that are no readings or are to be kept."""
        readers = self._readers.get(stream)
        if readers is None:
            return await self._channel.outlet.take(stream, rows, keys)
        passing = _passing(readers, rows)
        put = True
        async with self._one_at_a_time:
            for place, reader in enumerate(readers):
                # Keys go with the last rows or changes that are passed on.
                last = place == len(readers) - 1 and not passing
                for low in range(0, len(rows), _READINGS_MAX):
                    some = rows[low : low + _READINGS_MAX]
                    reader.take(some, clock.read().mono_ns)
                    final = last and low + _READINGS_MAX >= len(rows)
                    put &= await self._hand_on(reader.machine, keys if final else ())
        self._arm()
        if passing:
            put &= await self._channel.outlet.take(stream, passing, keys)
        return put

    def knows(self, key: bytes) -> bool:
        return self._channel.outlet.knows(key)

    async def session(self, sender: str, *, kept: bool) -> int:
        return await self._channel.outlet.session(sender, kept=kept)

    async def durable(self) -> None:
        await self._channel.outlet.durable()

    async def clocks(self, bounds: Sequence[DeviceClockBound]) -> None:
        await self._channel.outlet.clocks(bounds)

    def bad(self, what: str, place: str) -> None:
        self._channel.outlet.bad(what, place)

    def trouble(self, what: str, place: str) -> None:
        self._channel.outlet.trouble(what, place)

    async def run(self) -> None:
        """End intervals that fall silent; runs until it is cancelled."""
        while True:
            self._earlier.clear()
            self._armed = self._next_wake()
            seconds = None
            if self._armed is not None:
                seconds = max(self._armed - clock.read().mono_ns, 0) / 1e9
            try:
                async with asyncio.timeout(seconds):
                    await self._earlier.wait()
            except TimeoutError:
                await self._each(lambda machine: machine.wake(clock.read().mono_ns))

    async def finish(self) -> None:
        """End all open intervals, after all inputs have ended."""
        await self._each(Abstraction.finish)

    # --- inside

    async def _each(self, action: Callable[[Abstraction], None]) -> None:
        async with self._one_at_a_time:
            for machine in self._machines:
                action(machine)
                await self._hand_on(machine, ())

    async def _hand_on(self, machine: Abstraction, keys: Sequence[bytes]) -> bool:
        made = machine.outputs()
        into, counts = machine.settings.into, self._channel.counts
        for each in made:
            if isinstance(each, IntervalBegin) and not self._channel.begin(into, *each):
                counts["begins_refused"] += 1
        rows = interval_rows(
            self._schemas[into], [each for each in made if isinstance(each, EndedInterval)]
        )
        counts.update(machine.counts)
        machine.counts.clear()
        changes = changes_of(machine)
        if not (rows or changes or keys):
            return True
        return await self._channel.put_intervals(into, rows, changes, keys)

    def _next_wake(self) -> int | None:
        return earliest(*[machine.next_wake() for machine in self._machines])

    def _arm(self) -> None:
        due = self._next_wake()
        if due is not None and (self._armed is None or due < self._armed):
            self._earlier.set()


def _passing(readers: Sequence[EventReader], rows: Sequence[Row]) -> list[Row]:
    """The rows that are sent unchanged."""
    if any(reader.machine.settings.keep for reader in readers):
        return list(rows)
    return [row for row in rows if not any(reader.reads(row.type) for reader in readers)]


# ``slackwater agent --dry-run``: reads the inputs and prints what would be sent.


class PrintingOutlet(StatelessOutlet):
    """Prints every event as a line of JSON, as in a trace."""

    def __init__(
        self, settings: AgentSettings, out: Callable[[str], object], messages: LineWriter
    ) -> None:
        self.bad_count = 0
        self.counts: Counter[str] = Counter()
        self._settings = settings
        self._attrs = {stream.name: list(stream.attrs) for stream in settings.streams}
        self._out = out
        self._messages = messages

    async def take(self, stream: str, rows: Sequence[Row], keys: Sequence[bytes] = ()) -> bool:
        """Print the rows."""
        del keys
        for row in rows:
            named = zip(self._attrs[stream], row.attrs, strict=True)
            fields = {
                r.STREAM: stream, r.TYPE: row.type, r.TS: row.ts,
                r.TE: None if row.te == row.ts else row.te, r.ID: row.id, r.CLOCK: row.clock,
                r.ATTRS: {name: value for name, value in named if value is not None} or None,
            }  # fmt: skip
            self._print({name: value for name, value in fields.items() if value is not None})
        return True

    @property
    def outlet(self) -> PrintingOutlet:
        """The outlet for rows that are no readings, or are kept."""
        return self

    def begin(
        self, stream: str, ts: int, id: int, type: str, clock_: str | None = None,  # noqa: A002
    ) -> bool:  # fmt: skip
        """Print the begin of an interval."""
        named = {} if clock_ is None else {r.CLOCK: clock_}
        self._print({r.KIND: "ibp", r.STREAM: stream, r.TYPE: type, r.TS: ts, r.ID: id, **named})
        return True

    async def put_intervals(
        self, stream: str, rows: Sequence[Row], changes: Sequence[Change], keys: Sequence[bytes]
    ) -> bool:
        """Print the intervals; the changes are ignored."""
        del changes, keys
        return await self.take(stream, rows)

    def bad(self, what: str, place: str) -> None:
        """Count and report a record that was skipped."""
        self.bad_count += 1
        self._messages.write_limited(f"{place}: {what}")

    def trouble(self, what: str, place: str) -> None:
        """Report a fault that loses no record by itself."""
        self._messages.write_limited(f"{place}: {what}")

    async def durable(self) -> None:
        """Never return: senders get no acknowledgement and will send their messages again."""
        await asyncio.Event().wait()

    def _print(self, fields: dict[str, object]) -> None:
        session = self._settings.session
        named = {r.SITE: session.site, r.SOURCE: session.source, **fields}
        self._out(json.dumps(named) + "\n")


async def dry_run(
    settings: AgentSettings, out: Callable[[str], object], tell: Callable[[str], None]
) -> int:
    """Read all inputs; return 0, or 1 if records were bad."""
    messages = LineWriter(tell)
    printing = PrintingOutlet(settings, out, messages)
    machines = [Abstraction(each, place) for place, each in enumerate(settings.abstracts)]
    outlet = AbstractingOutlet(printing, machines, settings.streams)
    silence = asyncio.create_task(outlet.run())
    try:
        await asyncio.gather(*(each.input.run(outlet) for each in settings.inputs))
    finally:
        silence.cancel()
        await asyncio.gather(silence, return_exceptions=True)
    await outlet.finish()
    messages.end()
    return 1 if printing.bad_count else 0
