"""A gateway core on TCP sockets: connections, rates, and limits of open files."""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
import ssl
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from itertools import count
from typing import Final

from slackwater.edge_agent.drivers.session_driver import Alarm, StreamSocket
from slackwater.edge_agent.errors import one_line
from slackwater.engine.gateway.core import GatewayCore
from slackwater.engine.gateway.outputs import WAITED_FOR_NS, CloseConnection
from slackwater.engine.gateway.settings import place_of
from slackwater.engine.log.input.numbering import CountedLane
from slackwater.engine.server.overview import found_line

# Lines about refused peers: who, from where, why; some lines a minute.


MINUTE_S: Final = 60.0
_NAME_MAX: Final = 100
_DETAIL_MAX: Final = 400
LINES_MAX: Final = 10
"""Lines per minute; one per address and reason."""
_ORDINARY: Final = ("replaced", "superseded")
"""A newer connection or start of the same source took over."""


class RefusalLines:
    """Reports refusals through ``tell``; ``now_s``: a monotonic clock [s]."""

    def __init__(
        self, tell: Callable[[str], None], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self.tell = tell
        self._now_s = now_s
        self._begun = now_s()
        self._reported: set[tuple[str, str]] = set()
        self._more = 0

    def closed(self, host: str, close: CloseConnection) -> None:
        """Report that the connection of a peer at address ``host`` was closed."""
        if close.reason in _ORDINARY:
            return
        now_s = self._now_s()
        if now_s - self._begun >= MINUTE_S:
            if self._more:
                self.tell(f"refused: {self._more} more, since the lines above")
            self._begun, self._more = now_s, 0
            self._reported.clear()
        key = (host, close.reason)
        if key in self._reported or len(self._reported) >= LINES_MAX:
            self._more += 1
            return
        self._reported.add(key)
        name = f" {one_line(close.name, _NAME_MAX)}" if close.name else ""
        detail = one_line(close.detail, _DETAIL_MAX)
        self.tell(f"refused{name} from {host or 'nowhere'}: {close.reason}: {detail}")

    def found(self, lane: CountedLane) -> None:
        """Report the first finding in the numbers of a source."""
        if len(self._reported) < LINES_MAX:
            self._reported.add((lane.source, lane.site))
            self.tell(one_line(found_line(lane), _DETAIL_MAX + 2 * _NAME_MAX))


# The number of connections that a server may hold, given the limit of open files.


_OTHERS: Final = 320
"""Files of the log, answers and engine, the page's connections, and some in reserve."""
_PAGE: Final = 128


def open_files(connections: int) -> int:
    """Raise the limit of open files as far as allowed and needed for ``connections`` connections;
    return it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return connections + _OTHERS
    if soft < connections + _OTHERS:
        most = connections + _OTHERS if hard == resource.RLIM_INFINITY else hard
        soft = max(min(connections + _OTHERS, most), soft)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft


def connections_within(files: int) -> int:
    """Connections that leave enough of ``files`` for everything else.

    >>> connections_within(4416), connections_within(1024), connections_within(48)
    (4096, 704, 24)
    """
    return max(files - _OTHERS, files // 2)


def page_connections_within(files: int) -> int:
    """Connections of the page, which are few.

    >>> page_connections_within(1024), page_connections_within(256), page_connections_within(48)
    (128, 32, 6)
    """
    return min(_PAGE, files // 8)


# The rate of one connection: a faster sender is read later, and so waits (TCP).


WAIT_MAX_S: Final = 10.0
"""Longest pause in reading, for any amount of data at once."""


class RateLimit:
    """Limit of bytes and events per second; a second's worth may come at once."""

    def __init__(self, bytes_per_s: int, events_per_s: int) -> None:
        self._rates = (bytes_per_s, events_per_s)
        self._levels = [0.0, 0.0]
        self._at = 0.0

    def wait_s(self, now_s: float, size: int, events: int) -> float:
        """Seconds to wait after ``size`` bytes with ``events`` events at ``now_s``; 0: none."""
        elapsed, self._at = now_s - self._at, now_s
        came = (size, events)
        self._levels = [
            max(level - elapsed * rate, 0.0) + new
            for level, rate, new in zip(self._levels, self._rates, came, strict=True)
        ]
        debts = [level / rate - 1 for level, rate in zip(self._levels, self._rates, strict=True)]
        return min(max(*debts, 0.0), WAIT_MAX_S)


# Accepts connections at an address, within the process's limit of descriptors.
#
# Without free descriptors, asyncio's own server logs a traceback for each connection of its
# backlog, and retries as often. Here the listening sockets rest for a while, longer each time, and
# one line a minute reports it. Connections that begin TLS and do not complete it are limited by
# address.


_BACKLOG: Final = 1024
_AT_ONCE: Final = 64
"""Most connections accepted before the event loop does something else."""
_HANDSHAKE_S: Final = 10.0
HANDSHAKES_MAX: Final = 64
"""Most handshakes per address at a time; devices behind one router take turns."""
_REST_S: Final = (0.05, 1.0)
_MINUTE_S: Final = 60.0
_NONE_LEFT: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

OnTransport = Callable[[asyncio.BaseTransport], None]


class Acceptor:
    """Accepts connections at one port.

    Args:
        protocol: makes a protocol for each connection.
        tls: TLS context; None: plain TCP.
        tell: takes a line for people.
        opened: called with each connection after its handshake.
    """

    def __init__(
        self, protocol: Callable[[], asyncio.BaseProtocol], tls: ssl.SSLContext | None,
        tell: Callable[[str], None], opened: OnTransport | None = None,
    ) -> None:  # fmt: skip
        self._protocol = protocol
        self._tls = tls
        self._tell = tell
        self._opened = opened
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._beginning: Counter[str] = Counter()
        self._rest_s = _REST_S[0]
        self._resting: set[asyncio.TimerHandle] = set()
        self._reported_at = -_MINUTE_S

    async def listen(self, host: str, port: int) -> int:
        """Accept connections from now on; return the port.

        Raises:
            OSError: the address cannot be bound.
        """
        loop = asyncio.get_running_loop()
        # asyncio's server only binds the address; it serves nothing.
        bound = await loop.create_server(self._protocol, host, port, start_serving=False)
        self._sockets = [each.dup() for each in bound.sockets]
        bound.close()
        for each in self._sockets:
            each.listen(_BACKLOG)
            each.setblocking(False)
            loop.add_reader(each.fileno(), self._take, each)
        return int(self._sockets[0].getsockname()[1])

    @property
    def is_serving(self) -> bool:
        """Whether connections are accepted."""
        return bool(self._sockets)

    def close(self) -> None:
        """Stop accepting."""
        loop = asyncio.get_running_loop()
        for handle in self._resting:
            handle.cancel()
        for each in self._sockets:
            loop.remove_reader(each.fileno())
            each.close()
        self._sockets = []
        for task in self._tasks:
            task.cancel()

    def _take(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                taken, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NONE_LEFT:
                    raise
                self._rest(listening, error)
                return
            self._rest_s = _REST_S[0]
            taken.setblocking(False)
            place = place_of(str(address[0]) if address else "")
            if self._tls is not None and place and self._beginning[place] >= HANDSHAKES_MAX:
                taken.close()
                continue
            task = asyncio.create_task(self._begin(taken, place))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _begin(self, taken: socket.socket, place: str) -> None:
        self._beginning[place] += 1
        try:
            transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
                self._protocol, taken, ssl=self._tls,
                ssl_handshake_timeout=None if self._tls is None else _HANDSHAKE_S,
            )  # fmt: skip
        except OSError:  # the peer left, or does not speak TLS: there is nothing to undo
            taken.close()
        else:
            if self._opened is not None:
                self._opened(transport)
        finally:
            self._beginning[place] -= 1
            if not self._beginning[place]:
                del self._beginning[place]

    def _rest(self, listening: socket.socket, error: OSError) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() - self._reported_at >= _MINUTE_S:
            self._reported_at = loop.time()
            self._tell(
                f"no connection can be taken for now: {error.strerror}; tried again each second. "
                "Raise the limit of open files (ulimit -n, LimitNOFILE)"
            )
        loop.remove_reader(listening.fileno())

        def again() -> None:
            self._resting.discard(handle)
            loop.add_reader(listening.fileno(), self._take, listening)

        handle = loop.call_later(self._rest_s, again)
        self._resting.add(handle)
        self._rest_s = min(2 * self._rest_s, _REST_S[1])


# A gateway core on TCP sockets: asyncio passes bytes and time, and executes the core's outputs.
#
# The engine's clock is this machine's. Everything but the writing of the log runs in one thread; a
# chunk of bytes is processed completely before the next one is read. While the log is behind,
# nothing is read, so that peers' buffers fill and they wait.


WRITE_MAX: Final = 1 << 20
"""A peer that leaves this many bytes of answers unread is disconnected."""
_LINGER_SECONDS: Final = 5.0
"""Longest time for a closed connection to send its buffer."""
_SLEEP_MAX_SECONDS: Final = 1.0
"""Longest sleep, so that steps of this machine's clock are noticed."""
_SET_BACK: Final = (
    "this machine's clock was set back: arrivals, and with them the times of answers, run {:,.1f} "
    "s ahead of it; to end that, stop the gateway until the clock has passed the last arrival, or "
    "begin a new log"
)
_LEAPT: Final = (
    "this machine's clock leapt forward by {:,.1f} s, and arrivals with it: events seem so late "
    "until their agents have measured their clocks again, within a minute"
)
_SINCE_BOOT: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""A clock that cannot be set and, where available, advances while the machine sleeps."""


class TcpHost:
    """Drives a gateway core, whose sink may write later.

    Args:
        core: the gateway.
        now_ns: the engine's clock.
        refusals: reports connections that the core closes; None: no reports.
    """

    def __init__(
        self,
        core: GatewayCore,
        now_ns: Callable[[], int] = time.time_ns,
        refusals: RefusalLines | None = None,
    ) -> None:
        self.core = core
        self._now_ns = now_ns
        self._refusals = refusals or RefusalLines(lambda _line: None)
        self._reading = True
        self._set_back = core.clock.set_back
        self._booted_ns = self._boot()
        self._acceptor: Acceptor | None = None
        self._connections: dict[Hashable, _Connection] = {}
        self._keys = count(1)
        self._alarm = Alarm(self._wake)
        self._closing: set[asyncio.TimerHandle] = set()

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Accept connections from now on; return the port.

        Raises:
            OSError: the address cannot be bound.
        """
        acceptor = Acceptor(lambda: _Connection(self), tls, self._refusals.tell)
        bound = await acceptor.listen(host, port)
        self._acceptor = acceptor
        self._wake()
        return bound

    async def stop(self, written: Callable[[], Awaitable[None]] | None = None) -> None:
        """Stop accepting, make everything durable, send acks, and close.

        Args:
            written: returns when all frames given to the sink are durable; None: they are at once.

        Raises:
            OSError: the log could not be written; agents keep what was not acked.
        """
        if self._acceptor is not None:
            self._acceptor.close()
        self._read(on=False)
        try:
            self.core.finish(self._now_ns())
            if written is not None:
                await written()
        finally:
            self._carry_out()
            self._alarm.cancel()
            ended = [connection.ended for connection in self._connections.values()]
            for key in list(self._connections):
                self._close(key)
            if ended:
                await asyncio.wait(ended, timeout=_LINGER_SECONDS)
            for handle in self._closing:
                handle.cancel()

    # --- calls of the sink's thread

    def flushed(self, count: int) -> None:
        """See ``GatewayCore.flushed``."""
        self.core.flushed(count, self._now_ns())
        self._carry_out()

    def flush_failed(self, error: OSError) -> None:
        """See ``GatewayCore.flush_failed``."""
        self.core.flush_failed(error)
        self._carry_out()

    # --- calls of connections

    def opened(self, connection: _Connection, host: str) -> int:
        """A peer at ``host`` connected; returns the key of its connection."""
        key = next(self._keys)
        self._connections[key] = connection
        connection.read(on=self._reading)
        self.core.connected(key, self._now_ns(), host)
        self._carry_out()
        return key

    def received(self, key: int, data: bytes) -> None:
        """Bytes arrived."""
        connection = self._connections.get(key)
        if connection is not None:
            events = self.core.received(key, data, self._now_ns())
            connection.spent(len(data), events)
            self._carry_out()

    def closed(self, key: int) -> None:
        """The connection is gone."""
        if self._connections.pop(key, None) is not None:
            self.core.disconnected(key, self._now_ns())
            self._carry_out()

    # --- inside

    def _boot(self) -> int:
        """Boot time of the machine by the engine's clock; it changes when that clock is set."""
        return self._now_ns() - time.clock_gettime_ns(_SINCE_BOOT)

    def _wake(self) -> None:
        clock = self.core.clock
        clock.advance(self._now_ns())  # also without a message
        said = []
        if clock.set_back != self._set_back:
            self._set_back = clock.set_back
            said.append(_SET_BACK.format(clock.ahead_ns / 1e9))
        booted_ns = self._boot()
        if booted_ns > self._booted_ns + WAITED_FOR_NS:
            said.append(_LEAPT.format((booted_ns - self._booted_ns) / 1e9))
        self._booted_ns = booted_ns
        for line in said:
            self._refusals.tell(line)
        self.core.wake(self._now_ns())
        self._carry_out()

    def _carry_out(self) -> None:
        """Execute the core's outputs, and set a timer for its next deadline."""
        found, self.core.counters.news = self.core.counters.news, []
        for lane in found:
            self._refusals.found(lane)
        for output in self.core.outputs():
            if isinstance(output, CloseConnection):
                connection = self._connections.get(output.connection)
                if connection is not None:
                    self._refusals.closed(connection.peer, output)
                self._close(output.connection)
            else:
                connection = self._connections.get(output.connection)
                if connection is not None:
                    connection.send(output.data)
        if self._acceptor is not None and self._acceptor.is_serving:
            self._read(on=not self.core.congested)
        due, now_ns = self.core.next_wake(), self._now_ns()
        seconds = _SLEEP_MAX_SECONDS
        if due is not None:
            seconds = min(max((due - now_ns) / 1e9, 0.0), _SLEEP_MAX_SECONDS)
        self._alarm.within(seconds)

    def _read(self, *, on: bool) -> None:
        """Read from all connections, or from none."""
        if on is not self._reading:
            self._reading = on
            for connection in self._connections.values():
                connection.read(on=on)

    def _close(self, key: Hashable) -> None:
        connection = self._connections.pop(key, None)
        if connection is None:
            return
        connection.close()
        loop = asyncio.get_running_loop()
        handle = loop.call_later(_LINGER_SECONDS, connection.abort)
        self._closing.add(handle)

        def forget(_: object) -> None:
            handle.cancel()
            self._closing.discard(handle)

        connection.ended.add_done_callback(forget)


class _Connection(StreamSocket):
    """One peer's socket."""

    def __init__(self, host: TcpHost) -> None:
        super().__init__()
        self._host = host
        self._key = 0
        self.peer = ""
        """Address of the peer."""
        limits = host.core.settings
        self._limit = RateLimit(limits.connection_bytes_per_s, limits.connection_events_per_s)
        self._has_room = True
        self._pause: asyncio.TimerHandle | None = None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(high=WRITE_MAX)
        name = transport.get_extra_info("peername")
        self.peer = name[0] if name else ""
        self._key = self._host.opened(self, self.peer)

    def data_received(self, data: bytes) -> None:
        self._host.received(self._key, data)

    def read(self, *, on: bool) -> None:
        """Read, or leave the peer's data in the socket."""
        self._has_room = on
        self._read_or_not()

    def spent(self, size: int, events: int) -> None:
        """Count received bytes and events; a peer that is too fast is not read for a while."""
        loop = asyncio.get_running_loop()
        wait_s = self._limit.wait_s(loop.time(), size, events)
        if wait_s > 0 and self._pause is None:
            self._pause = loop.call_later(wait_s, self._paused)
            self._read_or_not()

    def _paused(self) -> None:
        self._pause = None
        self._read_or_not()

    def _read_or_not(self) -> None:
        transport = self._transport
        if transport is not None and not transport.is_closing():
            on = self._has_room and self._pause is None
            (transport.resume_reading if on else transport.pause_reading)()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self._pause is not None:
            self._pause.cancel()
        self._host.closed(self._key)
        if not self.ended.done():
            self.ended.set_result(None)

    def pause_writing(self) -> None:
        # The peer sends (and gets acks) but does not read.
        self.abort()


# Answers time-sync questions (NTPv4 over UDP) in a separate thread.
#
# Writing a frame may block the event loop for tens of milliseconds, and the wait in a socket would
# look like network delay. The kernel's time of receipt is used where available (SO_TIMESTAMPNS,
# Linux): then even a late answer states correctly when the question arrived, and only the time
# between the last two readings counts as delay.


QUESTION_MAX: Final = 1024
"""Longer datagrams are cut; none of them is a question."""
_SO_TIMESTAMPNS: Final = 35
"""Linux value on common processors; the socket module lacks the name."""
_TIMESPEC: Final = struct.Struct("@ll")
_BELIEVED_NS: Final = 10_000_000_000
_LOOK_SECONDS: Final = 0.2
"""How often the thread checks whether it must stop."""

Answer = Callable[[bytes, int, int], bytes | None]
"""Maps a question, its arrival and the departure of the answer [engine's clock, ns] to the
answer.
"""


class NtpResponder:
    """A bound socket, answered from ``start`` until ``close``."""

    def __init__(self, host: str, port: int, answer: Answer) -> None:
        """Raises OSError if the address cannot be bound."""
        family, *_, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE
        )[0]
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        try:
            self._socket.bind(address)
            self._socket.settimeout(_LOOK_SECONDS)
            if sys.platform == "linux":
                self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        except BaseException:
            self._socket.close()
            raise
        self._answer = answer
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ntp", daemon=True)

    @property
    def port(self) -> int:
        """The bound port."""
        return int(self._socket.getsockname()[1])

    def start(self) -> None:
        """Answer questions from now on."""
        self._thread.start()

    def close(self) -> None:
        """Stop answering; return when the thread has ended."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        space = socket.CMSG_SPACE(_TIMESPEC.size)
        while not self._stopping.is_set():
            try:
                data, extra, _, sender = self._socket.recvmsg(QUESTION_MAX, space)
                answer = self._answer(data, received_ns(extra, time.time_ns()), time.time_ns())
                if answer is not None:
                    self._socket.sendto(answer, sender)
            except TimeoutError:
                continue
            except OSError:
                # About one datagram: an unreachable peer, or no room for an answer. The client
                # asks again.
                continue


def received_ns(extra: list[tuple[int, int, bytes]], now_ns: int) -> int:
    """The kernel's time of arrival of a datagram; ``now_ns`` if it is missing or implausible.

    A stamp in the future, or long ago, means that the clock was set in between.
    """
    for level, kind, data in extra:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS) and len(data) == _TIMESPEC.size:
            seconds, ns = _TIMESPEC.unpack(data)
            stamp = int(seconds) * 10**9 + int(ns)
            if now_ns - _BELIEVED_NS <= stamp <= now_ns:
                return stamp
    return now_ns
