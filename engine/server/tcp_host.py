"""A gateway core on TCP sockets: connections, rates, and the files that the process may open."""

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

# What a gateway says of the peers that it refuses: who, from where, why; some lines a minute.


MINUTE_S: Final = 60.0
_NAME_MAX: Final = 100
_DETAIL_MAX: Final = 400
LINES_MAX: Final = 10
"""In a minute; of one address and reason there is one."""
_ORDINARY: Final = ("replaced", "superseded")
"""A newer connection or start of the same source took over."""


class RefusalLines:
    """Tells of refusals with ``tell``; ``now_s``: a clock that never goes back."""

    def __init__(
        self, tell: Callable[[str], None], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self.tell = tell
        self._now_s = now_s
        self._begun = now_s()
        self._reported: set[tuple[str, str]] = set()
        self._more = 0

    def closed(self, host: str, close: CloseConnection) -> None:
        """The connection of a peer at address ``host`` is closed, for that reason."""
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
        """Something was found of the numbers of a source, which is said once."""
        if len(self._reported) < LINES_MAX:
            self._reported.add((lane.source, lane.site))
            self.tell(one_line(found_line(lane), _DETAIL_MAX + 2 * _NAME_MAX))


# How many connections a server may hold, of the files that its process may have open.


_OTHERS: Final = 320
"""Files of the log, answers and engine, the page's connections, and some to spare."""
_PAGE: Final = 128


def open_files(connections: int) -> int:
    """How many files this process may have open, once it has raised that for ``connections``
    connections as far as it may.
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
    """Connections that leave enough of ``files`` for all else.

    >>> connections_within(4416), connections_within(1024), connections_within(48)
    (4096, 704, 24)
    """
    return max(files - _OTHERS, files // 2)


def page_connections_within(files: int) -> int:
    """Those of the page, which are few.

    >>> page_connections_within(1024), page_connections_within(256), page_connections_within(48)
    (128, 32, 6)
    """
    return min(_PAGE, files // 8)


# How fast one connection may send: who is faster is read later, and so waits (TCP).


WAIT_MAX_S: Final = 10.0
"""Longer than that nobody is left unread, whatever it brought at once: it may have more to say."""


class RateLimit:
    """Bytes and events per second, of which a second's worth may come at once."""

    def __init__(self, bytes_per_s: int, events_per_s: int) -> None:
        self._rates = (bytes_per_s, events_per_s)
        self._levels = [0.0, 0.0]
        self._at = 0.0

    def wait_s(self, now_s: float, size: int, events: int) -> float:
        """How long to wait after so many bytes, with so many events, at ``now_s``; 0: no time."""
        elapsed, self._at = now_s - self._at, now_s
        came = (size, events)
        self._levels = [
            max(level - elapsed * rate, 0.0) + new
            for level, rate, new in zip(self._levels, self._rates, came, strict=True)
        ]
        debts = [level / rate - 1 for level, rate in zip(self._levels, self._rates, strict=True)]
        return min(max(*debts, 0.0), WAIT_MAX_S)


# Takes connections at an address, with no more descriptors than the process may have.
#
# asyncio's own server reports a process that has none left with a traceback for each of its
# backlog, and tries again as often. Here the listening sockets rest for a while, longer each time,
# and a line a minute says so. Connections that begin TLS and go no further are bounded by address.


_BACKLOG: Final = 1024
_AT_ONCE: Final = 64
"""Taken before the loop does something else."""
_HANDSHAKE_S: Final = 10.0
HANDSHAKES_MAX: Final = 64
"""Of one address at a time; devices behind one router take turns."""
_REST_S: Final = (0.05, 1.0)
_MINUTE_S: Final = 60.0
_NONE_LEFT: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

OnTransport = Callable[[asyncio.BaseTransport], None]


class Acceptor:
    """Of one port.

    Args:
        protocol: makes one for each connection.
        tls: what connections speak; None: plain TCP.
        tell: takes a line for people.
        opened: is given each connection, once it speaks.
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
        """Connections are taken from now on; gives the port.

        Raises:
            OSError: the address cannot be bound.
        """
        loop = asyncio.get_running_loop()
        # asyncio's server knows how to bind; it serves nothing.
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
        """Whether connections are taken."""
        return bool(self._sockets)

    def close(self) -> None:
        """Takes no more."""
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
        except OSError:  # it left, or does not speak TLS: nothing of it has begun
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


# A gateway core on TCP sockets: asyncio hands in bytes and time, and carries out what it asks for.
#
# The engine's clock is this machine's. Everything but the writing of the log runs in one thread;
# what the core does with a chunk of bytes is done before the next one is read. While the log is
# behind, nothing is read, so that peers' own buffers fill and they wait.


WRITE_MAX: Final = 1 << 20
"""A peer that leaves so many bytes of answers unread is cut off."""
_LINGER_SECONDS: Final = 5.0
"""So long a closed connection may take to send what was written to it."""
_SLEEP_MAX_SECONDS: Final = 1.0
"""So soon it is seen that this machine's clock was set."""
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
"""Cannot be set, and where it is there goes on while the machine sleeps."""


class TcpHost:
    """Drives a gateway core, whose sink may write later.

    Args:
        core: the gateway.
        now_ns: the engine's clock.
        refusals: called for connections that the core closes; None: nobody is to know.
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
        """Connections are taken from now on; gives the port.

        Raises:
            OSError: the address cannot be bound.
        """
        acceptor = Acceptor(lambda: _Connection(self), tls, self._refusals.tell)
        bound = await acceptor.listen(host, port)
        self._acceptor = acceptor
        self._wake()
        return bound

    async def stop(self, written: Callable[[], Awaitable[None]] | None = None) -> None:
        """Takes no more, makes everything durable, says so, and closes.

        Args:
            written: returns when all that the sink was given is durable; None: it is at once.

        Raises:
            OSError: the log could not be written; what was not acked is with the agents.
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

    # --- what the sink's thread has called

    def flushed(self, count: int) -> None:
        """See ``GatewayCore.flushed``."""
        self.core.flushed(count, self._now_ns())
        self._carry_out()

    def flush_failed(self, error: OSError) -> None:
        """See ``GatewayCore.flush_failed``."""
        self.core.flush_failed(error)
        self._carry_out()

    # --- what connections call

    def opened(self, connection: _Connection, host: str) -> int:
        """A peer at ``host`` connected; gives the key of its connection."""
        key = next(self._keys)
        self._connections[key] = connection
        connection.read(on=self._reading)
        self.core.connected(key, self._now_ns(), host)
        self._carry_out()
        return key

    def received(self, key: int, data: bytes) -> None:
        """Bytes came."""
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
        """When the machine was started, by the engine's clock: another time when that was set."""
        return self._now_ns() - time.clock_gettime_ns(_SINCE_BOOT)

    def _wake(self) -> None:
        clock = self.core.clock
        clock.advance(self._now_ns())  # without a message, too
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
        """Does what the core asks for, and waits for its next deadline."""
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
        """Reads from all connections, or from none."""
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
        """Its address."""
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
        """Reads on, or leaves to the peer what it sends."""
        self._has_room = on
        self._read_or_not()

    def spent(self, size: int, events: int) -> None:
        """So many bytes came, with so many events: who is too fast is not read for a while."""
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
        # It asks (its data are acked) and does not listen.
        self.abort()


# Answers time-sync questions (NTPv4 over UDP) in a thread of its own.
#
# A frame that is being written may keep the event loop for tens of milliseconds, and what waits in
# a socket meanwhile would look like delay of the network. The kernel's own time of receipt is used
# where there is one (SO_TIMESTAMPNS, Linux): then even a late answer says rightly when the
# question came, and only the time between the two last readings counts as delay.


QUESTION_MAX: Final = 1024
"""Longer datagrams are cut; none of them is a question."""
_SO_TIMESTAMPNS: Final = 35
"""Of Linux on the processors that matter; the socket module does not name it."""
_TIMESPEC: Final = struct.Struct("@ll")
_BELIEVED_NS: Final = 10_000_000_000
_LOOK_SECONDS: Final = 0.2
"""How often the thread looks whether it is to stop."""

Answer = Callable[[bytes, int, int], bytes | None]
"""From a question, when it came and when the answer leaves [engine's clock, ns] to the answer."""


class NtpResponder:
    """A bound socket, answered from ``start`` until ``close``."""

    def __init__(self, host: str, port: int, answer: Answer) -> None:
        """Raises OSError: the address cannot be bound."""
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
        """The port that is bound."""
        return int(self._socket.getsockname()[1])

    def start(self) -> None:
        """Questions are answered from now on."""
        self._thread.start()

    def close(self) -> None:
        """No more answers; returns when the thread has ended."""
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
                # Of one datagram: a peer that cannot be reached, or an answer that finds no room.
                # Who asked asks again.
                continue


def received_ns(extra: list[tuple[int, int, bytes]], now_ns: int) -> int:
    """When the kernel says that the datagram came; ``now_ns`` where it says nothing to believe.

    A stamp of the future, or of long ago, is of a clock that was set in between.
    """
    for level, kind, data in extra:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS) and len(data) == _TIMESPEC.size:
            seconds, ns = _TIMESPEC.unpack(data)
            stamp = int(seconds) * 10**9 + int(ns)
            if now_ns - _BELIEVED_NS <= stamp <= now_ns:
                return stamp
    return now_ns
