"""A column on disk: places of its sorted order, sum and extremes as those of an array in memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.compare import long_column
from engine.compare.long_column import LongColumn
from engine.kernels.integers import INT_MAX, INT_MIN

parts = st.lists(
    st.lists(st.integers(INT_MIN, INT_MAX) | st.integers(-3, 3), max_size=9), max_size=6
)


@given(parts)
@example([[INT_MIN, INT_MAX], [INT_MAX, 0, -1, INT_MIN]])
@example([[7, 7, 7], [7, 7]])
def test_places_sum_and_extremes_are_those_of_all_values_sorted(parts: list[list[int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_column, "_ROOM", 4)  # most of the values lie in the file
        column = LongColumn()
        for part in parts:
            column.add(np.array(part, np.int64))
        values = sorted(value for part in parts for value in part)
        assert len(column) == len(values)
        assert column.at(range(len(values))) == values
        assert column.total == sum(values)
        if values:
            assert (column.smallest, column.largest) == (values[0], values[-1])
        # It grows on after it was read.
        column.add(np.array([5, -5, 0, 1, 2], np.int64))
        values = sorted([*values, 5, -5, 0, 1, 2])
        assert column.at(range(len(values))) == values


def test_many_values_take_a_buffer_of_memory() -> None:
    long = 1 << 21
    rng = np.random.default_rng(11)
    values = rng.integers(-(10**9), 10**12, long)
    column = LongColumn()
    for at in range(0, long, 5_000):
        column.add(values[at : at + 5_000])
    assert column._room.nbytes == 1 << 19
    places = [0, long // 2, long * 95 // 100, long - 1]
    assert column.at(places) == np.sort(values)[places].tolist()
