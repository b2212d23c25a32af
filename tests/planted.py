"""What an attacker puts where a program may unpickle it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


class Planted:
    """Makes a folder when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)
