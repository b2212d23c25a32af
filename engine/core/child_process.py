"""A child process of the server: its task, its messages, and its end.

Standard input: a line with the task (JSON), then optional lines with numbers; its end means that
the server stops or was killed. Standard output: messages, each with a kind, a length of four bytes
and the content.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from typing import BinaryIO, Final, Self, TypeVar

import msgspec

TELL: Final = b"T"
"""Kind of messages that are lines for the user."""
HEAD: Final = 5
"""Number of bytes before the content of a message."""


class ChildTask:
    """The task of a child process; base of a data class."""

    def as_line(self) -> bytes:
        """Return the task as a line for the child process."""
        return msgspec.json.encode(self) + b"\n"

    @classmethod
    def of_line(cls, line: bytes) -> Self:
        """Return the task from ``as_line``."""
        return msgspec.json.decode(line, type=cls)


T = TypeVar("T", bound=ChildTask)


class Notices:
    """Numbers from the server, read in a thread; only the last one matters.

    Args:
        stream: lines with numbers, unbuffered, as the thread would hold a buffer's lock at exit.
    """

    def __init__(self, stream: io.FileIO) -> None:
        self._stream = stream
        self._changed = threading.Condition()
        self.number = 0
        """The last number."""
        self.ended = False
        """Whether standard input has ended."""
        threading.Thread(target=self._read, name="notices", daemon=True).start()

    def _read(self) -> None:
        for line in self._stream:
            with self._changed:
                self.number = int(line)
                self._changed.notify_all()
        with self._changed:
            self.ended = True
            self._changed.notify_all()

    def beyond(self, number: int, seconds: float | None) -> bool:
        """Wait for a larger number; False: timeout, or standard input has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self.ended or self.number > number, seconds)
            return self.number > number

    def over_within(self, seconds: float) -> bool:
        """Wait for the end of standard input; False: timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: self.ended, seconds)


class ServerMessages:
    """Messages to the server, from any thread; ignored after the server has gone."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lost = False
        self._one = threading.Lock()

    def tell(self, line: str) -> None:
        """Send a line for the user."""
        self.send(TELL, line.encode())

    def send(self, kind: bytes, content: bytes = b"") -> None:
        """Send a message of that kind."""
        with self._one:
            if self._lost:
                return
            try:
                self._stream.write(kind + len(content).to_bytes(HEAD - 1, "big") + content)
                self._stream.flush()
            except BrokenPipeError:
                self._lost = True


def begin_child(kind: type[T]) -> tuple[T, Notices, ServerMessages] | None:
    """Return the task of this process, the notices from the server and the messages to it.

    None: the server was killed before it wrote the task. SIGINT and SIGTERM are ignored from now
    on, as they address the server, which ends this process by closing its standard input.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    outlet = ServerMessages(os.fdopen(os.dup(sys.stdout.fileno()), "wb"))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # for other output
    stdin = io.FileIO(sys.stdin.fileno(), closefd=False)
    line = stdin.readline()
    return (kind.of_line(line), Notices(stdin), outlet) if line else None
