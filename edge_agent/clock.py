"""The two clocks of a device, never mixed: the wall clock stamps, the monotonic clock times.

The wall clock may be wrong, may be set back and may jump; it is what events are stamped with
and what time sync measures. The monotonic clock has no meaning outside the device and only
runs forward; every timer of the session runs on it.
"""

from __future__ import annotations

import time
from typing import NamedTuple


class Now(NamedTuple):
    """One reading of both clocks of the source, handed in with every call."""

    wall_ns: int
    """Source's wall clock: ns since the Unix epoch, as wrong as it is."""
    mono_ns: int
    """Source's monotonic clock: ns since some instant that only this process knows."""


def read() -> Now:
    """This machine's clocks; only drivers ask (cores have the time handed in)."""
    return Now(time.time_ns(), time.monotonic_ns())
