"""Whatever a record may hold, up to the ends of every range, is answered, the same in every cut."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge_agent.limits import (
    COUNTER_MAX,
    DELAY_MAX_NS,
    OFFSET_MAX_NS,
    PRECISION_MAX_NS,
    SKEW_ERROR_MAX_PPB,
    TIME_MAX_NS,
    UNC_MAX_NS,
)
from engine.chain import Chain, ChainSettings
from engine.order.base import Guards
from engine.order.registry import parse_order
from engine.pattern.match_results import columns_table
from engine.query import query
from engine.results.kinds import KINDS
from engine.results.ordered import released_table
from tests.order.conftest import frame

Record = dict[str, Any]
QUERIES = (
    "SELECT count(*), sum(v), avg(v), min(ts) FROM events GROUP BY tag WINDOW TUMBLING 1 s",
    "EVENT SEQ(A a, B b) WHERE b.v > a.v WITHIN 5 s RETURN b.v - a.v AS d",
    "EVENT SEQ(A a, !B b, A c) WITHIN 13000 d",
)
ORDERS = ("none", "sequence", "sequence:timeout=r19,late=pass", "kslack:3650 d", "mp-kslack",
          "kslack-chain:1 s,1 d,3285 d", "aq-kslack:error=0.4,agg=count,window=1 s",
          "ldop:0.5..2,window=1 s")  # fmt: skip
HUGE = 2**63 - 1
SECOND = 10**9


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


def told(batches: list[list[Record]], order: str, guard: int | None) -> str:
    texts = QUERIES[:1] if order.startswith("aq-kslack") else QUERIES  # it takes no pattern
    plans = tuple(query(text, name=f"q{n}") for n, text in enumerate(texts))
    chosen = ChainSettings(parse_order(order), plans, guards=Guards(guard), ordered="full")
    chain = Chain(chosen, "main")
    outputs = []
    for records in batches:
        outputs.append(chain.process([frame(records)]))
        chain = Chain.restored(chosen, "main", chain.snapshot())
    outputs.append(chain.finish())
    rows = []
    for output in outputs:
        for released in output.ordered:
            unc = released.columns["unc"]
            assert ((unc >= 0) & (unc <= UNC_MAX_NS)).all()
            rows += [
                {name: value for name, value in sorted(row.items()) if value is not None}
                for row in released_table("main", released).to_pylist()
            ]
    results = [[each for o in outputs for each in o.results[n]] for n in range(len(plans))]
    for output in outputs:  # what is written, is written
        for of_query in output.results:
            for piece in of_query.pieces:
                if hasattr(piece, "given"):
                    list(KINDS["matches"].lines(columns_table(piece), 1))
    counters = chain.counters()
    counters.pop("buffered_max_bytes")
    return json.dumps([rows, results, counters], indent=1, sort_keys=True)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trace=traces(), order=st.sampled_from(ORDERS), guard=st.sampled_from([None, 0, SECOND]))
def test_values_at_the_ends_of_their_ranges_are_answered_in_every_cut(
    trace: list[Record], order: str, guard: int | None
) -> None:
    with np.errstate(over="raise", invalid="raise"):
        together = told([trace], order, guard)
    typed = {"v": 0, "w": 0.0, "tag": ""}  # one row alone does not tell a column's type
    padded = without_nulls(trace)
    assert typed.keys() >= {name for record in padded for name in record.get("attrs", {})}
    assert told([[record] for record in padded], order, guard) == together


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
    rows, results, _ = json.loads(told([[sync, *events]], "sequence", None))
    assert [row["seq"] for row in rows] == [0, 1, 2]
    assert sum(each["value"]["count(*)"] for each in results[0]) == 3
