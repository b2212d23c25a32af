"""What ``aq-kslack`` and ``ldop`` take from the queries that they serve."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.core.errors import UserError
from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.order.query_defaults import (
    AGGREGATES,
    Reads,
    Window,
    longest_window,
    reads_of,
    window_of,
)
from slackwater.engine.order.registry import parse_order
from slackwater.engine.order.slack.aq_kslack import normal_quantile_ppm
from slackwater.engine.query import query
from tests.order.conftest import released, with_late
from tests.order.slow_aq import Settings, SlowAq
from tests.order.slow_ldop import slow_ldop

S = 10**9
COUNTS = "SELECT count(*) FROM events WINDOW TUMBLING 20 s"
SUMS = "SELECT sum(v), count(*) FROM x WINDOW TUMBLING 20 s"
PAIRS = "EVENT SEQ(A a, !N n, B b) WITHIN 7 s"


def plans(*texts: str) -> tuple[Any, ...]:
    return tuple(query(text, name=f"q{n}") for n, text in enumerate(texts, 1))


@pytest.mark.parametrize(
    ("texts", "served"),
    [
        ((), Window(S, "count", None)),
        ((COUNTS,), Window(20 * S, "count", None)),
        ((SUMS,), Window(20 * S, "sum", "v")),
        ((COUNTS, SUMS), Window(20 * S, "sum", "v")),
        (("SELECT avg(attrs.ts) FROM x WINDOW TUMBLING 3 s",), Window(3 * S, "avg", "ts")),
        (("SELECT count(v) FROM x WINDOW TUMBLING 3 s",), Window(3 * S, "count", "v")),
    ],
)
def test_aq_kslack_takes_window_and_aggregate_from_its_query(
    texts: tuple[str, ...], served: Window
) -> None:
    assert window_of(plans(*texts), None, None, None) == served


def test_what_the_short_form_says_counts_more_than_the_query() -> None:
    order = parse_order("aq-kslack:error=0.1,window=5s,agg=avg,attr=w")
    assert window_of(plans(COUNTS, SUMS), order.window_ns, order.agg, order.attr) == Window(
        5 * S, "avg", "w"
    )
    assert order.attributes(plans(COUNTS)) == {"w": True}
    assert longest_window(plans(COUNTS, PAIRS), parse_order("ldop:window=5s").window_ns) == 5 * S


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ((PAIRS,), "q1 is a pattern, which has none: take sequence, kslack:2s or ldop"),
        ((COUNTS, "EVENT OR(A, B) WITHIN 1 s"), "q2 is a pattern"),
        ((COUNTS, COUNTS.replace("20", "2")), "say which counts, as in window=10s"),
        (("SELECT max(v) FROM x WINDOW TUMBLING 1 s",), "the queries ask for max"),
        (("SELECT sum(ts) FROM x WINDOW TUMBLING 1 s",), "the queries ask for sum"),
        (("SELECT sum(v), avg(v) FROM x WINDOW TUMBLING 1 s",), r"several aggregates \(avg"),
        (("SELECT sum(v), sum(w) FROM x WINDOW TUMBLING 1 s",), "say whose error counts, as in"),
    ],
)  # fmt: skip
def test_aq_kslack_refuses_what_it_cannot_serve(texts: tuple[str, ...], said: str) -> None:
    with pytest.raises(UserError, match=said):
        ChainSettings(parse_order("aq-kslack:error=0.1"), plans(*texts))


def test_what_ldop_cannot_serve_is_reported_before_any_work() -> None:
    with pytest.raises(UserError, match="the pattern q1 may last, but it has no WITHIN"):
        ChainSettings(parse_order("ldop"), plans("EVENT SEQ(A a, B b)"))


def test_ldop_waits_for_the_longest_query() -> None:
    assert longest_window((), None) == S
    assert longest_window(plans(PAIRS), None) == 7 * S
    assert longest_window(plans(PAIRS, COUNTS), None) == 20 * S
    either = plans("EVENT OR(SEQ(A a, B b), C c) WITHIN 9 s")
    assert longest_window(either, None) == 9 * S


def test_only_types_and_streams_that_the_queries_read_are_looked_at() -> None:
    assert reads_of(()) == Reads()
    assert reads_of(plans("SELECT count(*) WINDOW TUMBLING 1 s", PAIRS)) == Reads()
    assert reads_of(plans(PAIRS)) == Reads(frozenset("ANB"), frozenset())
    found = reads_of(plans(PAIRS, SUMS))
    assert found == Reads(frozenset("ANB"), frozenset("x"))


PAIR = "EVENT SEQ(A a, B b) WITHIN 5 ns"
COUNT_X = "SELECT count(*) FROM x WINDOW TUMBLING 5 ns"
EVENTS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 6), st.sampled_from("AX"),
              st.sampled_from(["events", "x"])),
    min_size=1, max_size=60,
)  # fmt: skip


def _records(events: Sequence[tuple[int, int, str, str]]) -> list[dict[str, Any]]:
    arrivals = itertools.accumulate(step for _, step, _, _ in events)
    return [
        {"source": "a", "seq": row, "ts": ts, "arrival": 40 + at, "type": kind, "stream": stream}
        for row, ((ts, _, kind, stream), at) in enumerate(zip(events, arrivals, strict=True))
    ]


@settings(max_examples=30, deadline=None)
@given(events=EVENTS, pattern=st.booleans(), data=st.data())
def test_ldop_learns_from_what_the_queries_read_alone(
    events: list[tuple[int, int, str, str]], pattern: bool, data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(events)), max_size=4).map(sorted))
    given = _records(events)
    text = PAIR if pattern else COUNT_X
    rows, _ = released("ldop", given, cuts, plans=plans(text))
    reads = [record["type"] == "A" if pattern else record["stream"] == "x" for record in given]
    times, arrivals = ([record[name] for record in given] for name in ("ts", "arrival"))
    assert with_late(rows) == slow_ldop(times, arrivals, 5, reads=reads)


@settings(max_examples=30, deadline=None)
@given(events=EVENTS, control=st.sampled_from(["relative", "r19"]), data=st.data())
def test_aq_kslack_measures_what_the_queries_read_alone(
    events: list[tuple[int, int, str, str]], control: str, data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(events)), max_size=4).map(sorted))
    given = _records(events)
    order = f"aq-kslack:error=0.4,control={control},kp=0.6,kd=0.2"
    rows, chain = released(order, given, cuts, plans=plans(COUNT_X))
    twin = SlowAq(
        Settings(error_ppm=400_000, z_ppm=normal_quantile_ppm(950_000, AGGREGATES["count"]),
                 window=5, slide=5, tail_ppm=40_000, kp=600, kd=200, control=control),
        [record["ts"] for record in given],
        [record["arrival"] for record in given],
        reads=[record["stream"] == "x" for record in given],
    )  # fmt: skip
    assert with_late(rows) == twin.run()
    policy = chain._order._indexes[0].policy[0]
    assert [int(policy[name]) for name in ("alpha", "slack", "horizon")] == [
        twin.alpha, twin.k, twin.horizon,
    ]  # fmt: skip
