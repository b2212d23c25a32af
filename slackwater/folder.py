"""Closing of resources, and a temporary folder that exists while its content is used."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Self

from slackwater.engine.core.errors import UserError


class ClosesItself(ABC):
    """A context manager that closes itself at the end of the block."""

    @abstractmethod
    def close(self) -> None:
        """Remove temporary files."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()


class Folder:
    """A new temporary folder. It is removed by ``close``, when nothing refers to it any more, or
    when the program ends.
    """

    def __init__(self) -> None:
        self._path = Path(tempfile.mkdtemp(prefix="slackwater-"))
        self._removal = weakref.finalize(self, shutil.rmtree, self._path)

    @property
    def path(self) -> Path:
        """Path of the folder.

        Raises:
            UserError: it was closed.
        """
        if not self._removal.alive:
            raise UserError("this was closed and its files are deleted; compute it again")
        return self._path

    def close(self) -> None:
        """Remove the folder at once."""
        self._removal()
