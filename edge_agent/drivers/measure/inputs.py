"""Checks that readers, brokers, ports, programs and files of the inputs are available."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import stat
import time
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from slackwater.edge_agent.drivers.agent_file import AgentSettings
from slackwater.edge_agent.drivers.measure.device_clocks import (
    heard_clocks,
    judged,
    monitor_reading,
    reader_reading,
)
from slackwater.edge_agent.inputs.llrp import protocol
from slackwater.edge_agent.inputs.llrp.protocol import LlrpError
from slackwater.edge_agent.inputs.registry import NamedInput
from slackwater.edge_agent.measure import DeviceFindings, InputFindings

if TYPE_CHECKING:
    from slackwater.edge_agent.inputs.mqtt.subscription import MqttInput

_DEVICES: Final = "/dev/"


async def measured_inputs(
    settings: AgentSettings, folder: Path, patience_s: float = 3.0,
    wall_ns: Callable[[], int] = time.time_ns,
) -> tuple[InputFindings, ...]:  # fmt: skip
    """Check each input in turn, without configuring a device or taking data from the agent.

    Args:
        settings: the agent's; effective values come from ``printed``.
        folder: the folder to which file names in the settings are relative.
        patience_s: how long a device may take to answer.
        wall_ns: this device's wall clock, with which other clocks are compared.
    """
    tables = tomllib.loads(settings.printed).get("input", [])
    return tuple(
        [
            await _tried(named, table, folder, patience_s, wall_ns)
            for named, table in zip(settings.inputs, tables, strict=True)
        ]
    )


async def _tried(
    named: NamedInput, table: Mapping[str, Any], folder: Path, patience_s: float,
    wall_ns: Callable[[], int],
) -> InputFindings:  # fmt: skip
    name, kind = named.name, str(table["kind"])
    clock: DeviceFindings | None = None
    match kind:
        case "rfid-llrp":
            found = await _reader(table["host"], table["port"], patience_s)
            if found[0]:
                clock = await _readers_clock(table, wall_ns)
        case "mqtt":
            found = await _broker(table["host"], table["port"], patience_s)
            if found[0]:
                listener = cast("MqttInput", named.input).listener()
                clock = await heard_clocks(listener, table, wall_ns, 2 * patience_s, is_named=True)
        case "hl7-mllp":
            found = _bindable(table["listen"], table["port"], socket.SOCK_STREAM)
            if found[0]:
                reading = await monitor_reading(table, wall_ns, 2 * patience_s)
                clock = judged("monitor", table, reading, None)
        case "soccer-udp":
            found = _bindable(table["listen"], table["port"], socket.SOCK_DGRAM)
            if found[0]:
                clock = await heard_clocks(
                    named.input, table, wall_ns, 2 * patience_s, is_named=False
                )
        case "replay":
            file = folder / table["file"]
            found = (file.is_file() and os.access(file, os.R_OK), f"file {file}")
        case "exec":
            found = _program(table["command"])
        case _:
            return InputFindings(name, kind, None, "nothing to try")
    return InputFindings(name, kind, *found, clock)


async def _readers_clock(table: Mapping[str, Any], wall_ns: Callable[[], int]) -> DeviceFindings:
    try:
        reading, answer_ns = await reader_reading(table["host"], table["port"], wall_ns)
    except (OSError, LlrpError):
        return judged("reader", table, None, None)
    return judged("reader", table, reading, answer_ns)


async def _reader(host: str, port: int, patience_s: float) -> tuple[bool, str]:
    """Check that an LLRP reader greets the connection (LLRP 1.1, 14.2.4.6)."""
    place = f"{host} port {port}"
    try:
        async with asyncio.timeout(patience_s):
            reader, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError) as error:
        return False, f"{place}: {_reason(error)}"
    try:
        async with asyncio.timeout(patience_s):
            header = await reader.readexactly(protocol.HEADER.size)
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        return False, f"{place}: connects, but does not greet as an LLRP reader does"
    finally:
        writer.close()
    kind = protocol.HEADER.unpack(header)[0] & 0x3FF
    if kind != protocol.READER_EVENT_NOTIFICATION:
        return False, f"{place}: connects, but is no LLRP reader (message {kind})"
    return True, f"{place}: an LLRP reader answers"


async def _broker(host: str, port: int, patience_s: float) -> tuple[bool, str]:
    try:
        async with asyncio.timeout(patience_s):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError) as error:
        return False, f"{host} port {port}: {_reason(error)}"
    writer.close()
    return True, f"{host} port {port}: connects"


def _bindable(host: str, port: int, kind: socket.SocketKind) -> tuple[bool, str]:
    """Whether this device can listen there; a running agent already does."""
    place = f"{host} port {port}"
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=kind)[0]
        with socket.socket(family, kind) as trial:
            if kind is socket.SOCK_STREAM:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
    except OSError as error:
        return False, f"{place}: {_reason(error)} (is the agent running?)"
    return True, f"{place}: free to listen at"


def _program(command: list[str]) -> tuple[bool, str]:
    """Check the program, and every device file in its arguments, such as a serial port."""
    if shutil.which(command[0]) is None:
        return False, f"{command[0]}: no such program"
    for word in command[1:]:
        path = word.partition("=")[2] if "=" in word else word
        if not path.startswith(_DEVICES):
            continue
        try:
            mode = Path(path).stat().st_mode
        except OSError as error:
            return False, f"{path}: {_reason(error)}"
        if not stat.S_ISCHR(mode):
            return False, f"{path}: no serial port"
        if not os.access(path, os.R_OK):
            return False, f"{path}: may not be read by this user; add it to the group dialout"
    return True, f"{command[0]}: found"


def _reason(error: BaseException) -> str:
    return (getattr(error, "strerror", None) or str(error) or "no answer").strip()
