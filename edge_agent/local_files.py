"""Files of a service: private ones, and those that take their name when they are complete."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

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
"""What is refused of writing alone, and of an open file without its name."""


@contextmanager
def taking_name(unfinished: Path, name: Path) -> Iterator[None]:
    """What the operating system refuses of ``unfinished`` is told of ``name``, which it will have:
    that is what somebody has asked for, and where they will look.

    Args:
        unfinished: a file or a folder that is written inside.
        name: absolute, or as it was given.

    Raises:
        OSError: as inside, with ``name`` in place of ``unfinished``; a full disk, too, which is
            told without a file.
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
