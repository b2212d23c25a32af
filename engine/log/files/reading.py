"""Readers and the removal of files keep clear of each other: a lock that readers share.

Who removes files takes it alone, and does without while somebody reads: so whatever a reader has
found in the folder stays until it is done. A process that is killed lets go of it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

LOCK: Final = ".reading"


def held(directory: Path) -> int | None:
    """Takes the lock as a reader, until the descriptor is closed.

    None: nobody removes files there, as no writer has made the lock.
    """
    try:
        descriptor = os.open(directory / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # of an earlier version, or a copy: it has no writer
        return None
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


@contextmanager
def reading(directory: Path) -> Iterator[None]:
    """Nothing is removed meanwhile."""
    descriptor = held(directory)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


@contextmanager
def removing(directory: Path) -> Iterator[bool]:
    """Whether files may be removed now: nobody reads.

    Raises:
        OSError: the lock cannot be made.
    """
    descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
