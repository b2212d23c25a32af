"""The two clocks of a device, never mixed, and deadlines on the monotonic one."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

# Deadlines, each of which may be None (not set).


def earliest(*dues: int | None) -> int | None:
    """The earliest instant; None: no deadline is set.

    >>> earliest(5, None, 3), earliest(None)
    (3, None)
    """
    first = None
    for due in dues:
        if due is not None and (first is None or due < first):
            first = due
    return first


# The two clocks of a device, never mixed: the wall clock stamps, the monotonic clock times.
#
# The wall clock may be wrong, may be set back and may jump; it stamps events, and time sync
# measures it. The monotonic clock only runs forward and has no meaning outside the device; every
# timer of the session uses it.


_PPB: Final = 10**9
_MONOTONIC: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Also advances while the device sleeps; otherwise a sleep would look like a step of the wall
clock.
"""


class Now(NamedTuple):
    """One reading of both clocks of the source, passed with every call."""

    wall_ns: int
    """Source's wall clock [ns since the Unix epoch], uncorrected."""
    mono_ns: int
    """Source's monotonic clock [ns] since an instant that only this process knows."""


class MachineClock:
    """This machine's clocks, optionally with an artificial error, for demonstrations and tests.

    As on a real device, a rate error applies to both clocks: they run on one crystal.
    """

    def __init__(self) -> None:
        self._ahead_ns = 0
        self._fast_ppb = 0
        self._since_ns = 0

    def read(self) -> Now:
        """Read both clocks. Only drivers call it; cores get the time as an argument."""
        wall_ns, mono_ns = time.time_ns(), time.clock_gettime_ns(_MONOTONIC)
        gained_ns = (mono_ns - self._since_ns) * self._fast_ppb // _PPB
        return Now(wall_ns + self._ahead_ns + gained_ns, mono_ns + gained_ns)

    def bend(self, ahead_ns: int, fast_ppb: int) -> None:
        """Add an offset to the wall clock, and a rate error to both, from now on; call once."""
        self._since_ns = time.clock_gettime_ns(_MONOTONIC)
        self._ahead_ns, self._fast_ppb = ahead_ns, fast_ppb


DEVICE: Final = MachineClock()
"""The clock of this process."""
read: Final = DEVICE.read
