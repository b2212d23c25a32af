"""``slackwater agent``: inputs, session and sockets of one device, from start to stop.

When all inputs have ended, the source ends (EOS), and the agent stops once everything is acked.
SIGTERM and Ctrl-C stop it earlier: without an outbox it waits a while for acks and reports what was
not acked.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from slackwater.edge_agent import clock
from slackwater.edge_agent.abstraction.machine import Abstraction
from slackwater.edge_agent.abstraction.stored_state import end_all, resume
from slackwater.edge_agent.drivers.agent_file import AgentSettings
from slackwater.edge_agent.drivers.channel import Channel, MemoryChannel, OutboxChannel
from slackwater.edge_agent.drivers.metrics import MetricsServer, metrics_text
from slackwater.edge_agent.drivers.outlets import AbstractingOutlet
from slackwater.edge_agent.drivers.session_driver import Address, SessionDriver
from slackwater.edge_agent.drivers.status import LineWriter, StatusFile, Systemd, status_of
from slackwater.edge_agent.listening import interface_of
from slackwater.edge_agent.outbox.outbox import Outbox, OutboxFolder
from slackwater.edge_agent.outbox.spooled_session import NUMBERS_LOST, SpooledSession
from slackwater.edge_agent.session import AgentSession, SessionState
from slackwater.edge_agent.units import NS_PER

DONE: Final = 0
FAILED: Final = 1
_COOKIE_BITS: Final = 64
_COUNT_SHIFT: Final = 10
"""Interval ids start at the wall clock of the start, in units of 1.024 us."""
_LOSSES: Final = {
    "bad": "records were left out as bad",
    "dropped_full": "events were dropped, as there was no room",
    "dropped_oldest": "of the oldest events were dropped, as there was no room",
}


async def run_agent(settings: AgentSettings, tell: Callable[[str], None]) -> int:
    """Run the agent; return its exit code: 0 if nothing was lost, else 1.

    Raises:
        AgentError: an input cannot be read at all, or a certificate or the outbox is unusable.
    """
    clock.DEVICE.bend(settings.clock_ahead_ns, settings.clock_fast_ppb)
    messages = LineWriter(tell)
    machines = [
        Abstraction(each, place, clock.read().wall_ns >> _COUNT_SHIFT)
        for place, each in enumerate(settings.abstracts)
    ]
    channel = _channel(settings, messages, machines)
    outlet = AbstractingOutlet(channel, machines, settings.streams)
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    systemd = Systemd()
    watch = asyncio.create_task(_watch(settings, channel, messages, systemd))
    alive = asyncio.create_task(systemd.watch())
    silence = asyncio.create_task(outlet.run())
    metrics = _metrics(settings, channel)
    try:
        if metrics is not None:
            messages.tell(f"metrics at port {await metrics.start()}")
        await channel.start()
        systemd.ready()
        if await _all_read(settings, channel, outlet, stopping):
            await outlet.finish()
            await _first_of(channel.finish(), stopping.wait())
        if stopping.is_set():
            if settings.outbox is None:
                await outlet.finish()  # the source ends: its next run is a new start
            await channel.stop(settings.stop_ns / NS_PER["s"])
    finally:
        systemd.stopping()
        if metrics is not None:
            await metrics.stop()
        watch.cancel()
        silence.cancel()
        await asyncio.gather(watch, silence, return_exceptions=True)
        await channel.close()
        alive.cancel()
        await asyncio.gather(alive, return_exceptions=True)
        messages.end()
    failure = channel.driver.session.failure
    if failure is not None:
        tell(f"the gateway refuses: {failure.reason}: {failure.detail}")
    for what, count in sorted(channel.counts.items()):
        if what in _LOSSES:
            tell(f"{count} {_LOSSES[what]}")
    return DONE if channel.report(tell) else FAILED


def _metrics(settings: AgentSettings, channel: Channel) -> MetricsServer | None:
    if settings.metrics is None:
        return None
    return MetricsServer(
        settings.metrics, lambda: metrics_text(status_of(channel, settings.inputs))
    )


def _channel(
    settings: AgentSettings, messages: LineWriter, machines: Sequence[Abstraction]
) -> Channel:
    tls = None if settings.tls is None else settings.tls.context()
    address = Address(gateways=settings.gateways, tls=tls, time_servers=settings.time_servers)
    if settings.outbox is None:
        session = AgentSession(
            settings.session, settings.streams, clock.read().wall_ns, _cookie, jitter
        )
        return MemoryChannel(settings, session, address, messages)
    folder = OutboxFolder(settings.outbox, messages.tell)
    try:
        outboxes = folder.open(
            settings.session.site, settings.session.source, settings.streams,
            [settings.outbox_bytes_max] * len(settings.streams), clock.read().wall_ns, _cookie,
        )  # fmt: skip
        ended = sum(map(end_all, outboxes[:-1]))
        ended += resume(outboxes[-1], machines, clock.read().mono_ns)
    except BaseException:
        folder.close()
        raise
    if ended:
        messages.tell(f"{folder.folder}: {ended} open intervals of other settings were ended")
    for machine in machines:
        machine.touched = set()

    def session_of(outbox: Outbox) -> SpooledSession:
        start = outbox.start
        session = SpooledSession(
            settings.session, start.streams, start.incarnation, _cookie, jitter, outbox.resumed()
        )
        now = clock.read()
        for bound in outbox.known_clocks():
            session.clock(bound, now)
        if outbox is outboxes[-1]:
            places = {stream.name: index for index, stream in enumerate(start.streams)}
            for machine in machines:
                for id_ in machine.sent_begins():
                    session.intervals.put_begin(places[machine.settings.into], id_)
        return session

    return OutboxChannel(settings, folder, outboxes, session_of, address, messages, _cookie)


def _cookie() -> int:
    return secrets.randbits(_COOKIE_BITS)


def jitter(most: int) -> int:
    """Full jitter: a random wait up to the longest."""
    return secrets.randbelow(most + 1)


async def _all_read(
    settings: AgentSettings, channel: Channel, outlet: AbstractingOutlet, stopping: asyncio.Event
) -> bool:
    """Return True when all inputs have ended; False when sending or the agent stops before."""
    reading = [asyncio.create_task(each.input.run(outlet)) for each in settings.inputs]

    async def read() -> None:
        await asyncio.gather(*reading)

    try:
        return await _first_of(read(), channel.ended(), stopping.wait()) == 0
    finally:
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)


async def _first_of(*waits: Coroutine[Any, Any, Any]) -> int:
    """Return which of ``waits`` ended first, cancel the others; its exception is raised."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        place = next(i for i, task in enumerate(tasks) if task.done())
        tasks[place].result()
        return place
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _watch(
    settings: AgentSettings, channel: Channel, messages: LineWriter, systemd: Systemd
) -> None:
    """Report changes of state; write the status file periodically and at the end."""
    status = None if settings.status is None else StatusFile(settings.status)
    state = SessionState.IDLE
    error = ""
    due = 0.0
    loop = asyncio.get_running_loop()
    try:
        while True:
            driver = channel.driver
            session = driver.session
            if session.state is not state:
                state = session.state
                if session.failure is None or session.failure.reason != NUMBERS_LOST:
                    line = _state_line(settings, driver)
                    systemd.set_status(line)
                    messages.tell(line)
            if driver.last_error != error:
                error = driver.last_error
                messages.write_limited(error)
            if status is not None and loop.time() >= due:
                due = loop.time() + settings.status_every_ns / NS_PER["s"]
                status.write(channel, settings.inputs)
            await driver.changed(max(due - loop.time(), 0.0) if status else None)
    finally:
        if status is not None:
            status.write(channel, settings.inputs)


def _state_line(settings: AgentSettings, driver: SessionDriver) -> str:
    where = f"{driver.gateway.host} port {driver.gateway.port}"
    source = f"{settings.session.site}/{settings.session.source}"
    state = driver.session.state
    if state is not SessionState.RUNNING:
        return f"{source}: {state.value} ({where})"
    interface = interface_of(driver.local_address)
    via = f" through {interface.name}" if interface is not None else ""
    return f"{source}: running ({where}{via}), clock {driver.session.sync_state.value}"
