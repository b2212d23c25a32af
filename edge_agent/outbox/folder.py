"""The folder of an outbox: one subfolder per start of the agent, the newest being the one in use.

An earlier start is there for as long as the gateway has not acked all of it. It was ended (its
inputs were), or the streams in the settings have changed since: then events of the new shape are
numbered by a new start.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from edge_agent.errors import AgentError, SettingsError
from edge_agent.messages import StreamSchema
from edge_agent.outbox.files import DiskFiles
from edge_agent.outbox.outbox import START, Outbox, Start
from edge_agent.outbox.whole_record import load

LOCK: Final = ".lock"
LOST: Final = ".lost"
"""Suffix of a subfolder of which nobody knows any more who numbered its events."""
SEGMENT_BYTES: Final = 1 << 20


class OutboxFolder:
    """All starts in ``folder``; one process may have it open."""

    def __init__(self, folder: Path, tell: Callable[[str], None]) -> None:
        """Raises AgentError: it cannot be made, or another process has it."""
        self.folder = folder
        self._tell = tell
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise AgentError(f"{folder}: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise AgentError(f"{folder}: another agent has this outbox") from error

    def open(
        self, site: str, source: str, streams: Sequence[StreamSchema], bytes_max: Sequence[int],
        wall_ns: int, draw: Callable[[], int],
    ) -> list[Outbox]:  # fmt: skip
        """*Disk.* Earlier starts that are not done with, and at the end the one to go on with.

        Args:
            site: of the source.
            source: its name.
            streams: as they are now.
            bytes_max: per stream.
            wall_ns: the incarnation of a new start, if it is above those before.
            draw: 64 random bits.

        Raises:
            SettingsError: it holds events of another source.
            AgentError: the folder cannot be used.
        """
        try:
            found = [(path, self._start(path)) for path in starts(self.folder)]
            known = [(path, start) for path, start in found if start is not None]
            for path, start in known:
                if (start.site, start.source) != (site, source):
                    raise SettingsError(
                        f"{path}: holds events of {start.site}/{start.source}, and this agent is "
                        f"{site}/{source}: give it an outbox of its own"
                    )
            opened = [self._opened(path, start, bytes_max) for path, start in known]
            newest = known[-1][1] if known else None
            if newest is None or newest.ended or _shape(newest.streams) != _shape(streams):
                sessions = {} if newest is None else newest.sessions
                above = max((start.incarnation for _, start in known), default=-1)
                number = 1 + max((int(path.name[:6]) for path, _ in found), default=0)
                made = Start(
                    site=site, source=source, incarnation=max(wall_ns, above + 1),
                    start=draw() % (1 << 64), streams=tuple(streams), sessions=sessions,
                )  # fmt: skip
                opened.append(self._opened(self.folder / f"{number:06d}", made, bytes_max))
        except OSError as error:
            raise AgentError(f"{self.folder}: {error.strerror}") from error
        return opened

    def remove(self, outbox: Outbox) -> None:
        """*Disk.* A start of which everything is acked."""
        outbox.close()
        shutil.rmtree(outbox.folder)

    def close(self) -> None:
        """Lets other processes in."""
        os.close(self._lock)

    def _start(self, path: Path) -> Start | None:
        value = load(DiskFiles(path), START)
        if value is not None:
            return Start.from_dict(value)
        aside = path.with_name(path.name + LOST)
        path.rename(aside)
        self._tell(f"{path}: nobody knows who numbered these events; they are kept in {aside}")
        return None

    def _opened(self, path: Path, start: Start, bytes_max: Sequence[int]) -> Outbox:
        most = bytes_max if len(start.streams) == len(bytes_max) else [max(bytes_max)]
        of_each = [most[min(i, len(most) - 1)] for i in range(len(start.streams))]
        return Outbox(DiskFiles(path), start, of_each, SEGMENT_BYTES, path)


def _shape(streams: Sequence[StreamSchema]) -> list[tuple[str, list[tuple[str, str]]]]:
    """What messages of the streams are laid out by; equal attributes in another order are not."""
    return [(stream.name, list(stream.attrs.items())) for stream in streams]


def starts(folder: Path) -> list[Path]:
    """The subfolders of an outbox, the newest last."""
    return sorted(path for path in folder.iterdir() if path.is_dir() and path.name.isdecimal())
