"""Numbers of matches are the same text in a table, made by columns, as in a result's JSON."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.chain import Chain, ChainSettings
from engine.frame import Frame
from engine.order.registry import parse_order
from engine.pattern.given import Matches
from engine.query import query
from engine.results.match_table import columns_table

FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(FLOATS, min_size=1, max_size=20))
@example([0.0, -0.0, 97.0, -97.0, 1e15, 1e16, 1e22, -1e22, 999999999999999.0, 2.0**53])
@example([1e-4, 9.9e-5, 0.1, 1 / 3, 1e10 + 0.5, 9999999999.5, 5e-324, 1.7976931348623157e308])
@settings(max_examples=60, deadline=None)
def test_a_float_is_written_as_json_writes_it(values: list[float]) -> None:
    chain = Chain(ChainSettings(parse_order("none"), (query("EVENT SEQ(A a) WITHIN 1 s"),)), "main")
    n = len(values)
    ts = np.arange(n) + 10
    batch = pa.RecordBatch.from_pydict(
        {
            "source": pa.array(["s"] * n), "seq": pa.array(np.arange(n)), "ts": pa.array(ts),
            "type": pa.array(["A"] * n), "arrival": pa.array(ts), "attrs.v": pa.array(values),
        }
    )  # fmt: skip
    (piece,) = chain.process([Frame("main", batch)]).results[0].pieces
    assert isinstance(piece, Matches)
    told = [row["events"][0]["attrs"] for row in columns_table(piece).to_pylist()]
    assert told == [json.dumps(result["events"][0]["attrs"]) for result in piece]
    assert told == [json.dumps({"v": value}) for value in values]
