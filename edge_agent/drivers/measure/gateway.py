"""Measurement of the path to the gateway and to standard NTP servers."""

from __future__ import annotations

import asyncio
import secrets
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

import ntplib

from slackwater.edge_agent import ntp
from slackwater.edge_agent.clock import MachineClock
from slackwater.edge_agent.drivers.agent_file import NTP_PORT, AgentSettings
from slackwater.edge_agent.drivers.session_driver import TimeServer
from slackwater.edge_agent.measure import (
    BurstFindings,
    Exchange,
    PathFindings,
    PathProbe,
    ServerFindings,
)
from slackwater.edge_agent.ntp import MAC_BYTES

# Standard NTP servers, asked through ntplib: a check independent of our own codec (SPEC 2).
#
# ntplib reads the system clock as float seconds since 1900, with an error of half a microsecond,
# which is part of the precision given here. It accepts every datagram from the server's address;
# what it does not check (mode, leap, stratum, order of timestamps) is checked here.


VERSION: Final = 4
_FLOAT_NS: Final = 1_000
_MODE_SERVER: Final = 4
_LEAP_ALARM: Final = 3
_STRATUM_MAX: Final = 15
_NS: Final = 10**9


class NtpServer:
    """One server; ``ask`` blocks, so call it in a thread."""

    def __init__(self, server: TimeServer, clock: MachineClock, timeout_s: float) -> None:
        """``clock``: the device's, perhaps with an artificial offset; ntplib reads the system's."""
        self._server = server
        self._clock = clock
        self._timeout_s = timeout_s
        self._exchanges: list[Exchange] = []
        self._questions = 0
        self._refused: Counter[str] = Counter()
        self._stratum: int | None = None

    def ask(self) -> None:
        """Make one exchange, or count why there was none."""
        self._questions += 1
        now = self._clock.read()
        bent_ns = now.wall_ns - time.time_ns()
        try:
            answer = ntplib.NTPClient().request(
                self._server.host, version=VERSION, port=self._server.port,
                timeout=self._timeout_s,
            )  # fmt: skip
        except ntplib.NTPException:
            self._refused["no answer"] += 1
            return
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            self._refused[reason or str(error)] += 1
            return
        problem = _problem(answer)
        if problem:
            self._refused[problem] += 1
            return
        self._stratum = int(answer.stratum)
        root_s = answer.root_delay / 2 + answer.root_dispersion
        self._exchanges.append(
            Exchange(
                at_ns=now.mono_ns,
                offset_ns=round(answer.offset * _NS) - bent_ns,
                delay_ns=max(round(answer.delay * _NS), 0),
                precision_ns=_FLOAT_NS + max(round(2.0**answer.precision * _NS), 1),
                root_ns=max(round(root_s * _NS), 0),
            )
        )

    def findings(self) -> ServerFindings:
        """The findings so far."""
        return ServerFindings(
            name=address_text(self._server), exchanges=tuple(self._exchanges),
            questions=self._questions, stratum=self._stratum, refused=dict(self._refused),
        )  # fmt: skip


def address_text(server: TimeServer) -> str:
    """Format as ``host`` or ``host:port``."""
    return server.host if server.port == NTP_PORT else f"{server.host}:{server.port}"


def _problem(answer: ntplib.NTPStats) -> str:
    """Why an answer is rejected; empty: it is accepted."""
    if answer.mode != _MODE_SERVER:
        return f"mode {answer.mode}"
    if answer.leap == _LEAP_ALARM:
        return "not synchronised"
    if not 1 <= answer.stratum <= _STRATUM_MAX:
        return f"stratum {answer.stratum}"
    if not answer.recv_timestamp or answer.tx_timestamp < answer.recv_timestamp:
        return "no sound time"
    if answer.delay < -_FLOAT_NS / _NS:
        return "negative delay"
    return ""


# The path to the gateway: NTP questions over UDP, and TCP connections that are closed again.
#
# No HELLO is sent: it would announce a start of the source and end a running agent's session.


TRAIN: Final = 4
"""Questions per train: enough to see one overtake another."""
APART_S: Final = 0.002
TIMEOUT_NS: Final = 1_000_000_000
"""The default time-out of an agent's time sync."""
_BURST: Final = 1_000
_BURST_S: Final = 2.0
_CONNECTIONS: Final = 5
_UDP_HEADERS: Final = 28
_COOKIE_BITS: Final = 64
_IP_MTU: Final = 14
"""Linux socket option: the kernel's path MTU of a connected socket (ip(7))."""


