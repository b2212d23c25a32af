"""Where things are kept that can be made again: compiled kernels, the parser's tables.

What lies there is run, or decides what is: so it is the user's own folder, which nobody else can
write, or none is used.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from functools import cache
from pathlib import Path
from typing import Final

_FOLDER: Final = "slackwater"
_ROOT: Final = 0
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class NotCached(Exception):  # noqa: N818 - no error: the caller goes on without
    """The cache does not have what is asked of it."""


def cache_home() -> Path:
    """The user's cache directory, or ``SLACKWATER_CACHE``; one that cannot be made where the user
    has no home.
    """
    cache_at = os.environ.get("SLACKWATER_CACHE") or os.environ.get("XDG_CACHE_HOME")
    if cache_at:
        return Path(cache_at).resolve()
    try:
        return Path.home() / ".cache"
    except RuntimeError:  # as in a container that runs as any user
        return Path(os.devnull) / "cache"


def own_cache() -> Path | None:
    """Our folder in the cache directory, made if absent, which only this user can write.

    None, and a word on standard error, where it is another's; also where none can be made. What
    could be kept there is then made again each time.
    """
    return _private_folder(cache_home() / _FOLDER)


@cache
def _private_folder(folder: Path) -> Path | None:
    """Made, or checked, once in a process."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        if not is_trusted(folder.lstat()) or not is_trusted(folder.stat()):
            sys.stderr.write(
                f"slackwater: {folder} belongs to another user, so nothing in it is used and "
                "kernels are compiled each time; set SLACKWATER_CACHE to a folder of yours\n"
            )
            return None
        _close(folder)
    except OSError:
        return None
    return folder


def _close(folder: Path) -> None:
    """Nobody else can read or write the folder; what others may have put into it goes."""
    facts = folder.stat()
    if facts.st_uid != os.geteuid() or not facts.st_mode & _OTHERS:
        return
    folder.chmod(0o700)
    for path in folder.iterdir() if facts.st_mode & _OTHERS_WRITE else ():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def is_trusted(facts: os.stat_result) -> bool:
    """Whether a file or folder is this user's or the administrator's."""
    return facts.st_uid in {os.geteuid(), _ROOT}


def own_bytes(path: Path) -> bytes | None:
    """What a file in the cache holds; None: it is absent, a link, or another user's."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or not is_trusted(facts):
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)
