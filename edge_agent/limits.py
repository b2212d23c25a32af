"""How large a number of a record may be: one rule for agents, the wire and every input.

An event time plus an offset, two uncertainties and a window stay inside int64:
2**62 + 2**61 + 2 * 2**58 + 2**60 < 2**63. So no later sum needs a check of its own.
"""

from __future__ import annotations

from typing import Final

TIME_MAX_NS: Final = 2**62 - 1
"""Event and arrival times either way: 146 years around 1970 (to the year 2116)."""
OFFSET_MAX_NS: Final = 2**61
"""Offset of a source's clock either way: 73 years; one that began at 1970 is 56 years slow."""
DELAY_MAX_NS: Final = 2**58
"""Delay of a time sync: 9 years."""
PRECISION_MAX_NS: Final = 2**57
"""Reading precision of a time sync: 4.5 years; half a delay and this are at most UNC_MAX_NS."""
SKEW_ERROR_MAX_PPB: Final = 10**9
"""How fast an offset may grow wrong: 100 %."""
UNC_MAX_NS: Final = 2**58
"""No uncertainty grows beyond this (9 years): it saturates, as it never says less than it knows."""
COUNTER_MAX: Final = 2**62
"""Numbers of events, incarnations: sums of one and a count stay far inside int64."""
