"""The two clocks of a device, never mixed, and deadlines on the monotonic one."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

# Deadlines; some may not be set.


def earliest(*dues: int | None) -> int | None:
    """The earliest instant; None: there is none.

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
# The wall clock may be wrong, may be set back and may jump; it is what events are stamped with
# and what time sync measures. The monotonic clock has no meaning outside the device and only
# runs forward; every timer of the session runs on it.


_PPB: Final = 10**9
_MONOTONIC: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Goes on while the device sleeps: to the other one the wall clock would seem to be set."""


class Now(NamedTuple):
    """One reading of both clocks of the source, handed in with every call."""

    wall_ns: int
    """Source's wall clock: ns since the Unix epoch, as wrong as it is."""
    mono_ns: int
    """Source's monotonic clock: ns since some instant that only this process knows."""


class MachineClock:
    """This machine's clocks, which may be bent on purpose: to show and to test the effects.

    A bent clock is wrong as a device's would be: both clocks run on one crystal.
    """

    def __init__(self) -> None:
        self._ahead_ns = 0
        self._fast_ppb = 0
        self._since_ns = 0

    def read(self) -> Now:
        """Both clocks; only drivers ask (cores have the time handed in)."""
        wall_ns, mono_ns = time.time_ns(), time.clock_gettime_ns(_MONOTONIC)
        gained_ns = (mono_ns - self._since_ns) * self._fast_ppb // _PPB
        return Now(wall_ns + self._ahead_ns + gained_ns, mono_ns + gained_ns)

    def bend(self, ahead_ns: int, fast_ppb: int) -> None:
        """From now on the wall clock is ahead, and both run fast by so much; called once."""
        self._since_ns = time.clock_gettime_ns(_MONOTONIC)
        self._ahead_ns, self._fast_ppb = ahead_ns, fast_ppb


DEVICE: Final = MachineClock()
"""The clock of this process."""
read: Final = DEVICE.read
