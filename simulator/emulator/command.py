"""A command with all that it starts: what it leaves behind comes to this process, which ends it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from slackwater.engine.core.errors import UserError

_PR_SET_CHILD_SUBREAPER: Final = 36
_STOP_SECONDS: Final = 5.0
"""So long a command may take to end when it is asked to."""
_LOOK_SECONDS: Final = 0.02
_SHELL_SIGNAL: Final = 128
"""Shells give this plus a signal's number as the exit code of who died of it."""


class Command:
    """Runs from now on.

    Args:
        words: the program and its arguments.

    Raises:
        UserError: there is no such program.
    """

    def __init__(self, words: Sequence[str]) -> None:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            self._process = subprocess.Popen(list(words))  # noqa: S603 - what the user asks for
        except OSError as error:
            raise UserError(f"{words[0]}: {error.strerror}") from error

    @property
    def runs(self) -> bool:
        """Whether it has not ended by itself."""
        return self._process.poll() is None

    @property
    def exit_code(self) -> int:
        """As a shell says it, once it has ended."""
        code = self._process.wait()
        return code if code >= 0 else _SHELL_SIGNAL - code

    def end(self) -> None:
        """Returns when nothing that it started runs; what does not end by itself is killed."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            signalled_ids: set[int] = set()
            until = time.monotonic() + _STOP_SECONDS
            while (left := self._left()) and (time.monotonic() < until):
                for each in left - signalled_ids:
                    with suppress(ProcessLookupError):
                        os.kill(each, number)
                signalled_ids |= left
                time.sleep(_LOOK_SECONDS)

    def _left(self) -> set[int]:
        """Children of this process that run; those that have ended are taken note of."""
        left = set()
        for each in _children():
            if each == self._process.pid:
                ended = self._process.poll() is not None
            else:
                ended = os.waitpid(each, os.WNOHANG)[0] == each
            if not ended:
                left.add(each)
        return left


def _children() -> set[int]:
    """Also those of programs that have ended, which come to this process then."""
    found = set()
    for thread in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # the thread has ended
            found |= {int(each) for each in (thread / "children").read_text().split()}
    return found
