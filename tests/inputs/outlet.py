"""An outlet of tests: it keeps its events, and is durable on request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from slackwater.edge_agent.device_clock import DeviceClockBound
from slackwater.edge_agent.errors import SettingsError
from slackwater.edge_agent.inputs.base import Surroundings
from slackwater.edge_agent.inputs.registry import NamedInput, read_inputs
from slackwater.edge_agent.messages import StreamSchema
from slackwater.edge_agent.packing import Row
from slackwater.edge_agent.settings_file import Table

NOW_NS = 1_700_000_000 * 10**9


class KeptOutlet:
    """``durable`` returns while ``safe`` is set; ``room`` False: everything is dropped."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, Row]] = []
        self.keys: set[bytes] = set()
        self.sessions: dict[str, int] = {}
        self.faults: list[str] = []
        self.bounds: list[DeviceClockBound] = []
        self.bad_count = 0
        self.room = True
        self.safe = asyncio.Event()
        self.safe.set()

    async def take(self, stream: str, rows: Sequence[Row], keys: Sequence[bytes] = ()) -> bool:
        await asyncio.sleep(0)
        if self.room:
            assert all(len(key) == 16 for key in keys)
            self.keys |= set(keys)
            self.rows += [(stream, row) for row in rows]
        return self.room

    def knows(self, key: bytes) -> bool:
        return key in self.keys

    async def session(self, sender: str, *, kept: bool) -> int:
        if not kept or sender not in self.sessions:
            self.sessions[sender] = self.sessions.get(sender, 0) + 1
        return self.sessions[sender]

    async def clocks(self, bounds: Sequence[DeviceClockBound]) -> None:
        self.bounds += bounds

    async def durable(self) -> None:
        await self.safe.wait()

    def bad(self, what: str, place: str) -> None:
        self.bad_count += 1
        self.faults.append(f"{place}: {what}")

    def trouble(self, what: str, place: str) -> None:
        self.faults.append(f"{place}: {what}")


def an_input(
    settings: Mapping[str, Any], attrs: Mapping[str, str], folder: Path | None = None
) -> Any:
    """The input of an ``[[input]]``, for one stream ``events`` with ``attrs``."""
    return a_named_input(settings, attrs, folder).input


def a_named_input(
    settings: Mapping[str, Any], attrs: Mapping[str, str], folder: Path | None = None
) -> NamedInput:
    """The same, with its name; every setting must be one that it knows."""
    schemas = {"events": StreamSchema("events", dict(attrs))}
    around = Surroundings(schemas=schemas, wall_ns=lambda: NOW_NS, jitter=lambda most: most)
    file = str((folder or Path()) / "agent.toml")
    whole = Table({"input": [dict(settings)]}, file)
    (found,) = read_inputs(whole.tables("input"), around)
    whole.done()
    return found


def mistake(settings: Mapping[str, Any], attrs: Mapping[str, str]) -> str:
    """The error about wrong settings."""
    try:
        an_input(settings, attrs)
    except SettingsError as error:
        return str(error)
    return "nothing is wrong"


async def met(true: Callable[[], Any]) -> None:
    """Waits for something to become true."""
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0.001)
