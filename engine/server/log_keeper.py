"""The arrival log of a server: written in a thread, merged, and limited by age and size."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import Frame
from slackwater.engine.gateway.outputs import LATER
from slackwater.engine.gateway.recall import Recalled
from slackwater.engine.log.arrival_log import LogWriter, streamed_frames
from slackwater.engine.log.log_folder import retired
from slackwater.engine.log.retention import (
    Limits,
    beyond,
    clear,
    due,
    merge,
    retire,
    swept,
    unrepeated,
)

# The arrival log as a gateway's sink that writes in a thread: receiving never waits for the disk.
#
# Everything that waits when a write ends goes into one file with the next write, so commits of a
# busy gateway become fewer and larger. The gateway limits how much may wait (``GatewayCore``).


OnDurable = Callable[[int, int], None]
"""Takes the number of flushes done in all, and the number of the log's last file."""
OnFailed = Callable[[OSError], None]
"""Takes the error of a write that will be retried."""
_NS_PER_S: Final = 10**9


class LogThread:
    """Owns ``writer`` after ``start``; a failed write is retried after ``retry_ns``.

    ``tell``: takes a line for people, when writing fails and when it succeeds again.
    """

    def __init__(self, writer: LogWriter, retry_ns: int, tell: Callable[[str], None]) -> None:
        self._writer = writer
        self._tell = tell
        self._retry_s = retry_ns / _NS_PER_S
        self._taken: list[Frame] = []
        self._flushes: deque[list[Frame]] = deque()
        self._changed = threading.Condition()
        self._closing = False

    def start(self, on_durable: OnDurable, on_failed: OnFailed) -> asyncio.Future[None]:
        """Start the thread, which calls the callbacks on the running event loop.

        The returned future ends after ``close``, when everything is written, or has an exception:
        OSError if the last attempt failed, or the error that stopped the thread before.
        """
        self._loop = asyncio.get_running_loop()
        self._on_durable, self._on_failed = on_durable, on_failed
        over = self._loop.create_future()
        threading.Thread(target=self._run, args=(over,), name="log", daemon=True).start()
        return over

    def append(self, frame: Frame) -> None:
        """Take ``frame`` for the next ``flush``."""
        self._taken.append(frame)

    def flush(self) -> object:
        """Queue what was taken for writing; return LATER."""
        with self._changed:
            self._flushes.append(self._taken)
            self._changed.notify()
        self._taken = []
        return LATER

    def close(self) -> None:
        """Write what waits, with one attempt, and end."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    # --- inside the thread

    def _run(self, over: asyncio.Future[None]) -> None:
        try:
            self._write_all()
        except BaseException as error:  # the server raises it
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
        """Frames that were flushed meanwhile; empty: the thread must end."""
        with self._changed:
            self._changed.wait_for(lambda: self._flushes or self._closing)
            found = list(self._flushes)
            self._flushes.clear()
            return found

    def _write(self, frames: list[Frame]) -> None:
        """Write ``frames``; raises OSError if it fails during ``close``."""
        taken, waits = 0, False
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
                if not waits:
                    waits = True
                    self._tell(
                        f"the log cannot be written: {error}; it is tried again, and "
                        "nothing is acknowledged until then; agents keep their events"
                    )
                self._loop.call_soon_threadsafe(self._on_failed, error)
                with self._changed:
                    self._changed.wait_for(lambda: self._closing, self._retry_s)
            else:
                if waits:
                    self._tell("the log is written again")
                return


# Maintains the log's files while the gateway runs: merges small ones, retires the oldest. It has
# its own thread, so receiving never waits; failures are reported and retried.


EVERY_S: Final = 5.0
_WAITED_S: Final = 600.0
"""Files that could not be deleted for this long are reported [s]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepSettings:
    """``compact``: merge small files into large ones."""

    compact: bool = True
    limits: Limits = field(default_factory=Limits)


class LogKeeper:
    """Maintains the log in a folder.

    Args:
        log: the folder, which exists.
        settings: what to do.
        read: returns the number of the newest file that no engine needs, not even for a restart;
            None: there is no engine.
        tell: takes a line for people.
        now_ns: approximate arrival clock.
        also: called in each round, in the same thread; may raise OSError.
    """

    def __init__(
        self,
        log: Path,
        settings: KeepSettings,
        read: Callable[[], int | None],
        tell: Callable[[str], None],
        now_ns: Callable[[], int] = time.time_ns,
        also: Callable[[], None] = lambda: None,
    ) -> None:
        self._log = log
        self._settings = settings
        self._read = read
        self._tell = tell
        self._say = unrepeated(lambda line: tell(f"log {log}: {line}"))
        self._now_ns = now_ns
        self._also = also
        self._ending = threading.Event()
        self._sizes: dict[Path, int] = {}
        self._free_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="log-keeper", daemon=True)

    def __enter__(self) -> None:
        """Start the thread."""
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        """End the thread after its current work."""
        self._ending.set()
        self._thread.join()

    def step(self) -> None:
        """Do all work that is due.

        Raises:
            UserError: a damaged file.
            OSError: a disk operation failed.
        """
        while (
            self._settings.compact
            and not self._ending.is_set()
            and (files := due(self._log, self._sizes))
        ):
            if merge(files) is None:
                break
        clean = swept(self._log)
        clean = self._retire() and clean
        if clean:
            self._free_at = time.monotonic()
        elif time.monotonic() - self._free_at > _WAITED_S:
            self._say("files that are to go wait for somebody who reads the log")

    def _retire(self) -> bool:
        """Retire files beyond the limits; False: some are still being read."""
        limits = self._settings.limits
        if not (limits.age_ns or limits.bytes):
            return True
        read = self._read()
        found = beyond(self._log, limits, self._now_ns(), read)
        if found.kept:
            self._say(
                f"{len(found.kept)} files from {found.kept[0].path.name} on are beyond what "
                '[log] keeps, and stay until the engine has read them (unread = "delete": not)'
            )
        if not found.files:
            return True
        before = retired(self._log)
        known = Recalled(saved=before.known)
        for file in found.files:
            for frame in streamed_frames(file.path):
                known.take(frame)
        state = retire(self._log, found.files, known.saved(), read)
        if state is not None and state.unread > before.unread:
            self._tell(
                f"log {self._log}: {state.unread - before.unread} files were given up that the "
                f"engine had not read, {state.unread} in all"
            )
        return state is not None

    def _run(self) -> None:
        try:
            clear(self._log)
        except OSError as error:
            self._say(str(error))
        while not self._ending.wait(EVERY_S):
            self._work()

    def _work(self) -> None:
        for step in (self.step, self._also):
            try:
                step()
            except (UserError, OSError) as error:
                self._say(str(error))
        # Arrow keeps some 10 MB from merging unless asked to release it.
        pa.default_memory_pool().release_unused()