class GatewayPath:
    """Questions to the first gateway while ``run`` runs; ``findings`` may be called at any time."""

    def __init__(
        self, settings: AgentSettings, clock: MachineClock, precision_ns: int, train_s: float
    ) -> None:
        self._settings = settings
        self._gateway = settings.gateways[0]
        self._clock = clock
        self._precision_ns = precision_ns
        self._train_s = train_s
        self._probe = self._new_probe()
        self._ended_ns: int | None = None
        self._error = ""
        self._connect_ns: list[int] = []
        self._connect_error = ""
        self._mtu: int | None = None
        self._mss: int | None = None
        self._burst: BurstFindings | None = None
        self._local = ""

    def _new_probe(self) -> PathProbe:
        return PathProbe(
            lambda: secrets.randbits(_COOKIE_BITS),
            self._precision_ns,
            self._settings.session.ntp_key,
        )

    async def run(self, until: Callable[[], bool]) -> None:
        """Send trains until ``until`` is true, then wait for answers for up to ``TIMEOUT_NS``."""
        transport = await self._endpoint(self._probe)
        if transport is None:
            return
        try:
            while not until():
                for _ in range(TRAIN):
                    transport.sendto(self._probe.question(self._clock.read()))
                    await asyncio.sleep(APART_S)
                await asyncio.sleep(self._train_s)
            await self._wait_for(self._probe, TIMEOUT_NS / 1e9)
        finally:
            transport.abort()
        self._ended_ns = self._clock.read().mono_ns

    async def _wait_for(self, probe: PathProbe, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while probe.answers < probe.sent and loop.time() < end:
            await asyncio.sleep(0.005)

    async def burst(self) -> None:
        """Send questions back to back for a short time, to measure the capacity of the path."""
        probe = self._new_probe()
        transport = await self._endpoint(probe)
        if transport is None:
            return
        loop = asyncio.get_running_loop()
        begun = loop.time()
        came: list[float] = []
        try:
            while probe.sent < _BURST and loop.time() - begun < _BURST_S:
                transport.sendto(probe.question(self._clock.read()))
                if probe.sent % TRAIN == 0:
                    await asyncio.sleep(0)
            await self._wait_for(probe, 1.0)
            found = probe.exchanges()
            came = [(each.at_ns + each.up_ns + each.down_ns) / 1e9 for each in found]
        finally:
            transport.abort()
        spread_ns = round((max(came) - min(came)) * 1e9) if came else 0
        mac = MAC_BYTES if self._settings.session.ntp_key is not None else 0
        size = ntp.PACKET_BYTES + mac + _UDP_HEADERS
        self._burst = BurstFindings(probe.sent, probe.answers, size, spread_ns)

    async def _endpoint(self, probe: PathProbe) -> asyncio.DatagramTransport | None:
        where = (self._gateway.host, self._gateway.ntp_port)
        try:
            transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
                lambda: _QuestionSocket(probe, self._clock), remote_addr=where
            )
        except OSError as error:
            self._error = f"{where[0]} port {where[1]}: {error.strerror or error}"
            return None
        self._local = str(transport.get_extra_info("sockname")[0])
        return transport

    async def connect(self) -> None:
        """Open connections to the gateway's port; close each at once."""
        tls = None if self._settings.tls is None else self._settings.tls.context()
        loop = asyncio.get_running_loop()
        for _ in range(_CONNECTIONS):
            begun = loop.time()
            try:
                async with asyncio.timeout(TIMEOUT_NS / 1e9):
                    _, writer = await asyncio.open_connection(
                        self._gateway.host, self._gateway.port, ssl=tls
                    )
            except (OSError, TimeoutError, ssl.SSLError) as error:
                said = str(getattr(error, "strerror", None) or error or "no answer")
                self._connect_error = f"{self._gateway.host} port {self._gateway.port}: {said}"
                return
            self._connect_ns.append(round((loop.time() - begun) * 1e9))
            link = writer.get_extra_info("socket")
            self._mtu = _option(link, socket.IPPROTO_IP, _IP_MTU)
            self._mss = _option(link, socket.IPPROTO_TCP, socket.TCP_MAXSEG)
            writer.transport.abort()

    def findings(self) -> PathFindings:
        """The findings so far."""
        probe = self._probe
        ended = self._ended_ns or self._clock.read().mono_ns
        lost = probe.late(ended, TIMEOUT_NS)
        up, down = probe.reordered()
        return PathFindings(
            **self._gateway._asdict(),
            exchanges=probe.exchanges(), questions=probe.answers + lost, lost=lost,
            reordered_up=up, reordered_down=down, refused=dict(probe.refused),
            stratum=probe.stratum, error=self._error, connect_ns=tuple(self._connect_ns),
            connect_error=self._connect_error, mtu=self._mtu, mss=self._mss, burst=self._burst,
            local_address=self._local,
        )  # fmt: skip


class _QuestionSocket(asyncio.DatagramProtocol):
    def __init__(self, probe: PathProbe, clock: MachineClock) -> None:
        self._probe = probe
        self._clock = clock

    def datagram_received(self, data: bytes, addr: object) -> None:
        del addr  # the socket is connected
        self._probe.received(data, self._clock.read())

    def error_received(self, exc: Exception) -> None:
        """Count an error, as when nobody listens; the questions also count as lost."""
        self._probe.refused[str(getattr(exc, "strerror", None) or exc)] += 1


def _option(link: socket.socket, level: int, name: int) -> int | None:
    try:
        return link.getsockopt(level, name)
    except OSError:
        return None  # another address family, or another system
