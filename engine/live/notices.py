"""What the server tells its engine, line by line: the number of the log's last durable file."""

from __future__ import annotations

import threading
from io import FileIO


class Notices:
    """Read in a thread of their own, so that the last one counts, however long a batch takes.

    Args:
        stream: lines with numbers; its end: the server stops, or is gone.
    """

    def __init__(self, stream: FileIO) -> None:
        self._stream = stream
        self._changed = threading.Condition()
        self._number = 0
        self._ended = False
        threading.Thread(target=self._read, name="notices", daemon=True).start()

    def _read(self) -> None:
        for line in self._stream:
            with self._changed:
                self._number = int(line)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    @property
    def number(self) -> int:
        """The last one."""
        return self._number

    @property
    def ended(self) -> bool:
        """No more will come."""
        return self._ended

    def beyond(self, number: int, seconds: float | None) -> bool:
        """Waits for a larger one; False: the time is over, or no more will come."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._number > number, seconds)
            return self._number > number

    def over_within(self, seconds: float) -> bool:
        """Waits for the end."""
        with self._changed:
            return self._changed.wait_for(lambda: self._ended, seconds)
