"""The arrival log as a gateway's sink that says how far it is durable."""

from __future__ import annotations

from collections.abc import Callable

from engine.log.arrival_log import LogWriter
from engine.stream.frame import Frame


class DurableLog:
    """Hands all to ``writer``; ``durable`` is told the number of the last file on disk."""

    def __init__(self, writer: LogWriter, durable: Callable[[int], None]) -> None:
        self._writer = writer
        self._durable = durable

    def append(self, frame: Frame) -> None:
        """See ``LogWriter.append``."""
        self._writer.append(frame)

    def flush(self) -> None:
        """See ``LogWriter.flush``."""
        self._writer.flush()
        self._durable(self._writer.files)
