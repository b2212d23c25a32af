"""Large payloads on their way from workers to the driver: through a folder, not through the JVM.

Rows of 27 MB per batch cost the JVM more than their matches cost the worker. A file lives from the
task that writes it to the end of its batch; a batch done again writes its files again, so they need
not outlive a crash.
"""

from __future__ import annotations

import os
import shutil
from hashlib import blake2b
from pathlib import Path
from typing import Final

LARGE: Final = 1 << 16
"""Payloads from so many bytes on go through files."""


class Staged:
    """Files in ``folder``, which workers and driver reach alike, as they do the log.

    Args:
        folder: of this run alone.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def clear(self) -> None:
        """An empty folder: what a run that broke off has left is done again."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)

    def put(self, payload: bytes) -> str:
        """Keeps a payload; the name to ``take`` it by. Equal ones, as of a task tried twice, are
        one file.

        Raises:
            OSError: the folder cannot be written.
        """
        name = blake2b(payload, digest_size=16).hexdigest()
        unfinished = self._folder / f".{name}-{os.getpid()}"
        unfinished.write_bytes(payload)
        unfinished.rename(self._folder / name)
        return name

    def get(self, name: str) -> bytes:
        """A payload.

        Raises:
            OSError: it is not there.
        """
        return (self._folder / name).read_bytes()

    def remove(self) -> None:
        """End of the run."""
        shutil.rmtree(self._folder)
