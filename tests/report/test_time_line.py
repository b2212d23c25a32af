"""Times of a page in the unit that people count such spans by."""

from __future__ import annotations

import pytest

from engine.report.units import TimeLine

SECOND = 10**9
START_NS = 1_767_225_600 * SECOND


@pytest.mark.parametrize(
    ("span", "unit", "place"),
    [
        (60, "s", 60.0),
        (1800, "s", 1800.0),
        (3600, "min", 60.0),
        (10 * 86400, "h", 240.0),
        (100 * 86400, "d", 100.0),
        (90 * 31_557_600, "years", 90.0),
    ],
)
def test_time_lines_choose_their_unit(span: int, unit: str, place: float) -> None:
    time = TimeLine.of(START_NS, START_NS + span * SECOND)
    assert (time.unit, time.place(START_NS + span * SECOND)) == (unit, place)
    assert time.place(START_NS - SECOND) < 0
