"""Statements over results, against each one evaluated by itself (``tests.cascade.composed``)."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.kernels.tables import numbered
from slackwater.engine.operators.cascade.derived_events import columns_in
from slackwater.engine.operators.window.output.results import WindowResults, window_identities
from slackwater.engine.operators.window.settings import parse_window
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.output.result_kinds import identities
from slackwater.engine.query import query
from tests.cascade.composed import cascade, composed, net, plain
from tests.order.conftest import frame


def _xy(result: dict[str, Any]) -> dict[str, Any]:
    return {**result["value"], "probability": result["probability"],
            "certainty": result["certainty"]}  # fmt: skip


CASES = {
    "window, pattern": (
        "CREATE STREAM w AS SELECT sum(v) AS s, count(*) AS n WINDOW TUMBLING 10;"
        "EVENT SEQ(w a, w b) WHERE b.s > a.s WITHIN 40 RETURN a.s AS x, b.n AS y"
    ),
    "window, pattern with a negation": (
        "CREATE STREAM w AS SELECT sum(v) AS s GROUP BY k WINDOW TUMBLING 10;"
        "EVENT SEQ(w a, !w c, w b) WHERE b.s > 5 AND a.s > 5 AND c.s < 4 AND a.k = b.k "
        "AND c.k = a.k WITHIN 60"
    ),
    "pattern, window": (
        "CREATE STREAM m AS EVENT SEQ(A a, B b) WITHIN 12 RETURN a.v + b.v AS s, b.k AS k;"
        "SELECT count(*) AS n, sum(s) AS t, max(s) AS top FROM m GROUP BY k WINDOW TUMBLING 20"
    ),
    "window, window": (
        "CREATE STREAM w AS SELECT sum(v) AS s, max(v) AS m GROUP BY k WINDOW TUMBLING 5;"
        "SELECT sum(s) AS t, max(m) AS top, count(*) AS n FROM w WINDOW SLIDING 20 EVERY 10"
    ),
    "window, sessions": (
        "CREATE STREAM w AS SELECT sum(v) AS s WINDOW TUMBLING 5;"
        "SELECT sum(s) AS t, count(*) AS n FROM w WHERE s > 3 WINDOW SESSION 8"
    ),
    "window, rows": (
        "CREATE STREAM w AS SELECT sum(v) AS s WINDOW TUMBLING 5;"
        "SELECT sum(s) AS t, first(s) AS f FROM w WINDOW ROWS 3"
    ),
    "sessions, window": (
        "CREATE STREAM w AS SELECT count(*) AS n GROUP BY k WINDOW SESSION 6;"
        "SELECT max(n) AS longest, count(*) AS sessions FROM w WINDOW TUMBLING 30"
    ),
    "rows, pattern": (
        "CREATE STREAM w AS SELECT sum(v) AS s GROUP BY k WINDOW ROWS 2;"
        "EVENT SEQ(w a, w b) WHERE a.k = b.k AND b.s < a.s WITHIN 50 RETURN a.s AS x, b.s AS y"
    ),
    "join, window": (
        "CREATE STREAM j AS SELECT a.v AS x, b.v AS y FROM left a JOIN right b ON a.k = b.k "
        "WITHIN 8; SELECT count(*) AS n, sum(x * y) AS t FROM j WINDOW TUMBLING 20"
    ),
    "windows, window, pattern": (
        "CREATE STREAM w AS SELECT sum(v) AS s WINDOW TUMBLING 5;"
        "CREATE STREAM x AS SELECT sum(s) AS s FROM w WINDOW TUMBLING 10;"
        "EVENT SEQ(x a, x b) WHERE b.s > a.s WITHIN 30"
    ),
    "pattern, pattern": (
        "CREATE STREAM m AS EVENT SEQ(A a, B b) WITHIN 10 RETURN a.v AS x, b.v AS y;"
        "EVENT SEQ(m p, m q) WHERE p.y <= q.x WITHIN 40 RETURN p.x AS first, q.y AS second"
    ),
    "pattern, pattern, window": (
        "CREATE STREAM m AS EVENT SEQ(A a, B b) WITHIN 10 RETURN a.v AS x, b.v AS y;"
        "CREATE STREAM j AS EVENT SEQ(m p, !m n, m q) WHERE n.x > 4 WITHIN 30 RETURN p.x AS x, "
        "q.y AS y; SELECT count(*) AS n, sum(x) AS t FROM j WINDOW TUMBLING 20"
    ),
    "repetition, pattern": (
        "CREATE STREAM m AS EVENT SEQ(A+ a[], B b) WITHIN 12 SKIP PAST LAST EVENT "
        "RETURN sum(a.v) AS x, first(a.v) AS f, count(a) AS n, b.v AS y;"
        "EVENT SEQ(m p, m q) WHERE p.x <= q.x WITHIN 60 RETURN p.f AS first, q.n AS second"
    ),
    "repetition, window": (
        "CREATE STREAM m AS EVENT SEQ(A{1,2} a[], B? b, A c) WITHIN 15 CONTIGUITY NEXT LIMIT 2 "
        "RETURN sum(a.v) AS x, b.v AS y;"
        "SELECT count(*) AS n, sum(x) AS s, max(y) AS y FROM m WINDOW TUMBLING 30"
    ),
}  # fmt: skip
COLUMNS = {"m": _xy, "j": _xy}
TWO_ALIKE = [(0, "A", 0, 0), (0, "A", 0, 0), (1, "B", 0, 0), (2, "A", 0, 0), (3, "B", 0, 0)]
"""Whose matches of matches say the same."""
TWO_TAKEN_BACK = [
    (0, "A", 0, 0), (0, "A", 0, 0), (1, "B", 0, 0), (12, "A", 0, 0), (13, "B", 0, 0),
    (60, "A", 0, 0), (4, "A", 6, 0), (5, "B", 0, 0), (80, "A", 0, 0),
]  # fmt: skip
"""Both at once, by what is between."""

EVENT = st.tuples(st.integers(0, 90), st.sampled_from("AB"), st.integers(0, 6), st.integers(0, 1))


def records_of(events: list[tuple[int, str, int, int]]) -> list[dict[str, Any]]:
    return [
        {"source": "s", "seq": n, "type": kind, "stream": "left" if kind == "A" else "right",
         "ts": ts, "arrival": 1000 + n, "attrs": {"v": v, "k": "kl"[k]}}
        for n, (ts, kind, v, k) in enumerate(events)
    ]  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@example(events=TWO_ALIKE, cuts=[2], order="none", few=1)
@example(events=TWO_TAKEN_BACK, cuts=[6], order="none", few=1)
@given(
    events=st.lists(EVENT, min_size=1, max_size=24),
    cuts=st.lists(st.integers(1, 23), max_size=3),
    order=st.sampled_from(["none", "kslack:10"]),
    few=st.sampled_from([1, 256]),
)
@settings(max_examples=5)
def test_net_results_are_those_of_statements_one_by_one(
    name: str, events: list[tuple[int, str, int, int]], cuts: list[int], order: str, few: int
) -> None:
    """``few``: events from which on a copy is kept to go back to, and what is final leaves."""
    given_records = records_of(events)
    with (
        patch("slackwater.engine.operators.cascade.result_reader._FEW", few),
        patch("slackwater.engine.operators.cascade.stage._FEW", few),
    ):
        found = cascade(CASES[name], given_records, order)
        wanted = composed(CASES[name], given_records, COLUMNS)
        for statement, results in found.items():
            assert plain(net(results)) == plain(wanted[statement]), statement
        assert cascade(CASES[name], given_records, order, cuts) == found


# ---- what makes windows' results differ: by numbers, and by the lines that show them
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
WIDE = st.tuples(
    st.integers(0, 40), VALUE, st.sampled_from([None, "a", "b"]), st.sampled_from([None, "x", "ü"])
)


def record(number: int, at: int, v: Any, k: Any, t: Any) -> dict[str, Any]:
    attrs = {name: value for name, value in (("v", v), ("k", k), ("t", t)) if value is not None}
    return {"source": "s", "seq": number, "type": "A", "ts": at, "unc": number % 3,
            "arrival": 1000 + number, "attrs": attrs}  # fmt: skip


@pytest.mark.parametrize("text", QUERIES)
@given(events=st.lists(WIDE, min_size=2, max_size=24), cut=st.integers(1, 23))
@settings(max_examples=5)
def test_results_of_windows_differ_where_their_lines_do(
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
        chain = Chain.restored(chosen, "main", chain.to_bytes())
    pieces += columns_in(chain.finish().results[0].pieces)  # type: ignore[arg-type]
    if not pieces:
        return  # ROWS that no group has enough of
    by_line = [identities(piece.kind, type(piece).tables([piece])) for piece in pieces]
    by_number = [window_identities(piece) for piece in pieces]
    assert numbered(np.concatenate(by_number)).tolist() == (
        numbered(np.concatenate(by_line)).tolist()
    )
