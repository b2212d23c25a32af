"""One pass at a time writes into a folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from engine.errors import UserError

_LOCK: Final = ".lock"


@contextmanager
def sole_use(folder: Path) -> Iterator[None]:
    """``folder``, made if absent, is this pass's while the block runs; a crash gives it free.

    Raises:
        UserError: another pass is at work in it, or it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise UserError(
            f"{folder}: another run is at work in this folder; wait for it, or choose another"
        ) from None
    try:
        yield
    finally:
        os.close(lock)
