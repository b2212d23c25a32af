"""Warnings about what is most likely not meant so, though it is no error."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Final

from slackwater.spoken import in_python

_CALLER: Final = 4
"""Frames from here to the caller of a public function, which is ``spoken``."""


class Doubt(UserWarning):
    """What is most likely not meant so: a type that no event has, a wait for a promise that nobody
    gives. The command line tells the same on standard error.
    """


def doubt(lines: Iterable[str]) -> None:
    """Warns of each line at the caller of the public function that calls this."""
    for line in lines:
        warnings.warn(in_python(line), Doubt, stacklevel=_CALLER)
