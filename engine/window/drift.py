"""R19's drift windows LOW, MIDDLE and HIGH: one window shifted by -T_a/2, 0 and +T_a/2.

Source: R19 3.2.3.1, Fig 3.4, Eq 3.16. An event's offset is known to half its delay only, so
events near an edge may belong to the neighbouring window. Times are integers, so the three
windows hold exactly: LOW ``[s - floor(T_a/2), e - floor(T_a/2))``, MIDDLE ``[s, e)``, HIGH
``[s + ceil(T_a/2), e + ceil(T_a/2))``.
"""

from __future__ import annotations

import math
from typing import Final

from engine.errors import UserError
from engine.query.plan import Drift

LOW: Final = 1
MIDDLE: Final = 2
HIGH: Final = 4
"""Bits of a cell's part: the drift windows that the events of the cell fall into."""
CERTAIN: Final = 8
"""The events lie in [s, e) whatever their clock error is within their uncertainty."""
AMBIGUOUS: Final = 16
"""The events may lie in [s, e) or not, depending on their clock error."""
PART_BITS: Final = 5
WHOLE: Final = LOW | MIDDLE | HIGH | CERTAIN

WINDOWS: Final = (("low", LOW), ("middle", MIDDLE), ("high", HIGH))

Number = int | float
Values = dict[str, Number | None]


def shifts_ns(t_a: int) -> tuple[int, int]:
    """How far LOW reaches back and HIGH reaches on [ns]."""
    return t_a // 2, (t_a + 1) // 2


def check_size(size_ns: int, t_a: int, mode: Drift, query: str) -> None:
    """R19 3.2.3.1: in a window not longer than T_a every event is ambiguous.

    Raises:
        UserError: the window is not longer than T_a and drift windows are asked for.
    """
    if mode is not Drift.NONE and size_ns <= t_a:
        raise UserError(
            f"query {query!r}: WINDOW TUMBLING {size_ns} ns is not longer than the site's largest "
            f"delay T_a = {t_a} ns, so every event would be ambiguous; use a longer window, "
            "improve the time sync, or leave DRIFT out"
        )


def mean_of_three(low: Values, middle: Values, high: Values) -> Values:
    """Per label the mean of those of the three aggregates that exist; None if none does."""
    return {label: _mean([low[label], middle[label], high[label]]) for label in middle}


def _mean(values: list[Number | None]) -> float | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    if min(known) == max(known):  # no rounding of x + x + x
        return float(known[0])
    return math.fsum(known) / len(known)
