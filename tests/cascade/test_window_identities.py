"""What makes windows' results differ, by numbers and by the lines that show them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cascade.derived_events import columns_in
from engine.chain import Chain, ChainSettings
from engine.kernels.table import numbered
from engine.order.base import Guards
from engine.order.registry import parse_order
from engine.query import query
from engine.results.identity import identities
from engine.window.settings import parse_window
from engine.window.shown.identity import window_identities
from engine.window.shown.results import WindowResults
from tests.order.conftest import frame

QUERIES = (
    "SELECT count(*) AS n GROUP BY k WINDOW TUMBLING 10",
    "SELECT first(t) AS t, first(v) AS f GROUP BY k, v WINDOW TUMBLING 10",
    "SELECT sum(v) AS s, max(v) AS m WINDOW TUMBLING 10 DRIFT EACH",
    "SELECT avg(v) AS a, max(v) AS m GROUP BY k, t WINDOW TUMBLING 10 DRIFT TOGETHER",
    "SELECT sum(v * 0.5) AS s GROUP BY t WINDOW SLIDING 10 EVERY 5",
    "SELECT last(v) AS v, count(DISTINCT t) AS n GROUP BY k WINDOW ROWS 2",
    "SELECT max(v) AS v GROUP BY k WINDOW SESSION 5",
)
VALUE = st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([0.5, -0.0, 2.0, 1e20]))
EVENT = st.tuples(
    st.integers(0, 40), VALUE, st.sampled_from([None, "a", "b"]), st.sampled_from([None, "x", "ü"])
)


def record(number: int, at: int, v: Any, k: Any, t: Any) -> dict[str, Any]:
    attrs = {name: value for name, value in (("v", v), ("k", k), ("t", t)) if value is not None}
    return {"source": "s", "seq": number, "type": "A", "ts": at, "unc": number % 3,
            "arrival": 1000 + number, "attrs": attrs}  # fmt: skip


@pytest.mark.parametrize("text", QUERIES)
@given(events=st.lists(EVENT, min_size=2, max_size=24), cut=st.integers(1, 23))
@settings(max_examples=10, deadline=None)
def test_they_differ_where_the_lines_do(
    text: str, events: list[tuple[int, Any, Any, Any]], cut: int
) -> None:
    if "GROUP BY k, v" in text:  # whose type may not change from frame to frame
        events = [(at, None if v is None else float(v), k, t) for at, v, k, t in events]
    records = [record(number, *event) for number, event in enumerate(events)]
    chosen = ChainSettings(
        parse_order("none"), (query(text),), guards=Guards(None),
        window=parse_window("horizon=60s"),
    )  # fmt: skip
    chain, pieces = Chain(chosen, "main"), list[WindowResults]()
    for part in (records[:cut], records[cut:]):
        if part:
            found = chain.process([frame(part)]).results[0].pieces
            pieces += columns_in(found)  # type: ignore[arg-type]
        chain = Chain.restored(chosen, "main", chain.snapshot())
    pieces += columns_in(chain.finish().results[0].pieces)  # type: ignore[arg-type]
    if not pieces:
        return  # ROWS that no group has enough of
    by_line = [identities(piece.kind, type(piece).tables([piece])) for piece in pieces]
    by_number = [window_identities(piece) for piece in pieces]
    assert numbered(np.concatenate(by_number)).tolist() == (
        numbered(np.concatenate(by_line)).tolist()
    )
