"""Driver of a session on real sockets: asyncio connects, sends and wakes; the session decides."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from subprocess import DEVNULL, PIPE
from typing import Final, NamedTuple

from slackwater.edge_agent import clock, ntp
from slackwater.edge_agent.session import (
    AgentSession,
    Close,
    Connect,
    SendBytes,
    SendDatagram,
    SessionState,
)
from slackwater.edge_agent.timesync import CHRONY, GATEWAY

# Sockets to standard NTP servers, which are asked if the gateway does not answer.


class TimeServer(NamedTuple):
    """Address of an NTP server."""

    host: str
    port: int


class TimeServers:
    """Sockets to NTP servers. ``ask`` opens one as needed, with a new look-up of the name."""

    def __init__(
        self, servers: Sequence[TimeServer], answered: Callable[[bytes], None],
        failed: Callable[[str, OSError], None],
    ) -> None:  # fmt: skip
        """``failed``: called with the server's name and the error if it cannot be asked."""
        self._servers = servers
        self._answered = answered
        self._failed = failed
        self._number = -1
        self._transport: asyncio.DatagramTransport | None = None
        self._opening: asyncio.Task[None] | None = None

    def ask(self, number: int, question: bytes) -> None:
        """Send a question to a server, delayed while its name is being looked up."""
        if number != self._number:
            self.close()
            self._number = number
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(question)
        elif self._opening is None or self._opening.done():
            self._opening = asyncio.get_running_loop().create_task(self._open(number, question))

    def close(self) -> None:
        """Close the socket, if there is one."""
        self._number = -1
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    async def _open(self, number: int, question: bytes) -> None:
        server = self._servers[number]
        try:
            made, _ = await asyncio.get_running_loop().create_datagram_endpoint(
                lambda: _ServerSocket(self._answered), remote_addr=server
            )
        except OSError as error:
            self._failed(server.host, error)
            return
        self._transport = made
        made.sendto(question)


class _ServerSocket(asyncio.DatagramProtocol):
    def __init__(self, answered: Callable[[bytes], None]) -> None:
        self._answered = answered

    def datagram_received(self, data: bytes, addr: object) -> None:
        del addr  # the socket is connected
        self._answered(data)


# A session on real sockets: asyncio connects, sends and wakes; the session decides.


# Wakes a core in time: one timer of the event loop, set again after each event.


class Alarm:
    """Calls ``ring`` once, at the earliest instant that was set since it last rang.

    An alarm that is moved to a later instant rings too early. This is harmless, and most deadlines
    move before they are reached, so the loop's timer can mostly stay as it is.
    """

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None

    def within(self, seconds: float) -> None:
        """Ring in ``seconds`` at the latest."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + seconds:
                return
            self._timer.cancel()
        self._timer = loop.call_later(seconds, self._now)

    def cancel(self) -> None:
        """Do not ring until ``within`` is called again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _now(self) -> None:
        self._timer = None
        self._ring()


# One TCP connection, as drivers of a session and of a gateway's core write to it.


class StreamSocket(asyncio.Protocol):
    """Common part of both ends; without a connection its methods do nothing."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def send(self, data: bytes) -> None:
        """Write ``data`` after all earlier data."""
        if self._transport is not None:
            self._transport.write(data)

    @property
    def waiting_bytes(self) -> int:
        """Bytes that were sent and are not written to the socket yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def close(self) -> None:
        """Close the connection when everything is written."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection now."""
        if self._transport is not None:
            self._transport.abort()


# Driver of a session: asyncio connects, sends and wakes; the session decides.
#
# If a connection cannot be opened, the session is informed and asks again after a wait. While a
# peer reads slowly, messages wait in this process; the session bounds their memory
# (``unacked_bytes_max``), because a message stays there until it is acked.


