"""What the operating system refused: what to say of it, and the exit code of ``slackwater agent``
and of ``slackwater`` alike.
"""

from __future__ import annotations

import errno
import sys
from typing import Final

from edge_agent.standard_streams import STANDARD_OUTPUT

FAILED: Final = 1
USER_ERROR: Final = 2
_SPACE: Final = "free some, or write to another disk (temporary files lie in TMPDIR, else in /tmp)"
_REMEDIES: Final = {
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EFBIG: "let files be larger (ulimit -f), or write to a disk that takes them",
    errno.EIO: "its disk or network share has failed, see dmesg; choose another one",
    errno.EMFILE: "let this process open more files: ulimit -n 4096",
    errno.ENFILE: "the machine has too many open files: end other programs, or raise fs.file-max",
    errno.ENOMEM: "end other programs, or ask for less at once",
    errno.EAGAIN: "let this user have more processes (ulimit -u), or end others",
}
"""What a machine lacks, whatever it was asked for."""
_ELSEWHERE: Final = "send it to a file on a disk with space"


def refused(error: OSError, doing: str) -> tuple[str, int]:
    """What to say of ``error``, and the exit code; ``doing``: the command, such as ``query``.

    A place of the user's that cannot be used is an input at fault: a threshold that does not hold
    ends with another code. Where the machine lacks something, or standard output takes nothing,
    the work has failed.

    >>> refused(FileNotFoundError(2, "No such file or directory", "/proc/out"), "query")
    ('/proc/out: No such file or directory', 2)
    >>> refused(OSError(24, "Too many open files"), "query")[0]
    'query: Too many open files; let this process open more files: ulimit -n 4096'

    Raises:
        OSError: ``error``, where it names no file and the machine lacks nothing: it may be ours.
    """
    remedy = _REMEDIES.get(error.errno or 0)
    if error.filename is None and remedy is None:
        raise error
    place = error.filename or (STANDARD_OUTPUT if _is_untaken() else doing)
    said = f"{place}: {error.strerror}"
    if place == STANDARD_OUTPUT:
        return f"{said}; {_ELSEWHERE}", FAILED
    return (said, USER_ERROR) if remedy is None else (f"{said}; {remedy}", FAILED)


def _is_untaken() -> bool:
    """Whether standard output still has what it could not write."""
    try:
        sys.stdout.flush()
    except OSError:
        return True
    return False
