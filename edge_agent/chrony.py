"""What chrony says of a host's clock: ``chronyc -c tracking``, one line of comma-separated values.

The bound is chrony's own (chronyc(1), "tracking"; AWS's ClockBound takes the same): the clock is
off by at most |system time| + root dispersion + root delay / 2.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Final, NamedTuple

from edge_agent.errors import NtpRefused

COMMAND: Final = ("chronyc", "-c", "tracking")
_FIELDS: Final = 14
_STRATUM, _SYSTEM, _ROOT_DELAY, _ROOT_DISPERSION, _LEAP = 2, 4, 10, 11, 13
_NOT_SYNCHRONISED: Final = "Not synchronised"
_SECONDS_MAX: Final = 10**9


class Tracking(NamedTuple):
    """``bound_ns``: how far the host's clock is from its reference, at most."""

    bound_ns: int
    stratum: int


def tracking(line: bytes) -> Tracking:
    r"""Reads the answer of ``COMMAND``.

    >>> tracking(b"C0A80001,ntp,3,1.0,-0.000020,0,0,0,0,0,0.001,0.0005,64.2,Normal")
    Tracking(bound_ns=1020000, stratum=3)

    Raises:
        NtpRefused: ``chrony``: it is something else; ``leap``: the host is not synchronised.
    """
    cells = line.decode("ascii", "replace").strip().split(",")
    try:
        if len(cells) != _FIELDS:
            raise NtpRefused("chrony", f"{len(cells)} values instead of {_FIELDS}: {line!r:.100}")
        stratum = int(cells[_STRATUM])
        system, delay, dispersion = (
            abs(Decimal(cells[place])) for place in (_SYSTEM, _ROOT_DELAY, _ROOT_DISPERSION)
        )
        bound = system + dispersion + delay / 2
    except (ValueError, InvalidOperation) as error:
        raise NtpRefused("chrony", f"no numbers: {line!r:.100}") from error
    if cells[_LEAP] == _NOT_SYNCHRONISED or stratum == 0:
        raise NtpRefused("leap", "chrony is not synchronised; see chronyc sources")
    if not bound.is_finite() or bound > _SECONDS_MAX:
        raise NtpRefused("chrony", f"no bound: {line!r:.100}")
    return Tracking(-int(-bound * 10**9 // 1), stratum)
