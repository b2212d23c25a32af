"""``slackwater agent --dry-run``: the inputs are read, and what would be sent is printed."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence

from edge_agent import records as r
from edge_agent.abstraction.machine import Abstraction
from edge_agent.device_clock import ClockBound
from edge_agent.drivers.agent_file import AgentSettings
from edge_agent.drivers.outlets import AbstractingOutlet
from edge_agent.drivers.status import Tellings
from edge_agent.outbox.journal import Change
from edge_agent.packing import Row


class PrintingOutlet:
    """Prints every event as a line of JSON, as in a trace."""

    def __init__(
        self, settings: AgentSettings, out: Callable[[str], object], tellings: Tellings
    ) -> None:
        self.bad_count = 0
        self.counts: Counter[str] = Counter()
        self._settings = settings
        self._attrs = {stream.name: list(stream.attrs) for stream in settings.streams}
        self._out = out
        self._tellings = tellings

    async def take(self, stream: str, rows: Sequence[Row], keys: Sequence[bytes] = ()) -> bool:
        """Prints them."""
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
        """Where rows go that are no readings, or are kept."""
        return self

    def begin(
        self, stream: str, ts: int, id: int, type: str, clock_: str | None = None,  # noqa: A002
    ) -> bool:  # fmt: skip
        """Prints an interval's begin."""
        named = {} if clock_ is None else {r.CLOCK: clock_}
        self._print({r.KIND: "ibp", r.STREAM: stream, r.TYPE: type, r.TS: ts, r.ID: id, **named})
        return True

    async def put_intervals(
        self, stream: str, rows: Sequence[Row], changes: Sequence[Change], keys: Sequence[bytes]
    ) -> bool:
        """Prints intervals; what is open is not kept."""
        del changes, keys
        return await self.take(stream, rows)

    async def clocks(self, bounds: Sequence[ClockBound]) -> None:
        """Offsets to the engine's clock are known where there is a gateway."""
        del bounds

    def bad(self, what: str, place: str) -> None:
        """A record that was left out."""
        self.bad_count += 1
        self._tellings.rarely(f"{place}: {what}")

    def trouble(self, what: str, place: str) -> None:
        """A fault that costs no record by itself."""
        self._tellings.rarely(f"{place}: {what}")

    def knows(self, key: bytes) -> bool:
        """Nothing is kept."""
        del key
        return False

    async def session(self, sender: str, *, kept: bool) -> int:
        """Of which nothing is kept."""
        del sender, kept
        return 0

    async def durable(self) -> None:
        """Never: senders are not told that anything is safe, and will send it again."""
        await asyncio.Event().wait()

    def _print(self, fields: dict[str, object]) -> None:
        session = self._settings.session
        named = {r.SITE: session.site, r.SOURCE: session.source, **fields}
        self._out(json.dumps(named) + "\n")


async def dry_run(
    settings: AgentSettings, out: Callable[[str], object], tell: Callable[[str], None]
) -> int:
    """Reads all inputs; gives 0, or 1 when records were bad."""
    tellings = Tellings(tell)
    printing = PrintingOutlet(settings, out, tellings)
    machines = [Abstraction(each, place) for place, each in enumerate(settings.abstracts)]
    outlet = AbstractingOutlet(printing, machines, settings.streams)
    silence = asyncio.create_task(outlet.run())
    try:
        await asyncio.gather(*(each.input.run(outlet) for each in settings.inputs))
    finally:
        silence.cancel()
        await asyncio.gather(silence, return_exceptions=True)
    await outlet.finish()
    tellings.end()
    return 1 if printing.bad_count else 0
