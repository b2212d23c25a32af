"""Looks after the log's files while the gateway runs: merges small ones, gives up the oldest.

In a thread of its own, which never stops receiving: what goes wrong is told, and tried again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from engine.errors import UserError
from engine.gateway.recall import Recalled
from engine.log.arrival_log import streamed_frames
from engine.log.compaction import clear, due, merge, swept
from engine.log.files.retired import retired
from engine.log.retention import Limits, beyond, retire

EVERY_S: Final = 5.0
_WAITED_S: Final = 600.0
"""Files that are to go and cannot are told of after so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepSettings:
    """``compact``: small files become large ones."""

    compact: bool = True
    limits: Limits = field(default_factory=Limits)


class LogKeeper:
    """Of the log in a folder.

    Args:
        log: the folder, which is there.
        settings: what is to be done.
        read: gives the number of the file up to which no engine, nor its restart, needs any; None:
            there is no engine.
        tell: takes a line for people.
        now_ns: the arrival clock, about.
    """

    def __init__(
        self,
        log: Path,
        settings: KeepSettings,
        read: Callable[[], int | None],
        tell: Callable[[str], None],
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._log = log
        self._settings = settings
        self._read = read
        self._tell = tell
        self._now_ns = now_ns
        self._ending = threading.Event()
        self._told = ""
        self._sizes: dict[Path, int] = {}
        self._free_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="log-keeper", daemon=True)

    def __enter__(self) -> None:
        """Works from now on."""
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        """Returns when what it was at is done."""
        self._ending.set()
        self._thread.join()

    def step(self) -> None:
        """All that is due now.

        Raises:
            UserError: a damaged file.
            OSError: the disk does not do what it should.
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
        """Gives up what is beyond the limits; False: somebody reads."""
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
        try:
            self.step()
        except (UserError, OSError) as error:
            self._say(str(error))

    def _say(self, line: str) -> None:
        """Once, as long as there is nothing else to say."""
        if line != self._told:
            self._told = line
            self._tell(f"log {self._log}: {line}")
