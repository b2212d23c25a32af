"""A file of records beside the spool: appended and synced, or written anew as a whole.

What is in it counts by the numbers that its records have, which its reader knows. As in ``Spool``,
*disk* is another thread's, one call at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from edge_agent.outbox.disk import AppendFile, Files
from edge_agent.outbox.spool import HEADER, UNREADABLE, Record, encoded, records


class RecordFile:
    """The file ``name``; nothing is read or written yet."""

    def __init__(self, files: Files, name: str) -> None:
        self.doubtful = name in files.names()
        """What the process before, or a write that failed, has left may not be synced, or has
        records that do not count: the next write makes the file anew."""
        self.size = self.whole_size = 0
        """Bytes written since the process began, and when the file was made anew."""
        self._files = files
        self._name = name
        self._file: AppendFile | None = None

    def found(self) -> list[Record]:
        """*Disk.* What is there up to the first damage; nothing if a sector is bad.

        Raises:
            OSError: the file cannot be read, now.
        """
        if self._name not in self._files.names():
            return []
        try:
            content = self._files.read(self._name, 0, self._files.size(self._name))
        except OSError as error:
            if error.errno not in UNREADABLE:
                raise
            return []
        return [each.record for each in records(content, len(HEADER))]

    def write(
        self, fresh: Sequence[Record], whole: Callable[[], Iterable[Record]], size_max: int
    ) -> None:
        """*Disk.* Returns when ``fresh`` is on the disk, behind what was there.

        A file in doubt or longer than ``size_max`` bytes is made anew of ``whole()``, which has
        ``fresh`` too.

        Raises:
            OSError: it may not be; the file is in doubt.
        """
        try:
            if self.doubtful or self.size > size_max:
                self._write_anew(whole())
            else:
                self._append(fresh)
        except OSError:
            self.close()
            self.doubtful = True
            raise

    def close(self) -> None:
        """*Disk.* Not to be written any more."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # everything that counts was synced
                file.close()

    def _write_anew(self, whole: Iterable[Record]) -> None:
        self.close()
        content = HEADER + b"".join(map(encoded, whole))
        self._files.replace(self._name, content)
        self.size = self.whole_size = len(content)
        self.doubtful = False

    def _append(self, fresh: Sequence[Record]) -> None:
        if self._file is None:
            new = self._name not in self._files.names()
            self._file = self._files.create(self._name) if new else self._files.append(self._name)
            if new:
                self._file.write(HEADER)
                self._files.sync_names()
        content = b"".join(map(encoded, fresh))
        self._file.write(content)
        self._file.sync()
        self.size += len(content)
