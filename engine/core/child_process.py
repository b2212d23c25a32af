"""A program that the server starts: the task it is given, what it says, and when it is to end.

Standard input: a line with the task (JSON), then perhaps lines with numbers; its end says that the
server stops, or is gone. Standard output: messages, each a kind, a length of four bytes and the
content.
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
"""Kind of a message that is a line for people."""
HEAD: Final = 5
"""Bytes before the content of a message."""


class ChildTask:
    """What a program is to do: the base of a data class."""

    def as_line(self) -> bytes:
        """For the program."""
        return msgspec.json.encode(self) + b"\n"

    @classmethod
    def of_line(cls, line: bytes) -> Self:
        """Inverse of ``as_line``."""
        return msgspec.json.decode(line, type=cls)


T = TypeVar("T", bound=ChildTask)


class Notices:
    """Numbers from the server, read in a thread of their own: the last one counts, however long
    other work takes.

    Args:
        stream: lines with numbers, without a buffer, whose lock the thread would hold at the end.
    """

    def __init__(self, stream: io.FileIO) -> None:
        self._stream = stream
        self._changed = threading.Condition()
        self.number = 0
        """The last one."""
        self.ended = False
        """No more will come."""
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
        """Waits for a larger one; False: the time is over, or no more will come."""
        with self._changed:
            self._changed.wait_for(lambda: self.ended or self.number > number, seconds)
            return self.number > number

    def over_within(self, seconds: float) -> bool:
        """Waits for the end."""
        with self._changed:
            return self._changed.wait_for(lambda: self.ended, seconds)


class ServerMessages:
    """Messages to the server, from any thread; nothing happens when it is gone."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lost = False
        self._one = threading.Lock()

    def tell(self, line: str) -> None:
        """A line for people."""
        self.send(TELL, line.encode())

    def send(self, kind: bytes, content: bytes = b"") -> None:
        """A message of that kind."""
        with self._one:
            if self._lost:
                return
            try:
                self._stream.write(kind + len(content).to_bytes(HEAD - 1, "big") + content)
                self._stream.flush()
            except BrokenPipeError:
                self._lost = True


def begin_child(kind: type[T]) -> tuple[T, Notices, ServerMessages] | None:
    """The task of this program, the notices from the server and the messages to it.

    None: the server was killed before it wrote the task. SIGINT and SIGTERM are ignored from now
    on: they are meant for the server, which ends this process by closing its standard input.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    outlet = ServerMessages(os.fdopen(os.dup(sys.stdout.fileno()), "wb"))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever else prints
    stdin = io.FileIO(sys.stdin.fileno(), closefd=False)
    line = stdin.readline()
    return (kind.of_line(line), Notices(stdin), outlet) if line else None
