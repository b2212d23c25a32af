"""Standard streams that cannot be used: output that is full, and what our starter had closed.

Of a stream that was closed (``>&-``, some supervisors) Python has ``None``, and the next file that
is opened gets its number: what a library or a child process says would go into it.
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

# Files of a service: private ones, and those that take their name when they are complete.


# Files of a service: events, answers, status and what was refused are not for every user.


_OTHERS: Final = 0o027
"""Nothing for others, and nothing to write for the group: files 0640, folders 0750."""


def keep_private() -> None:
    """What this process and those that it starts make from now on others cannot read.

    A user who allows less still does.
    """
    before = os.umask(_OTHERS)
    os.umask(before | _OTHERS)


# Files and folders that are made beside their place and take their name when they are complete.


OF_WRITING: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of writing alone, and of an open file without its name."""


@contextmanager
def taking_name(unfinished: Path, name: Path) -> Iterator[None]:
    """Errors of the operating system about ``unfinished`` name ``name``, its final name, which
    the user has asked for and will look at.

    Args:
        unfinished: a file or a folder that is written inside.
        name: absolute, or as it was given.

    Raises:
        OSError: as inside, with ``name`` in place of ``unfinished``; a full disk, too, which is
            reported without a file.
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


# Standard streams that cannot be used: output that is full, and what our starter had closed.


STANDARD_OUTPUT: Final = "standard output"
_STDIN, _STDOUT, _STDERR = range(3)


class ClosedOutput(io.TextIOBase):
    """Standard output where there is none: answers must not get lost unnoticed."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        """Take nothing.

        Raises:
            OSError: there is no standard output.
        """
        del text
        raise OSError(errno.EBADF, "is closed", STANDARD_OUTPUT)

    def fileno(self) -> int:
        return _STDOUT


_FLAGS: Final = {"stdin": os.O_RDONLY, "stdout": os.O_RDONLY, "stderr": os.O_WRONLY}
"""By number. Standard output cannot be written, so a child process fails as we do."""


@contextmanager
def writing_output() -> Iterator[None]:
    """An error about a full disk without a file is about standard output.

    Raises:
        OSError: as inside.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in OF_WRITING:
            error.filename = STANDARD_OUTPUT
        raise


def drop_unwritten() -> None:
    """What standard output did not take is not tried again as the process ends, which would replace
    its exit code by 120.
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
