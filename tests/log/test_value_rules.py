"""The one rule of values: whatever it lets in can be added up in 64 bits."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from edge_agent import limits, wire
from edge_agent import messages as m
from edge_agent.errors import WireError
from engine.stream.value_rules import COUNTS, RANGES, beyond, joined_type, without_nan
from engine.units import DURATION_MAX_NS


def test_the_largest_sum_of_a_chain_stays_within_64_bits() -> None:
    largest = limits.TIME_MAX_NS + limits.OFFSET_MAX_NS + 2 * limits.UNC_MAX_NS + DURATION_MAX_NS
    assert largest < 2**63
    assert limits.DELAY_MAX_NS // 2 + limits.PRECISION_MAX_NS <= limits.UNC_MAX_NS
    # The age of an offset: the difference of two times.
    assert 2 * limits.TIME_MAX_NS < 2**63


@pytest.mark.parametrize("field", [*RANGES, *COUNTS])
def test_a_range_begins_and_ends_where_it_says_in_every_unit(field: str) -> None:
    for unit in (1, 10**9):
        low, high = RANGES[field][:2] if field in RANGES else (0, COUNTS[field])
        if field in RANGES:
            low, high = -(-low // unit), high // unit
        values = np.array([low - 1, low, 0, high, high + 1], np.int64)
        assert beyond(field, values, unit).tolist() == [True, False, False, False, True]


def test_the_wire_has_the_ranges_of_the_files() -> None:
    def said(**changes: int) -> m.Message:
        made = {"number": 0, "offset": 0, "delay": 0, "measured_at": 0, "precision": 0,
                "skew_error_ppb": 0}  # fmt: skip
        return wire.decode(wire.encode(m.Sync(**{**made, **changes}))[4:])

    for name, field in {"offset": "offset", "delay": "delay", "measured_at": "ts",
                        "precision": "precision"}.items():  # fmt: skip
        low, high, _ = RANGES[field]
        for value in (low, high):
            assert getattr(said(**{name: value}), name) == value
        for value in (low - 1, high + 1):
            with pytest.raises(WireError, match="range"):
                said(**{name: value})


def test_nan_is_no_value_and_infinite_is_told() -> None:
    nan, inf = float("nan"), float("inf")
    column, infinite = without_nan(pa.array([1.5, nan, None, inf, -inf]))
    assert column.to_pylist() == [1.5, None, None, inf, -inf]
    assert infinite.tolist() == [False, False, False, True, True]


def test_numbers_mix_and_nothing_else_does() -> None:
    assert [joined_type(*pair) for pair in ((None, "str"), ("int", "int"), ("int", "float"))] == [
        "str", "int", "float",
    ]  # fmt: skip
    assert joined_type("float", "int") == "float"
    for pair in (("str", "int"), ("bool", "int"), ("float", "bool"), ("str", "bool")):
        assert joined_type(*pair) is None
        assert joined_type(*pair[::-1]) is None
