"""Files of a service: events, answers, status and what was refused are not for every user."""

from __future__ import annotations

import os
from typing import Final

_OTHERS: Final = 0o027
"""Nothing for others, and nothing to write for the group: files 0640, folders 0750."""


def keep_private() -> None:
    """What this process and those that it starts make from now on others cannot read.

    A user who allows less still does.
    """
    before = os.umask(_OTHERS)
    os.umask(before | _OTHERS)
