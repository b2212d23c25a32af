"""``slackwater agent --dry-run``: the inputs are read, and what would be sent is printed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence

from edge_agent import records as r
from edge_agent.drivers.agent_file import AgentSettings
from edge_agent.drivers.tellings import Tellings
from edge_agent.rows import Row


class PrintingOutlet:
    """Prints every event as a line of JSON, as in a trace."""

    def __init__(
        self, settings: AgentSettings, out: Callable[[str], object], tellings: Tellings
    ) -> None:
        self.bad_count = 0
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
                r.SITE: self._settings.session.site, r.SOURCE: self._settings.session.source,
                r.STREAM: stream, r.TYPE: row.type, r.TS: row.ts,
                r.TE: None if row.te == row.ts else row.te, r.ID: row.id,
                r.ATTRS: {name: value for name, value in named if value is not None} or None,
            }  # fmt: skip
            given = {name: value for name, value in fields.items() if value is not None}
            self._out(json.dumps(given) + "\n")
        return True

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

    async def durable(self) -> None:
        """Never: senders are not told that anything is safe, and will send it again."""
        await asyncio.Event().wait()


async def dry_run(
    settings: AgentSettings, out: Callable[[str], object], tell: Callable[[str], None]
) -> int:
    """Reads all inputs; gives 0, or 1 when records were bad."""
    tellings = Tellings(tell)
    outlet = PrintingOutlet(settings, out, tellings)
    await asyncio.gather(*(each.input.run(outlet) for each in settings.inputs))
    tellings.end()
    return 1 if outlet.bad_count else 0
