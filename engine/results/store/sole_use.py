"""One pass at a time writes into a folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from engine.errors import UserError

_LOCK: Final = ".lock"
_LOOK_S: Final = 0.05
_QUIET_LOOKS: Final = 40


class FolderInUseError(UserError):
    """Another pass is at work in a folder."""


@contextmanager
def sole_use(folder: Path) -> Iterator[None]:
    """``folder``, made if absent, is this pass's while the block runs; a crash gives it free.

    Raises:
        FolderInUseError: another pass is at work in it.
        UserError: it cannot be written.
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
        raise FolderInUseError(
            f"{folder}: another run is at work in this folder; wait for it, or choose another"
        ) from None
    try:
        yield
    finally:
        os.close(lock)


def wait_for_sole_use(
    folder: Path,
    until: ExitStack,
    over_within: Callable[[float], bool],
    tell: Callable[[str], None],
) -> bool:
    """``sole_use`` as soon as the folder is free, however long that takes.

    Who has it may be stopped, wait for a slow disk, or compile: it frees the folder when it ends.

    Args:
        folder: of the pass.
        until: the folder is this pass's until it is closed.
        over_within: waits so many seconds; True: nobody wants the folder any more.
        tell: takes a line for people.

    Returns:
        whether it is this pass's; False: nobody wants it any more.

    Raises:
        UserError: it cannot be written.
    """
    looks = 0
    while True:
        try:
            until.enter_context(sole_use(folder))
        except FolderInUseError:
            looks += 1
            if looks == _QUIET_LOOKS:
                tell(f"{folder} is in use by the engine of an earlier server: waits for it to end")
            if over_within(_LOOK_S):
                return False
        else:
            return True
