"""An emulation from start to end: namespaces, devices, the pump, and a command within."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

from slackwater.engine.core.errors import SlackwaterError, UserError
from slackwater.simulator.emulator.command import Command
from slackwater.simulator.emulator.counters import StatusWriter, counters, table
from slackwater.simulator.emulator.kernel import Namespaces, check_machine
from slackwater.simulator.emulator.pump import Pump
from slackwater.simulator.emulator.relay import LinkDirection, Relay
from slackwater.simulator.emulator.settings import Emulation
from slackwater.simulator.links import Place

Tell = Callable[[str], None]
STOPPED: Final = 0
_PRIORITY: Final = 1


def emulate(
    emulation: Emulation, data: Path, command: Sequence[str], within: str | None, tell: Tell
) -> int:
    """Runs until SIGINT, SIGTERM or SIGHUP, or until ``command`` ends.

    Args:
        emulation: its settings.
        data: folder of recordings (``simulator.recorded.data_directory``).
        command: a program and its arguments; empty: none.
        within: the namespace in which the command runs; None: outside, where it may enter all.
        tell: takes a line about what goes on.

    Returns:
        The command's exit code; 0 without one.

    Raises:
        UserError: not root, ``within`` is none of the namespaces or without a command, or somebody
            else has the namespaces.
        SlackwaterError: the kernel refuses.
    """
    if within is not None and not command:
        raise UserError("--in needs a command: write -- and the command at the end")
    if within is not None and within not in emulation.namespaces:
        known = ", ".join(emulation.namespaces)
        raise UserError(f"--in {within}: no such namespace in the settings; there are {known}")
    check_machine()
    # Numba compiles a law when it is first drawn from: not while packets wait.
    for way in Relay(emulation, Place(0, data)).ways:
        way.link.transmit(0, 0, 0)
    namespaces = Namespaces(emulation)
    with _asked_to_stop() as stop_signals:
        try:
            namespaces.make()
            return _RunningEmulation(emulation, namespaces, data, tell, stop_signals).run(
                command, within
            )
        finally:
            namespaces.remove()


@contextmanager
def _asked_to_stop() -> Iterator[list[int]]:
    """The signals that came: none ends this process before it has removed what it made."""
    came: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        del frame
        came.append(number)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # else of nohup
        numbers.append(signal.SIGHUP)
    handlers = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield came
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


class _RunningEmulation:
    """One run between namespaces that are there."""

    def __init__(
        self, emulation: Emulation, namespaces: Namespaces, data: Path, tell: Tell,
        asked_to_stop: Sequence[int],
    ) -> None:  # fmt: skip
        self._emulation = emulation
        self._namespaces = namespaces
        self._tell = tell
        self._asked_to_stop = asked_to_stop
        self._command: Command | None = None
        self._began = time.time_ns()
        self._relay = Relay(emulation, Place(time.monotonic_ns(), data))
        self._files: list[int] = []

    def run(self, command: Sequence[str], within: str | None) -> int:
        woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._files += [woken, wake]
        try:
            pump = self._pump()
            pump.when_readable(woken, lambda: _emptied(woken))
            handler = signal.signal(signal.SIGCHLD, _noticed)
            former = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
            try:
                return self._move(pump, command, within)
            finally:
                signal.set_wakeup_fd(former)
                signal.signal(signal.SIGCHLD, handler)
        finally:
            for file in self._files:
                os.close(file)

    def _pump(self) -> Pump:
        """Makes the devices."""
        addresses = self._emulation.addresses
        ends: dict[tuple[str, str], int] = {}
        for link in self._emulation.links:
            for at, to, *_ in link.ways:
                file = self._namespaces.device(at, to, addresses, link.mtu)
                ends[at, to] = file
                self._files.append(file)
        ways = self._relay.ways
        return Pump(
            self._relay,
            {way: ends[way.source, way.target] for way in ways},
            {way: ends[way.target, way.source] for way in ways},
        )

    def _move(self, pump: Pump, command: Sequence[str], within: str | None) -> int:
        for name, address in self._emulation.addresses.items():
            self._tell(f"{self._namespaces.names[name]}: {address}")
        if self._emulation.realtime:
            self._go_first()
        if command:
            self._command = self._started(command, within)
        try:
            with StatusWriter(self._emulation.status) as status:
                status.write(self._fields(pump))
                pump.run(
                    self._goes_on,
                    self._emulation.status_every_ns,
                    lambda: status.write(self._fields(pump)),
                )
                status.write(self._fields(pump))
        finally:
            if self._command is not None:
                self._command.end()
        self._tell(table(pump.refused).rstrip("\n"))
        self._tell_losses(pump)
        return STOPPED if self._command is None else self._command.exit_code

    def _go_first(self) -> None:
        """Before all ordinary programs; those that it starts do not inherit it."""
        try:
            policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
            os.sched_setscheduler(0, policy, os.sched_param(_PRIORITY))
        except OSError as error:
            self._tell(f"no real-time priority ({error.strerror}): a busy machine delays packets")

    def _started(self, command: Sequence[str], within: str | None) -> Command:
        words = list(command)
        if within is not None:
            words = ["ip", "netns", "exec", self._namespaces.names[within], *words]
        return Command(words)

    def _goes_on(self) -> bool:
        return not self._asked_to_stop and (self._command is None or self._command.runs)

    def _fields(self, pump: Pump) -> dict[str, Any]:
        return {
            "began": self._began,
            "at": time.time_ns(),
            "waiting": self._relay.waiting.messages,
            "not_ipv4": pump.not_ipv4,
            "links": [counters(way, refused) for way, refused in pump.refused.items()],
        }

    def _tell_losses(self, pump: Pump) -> None:
        """What the settings did not ask for."""
        for way in pump.refused:
            dropped = self._dropped(way)
            if dropped:
                self._tell(
                    f"{way.source} -> {way.target}: {dropped} packets found no room in the device: "
                    "more came than the emulator could take"
                )
        if pump.not_ipv4:
            self._tell(f"{pump.not_ipv4} packets were not IPv4, and dropped")

    def _dropped(self, way: LinkDirection) -> int:
        try:
            return self._namespaces.dropped(way.source, way.target)
        except SlackwaterError:
            return 0  # the user removed the device


def _emptied(file: int) -> None:
    """Reads away what signals wrote; it only had to wake the pump."""
    os.read(file, 1024)


def _noticed(number: int, frame: FrameType | None) -> None:
    """A child has ended; its own handler makes the signal wake the pump."""
    del number, frame
