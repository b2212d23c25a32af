"""Standard streams that cannot be used: full output, and streams that were closed at the start.

Python represents a closed stream (``>&-``, some supervisors) by ``None``, and the next opened file
gets its number: output of a library or child process would then go into that file.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

# Files of a service: private ones, and files that get their name when they are complete.


# Files of a service: events, answers, status and dead letters must not be readable by every user.


_OTHERS: Final = 0o027
"""No access for others, no write access for the group: files 0640, folders 0750."""


def keep_private() -> None:
    """Make files of this process and its children unreadable for others from now on.

    A stricter umask of the user stays in effect.
    """
    before = os.umask(_OTHERS)
    os.umask(before | _OTHERS)


# Files and folders that are written under a temporary name and renamed when they are complete.


OF_WRITING: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors that writing to an open file raises without a file name."""


@contextmanager
def taking_name(unfinished: Path, name: Path) -> Iterator[None]:
    """Rename ``unfinished`` to ``name`` in errors of the operating system, because the user asked
    for ``name``.

    Args:
        unfinished: a file or folder that is written inside the context.
        name: its final name, absolute or as given.

    Raises:
        OSError: as raised inside, with ``name`` in place of ``unfinished``, also for a full disk,
            whose error has no file name.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in OF_WRITING:
            error.filename = str(name)
        for field in ("filename", "filename2"):
            said = getattr(error, field)
            if isinstance(said, str | os.PathLike):
                setattr(error, field, str(_called(Path(said), unfinished, name)))
        raise


def _called(said: Path, unfinished: Path, name: Path) -> Path:
    return name / said.relative_to(unfinished) if said.is_relative_to(unfinished) else said


# Standard streams that cannot be used: full output, and streams that were closed at the start.


STANDARD_OUTPUT: Final = "standard output"
_STDIN, _STDOUT, _STDERR = range(3)


class ClosedOutput(io.TextIOBase):
    """Replaces a closed standard output: every write is an error, so no answer is lost silently."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        """Write nothing.

        Raises:
            OSError: there is no standard output.
        """
        del text
        raise OSError(errno.EBADF, "is closed", STANDARD_OUTPUT)

    def fileno(self) -> int:
        return _STDOUT


_FLAGS: Final = {"stdin": os.O_RDONLY, "stdout": os.O_RDONLY, "stderr": os.O_WRONLY}
"""Open flags by stream number. Standard output is not writable, so child processes fail too."""


@contextmanager
def writing_output() -> Iterator[None]:
    """Attribute an error about a full disk without a file name to standard output.

    Raises:
        OSError: as raised inside.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in OF_WRITING:
            error.filename = STANDARD_OUTPUT
        raise


def drop_unwritten() -> None:
    """Discard unwritten data of standard output, so that Python does not retry at exit and replace
    the exit code by 120.
    """
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def fill_closed_streams() -> None:
    """Give each closed standard stream its number back, before anything else is opened.

    Standard input is then empty, standard error loses its text, and writing to standard
    output is an error.
    """
    for number, (name, flags) in enumerate(_FLAGS.items()):
        if getattr(sys, name) is not None:
            continue
        opened = os.open(os.devnull, flags)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)
        os.set_inheritable(number, True)
    if sys.stdin is None:
        sys.stdin = open(_STDIN, encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = ClosedOutput()
    if sys.stderr is None:
        sys.stderr = open(_STDERR, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
