"""Every kind of statement answers whatever a record may hold, the same however the input is cut."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from edge_agent.limits import DELAY_MAX_NS, OFFSET_MAX_NS
from engine.barrier.registry import parse_barrier
from engine.chain import Chain, ChainSettings
from engine.constraint.settings import parse_monitor
from engine.order.base import Guards
from engine.order.registry import parse_order
from engine.query.analysis.cascade import read_statements
from engine.window.settings import parse_window
from tests.chain.test_hostile_values import HUGE, Record, traces, without_nulls
from tests.order.conftest import frame

ALL = "count(*), sum(v), avg(w), min(v), max(w), median(v), stddev(v), first(v), min_by(w, v)"
KINDS_OF_STATEMENT = {
    "sliding": f"SELECT {ALL} GROUP BY tag WINDOW SLIDING 5000 d EVERY 1000 d",
    "rows": f"SELECT {ALL}, count(DISTINCT tag) GROUP BY type WINDOW ROWS 3 EVERY 2",
    "session": f"SELECT {ALL} GROUP BY tag WINDOW SESSION 4000 d",
    "expression": "SELECT sum(v * 2 - 1) AS s, max(abs(v) % 7) AS m, avg(v / 3 + round(w, 2)) AS a "
    "WHERE v IS NULL OR v BETWEEN -9 AND 9 OR tag LIKE '%a_' OR length(upper(tag)) > 1 "
    "WINDOW TUMBLING 3000 d",
    "inner": "SELECT a.v + b.v AS s, a.tag FROM A a JOIN B b ON a.tag = b.tag WITHIN 5000 d",
    "full": "SELECT a.v AS x, b.w AS y FROM A a FULL JOIN B b ON a.v = b.v WITHIN 5000 d",
    "anti": "SELECT a.v AS x FROM A a ANTI JOIN B b ON a.w = b.w WINDOW TUMBLING 5000 d",
    "trees": "EVENT PAL(A a OVERLAP B b) WHERE a.v < b.v WITHIN 9000 d",
    "iseq": "EVENT ISEQ[a.ts < b.ts, a.te < b.te](A a, B b) WHERE a.v <> b.v WITHIN 9000 d",
    "iseq negated": "EVENT ISEQ[a CONTAINS b, n OVERLAPS b](A a, B b, !A n) WITHIN 9000 d",
    "repeated": "EVENT SEQ(A+ a[], B b) WHERE a[i].v > a[i - 1].v AND sum(a.v) > b.v "
    "WITHIN 9000 d RETURN count(a) AS n, sum(a.v) AS s, avg(a.w) AS m, last(a.v) - first(a.v) AS d",
    "chosen": "EVENT SEQ(A{1,2} a[], B? b, A c) WITHIN 9000 d CONTIGUITY NEXT SKIP PAST LAST",
    "monitored": "EVENT SEQ(A a, B b) UNDER CONSTRAINT c FOR TRACE BY v AS A[w > 1], B | B & A*",
    "timed out": "EVENT SEQ(A a, B b) UNDER CONSTRAINT t FOR TRACE BY tag TIMEOUT 1 d AS A+, B",
    "checked": "EVENT SEQ(A a, B b) WITHIN 9000 d HISTORY BY a.v "
    "CHECK few (past_count(1 s) < 2) HOLD 5000 d CHECK known (a.v + b.v > 0) DROP",
    "cascade": "CREATE STREAM s AS SELECT sum(v) AS s, tag GROUP BY tag WINDOW TUMBLING 1000 d; "
    "EVENT SEQ(s a, s b) WHERE a.s < b.s WITHIN 9000 d",
}  # fmt: skip
ORDERS = ("none", "sequence:timeout=r19,late=pass", "kslack:900 d")
DAY = 86_400 * 10**9
MONITOR = "horizon=900 d"
BARRIERS = (None, "immediate", "bounded:1 s", "bounded:3650 d")


def told(text: str, batches: list[list[Record]], order: str, barrier: str | None) -> str:
    plans, _ = read_statements([text])
    chosen = ChainSettings(
        parse_order(order), plans, barrier=barrier and parse_barrier(barrier),
        guards=Guards(None), window=parse_window("horizon=900 d"), monitor=parse_monitor(MONITOR),
    )  # fmt: skip
    chain, results = Chain(chosen, "main"), []
    for records in batches:
        results += [list(each) for each in chain.process([frame(records)]).results]
        chain = Chain.restored(chosen, "main", chain.snapshot())
    results += [list(each) for each in chain.finish().results]
    lines: list[list[Any]] = [[] for _ in plans]
    for n, of_plan in enumerate(results):
        lines[n % len(plans)] += of_plan
    return json.dumps(lines, indent=1, sort_keys=True)


@st.composite
def crowds(draw: st.DrawFn) -> list[Record]:
    """Events of three sources that meet: few times and values, some of them the ends of a range."""
    huge = st.sampled_from([None, -HUGE - 1, HUGE])
    records: list[Record] = []
    for seq in range(draw(st.integers(5, 25))):
        source = draw(st.sampled_from("abc"))
        ts = draw(st.integers(0, 9)) * 450 * DAY
        record: Record = {"kind": "event", "source": source, "ts": ts, "seq": seq, "arrival": seq,
                          "te": ts + draw(st.integers(0, 4)) * 450 * DAY}  # fmt: skip
        if draw(st.integers(0, 6)) == 0:
            record |= {"kind": "sync", "offset": draw(st.sampled_from([0, DAY, -OFFSET_MAX_NS])),
                       "delay": draw(st.sampled_from([0, 500 * DAY, DELAY_MAX_NS]))}  # fmt: skip
            del record["seq"], record["te"]
        else:
            record["type"] = draw(st.sampled_from("AB"))
            v = draw(st.integers(-1, 2) | huge)
            record["attrs"] = {"v": v, "w": draw(st.sampled_from([0.5, 2.0, 1e308, None])),
                               "tag": draw(st.sampled_from(["", "a", "\u00e9\n"]))}  # fmt: skip
        records.append(record)
    return records


TAKEN_BACK_AND_GIVEN_AGAIN: list[Record] = [
    {"kind": "event", "source": source, "type": "A", "ts": 450 * ts * DAY, "te": 450 * te * DAY,
     "seq": seq, "arrival": seq, "attrs": {"v": 1, "w": 0.5, "tag": ""}}
    for seq, (source, ts, te) in enumerate([("a", 9, 10), ("a", 8, 8), ("b", 0, 0), ("a", 5, 5)])
]  # fmt: skip
"""With SKIP PAST LAST in one batch, while a barrier holds it."""


@pytest.mark.parametrize("text", KINDS_OF_STATEMENT.values(), ids=KINDS_OF_STATEMENT)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(trace=TAKEN_BACK_AND_GIVEN_AGAIN, order="none", barrier="bounded:3650 d")
@given(trace=traces() | crowds(), order=st.sampled_from(ORDERS), barrier=st.sampled_from(BARRIERS))
def test_every_kind_of_statement_answers_in_every_cut(
    text: str, trace: list[Record], order: str, barrier: str | None
) -> None:
    with np.errstate(over="raise", invalid="raise"):
        together = told(text, [trace], order, barrier)
    assert told(text, [[record] for record in without_nulls(trace)], order, barrier) == together