class GatewayAddress(NamedTuple):
    """Address of a gateway: host, TCP port, and UDP port for time sync."""

    host: str
    port: int
    ntp_port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The gateways, in the order in which they are tried. ``tls`` None: plain TCP."""

    gateways: tuple[GatewayAddress, ...]
    tls: ssl.SSLContext | None = None
    time_servers: tuple[TimeServer, ...] = ()


class SessionDriver:
    """Runs one session from ``start`` until it is done, has failed, or is closed."""

    def __init__(self, session: AgentSession, address: Address) -> None:
        self.session = session
        self.before_sending: Callable[[], None] = _nothing
        """Called after each input of the session, before its outputs take effect."""
        self.counts: Counter[str] = Counter()
        """``connected``, ``not_connected``, ``no_ntp_socket``, ``answers_left_out``."""
        self.last_error = ""
        """Why a connection last could not be opened, or was lost."""
        self.gateway = address.gateways[0]
        """The gateway that was connected to, or tried, last."""
        self.local_address = ""
        """This device's address on the newest connection."""
        self._address = address
        self._links: dict[int, _GatewayConnection] = {}
        self._connecting: dict[int, asyncio.Task[None]] = {}
        self._datagrams: asyncio.DatagramTransport | None = None
        self._asked_at = ("", 0)
        self._servers = TimeServers(address.time_servers, self.answered, self._not_asked)
        self._chrony: asyncio.Task[None] | None = None
        self._alarm = Alarm(self._wake)
        self.version = 0
        """Number of notifications so far."""
        self._changed = asyncio.Event()
        self._closed = False

    def start(self) -> None:
        """Start connecting."""
        self.session.start(clock.read())
        self.carry_out()

    async def changed(self, seconds: float | None = None, since: int | None = None) -> None:
        """Wait for the next notification after version ``since``, or for ``seconds``."""
        if since is not None and since != self.version:
            return
        self._changed.clear()
        try:
            async with asyncio.timeout(seconds):  # wait_for may swallow a cancellation
                await self._changed.wait()
        except TimeoutError:
            return

    async def until_settled(self) -> None:
        """Return when the session is done or has failed."""
        while not self.settled:
            await self.changed()

    @property
    def settled(self) -> bool:
        """Whether the session is done or has failed."""
        return self.session.state in (SessionState.DONE, SessionState.FAILED)

    async def close(self) -> None:
        """Stop at once, without waiting for acks."""
        self._closed = True
        self._alarm.cancel()
        tasks = [*self._connecting.values(), *filter(None, [self._chrony])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for link in self._links.values():
            link.abort()
        self._links.clear()
        self._servers.close()
        if self._datagrams is not None:
            self._datagrams.abort()
        await asyncio.sleep(0)  # the loop closes the sockets

    def carry_out(self) -> None:
        """Execute the session's outputs; call after each of its inputs."""
        if self._closed:
            return
        self.before_sending()
        for output in self.session.outputs():
            match output:
                case Connect(number, place):
                    self._spawn(number, self._address.gateways[place])
                case SendBytes(number, data, spare):
                    self._send(self._links[number], data, spare=spare)
                case Close(number, _):
                    self._give_up(number)
                case SendDatagram(data, place):
                    self._ask(data, place)
        self.notify()
        due = self.session.next_wake()
        if due is not None and not self._closed:
            self._alarm.within(max(due - clock.read().mono_ns, 0) / 1e9)

    def notify(self) -> None:
        """Wake the tasks that wait in ``changed``."""
        self.version += 1
        self._changed.set()

    # --- what sockets call

    def opened(self, link: _GatewayConnection, local_address: str) -> None:
        """Called when a connection is open; ``local_address``: this device's address."""
        self.counts["connected"] += 1
        self.local_address = local_address
        self._links[link.number] = link

    def received(self, link: _GatewayConnection, data: bytes) -> None:
        """Called with bytes from the gateway."""
        if self._links.get(link.number) is link:
            link.has_heard = True
            self.session.received(link.number, data, clock.read())
            self.carry_out()

    def lost(self, link: _GatewayConnection, error: Exception | None) -> None:
        """Called when a connection is lost."""
        if self._links.get(link.number) is link:
            del self._links[link.number]
            self.last_error = _error_text(error) if error else "the gateway closed the connection"
            if not (error or link.has_heard or self._address.tls):
                self.last_error += " without a word: it may want TLS ([tls])"
            self.session.disconnected(link.number, clock.read())
            self.carry_out()

    def answered(self, data: bytes) -> None:
        """Called with a datagram from the time server in use."""
        self.session.datagram_received(data, clock.read())
        self.carry_out()

    # --- inside

    def _send(self, link: _GatewayConnection, data: bytes, *, spare: bool) -> None:
        """Send ``data``; a ``spare`` answer is dropped while the peer does not read its answers."""
        if spare and link.waiting_bytes > self.session.settings.unacked_bytes_max:
            self.counts["answers_left_out"] += 1
        else:
            link.send(data)

    def _spawn(self, number: int, gateway: GatewayAddress) -> None:
        self.gateway = gateway
        task = asyncio.get_running_loop().create_task(self._connect(number, gateway))
        self._connecting[number] = task
        task.add_done_callback(partial(self._connected, number))

    def _connected(self, number: int, task: asyncio.Task[None]) -> None:
        if self._connecting.get(number) is task:
            del self._connecting[number]
        if not task.cancelled():
            task.result()  # a programming error must not be hidden

    def _give_up(self, number: int) -> None:
        task, link = self._connecting.pop(number, None), self._links.pop(number, None)
        if task is not None:
            task.cancel()
        if link is not None:
            link.close()
            if link.waiting_bytes:  # a peer that does not read would keep the socket forever
                seconds = self.session.settings.hello_timeout_ns / 1e9
                asyncio.get_running_loop().call_later(seconds, link.abort)

    async def _connect(self, number: int, at: GatewayAddress) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self.session.settings.hello_timeout_ns / 1e9):
                _, link = await loop.create_connection(
                    lambda: _GatewayConnection(self, number),
                    at.host,
                    at.port,
                    ssl=self._address.tls,
                )
        except (OSError, TimeoutError) as error:
            self.counts["not_connected"] += 1
            self.last_error = f"{at.host} port {at.port}: {_error_text(error)}"
            self.session.disconnected(number, clock.read())
            self.carry_out()
            return
        await self._open_datagrams(link.peer, at.ntp_port)
        if self._links.get(number) is link:
            self.session.connected(number, clock.read())
            self.carry_out()

    async def _open_datagrams(self, host: str, port: int) -> None:
        """Ask for the time at the connection's address: a name may have several addresses."""
        if self._datagrams is not None and not self._datagrams.is_closing():
            if self._asked_at == (host, port):
                return
            self._datagrams.abort()
        try:
            made, _ = await asyncio.get_running_loop().create_datagram_endpoint(
                lambda: _Questions(self), remote_addr=(host, port)
            )
        except OSError as error:
            self.counts["no_ntp_socket"] += 1
            self.last_error = f"time sync with {host}: {_error_text(error)}"
            return
        self._datagrams, self._asked_at = made, (host, port)

    def _ask(self, data: bytes, place: int) -> None:
        if place == CHRONY:
            if self._chrony is None or self._chrony.done():
                self._chrony = asyncio.get_running_loop().create_task(self._ask_chrony())
            return
        if place != GATEWAY:
            self._servers.ask(place - 1, data)
            return
        self._servers.close()
        if self._datagrams is not None and not self._datagrams.is_closing():
            self._datagrams.sendto(data)

    async def _ask_chrony(self) -> None:
        said = ""
        try:
            program = await asyncio.create_subprocess_exec(
                *ntp.CHRONY_COMMAND, stdin=DEVNULL, stdout=PIPE, stderr=PIPE
            )
            try:
                line, fault = await program.communicate()
            finally:
                if program.returncode is None:
                    program.kill()
            if program.returncode:
                said = (line + fault).decode("utf-8", "replace").strip()
                said = f"{said or 'it failed'}; is chronyd running?"
        except OSError as error:
            said = _error_text(error)
        if said:
            self.last_error = f"time from chrony: {' '.join(ntp.CHRONY_COMMAND)}: {said}"
            self.notify()
            return
        self.answered(line)
        if refusal := self.session.time_refusal:
            self.last_error = f"time from chrony: {refusal}"
            self.notify()

    def _not_asked(self, host: str, error: OSError) -> None:
        self.counts["no_ntp_socket"] += 1
        self.last_error = f"time sync with {host}: {_error_text(error)}"

    def _wake(self) -> None:
        self.session.wake(clock.read())
        self.carry_out()


