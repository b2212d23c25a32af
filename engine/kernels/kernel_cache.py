"""Compiled kernels on disk: a folder for each digest of what a kernel is made of.

Numba keeps and finds them (``cache=True``); told where by its public setting for locators. Neither
the time nor the place of a source file decides anything, so all checkouts and environments of a user
share the cache. A file that is damaged is not loaded: each folder has the checksums of its files.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from types import FunctionType
from typing import Any, Final

from numba import config

from engine.cache_home import own_bytes

_SUMS: Final = "checksums.json"
_LOCATOR: Final = f"{__name__}.DigestLocator"
_folders: Final[dict[FunctionType, Path]] = {}


class DigestLocator:
    """Where Numba keeps one function (the protocol of ``NUMBA_CACHE_LOCATOR_CLASSES``)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def from_function(cls, py_func: FunctionType, py_file: str) -> DigestLocator | None:  # noqa: ARG003
        """None: this function is not kept here."""
        folder = _folders.get(py_func)
        return None if folder is None else cls(folder)

    def ensure_cache_path(self) -> None:
        """Makes the folder."""
        self._folder.mkdir(parents=True, exist_ok=True)

    def get_cache_path(self) -> str:
        """The folder."""
        return str(self._folder)

    def get_source_stamp(self) -> str:
        """What the content of the folder is made of."""
        return self._folder.name

    def get_disambiguator(self) -> str:
        """Nothing to tell apart: a folder has one function."""
        return "kernel"


def keep(dispatcher: Any, folder: Path) -> None:
    """From now on ``dispatcher`` finds its machine code in ``folder``, and keeps it there."""
    if folder.is_dir() and not _is_whole(folder):
        shutil.rmtree(folder, ignore_errors=True)
    _folders[dispatcher.py_func] = folder
    with _located_here():
        dispatcher.enable_caching()


@contextmanager
def _located_here() -> Iterator[None]:
    """Within, Numba asks our locator alone; a program's own kernels are kept as it likes."""
    before = config.CACHE_LOCATOR_CLASSES
    config.CACHE_LOCATOR_CLASSES = _LOCATOR
    try:
        yield
    finally:
        config.CACHE_LOCATOR_CLASSES = before


def seal(folder: Path) -> None:
    """Notes the checksums of what has been added to ``folder``."""
    if folder.is_dir():
        aside = folder / f"{_SUMS}.{blake2b(str(id(folder)).encode(), digest_size=4).hexdigest()}"
        aside.write_text(json.dumps(_sums(folder)), encoding="ascii")
        aside.replace(folder / _SUMS)


def _is_whole(folder: Path) -> bool:
    content = own_bytes(folder / _SUMS)
    try:
        return content is not None and json.loads(content) == _sums(folder)
    except ValueError:
        return False


def _sums(folder: Path) -> dict[str, str]:
    kept = (each for each in sorted(folder.iterdir()) if each.suffix in {".nbi", ".nbc"})
    return {each.name: blake2b(own_bytes(each) or b"", digest_size=16).hexdigest() for each in kept}
