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
from typing import Final

from edge_agent.local_files import OF_WRITING

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
    """A full disk, which is told without a file, is that of standard output.

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

    Standard input is then empty, standard error loses what it is told, and writing to standard
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
