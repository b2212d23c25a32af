"""Values up to the ends of every range are answered, in every kind of statement and every cut.

``tests/products`` asks what the answers are; here sums, products and errors of clocks pass the
ranges of integers and floats.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from slackwater.edge_agent.records import (
    COUNTER_MAX,
    DELAY_MAX_NS,
    OFFSET_MAX_NS,
    PRECISION_MAX_NS,
    SKEW_ERROR_MAX_PPB,
    TIME_MAX_NS,
)
from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.operators.window.settings import parse_window
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from slackwater.engine.query.analysis.cascade import read_statements
from slackwater.engine.query.monitor_plan import MonitorSettings, parse_horizon
from tests.chain.chain_text import chain_text
from tests.order.conftest import frame

Record = dict[str, Any]
QUERIES = (
    "SELECT count(*), sum(v), avg(v), min(ts) FROM events GROUP BY tag WINDOW TUMBLING 1 s",
    "EVENT SEQ(A a, B b) WHERE b.v > a.v WITHIN 5 s RETURN b.v - a.v AS d",
    "EVENT SEQ(A a, !B b, A c) WITHIN 13000 d",
)
ORDERS = ("none", "sequence", "sequence:timeout=r19,late=pass", "kslack:3650 d", "mp-kslack",
          "sequence:timeout=r19-code:ps", "kslack-chain:1 s,1 d,3285 d",
          "aq-kslack:error=0.4,agg=count,window=1 s", "ldop:0.5..2,window=1 s")  # fmt: skip
HUGE = 2**63 - 1
SECOND = 10**9
DAY = 86_400 * SECOND


def ends(most: int, least: int | None = None) -> st.SearchStrategy[int]:
    """Mostly the ends of a range and what lies beside 0."""
    low = -most if least is None else least
    edges = {low, low + 1, -1, 0, 1, SECOND, most // 2, most - 1, most}
    return st.sampled_from(sorted(each for each in edges if low <= each <= most))


@st.composite
def traces(draw: st.DrawFn) -> list[Record]:
    """Events and syncs of two sources, each value anywhere in its range."""
    arrivals = sorted(draw(st.lists(ends(TIME_MAX_NS), min_size=1, max_size=8)))
    records: list[Record] = []
    for arrival in arrivals:
        source = draw(st.sampled_from("ab"))
        what = draw(st.sampled_from(["event", "event", "event", "sync", "pog", "eos", "tick"]))
        record: Record = {"kind": what, "source": source, "arrival": arrival}
        records.append(record)
        if what == "tick":
            record["source"] = None
        elif what == "sync":
            record |= {
                "offset": draw(ends(OFFSET_MAX_NS)), "delay": draw(ends(DELAY_MAX_NS, 0)),
                "precision": draw(ends(PRECISION_MAX_NS, 0)),
                "skew_error_ppb": draw(ends(SKEW_ERROR_MAX_PPB, 0)),
                "ts": draw(st.none() | ends(TIME_MAX_NS)),
                "first_seq": draw(st.none() | ends(COUNTER_MAX, 0)),
            }  # fmt: skip
        else:
            record |= {"ts": draw(ends(TIME_MAX_NS)), "seq": draw(st.none() | ends(COUNTER_MAX, 0))}
        if what == "event":
            record["seq"] = draw(ends(COUNTER_MAX, 0) | st.integers(0, 5))
            record["te"] = max(record["ts"], draw(ends(TIME_MAX_NS)))
            record["type"] = draw(st.sampled_from("AB"))
            floats = st.floats(allow_nan=False, allow_infinity=False)
            v = draw(st.none() | ends(HUGE, -HUGE - 1))
            record["attrs"] = {"v": v, "w": draw(st.none() | floats), "tag": draw(st.text())}
    return records


def without_nulls(trace: list[Record]) -> list[Record]:
    """The same records; attributes that have no value are left out."""
    return [
        record if "attrs" not in record
        else record | {"attrs": {k: x for k, x in record["attrs"].items() if x is not None}}
        for record in trace
    ]  # fmt: skip


def settings_of(order: str, guard: int | None) -> ChainSettings:
    texts = QUERIES[:1] if order.startswith("aq-kslack") else QUERIES  # it takes no pattern
    plans = tuple(query(text, name=f"q{n}") for n, text in enumerate(texts))
    return ChainSettings(
        parse_order(order), plans, guards=Guards(guard), ordered="full", aside="full"
    )


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(trace=traces(), order=st.sampled_from(ORDERS), guard=st.sampled_from([None, 0, SECOND]))
def test_values_at_the_ends_of_their_ranges_are_answered_in_every_cut(
    trace: list[Record], order: str, guard: int | None
) -> None:
    chosen = settings_of(order, guard)
    with np.errstate(over="raise", invalid="raise"):
        together = chain_text([[frame(trace)]], chosen)
    assert chain_text([[frame([record])] for record in without_nulls(trace)], chosen) == together


@pytest.mark.parametrize("delay", [0, DELAY_MAX_NS])
@pytest.mark.parametrize("offset", [-OFFSET_MAX_NS, 0, OFFSET_MAX_NS])
@pytest.mark.parametrize("skew_error_ppb", [0, SKEW_ERROR_MAX_PPB])
def test_three_events_behind_a_sync_at_the_end_of_its_range_are_answered(
    delay: int, offset: int, skew_error_ppb: int
) -> None:
    sync = {"kind": "sync", "source": "a", "ts": -TIME_MAX_NS, "arrival": 0, "offset": offset,
            "delay": delay, "precision": PRECISION_MAX_NS,
            "skew_error_ppb": skew_error_ppb}  # fmt: skip
    events = [
        {"source": "a", "seq": n, "ts": TIME_MAX_NS - 2 + n, "arrival": n, "type": "AB"[n % 2],
         "attrs": {"v": n, "tag": "x"}}
        for n in range(3)
    ]  # fmt: skip
    rows, results, *_ = json.loads(
        chain_text([[frame([sync, *events])]], settings_of("sequence", None))
    )
    assert [row["seq"] for row in rows] == [0, 1, 2]
    assert sum(each["value"]["count(*)"] for each in results[0]) == 3


# ---- every kind of statement
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
BARRIERS = (None, "immediate", "bounded:1 s", "bounded:3650 d")


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


TOO_LATE_TO_TAKE_BACK: list[Record] = [
    {"kind": "event", "source": "a", "type": "A", "ts": ts * 450 * DAY, "te": te * 450 * DAY,
     "seq": seq, "arrival": seq, "attrs": {"v": 0, "w": 0.5, "tag": ""}}
    for seq, (ts, te) in enumerate([(0, 0), (7, 11), (0, 0), (11, 11)])
]  # fmt: skip
"""A result that is handed on and taken back too late for that, in one batch."""


@pytest.mark.parametrize("text", KINDS_OF_STATEMENT.values(), ids=KINDS_OF_STATEMENT)
@settings(max_examples=4, suppress_health_check=[HealthCheck.too_slow])
@example(trace=TAKEN_BACK_AND_GIVEN_AGAIN, order="none", barrier="bounded:3650 d")
@example(trace=TOO_LATE_TO_TAKE_BACK, order="none", barrier="bounded:3650 d")
@given(
    trace=traces() | crowds(),
    order=st.sampled_from(["none", "sequence:timeout=r19,late=pass", "kslack:900 d"]),
    barrier=st.sampled_from(BARRIERS),
)
def test_every_kind_of_statement_answers_in_every_cut(
    text: str, trace: list[Record], order: str, barrier: str | None
) -> None:
    plans, _ = read_statements([text])
    chosen = ChainSettings(
        parse_order(order), plans, barrier=barrier and parse_barrier(barrier),
        guards=Guards(None), window=parse_window("horizon=900 d"),
        monitor=MonitorSettings(parse_horizon("horizon=900 d", "ns", "monitor")),
    )  # fmt: skip
    with np.errstate(over="raise", invalid="raise"):
        together = chain_text([[frame(trace)]], chosen)
    assert chain_text([[frame([record])] for record in without_nulls(trace)], chosen) == together
