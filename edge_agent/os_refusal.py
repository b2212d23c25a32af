"""What the operating system refused: what to say of it, and the exit code of ``slackwater agent``
and of ``slackwater`` alike.
"""

from __future__ import annotations

import errno
from typing import Final

from edge_agent.standard_streams import STANDARD_OUTPUT

FAILED: Final = 1
USER_ERROR: Final = 2


def refused(error: OSError) -> tuple[str, int]:
    """What to say of ``error``, and the exit code.

    A place of the user's that cannot be used is an input at fault: a threshold that does not hold
    ends with another code. Standard output that is full or closed has failed.

    >>> refused(FileNotFoundError(2, "No such file or directory", "/proc/out"))
    ('/proc/out: No such file or directory', 2)

    Raises:
        OSError: ``error``, where it names no file and is of no full disk: it may be ours.
    """
    if error.filename is None and error.errno != errno.ENOSPC:
        raise error
    if error.filename is None:
        return str(error.strerror), FAILED
    code = FAILED if error.filename == STANDARD_OUTPUT else USER_ERROR
    return f"{error.filename}: {error.strerror}", code
