"""The arrival log as a gateway's sink that writes in a thread: receiving never waits for the disk.

Whatever waits when a write is done goes into one file with the next: so the commits of a busy
gateway become fewer and larger. How much may wait is the gateway's to say (``GatewayCore``).
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from engine.gateway.outputs import LATER
from engine.log.arrival_log import LogWriter
from engine.stream.frame import Frame

OnDurable = Callable[[int, int], None]
"""Takes how many flushes are done in all, and the number of the log's last file."""
OnFailed = Callable[[OSError], None]
"""Takes why a write failed that will be tried again."""
_NS_PER_S: Final = 10**9


class LogThread:
    """Owns ``writer`` from ``start`` on; a write that failed is tried again after ``retry_ns``."""

    def __init__(self, writer: LogWriter, retry_ns: int) -> None:
        self._writer = writer
        self._retry_s = retry_ns / _NS_PER_S
        self._taken: list[Frame] = []
        self._flushes: deque[list[Frame]] = deque()
        self._changed = threading.Condition()
        self._closing = False

    def start(self, on_durable: OnDurable, on_failed: OnFailed) -> asyncio.Future[None]:
        """Writes from now on, and calls these on the running event loop.

        What it gives is done when ``close`` was called and all is written, or has an exception:
        OSError when the last try failed, and whatever else stops the thread before.
        """
        self._loop = asyncio.get_running_loop()
        self._on_durable, self._on_failed = on_durable, on_failed
        over = self._loop.create_future()
        threading.Thread(target=self._run, args=(over,), name="log", daemon=True).start()
        return over

    def append(self, frame: Frame) -> None:
        """Takes ``frame``, for the next ``flush``."""
        self._taken.append(frame)

    def flush(self) -> object:
        """Has what was taken written soon."""
        with self._changed:
            self._flushes.append(self._taken)
            self._changed.notify()
        self._taken = []
        return LATER

    def close(self) -> None:
        """Writes what waits, trying once, and ends."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    # --- inside the thread

    def _run(self, over: asyncio.Future[None]) -> None:
        try:
            self._write_all()
        except BaseException as error:  # which is the server's to raise
            self._loop.call_soon_threadsafe(over.set_exception, error)
        else:
            self._loop.call_soon_threadsafe(over.set_result, None)

    def _write_all(self) -> None:
        done = 0
        while flushes := self._waiting():
            self._write([frame for frames in flushes for frame in frames])
            done += len(flushes)
            self._loop.call_soon_threadsafe(self._on_durable, done, self._writer.files)

    def _waiting(self) -> list[list[Frame]]:
        """What was flushed meanwhile; nothing: the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._flushes or self._closing)
            found = list(self._flushes)
            self._flushes.clear()
            return found

    def _write(self, frames: list[Frame]) -> None:
        """Raises OSError when it fails and the end has come."""
        taken = 0
        while True:
            last = self._closing
            try:
                for frame in frames[taken:]:
                    self._writer.append(frame)
                    taken += 1
                self._writer.flush()
            except OSError as error:
                if last:
                    raise
                self._loop.call_soon_threadsafe(self._on_failed, error)
                with self._changed:
                    self._changed.wait_for(lambda: self._closing, self._retry_s)
            else:
                return
