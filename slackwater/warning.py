"""Warnings about likely mistakes."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Final

from slackwater.translate_options import in_python

_CALLER: Final = 4
"""Stack frames from here to the caller of a public function, past ``translate_options``."""


class SlackwaterWarning(UserWarning):
    """A likely mistake: a type that no event has, or a wait for a promise that never comes. The
    command line prints the same on standard error.
    """


def warn(lines: Iterable[str]) -> None:
    """Warn about each line, at the caller of the public function that calls this."""
    for line in lines:
        warnings.warn(in_python(line), SlackwaterWarning, stacklevel=_CALLER)
