"""What RETURN computes of whole matches: each value by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.errors import ContractViolation
from engine.query import query
from engine.query.computed import computed_values, python_values
from engine.query.expression import View
from engine.query.plan import SeqPlan
from engine.stream.released import Strings

STRINGS = Strings(["A", "B", "red", "blue"])
TYPES = {"price": "int", "rate": "float", "on": "bool", "colour": "str"}


def view(shift: int) -> View:
    """Three events; the last has no price, the second's rate is not a number."""
    columns: dict[str, Any] = {
        "ref": np.array([10, 20, 30], np.int64) + shift,
        "attrs.price": np.array([5, 7, 0], np.int64) + shift,
        "valid.price": np.array([True, True, False]),
        "attrs.rate": np.array([0.5, np.nan, 1e308]),
        "attrs.on": np.array([True, False, True]),
        "attrs.colour": np.array([2, 3, -1], np.int32),
    }
    return View.of(columns, TYPES, STRINGS)


def values(returned: str) -> dict[str, list[Any]]:
    plan = query(f"EVENT SEQ(A a, B b) RETURN {returned}")
    assert isinstance(plan, SeqPlan)
    found = computed_values(plan, {"a": view(0), "b": view(3)}, 3)
    return {label: python_values(value, 3, STRINGS) for label, value in found.items()}


CASES: dict[str, dict[str, list[Any]]] = {
    "a.price, b.price - a.price AS gain": {"gain": [3, 3, None]},
    "b.ts-a.ts, a.price*2 AS twice": {"b.ts - a.ts": [3, 3, 3], "twice": [10, 14, None]},
    "a.colour AS colour": {"colour": ["red", "blue", None]},
    "a.on AS bright": {"bright": [1, 0, 1]},
    "a.rate AS rate, a.rate * 10 AS tenfold": {
        "rate": [0.5, None, 1e308],
        "tenfold": [5.0, None, None],
    },
    "a.price / (b.price - a.price - 3) AS never": {"never": [None, None, None]},
    "a.missing + 1 AS missing": {"missing": [None, None, None]},
    "a.colour + 1 AS odd": {"odd": [None, None, None]},
    "a.ts": {},
}


@pytest.mark.parametrize("returned", CASES)
def test_values(returned: str) -> None:
    assert values(returned) == CASES[returned]


def test_whole_numbers_stay_whole_and_columns_are_whole() -> None:
    plan = query("EVENT SEQ(A a, B b) RETURN a.price + 1 AS more, a.missing AS none")
    assert isinstance(plan, SeqPlan)
    found = computed_values(plan, {"a": view(0), "b": view(3)}, 3)
    assert (found["more"].kind, found["more"].data.dtype) == ("int", np.int64)
    assert found["none"].kind == "null"
    assert all(isinstance(value, int) for value in python_values(found["more"], 3, STRINGS)[:2])


def test_no_matches() -> None:
    plan = query("EVENT SEQ(A a, B b) RETURN b.price - a.price AS gain")
    assert isinstance(plan, SeqPlan)
    empty = View.of({"attrs.price": np.array([], np.int64)}, TYPES, STRINGS)
    gain = computed_values(plan, {"a": empty, "b": empty}, 0)["gain"]
    assert python_values(gain, 0, STRINGS) == []


def test_an_alias_without_columns() -> None:
    plan = query("EVENT SEQ(A a, B b) RETURN b.price - a.price AS gain")
    assert isinstance(plan, SeqPlan)
    with pytest.raises(ContractViolation, match="'b' is named, which has no columns"):
        computed_values(plan, {"a": view(0)}, 3)
