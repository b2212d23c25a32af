"""Compiled kernels on disk: a folder for each digest of what a kernel is made of.

Numba writes and reads them (``cache=True``); its public settings say where. Neither the time nor
the place of a source file decides anything, so all checkouts and environments of a user share the
cache. Each folder has the checksums of its files: what is damaged is compiled again. Processes that
need the same kernel at once take turns, so one compiles it and the others read it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
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


def enable(dispatcher: Any, folder: Path) -> bool:
    """From now on ``dispatcher`` reads its machine code from ``folder``, and writes it there.

    False: there is no such folder, and none can be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    _folders[dispatcher.py_func] = folder
    # A Numba without locators keeps files in a folder, by its own stamps of the source, too.
    has_locators = hasattr(config, "CACHE_LOCATOR_CLASSES")
    name, value = (
        ("CACHE_LOCATOR_CLASSES", _LOCATOR) if has_locators else ("CACHE_DIR", str(folder))
    )
    before = getattr(config, name)  # a program's own kernels are kept as it likes
    setattr(config, name, value)
    try:
        dispatcher.enable_caching()
    finally:
        setattr(config, name, before)
    return True


def load_or_compile(
    dispatcher: Any, compiled: Callable[..., Any], folder: Path, signature: Any
) -> Any:
    """What ``compiled`` of ``dispatcher`` gives for the types of a call.

    Args:
        dispatcher: Numba's, after ``enable``.
        compiled: its method ``compile``.
        folder: where its machine code is kept.
        signature: the types of the arguments.
    """
    with _alone(folder):
        if not _is_whole(folder):
            for path in _files(folder):
                path.unlink(missing_ok=True)
        missed = len(dispatcher.stats.cache_misses)
        try:
            made = compiled(signature)
            if len(dispatcher.stats.cache_misses) > missed:
                _seal(folder)
        except OSError:  # a disk that is full or read-only: the kernel is there, but not kept
            overload = dispatcher.overloads.get(tuple(signature))
            if overload is None:
                raise
            made = overload.entry_point
        return made


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Within, no other process is; a disk that has no locks, or cannot be written, gives none."""
    try:
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.utime(descriptor)  # when it was last used, for who removes old ones
        yield
    finally:
        os.close(descriptor)


def _seal(folder: Path) -> None:
    """Notes the checksums of the folder's files."""
    aside = folder / f"{_SUMS}.{os.getpid()}"
    aside.write_text(json.dumps(_sums(folder)), encoding="ascii")
    aside.replace(folder / _SUMS)


def _is_whole(folder: Path) -> bool:
    content = own_bytes(folder / _SUMS)
    try:
        return content is not None and json.loads(content) == _sums(folder)
    except ValueError:
        return False


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in {".nbi", ".nbc"})


def _sums(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): blake2b(own_bytes(path) or b"", digest_size=16).hexdigest()
        for path in _files(folder)
    }
