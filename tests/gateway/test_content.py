"""Few elements are looked at by Python, many by NumPy: both refuse the same, in the same words."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_agent.limits import TIME_MAX_NS
from edge_agent.messages import Data, StreamSchema, Texts, Values
from engine.gateway import content
from engine.gateway.content import ContentRefused, check_data

SCHEMA = StreamSchema("events", {"v": "float", "tag": "str"})
TIMES = st.sampled_from(
    [0, 1, -1, TIME_MAX_NS, -TIME_MAX_NS, TIME_MAX_NS + 1, -TIME_MAX_NS - 1, 2**63 - 1, -(2**63)]
)
CODES = st.sampled_from([-1, 0, 1, 2, -2, 2**31 - 1, -(2**31)])
FRACTIONS = st.sampled_from([0.0, 1.7e308, -1.7e308, float("inf"), float("-inf"), float("nan")])


@st.composite
def messages(draw: st.DrawFn) -> Data:
    rows = draw(st.integers(1, 6))

    def packed(kind: str, values: st.SearchStrategy[float]) -> bytes:
        return struct.pack(f"<{rows}{kind}", *draw(st.lists(values, min_size=rows, max_size=rows)))

    mostly = st.integers(0, 5).map(bool)
    ts = packed("q", st.just(5) if draw(mostly) else TIMES)
    te = None if draw(mostly) else packed("q", TIMES)
    codes = packed("i", st.just(1) if draw(mostly) else CODES)
    valid = packed("B", st.integers(0, 1)) if draw(st.booleans()) else None
    attrs = (Values(packed("d", FRACTIONS), valid), Texts(["a", "b"], codes))
    return Data(0, 0, rows, ts, te, None, Texts(["X", "Y"], codes), attrs)


def verdict(data: Data, few: int) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content, "_FEW", few)
        try:
            check_data(data, SCHEMA)
        except ContentRefused as refused:
            return f"{refused.reason}: {refused.detail}"
    return "taken"


@settings(max_examples=150, deadline=None)
@given(messages())
def test_both_ways_to_look_agree(data: Data) -> None:
    assert verdict(data, few=32) == verdict(data, few=0)
