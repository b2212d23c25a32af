"""What is not unknown holds wherever the unknown clocks are.

Nothing is known of the clocks of some sources. So whatever a run gives without calling it unknown
must also come out when all that one of them stamped is moved, by any amount, and clocks are exact.
Windows lie on the clock: amounts are multiples of their sizes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.core.clocks.choice import ClockChoice, Lane, UpcomingClocks
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.operators.grouping.dataflow import Dataflow
from slackwater.engine.operators.grouping.maps import PythonCombine, PythonTupleMap
from slackwater.engine.operators.grouping.operations import Grouping, GroupingPlan, Map, Stateful
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query.analysis.cascade import read_statements
from tests.order.conftest import frame

Record = dict[str, Any]
PAIRS = "EVENT SEQ(A a, B b) WITHIN 30 ns"
WINDOW = "SELECT sum(v) AS s, count(*) AS n {} WINDOW {}"
MATCHES = "CREATE STREAM p AS EVENT SEQ(A a, B b) WITHIN 30 ns RETURN a.v + b.v AS s, a.k AS k; {}"
TOTALS = "CREATE STREAM w AS SELECT sum(v) AS s GROUP BY {} WINDOW TUMBLING 10 ns; {}"
MONITOR = "EVENT SEQ(A a, B b) UNDER CONSTRAINT c FOR TRACE BY {} AS (A | B | C)*"
ENDED = "EVENT SEQ(A a, B b) UNDER CONSTRAINT c FOR TRACE BY {} TIMEOUT 20 ns AS A, B?, C*, B?"
STATEMENTS = {
    "pair": PAIRS,
    "negation": "EVENT SEQ(A a, !C c, B b) WITHIN 30 ns",
    "tied negation": "EVENT SEQ(A a, !C c, B b) WHERE a.source = b.source AND c.source = a.source "
    "WITHIN 30 ns",
    "repetition": "EVENT SEQ(A{1,2} a[], B b) WITHIN 30 ns",
    "AND": "EVENT AND(A a, B b) WITHIN 30 ns",
    "ISEQ": "EVENT ISEQ[A.te < B.ts](A, B) WITHIN 30 ns",
    "tree": "EVENT PAL(A, B BEFORE C) WITHIN 30 ns",
    "difference": "EVENT SEQ(A a, B b) WHERE b.ts - a.ts > 5 ns WITHIN 30 ns",
    "checked": f"{PAIRS} HISTORY BY a.k CHECK few (past_count(10 s) < 1)",
    "held": f"{PAIRS} CHECK few (past_count(10 s) < 1) HOLD 5 ns",
    "tumbling": WINDOW.format("", "TUMBLING 10 ns"),
    "sliding": WINDOW.format("GROUP BY k", "SLIDING 20 ns EVERY 10 ns"),
    "rows": WINDOW.format("", "ROWS 2"),
    "session": WINDOW.format("", "SESSION 8 ns"),
    "tumbling of a source": WINDOW.format("GROUP BY source", "TUMBLING 10 ns"),
    "rows of a source": WINDOW.format("GROUP BY source", "ROWS 2"),
    "session of a source": WINDOW.format("GROUP BY source", "SESSION 8 ns"),
    "some": WINDOW.format("WHERE source = 'b' GROUP BY k", "TUMBLING 10 ns"),
    "of one type": WINDOW.format("WHERE type = 'A'", "TUMBLING 10 ns"),
    "of some values": WINDOW.format("WHERE k = 1", "TUMBLING 10 ns"),
    "monitor": MONITOR.format("k"),
    "monitor of a source": MONITOR.format("source"),
    "monitor that ends": ENDED.format("k"),
    "windows of matches": MATCHES.format("SELECT sum(s) AS s FROM p WINDOW TUMBLING 20 ns"),
    "rows of matches": MATCHES.format("SELECT sum(s) AS s FROM p WINDOW ROWS 2"),
    "matches of matches": MATCHES.format(
        "EVENT SEQ(p x, p y) WITHIN 60 ns RETURN x.s AS x, y.s AS y"
    ),
    "monitor of matches": MATCHES.format(
        "EVENT SEQ(p x, p y) UNDER CONSTRAINT c FOR TRACE BY k AS p*"
    ),
    "windows of windows": TOTALS.format("k", "SELECT sum(s) AS s FROM w WINDOW TUMBLING 20 ns"),
    "windows of a source's windows": TOTALS.format(
        "source", "SELECT sum(s) AS s FROM w WINDOW TUMBLING 20 ns"
    ),
    "matches of windows": TOTALS.format(
        "source", "EVENT SEQ(w x, w y) WITHIN 60 ns RETURN x.s AS x, y.s AS y"
    ),
    "negation of windows": TOTALS.format(
        "source", "EVENT SEQ(w x, !w z, w y) WITHIN 60 ns RETURN x.s AS x, y.s AS y"
    ),
}  # fmt: skip
GROUPING = Grouping(2, key=lambda e: e["k"], map=PythonTupleMap(lambda es: [[e["n"] for e in es]]))
STATEFUL = Stateful(PythonCombine(lambda was, e: ((was or 0) * 3 + e["n"], [(was or 0) + e["n"]])))
PLAIN = Map(lambda e: [e["n"]], most=1)
FLOWS = {
    "grouping": (GROUPING,), "stateful": (STATEFUL,), "map": (PLAIN,),
    "map and grouping": (
        Map(lambda e: [e], most=1), GROUPING, Map(lambda pair: [sum(pair)], most=1),
    ),
}  # fmt: skip


@st.composite
def traces(draw: st.DrawFn) -> list[Record]:
    records = []
    for n in range(draw(st.integers(2, 8))):
        ts = 1000 + draw(st.integers(0, 60))
        records.append({
            "source": draw(st.sampled_from("abc")), "type": draw(st.sampled_from("ABC")),
            "ts": ts, "te": ts + draw(st.integers(0, 4)), "arrival": 10**6 + n,
            "attrs": {"n": n, "v": 2**n, "k": draw(st.integers(1, 2))},
        })  # fmt: skip
    seqs = Counter[str]()
    for record in records:
        record["seq"] = seqs[record["source"]]
        seqs[record["source"]] += 1
    return records


def lanes(names: Iterable[tuple[str, str | None]]) -> tuple[Lane, ...]:
    """Of (source, type)."""
    return tuple((source, (source, source, "events", kind)) for source, kind in sorted(names))


def moved(records: list[Record], source: str, by: int) -> list[Record]:
    return [
        record | {name: record[name] + by for name in ("ts", "te")}
        if record["source"] == source else record
        for record in records
    ]  # fmt: skip


def found(plans: Any, records: list[Record], clock: ClockChoice, cut: int) -> list[Record]:
    """Net results of all statements; the chain is restored at ``cut``."""
    settings_ = ChainSettings(parse_order("kslack:100us"), plans, guards=Guards(None), clock=clock)
    chain, out = Chain(settings_, "main"), list[Record]()
    for part in (records[:cut], records[cut:]):
        if part:
            out += [each for some in chain.process([frame(part)]).results for each in some]
        chain = Chain.restored(settings_, "main", chain.to_bytes())
    out += [each for some in chain.finish().results for each in some]
    return standing(out)


def standing(changes: Iterable[Record]) -> list[Record]:
    """What is not taken back; nothing is that was not emitted."""
    net = list[Record]()
    for each in changes:
        same = {name: value for name, value in each.items() if name not in ("op", "at")}
        if each["op"] == "+":
            net.append(same)
        else:
            net.remove(same)
    return net


TIMES = ("ts", "te", "ref", "known_at", "window", "start", "end", "arrival", "seq")
DOUBTS = ("certainty", "probability", "bounds", "low", "high", "certain", "ambiguous", "doubtful")


def content(result: Any) -> Any:
    """What a result says, but for times and how sure it is."""
    if isinstance(result, dict):
        return {name: content(value) for name, value in result.items()
                if name not in TIMES + DOUBTS}  # fmt: skip
    return [content(each) for each in result] if isinstance(result, list) else result


def contents(results: list[Record]) -> Counter[str]:
    return Counter(json.dumps(content(each), sort_keys=True) for each in results)


def known(results: list[Record]) -> list[Record]:
    return [each for each in results if each.get("certainty", "confirmed") == "confirmed"]


def holds(plans: Any, records: list[Record], sources: str, by: int, cut: int) -> None:
    """``sources``: those of unknown clocks; the others have a sync."""
    synced = tuple(name for name in "abc" if name not in sources)
    names = {(record["source"], record["type"]) for record in records}
    choice = ClockChoice(False, (), (UpcomingClocks("main", lanes(names), synced),))
    syncs = [{"kind": "sync", "source": name, "ts": 0, "offset": 0, "delay": 0, "arrival": 0,
              "skew_error_ppb": 0} for name in synced]  # fmt: skip
    records = [*syncs, *records]
    given_ = known(found(plans, records, choice, cut + len(syncs)))
    for source in sources:
        exact = contents(found(plans, moved(records, source, by), ClockChoice(), cut))
        assert contents(given_) <= exact


BY = st.sampled_from([20, -20, 40, -60, 400])
SOURCES = st.sampled_from(["ab", "abc", "bc"])


@pytest.mark.parametrize("form", STATEMENTS)
@settings(max_examples=6, deadline=None)
@given(records=traces(), sources=SOURCES, by=BY, cut=st.integers(0, 8))
def test_what_is_known_holds_wherever_an_unknown_clock_is(
    form: str, records: list[Record], sources: str, by: int, cut: int
) -> None:
    plans, _ = read_statements([STATEMENTS[form]])
    holds(plans, records, sources, by, cut)


@pytest.mark.parametrize("form", FLOWS)
@settings(max_examples=6, deadline=None)
@given(records=traces(), sources=SOURCES, by=BY, cut=st.integers(0, 8))
def test_items_of_a_dataflow_do(
    form: str, records: list[Record], sources: str, by: int, cut: int
) -> None:
    holds(flow(form), records, sources, by, cut)


def flow(form: str) -> tuple[GroupingPlan, ...]:
    return (GroupingPlan("items", Dataflow(FLOWS[form]), ("n", "k")),)


@pytest.mark.parametrize("form", [*STATEMENTS, *FLOWS])
@settings(max_examples=2, deadline=None)
@given(records=traces())
def test_of_one_clock_or_of_exact_ones_nothing_is_unknown(form: str, records: list[Record]) -> None:
    plans = flow(form) if form in FLOWS else read_statements([STATEMENTS[form]])[0]
    one = [record | {"source": "a", "seq": n} for n, record in enumerate(records)]
    choice = ClockChoice(exact=False, upcoming=(UpcomingClocks("main", lanes({("a", None)})),))
    assert found(plans, one, choice, 1) == found(plans, one, ClockChoice(), 1)
    for each in found(plans, records, ClockChoice(), 1):
        assert each.get("certainty") != "unknown"
