"""Kernels that are left plain Python give what the compiled ones give."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.kernels.jit import kernel, njit, plain
from slackwater.engine.kernels.tables import mixed
from slackwater.engine.kernels.uncompiled import uncompiled

ITEM = np.dtype([("whole", "i8"), ("small", "i1"), ("flag", "?"), ("bins", "i2", (2,))])
INT64 = st.integers(-(2**63), 2**63 - 1)
SMALL = st.integers(-128, 127)


class Arrays(NamedTuple):
    items: np.ndarray
    grid: np.ndarray
    codes: np.ndarray
    marks: np.ndarray
    values: np.ndarray


def _walk(a: Arrays, number: int, real: float) -> tuple[int, float, bool]:
    """What kernels do with arrays: fields, records at hand, small numbers, wrapping, division."""
    total = 0
    for row in range(len(a.items)):
        here = a.items[row]
        here.whole += here.small * 1000 + here.bins[1] * a.codes[row] * 100_000
        total += a.codes[row] * a.codes[row] * a.codes[row]
        a.grid[row, 1].whole = mixed(number, here.whole)
        total += here.flag + a.marks[row]
    a.items[0] = a.items[len(a.items) - 1]
    return total, real / a.values[0], number >> 63 != 0


_compiled, _plain = kernel(_walk), uncompiled(_walk)


@given(
    st.lists(st.tuples(INT64, SMALL, st.booleans(), st.tuples(SMALL, SMALL)), min_size=1),
    INT64,
    st.floats(allow_nan=False),
    st.sampled_from([0.0, -0.0, 3.0]),
)
def test_arrays_and_numbers(
    items: list[tuple[int, int, bool, tuple[int, int]]], number: int, real: float, by: float
) -> None:
    given_ = [
        Arrays(
            np.array(items, ITEM), np.zeros((len(items), 2), ITEM),
            np.array([item[1] for item in items], np.int8),
            np.array([item[2] for item in items], np.bool_), np.array([by]),
        )
        for _ in range(2)
    ]  # fmt: skip
    results = [walk(a, number, real) for walk, a in zip((_compiled, _plain), given_, strict=True)]
    assert repr(results[0]) == repr(results[1])  # also of what type, and NaNs and signs of zeros
    for one, other in zip(*given_, strict=True):
        assert one.tobytes() == other.tobytes()


def test_arrays_come_back_as_they_are() -> None:
    codes = np.array([3, 1], np.int8)
    back, tail = uncompiled(lambda values: (values, values[1:]))(codes)
    assert type(back) is np.ndarray
    assert back.dtype == tail.dtype == np.int8
    back[1] = 7
    assert codes.tolist() == [3, 7]


@njit
def _made(n: int) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(n, ITEM), np.full(n, 200, np.uint8)


@njit
def _filled(n: int) -> int:
    items, small = _made(n)
    items[n - 1].whole = small[0] + small[n - 1]
    return items[n - 1].whole  # type: ignore[no-any-return]


def test_a_kernel_reads_what_another_has_made() -> None:
    compiled = _filled(3)
    with plain():
        assert compiled == _filled(3) == 400


def test_what_compiled_code_reads_beside_an_array_is_an_error() -> None:
    def beyond(items: np.ndarray) -> int:
        return items[len(items)].whole  # type: ignore[no-any-return]

    with pytest.raises(IndexError, match="out of bounds"):
        uncompiled(beyond)(np.zeros(2, ITEM))
    record = uncompiled(lambda items: repr(items[1]))(np.zeros(2, ITEM))
    assert record == "record 1: whole=0, small=0, flag=False, bins=[0 0]"
