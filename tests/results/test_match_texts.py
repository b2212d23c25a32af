"""Matches are the same text when written by columns as ``json.dumps`` makes of a result."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.engine.core.frame import Frame
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.operators.match.match_results import Matches, columns_table
from slackwater.engine.order.registry import parse_order
from slackwater.engine.output.json_lines import JsonTexts
from slackwater.engine.output.result_kinds import KINDS
from slackwater.engine.query import query
from tests.order.conftest import frame

FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(FLOATS, min_size=1, max_size=20))
@example([0.0, -0.0, 97.0, -97.0, 1e15, 1e16, 1e22, -1e22, 999999999999999.0, 2.0**53])
@example([1e-4, 9.9e-5, 0.1, 1 / 3, 1e10 + 0.5, 9999999999.5, 5e-324, 1.7976931348623157e308])
@settings(max_examples=30, deadline=None)
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
    emitted = [row["events"][0]["attrs"] for row in columns_table(piece).to_pylist()]
    assert emitted == [{"v": value} for value in values]
    lines = [
        line
        for some in KINDS["matches"].lines(columns_table(piece), 1)
        for line in some.to_pylist()
    ]
    assert [json.dumps({"v": value}) in line for value, line in zip(values, lines, strict=True)]
    assert lines == [json.dumps(result) + "\n" for result in piece]


def test_columns_that_differ_in_the_sign_of_zero_are_told_apart() -> None:
    zeros, signed = pa.array([0.0, 1.5]), pa.array([-0.0, 1.5])
    both = pa.StructArray.from_arrays([zeros, signed], names=["a", "b"])
    texts = JsonTexts()
    assert texts.objects(both).to_pylist()[0] == '{"a": 0.0, "b": -0.0}'
    other = pa.StructArray.from_arrays([signed, signed], names=["a", "b"])
    assert texts.objects(other).to_pylist()[0] == '{"a": -0.0, "b": -0.0}'


ATTRS = st.fixed_dictionaries(
    {},
    optional={
        "a": st.integers(0, 9),
        "b": st.booleans(),
        "c": st.sampled_from(["x", 'q"', ""]),
        "d": FLOATS,
    },
)


WHOLE = ("EVENT SEQ(A a, B b) WITHIN 1 s", "EVENT SEQ(A a) WITHIN 1 s")
COMPUTED = (
    "EVENT SEQ(A a, B b) WITHIN 1 s RETURN a.a + b.a AS n, a.c AS c, b.d, b.none",
    "EVENT SEQ(A a, OR(B b, C c)) WITHIN 1 s RETURN a.a AS n, a.d",
    "EVENT SEQ(A a, B+ b[]) WITHIN 1 s RETURN count(b) AS n, last(b.d) AS last, first(b.c)",
    # Of an alternative those whose steps it has: objects with other fields.
    "EVENT SEQ(A a, OR(B b, C c)) WITHIN 1 s RETURN a.a AS n, b.d",
)
OF_MANY_TYPES = COMPUTED[-1]


@pytest.mark.parametrize("texts", [WHOLE, COMPUTED], ids=["whole", "computed"])
@given(st.lists(st.tuples(st.sampled_from("ABC"), ATTRS), min_size=1, max_size=12))
@example([("A", {"a": 1, "b": True}), ("B", {})])
@example([("A", {"a": 1}), ("B", {"c": "x", "d": -0.0}), ("C", {}), ("B", {"a": 2})])
@settings(max_examples=20, deadline=None)
def test_a_match_and_what_it_computes_are_written_as_its_dict_is(
    texts: tuple[str, ...], events: list[tuple[str, dict[str, object]]]
) -> None:
    plans = tuple(query(text, name=f"q{number}") for number, text in enumerate(texts))
    chain = Chain(ChainSettings(parse_order("none"), plans), "main")
    records = [
        {"source": "s", "seq": n, "ts": n + 10, "arrival": n + 10, "type": of, "attrs": attrs}
        for n, (of, attrs) in enumerate(events)
    ]
    given_attrs = [attrs for _, attrs in events]
    for results, text in zip(chain.process([frame(records)]).results, texts, strict=True):
        for piece in results.pieces:
            assert isinstance(piece, Matches)
            table = columns_table(piece)
            lines = [line for some in KINDS["matches"].lines(table, 1) for line in some.to_pylist()]
            assert lines == [json.dumps(result) + "\n" for result in piece]
            if texts is WHOLE:
                assert all(e["attrs"] in given_attrs for result in piece for e in result["events"])
            elif text != OF_MANY_TYPES and len(piece):
                assert table["value"].to_pylist() == piece.values()
