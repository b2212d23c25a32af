"""A session on real sockets: asyncio connects, sends and wakes; the session decides."""

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

# Sockets to standard NTP servers, which are asked where the gateway does not answer.


class TimeServer(NamedTuple):
    """Where an NTP server is."""

    host: str
    port: int


class TimeServers:
    """``ask`` opens what it needs, so a name is looked up again when it is needed again."""

    def __init__(
        self, servers: Sequence[TimeServer], answered: Callable[[bytes], None],
        failed: Callable[[str, OSError], None],
    ) -> None:  # fmt: skip
        """``failed``: called with the server's name and why it cannot be asked."""
        self._servers = servers
        self._answered = answered
        self._failed = failed
        self._number = -1
        self._transport: asyncio.DatagramTransport | None = None
        self._opening: asyncio.Task[None] | None = None

    def ask(self, number: int, question: bytes) -> None:
        """Sends a question to a server; while its name is looked up, later than it should be."""
        if number != self._number:
            self.close()
            self._number = number
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(question)
        elif self._opening is None or self._opening.done():
            self._opening = asyncio.get_running_loop().create_task(self._open(number, question))

    def close(self) -> None:
        """No server is asked; harmless when none was."""
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
    """Calls ``ring`` once, at the earliest instant that it was set to since it rang last.

    One that is set to a later instant rings too early. That does no harm, and most deadlines move
    on before they come: so the loop's timer is mostly left as it is.
    """

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None

    def within(self, seconds: float) -> None:
        """Rings in so long at the latest."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + seconds:
                return
            self._timer.cancel()
        self._timer = loop.call_later(seconds, self._now)

    def cancel(self) -> None:
        """Does not ring any more until it is set again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _now(self) -> None:
        self._timer = None
        self._ring()


# One TCP connection, as those who drive a session or a gateway's core write to it.


class StreamSocket(asyncio.Protocol):
    """What both ends do alike; before there is a connection, and after it, nothing happens."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def send(self, data: bytes) -> None:
        """Writes ``data`` after all before it."""
        if self._transport is not None:
            self._transport.write(data)

    @property
    def waiting_bytes(self) -> int:
        """Of what was sent, so much is not written yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def close(self) -> None:
        """Closes it when everything is written."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Closes it now."""
        if self._transport is not None:
            self._transport.abort()


# A session on real sockets: asyncio connects, sends and wakes; the session decides.
#
# A connection that cannot be opened is reported to the session, which asks again after a wait. A
# peer that reads slowly makes messages wait in this process; their memory is bounded by the session
# (``unacked_bytes_max``), as a message stays there until it is acked.


class GatewayAddress(NamedTuple):
    """Where a gateway is."""

    host: str
    port: int
    ntp_port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where the gateways are, in the order in which they are tried. ``tls`` None: TCP as it is."""

    gateways: tuple[GatewayAddress, ...]
    tls: ssl.SSLContext | None = None
    time_servers: tuple[TimeServer, ...] = ()


class SessionDriver:
    """Runs one session from ``start`` until it is done, has failed, or ``close`` is called."""

    def __init__(self, session: AgentSession, address: Address) -> None:
        self.session = session
        self.before_sending: Callable[[], None] = _nothing
        """Called after each input of the session, before it has effects."""
        self.counts: Counter[str] = Counter()
        """``connected``, ``not_connected``, ``no_ntp_socket``, ``answers_left_out``."""
        self.last_error = ""
        """Why a connection was last not opened, or was lost."""
        self.gateway = address.gateways[0]
        """The one connected to, or tried, last."""
        self.local_address = ""
        """This device's own address on the connection opened last."""
        self._address = address
        self._links: dict[int, _GatewayConnection] = {}
        self._connecting: dict[int, asyncio.Task[None]] = {}
        self._datagrams: asyncio.DatagramTransport | None = None
        self._asked_at = ("", 0)
        self._servers = TimeServers(address.time_servers, self.answered, self._not_asked)
        self._chrony: asyncio.Task[None] | None = None
        self._alarm = Alarm(self._wake)
        self.version = 0
        """Counts what has happened."""
        self._changed = asyncio.Event()
        self._closed = False

    def start(self) -> None:
        """Begins to connect."""
        self.session.start(clock.read())
        self.carry_out()

    async def changed(self, seconds: float | None = None, since: int | None = None) -> None:
        """Returns when something has happened (``since``: that version), or after so long."""
        if since is not None and since != self.version:
            return
        self._changed.clear()
        try:
            async with asyncio.timeout(seconds):  # wait_for may swallow a cancellation
                await self._changed.wait()
        except TimeoutError:
            return

    async def until_settled(self) -> None:
        """Returns when the session has come to its end."""
        while not self.settled:
            await self.changed()

    @property
    def settled(self) -> bool:
        """Whether the session has come to its end."""
        return self.session.state in (SessionState.DONE, SessionState.FAILED)

    async def close(self) -> None:
        """Stops at once; what is not acked stays so."""
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
        """Does what the session asks for; called after every input of it."""
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
        """Something has happened that others wait for."""
        self.version += 1
        self._changed.set()

    # --- what sockets call

    def opened(self, link: _GatewayConnection, local_address: str) -> None:
        """A connection is open, from this device's address ``local_address``."""
        self.counts["connected"] += 1
        self.local_address = local_address
        self._links[link.number] = link

    def received(self, link: _GatewayConnection, data: bytes) -> None:
        """Bytes of the gateway came."""
        if self._links.get(link.number) is link:
            link.has_heard = True
            self.session.received(link.number, data, clock.read())
            self.carry_out()

    def lost(self, link: _GatewayConnection, error: Exception | None) -> None:
        """A connection is gone."""
        if self._links.get(link.number) is link:
            del self._links[link.number]
            self.last_error = _error_text(error) if error else "the gateway closed the connection"
            if not (error or link.has_heard or self._address.tls):
                self.last_error += " without a word: it may want TLS ([tls])"
            self.session.disconnected(link.number, clock.read())
            self.carry_out()

    def answered(self, data: bytes) -> None:
        """A datagram came from where questions go."""
        self.session.datagram_received(data, clock.read())
        self.carry_out()

    # --- inside

    def _send(self, link: _GatewayConnection, data: bytes, *, spare: bool) -> None:
        """Who asks and asks and does not read what he is sent is not sent ever more."""
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
            task.result()  # a bug of ours must not be hidden

    def _give_up(self, number: int) -> None:
        task, link = self._connecting.pop(number, None), self._links.pop(number, None)
        if task is not None:
            task.cancel()
        if link is not None:
            link.close()
            if link.waiting_bytes:  # who reads nothing keeps them, and the socket, for ever
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
        """Questions go where the connection went: a name may have several addresses."""
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
        """Its address."""
        self.has_heard = False
        """Whether it has ever said anything."""

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
        del addr  # the socket is connected: only the gateway's datagrams come in
        self._driver.answered(data)

    def error_received(self, exc: Exception) -> None:
        # Nobody listens there (yet): the session's own time-out counts it.
        self._driver.last_error = f"time sync: {_error_text(exc)}"


def _nothing() -> None:
    """Ignored."""


_NO_TLS: Final = {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"}
"""What OpenSSL says of an answer that is no TLS."""


def _error_text(error: Exception) -> str:
    """Text of a socket's error: a reason, where the exception has one."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLError) and error.reason in _NO_TLS:
        return "no TLS is spoken there: leave out [tls], or give the gateway [tls]"
    reason = error.strerror if isinstance(error, OSError) else None
    return reason or str(error) or type(error).__name__
