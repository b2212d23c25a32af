"""Reading what passes leave behind."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import UserError
from scenarios.runs import (
    lane_sum,
    missing_events,
    out_of_order,
    quantiles_ms,
    read_counters,
    read_ordered,
    share,
    standing,
)


@given(st.lists(st.integers(-5, 5)))
def test_out_of_order_against_its_definition(times: list[int]) -> None:
    """SPEC 1: some event that arrived earlier has a larger event time."""
    brute = [any(earlier > time for earlier in times[:at]) for at, time in enumerate(times)]
    assert out_of_order(np.array(times, np.int64)).tolist() == brute


def test_quantiles_are_spans_that_occurred() -> None:
    spans = np.arange(1, 101) * 1_000_000
    assert quantiles_ms(spans) == (51.0, 96.0, 100.0, 100.0)
    assert quantiles_ms(spans[:0]) == (0.0, 0.0, 0.0, 0.0)


def test_share_of_nothing() -> None:
    assert (share(1, 4), share(0, 0)) == (25.0, 0.0)


def test_absent_files_say_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did the run end"):
        read_ordered(tmp_path, "sequence")
    with pytest.raises(UserError, match="did the run end"):
        read_counters(tmp_path, "sequence")
    assert standing(tmp_path, "sequence", "matches", str) == []


def test_counters(tmp_path: Path) -> None:
    lanes = [{"missing_total": 5, "missing_filled": 2}, {"missing_total": 1, "missing_filled": 0}]
    whole = {"sites": {"a": {"lanes": lanes}, "b": {"lanes": lanes[:1]}, "c": {"lanes": [{}]}}}
    place = tmp_path / "runs" / "x"
    place.mkdir(parents=True)
    (place / "counters.json").write_text(json.dumps(whole), encoding="utf-8")
    counters = read_counters(tmp_path, "x")
    assert [missing_events(counters, site) for site in "abc"] == [4, 3, None]
    del counters["sites"]["c"]
    assert lane_sum(counters, "missing_total") == 11
