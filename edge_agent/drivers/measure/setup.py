"""A device's set-up measured: all that ``slackwater validate`` looks at, in one go.

First what would disturb the clocks' measurement (disk, processor, inputs), then clocks and path for
``duration``, then, by choice, what rate the path bears. Whatever ends it early, what was measured
until then is given.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edge_agent.clock import DeviceClock
from edge_agent.drivers.agent_file import AgentSettings
from edge_agent.drivers.measure.gateway import AskedServer, GatewayPath
from edge_agent.drivers.measure.inputs import measured_inputs
from edge_agent.drivers.measure.machine import (
    grain_ns,
    measured_disk,
    measured_interfaces,
    measured_machine,
    read_close,
)
from edge_agent.drivers.time_servers import TimeServer
from edge_agent.measure.findings import ClockFindings, ClockWatch, Findings

_WATCH_S: Final = 0.05
_STEER_MIN_NS: Final = 5 * 10**9
"""Shorter than this, readings say nothing of a frequency in ppb."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """How long and how densely."""

    duration_s: float = 30.0
    train_s: float = 0.25
    """Between trains of questions to the gateway."""
    server_s: float = 2.0
    """Between questions to one standard server, as ntpd's iburst asks."""
    timeout_s: float = 2.0
    rate: bool = False


async def measure_setup(
    settings: AgentSettings, folder: Path, servers: Sequence[TimeServer], measuring: Measuring,
    advanced: Callable[[str, float], None] = lambda _what, _share: None,
) -> Findings:  # fmt: skip
    """Measures; SIGINT and SIGTERM end it early.

    Args:
        settings: of the agent, whose bent clock is bent here, too.
        folder: of its settings file.
        servers: standard NTP servers, asked beside the gateway.
        measuring: how.
        advanced: told what is being done, and what share of it.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    signals = (signal.SIGINT, signal.SIGTERM)
    with suppress(ValueError, RuntimeError):  # not the main thread: whoever calls has the signals
        for number in signals:
            loop.add_signal_handler(number, stop.set)
    try:
        return await _measured(settings, folder, servers, measuring, advanced, stop)
    finally:
        with suppress(ValueError, RuntimeError):
            for number in signals:
                loop.remove_signal_handler(number)


async def _measured(
    settings: AgentSettings, folder: Path, servers: Sequence[TimeServer], measuring: Measuring,
    advanced: Callable[[str, float], None], stop: asyncio.Event,
) -> Findings:  # fmt: skip
    loop = asyncio.get_running_loop()
    clock = DeviceClock()
    clock.bend(settings.clock_ahead_ns, settings.clock_fast_ppb)
    advanced("disk, processor, inputs", 0.0)
    wall_ns, mono_ns = grain_ns(clock)
    disk = None if settings.outbox is None else measured_disk(settings.outbox)
    machine = measured_machine(settings.streams[0])
    inputs = await measured_inputs(settings, folder, wall_ns=lambda: clock.read().wall_ns)
    path = GatewayPath(settings, clock, max(wall_ns, 1), measuring.train_s)
    await path.connect()
    asked = [AskedServer(each, clock, measuring.timeout_s) for each in servers]
    begun = loop.time()

    def over() -> bool:
        share = min((loop.time() - begun) / measuring.duration_s, 1.0)
        advanced("clocks and path", share)
        return stop.is_set() or share >= 1.0

    watching = _Watching(clock)
    await asyncio.gather(
        path.run(over),
        watching.run(over, stop),
        *(_ask(each, over, stop, measuring) for each in asked),
    )
    seconds = loop.time() - begun
    if measuring.rate and not stop.is_set():
        advanced("rate of the path", 1.0)
        await path.burst()
    found = path.findings()
    return Findings(
        site=settings.session.site, source=settings.session.source, path=found,
        servers=tuple(each.findings() for each in asked),
        clock=watching.findings(wall_ns, mono_ns),
        interfaces=measured_interfaces(found.local_address), disk=disk, machine=machine,
        inputs=inputs, seconds=seconds, is_whole=not stop.is_set(),
    )  # fmt: skip


async def _ask(
    server: AskedServer, over: Callable[[], bool], stop: asyncio.Event, measuring: Measuring
) -> None:
    while not over():
        await asyncio.to_thread(server.ask)
        await _pause(stop, measuring.server_s)


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()


class _Watching:
    """The device's clocks beside one another."""

    def __init__(self, clock: DeviceClock) -> None:
        self._clock = clock
        self._watch = ClockWatch()
        self._first: tuple[int, int] | None = None
        self._last = (0, 0)

    async def run(self, over: Callable[[], bool], stop: asyncio.Event) -> None:
        while not over():
            now, raw, took = read_close(self._clock)
            self._watch.see(now, took)
            self._last = (now.mono_ns, raw)
            self._first = self._first or self._last
            await _pause(stop, _WATCH_S)

    def findings(self, wall_ns: int, mono_ns: int) -> ClockFindings:
        watch = self._watch
        steered = None
        if self._first is not None:
            mono = self._last[0] - self._first[0]
            raw = self._last[1] - self._first[1]
            steered = (mono - raw) * 10**9 // raw if raw >= _STEER_MIN_NS else None
        return ClockFindings(
            resolution_ns=wall_ns, monotonic_resolution_ns=mono_ns, readings=watch.readings,
            seconds=watch.watched_ns / 1e9, steps=tuple(watch.steps),
            backwards=watch.backwards, disciplined_ppb=steered,
        )  # fmt: skip
