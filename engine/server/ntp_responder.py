"""Answers time-sync questions (NTPv4 over UDP) in a thread of its own.

A frame that is being written may keep the event loop for tens of milliseconds, and what waits in a
socket meanwhile would look like delay of the network. The kernel's own time of receipt is used
where there is one (SO_TIMESTAMPNS, Linux): then even a late answer says rightly when the question
came, and only the time between the two last readings counts as delay.
"""

from __future__ import annotations

import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

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
