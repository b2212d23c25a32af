"""``slackwater agent``: inputs, session and sockets of one device, from start to stop.

Inputs that have all ended end the source (EOS), and the agent when everything is acked. SIGTERM and
Ctrl-C stop it earlier: it waits a little for acks, and says what was not acked.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
from collections.abc import Callable
from typing import Final

from edge_agent import clock
from edge_agent.drivers.agent_file import AgentSettings
from edge_agent.drivers.memory_outlet import MemoryOutlet
from edge_agent.drivers.network_interface import interface_of
from edge_agent.drivers.session_driver import Address, SessionDriver
from edge_agent.drivers.status_file import StatusFile
from edge_agent.drivers.tellings import Tellings
from edge_agent.outputs import SessionState
from edge_agent.session import AgentSession
from edge_agent.settings_file import NS_PER

DONE: Final = 0
FAILED: Final = 1
_COOKIE_BITS: Final = 64


async def run_agent(settings: AgentSettings, tell: Callable[[str], None]) -> int:
    """Runs the agent; gives its exit code: 0 when everything was acked, else 1.

    Raises:
        AgentError: an input that cannot be read at all, or a certificate.
    """
    tellings = Tellings(tell)
    session = AgentSession(
        settings.session,
        settings.streams,
        incarnation=clock.read().wall_ns,
        cookie=lambda: secrets.randbits(_COOKIE_BITS),
        jitter=lambda most: secrets.randbelow(most + 1),
    )
    tls = None if settings.tls is None else settings.tls.context()
    driver = SessionDriver(
        session,
        Address(host=settings.host, port=settings.port, ntp_port=settings.ntp_port, tls=tls),
    )
    outlet = MemoryOutlet(driver, settings.streams, settings.when_full, tellings)
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    watch = asyncio.create_task(_watch(settings, driver, outlet, tellings))
    try:
        await driver.start()
        await _until_read(settings, driver, outlet, stopping)
        session.finish(clock.read())
        driver.carry_out()
        await _until_settled(driver, stopping, settings.stop_ns)
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        await driver.close()
        tellings.end()
    return _told_end(session, outlet, tell)


async def _until_read(
    settings: AgentSettings, driver: SessionDriver, outlet: MemoryOutlet, stopping: asyncio.Event
) -> None:
    """Until all inputs have ended, one has failed, the session has, or the agent is stopped."""
    reading = [asyncio.create_task(each.run(outlet)) for each in settings.inputs]
    others = [asyncio.create_task(stopping.wait()), asyncio.create_task(_ended(driver))]
    try:
        left = set(reading)
        while left:
            done, _ = await asyncio.wait({*left, *others}, return_when=asyncio.FIRST_COMPLETED)
            if done.intersection(others):
                return
            for task in done:
                task.result()
            left -= done
    finally:
        for task in (*reading, *others):
            task.cancel()
        await asyncio.gather(*reading, *others, return_exceptions=True)


async def _ended(driver: SessionDriver) -> None:
    while not driver.settled:
        await driver.changed()


async def _until_settled(driver: SessionDriver, stopping: asyncio.Event, stop_ns: int) -> None:
    """Until everything is acked; once a stop is asked for, no longer than ``stop_ns``."""
    ended = asyncio.create_task(_ended(driver))
    stop = asyncio.create_task(stopping.wait())
    await asyncio.wait({ended, stop}, return_when=asyncio.FIRST_COMPLETED)
    if not ended.done():
        await asyncio.wait({ended}, timeout=stop_ns / NS_PER["s"])
    for task in (ended, stop):
        task.cancel()
    await asyncio.gather(ended, stop, return_exceptions=True)


def _told_end(session: AgentSession, outlet: MemoryOutlet, tell: Callable[[str], None]) -> int:
    emitted, acked = session.counts["emitted"], session.counts["acked"]
    if session.state is SessionState.FAILED:
        assert session.failure is not None
        tell(f"the gateway refuses: {session.failure.reason}: {session.failure.detail}")
    if outlet.counts["bad"]:
        tell(f"{outlet.counts['bad']} records were left out as bad")
    if outlet.counts["dropped_full"]:
        tell(f"{outlet.counts['dropped_full']} events were dropped, as there was no room")
    if session.state is SessionState.DONE:
        tell(f"done: {acked} events acked")
        return DONE
    tell(f"stopped: {emitted - acked} of {emitted} events are not acked")
    return FAILED if session.state is SessionState.FAILED or emitted > acked else DONE


async def _watch(
    settings: AgentSettings, driver: SessionDriver, outlet: MemoryOutlet, tellings: Tellings
) -> None:
    """Tells what changes, and writes the status file."""
    status = None if settings.status is None else StatusFile(settings.status)
    state = SessionState.IDLE
    error = ""
    due = 0.0
    loop = asyncio.get_running_loop()
    while True:
        session = driver.session
        if session.state is not state:
            state = session.state
            tellings.tell(_state_line(settings, driver))
        if driver.last_error != error:
            error = driver.last_error
            tellings.rarely(error)
        if status is not None and loop.time() >= due:
            due = loop.time() + settings.status_every_ns / NS_PER["s"]
            status.write(driver, outlet.counts)
        await driver.changed(max(due - loop.time(), 0.0) if status else None)


def _state_line(settings: AgentSettings, driver: SessionDriver) -> str:
    where = f"{settings.host} port {settings.port}"
    source = f"{settings.session.site}/{settings.session.source}"
    state = driver.session.state
    if state is not SessionState.RUNNING:
        return f"{source}: {state.value} ({where})"
    interface = interface_of(driver.local_address)
    via = f" through {interface.name}" if interface is not None else ""
    return f"{source}: running ({where}{via}), clock {driver.session.sync_state.value}"