class _GatewayConnection(StreamSocket):
    """One connection of the session's pool."""

    def __init__(self, driver: SessionDriver, number: int) -> None:
        super().__init__()
        self.number = number
        self._driver = driver
        self.peer = ""
        """Address of the gateway."""
        self.has_heard = False
        """Whether any data was received."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        made = transport.get_extra_info("socket")
        if made is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.peer = str(transport.get_extra_info("peername")[0])
        self._driver.opened(self, str(transport.get_extra_info("sockname")[0]))

    def data_received(self, data: bytes) -> None:
        self._driver.received(self, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._driver.lost(self, exc)


class _Questions(asyncio.DatagramProtocol):
    """The socket of time sync."""

    def __init__(self, driver: SessionDriver) -> None:
        self._driver = driver

    def datagram_received(self, data: bytes, addr: object) -> None:
        del addr  # the socket is connected: only the gateway's datagrams arrive
        self._driver.answered(data)

    def error_received(self, exc: Exception) -> None:
        # Nobody listens there (yet): the session counts the time-out.
        self._driver.last_error = f"time sync: {_error_text(exc)}"


def _nothing() -> None:
    """Default of ``before_sending``."""


_NO_TLS: Final = {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"}
"""OpenSSL's reasons when an answer is not TLS."""


def _error_text(error: Exception) -> str:
    """Text of a socket error: its reason if it has one."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLError) and error.reason in _NO_TLS:
        return "no TLS is spoken there: leave out [tls], or give the gateway [tls]"
    reason = error.strerror if isinstance(error, OSError) else None
    return reason or str(error) or type(error).__name__
