"""How long after a packet TCP sends it again, when it is lost: what a link's losses cost.

The next packet of the connection tells of the gap: its selective acknowledgement is back after a
round trip, and reordering is waited for, for an eighth of one (RACK, RFC 8985, as Linux does it).
Where packets are rarer than that, a time-out tells: the round trip, and four times its deviation,
200 ms at least (RFC 6298 with Linux' least variation).
"""

from __future__ import annotations

import math
from typing import Final

RTO_LEAST_NS: Final = 200_000_000
"""Least variation that Linux adds to the round trip."""


def recovery_ns(trip_ns: float, deviation_ns: float, gap_ns: float | None) -> int:
    """Mean time until a lost packet is sent again.

    Args:
        trip_ns: mean round trip.
        deviation_ns: of the round trip.
        gap_ns: mean time between two packets of a connection, exponentially distributed; None:
            so long that only the time-out tells.

    >>> round(recovery_ns(22e6, 2e6, None) / 1e6), round(recovery_ns(22e6, 2e6, 10e6) / 1e6)
    (222, 35)
    """
    timeout = trip_ns + max(RTO_LEAST_NS, 4 * deviation_ns)
    noticed = trip_ns * 9 / 8
    if gap_ns is None or gap_ns <= 0 or noticed >= timeout:
        return round(timeout)
    # The mean of the lesser of both: the next packet's news, and the time-out.
    return round(noticed + gap_ns * -math.expm1(-(timeout - noticed) / gap_ns))
