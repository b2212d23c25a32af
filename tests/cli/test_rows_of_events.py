"""SELECT without WINDOW: each event of the ordered stream that satisfies WHERE is a row."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from slackwater.engine.cli.terminal import TableTimes, show_results
from slackwater.engine.core.released import IN_ORDER, LATE_DROPPED
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from tests.cli.conftest import CommandRun
from tests.order.conftest import frame

Cli = Callable[..., CommandRun]
Trace = Callable[..., str]
Row = dict[str, Any]
EVENTS = [
    {"type": "A", "stream": "s", "source": "d1", "ts": 0, "arrival": 0, "v": 1, "k": "x"},
    {"type": "B", "stream": "s", "source": "d1", "ts": 600, "arrival": 600, "v": 2, "k": "y"},
    {"type": "A", "stream": "t", "source": "d2", "ts": 1200, "arrival": 1300, "v": 7},
    {"type": "A", "stream": "s", "source": "d1", "ts": 500, "arrival": 1310, "v": 9},
]


def values(ran: CommandRun) -> list[Any]:
    assert ran.code == 0, ran.err
    return [line["value"] for line in ran.lines]


def test_rows_are_filtered_and_projected_in_order_of_time(cli: Cli, trace: Trace) -> None:
    ran = cli(
        "query", "SELECT v, k AS c, v * 2, ts FROM s WHERE v > 1",
        "--input", trace(*EVENTS), "--time-unit", "ms",
    )  # fmt: skip
    assert values(ran) == [
        {"v": 9, "c": None, "v * 2": 18, "ts": 500}, {"v": 2, "c": "y", "v * 2": 4, "ts": 600},
    ]  # fmt: skip


def test_a_star_gives_whole_events_with_what_is_known_of_them(cli: Cli, trace: Trace) -> None:
    asked = ["query", "SELECT * FROM s", "--input", trace(*EVENTS), "--time-unit", "ms"]
    synced = ["--clock", "d1=1ms±5ms", "--order", "sequence"]
    rows = [line["events"] for line in cli(*asked, *synced).lines]
    of_all = {"site": "main", "stream": "s", "source": "d1", "uncertainty_ns": 5_000_000}
    assert rows == [
        [{**of_all, "seq": 0, "type": "A", "ts": 0, "te": 0, "ref": 1, "late": False,
          "attrs": {"v": 1, "k": "x"}}],
        [{**of_all, "seq": 2, "type": "A", "ts": 500, "te": 500, "ref": 501, "late": True,
          "attrs": {"v": 9}}],
        [{**of_all, "seq": 1, "type": "B", "ts": 600, "te": 600, "ref": 601, "late": False,
          "attrs": {"v": 2, "k": "y"}}],
    ]  # fmt: skip
    unknown = [line["events"][0]["uncertainty_ns"] for line in cli(*asked).lines]
    assert unknown == [None, None, None]


def test_a_condition_on_a_time_is_uncertain_where_the_clock_leaves_it_open(
    cli: Cli, trace: Trace
) -> None:
    ran = cli(
        "query", "SELECT v FROM s WHERE ts > 500 ms", "--input", trace(*EVENTS),
        "--time-unit", "ms", "--clock", "d1=0±5ms",
    )  # fmt: skip
    assert [(line["value"]["v"], line["certainty"]) for line in ran.lines] == [
        (9, "uncertain"), (2, "confirmed"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "found"),
    [("SELECT v FROM s, t", [1, 9, 2, 7]), ("SELECT v", [1, 9, 2, 7]),
     ("SELECT x.v FROM t AS x", [7]), ("SELECT v FROM s WHERE s.type = 'B'", [2])],
)  # fmt: skip
def test_streams_are_those_of_from(cli: Cli, trace: Trace, text: str, found: list[int]) -> None:
    ran = cli("query", text, "--input", trace(*EVENTS), "--time-unit", "ms")
    assert [value["v"] for value in values(ran)] == found


def test_a_stream_that_is_not_there_is_refused(cli: Cli, trace: Trace) -> None:
    ran = cli("query", "SELECT v FROM u, s", "--input", trace(*EVENTS))
    assert (ran.code, "no event is of stream 'u'; there is s, t" in ran.err) == (2, True)


def test_tables_have_a_column_for_each(cli: Cli, trace: Trace, here: Path) -> None:
    asked = ["query", "SELECT *, v * 2 AS w FROM s", "--input", trace(*EVENTS), "--time-unit", "ms"]
    assert cli(*asked, "--out", "r.csv").code == 0
    found = list(csv.DictReader(io.StringIO((here / "r.csv").read_text())))
    assert [(row["event1.attrs.v"], row["event1.late"], row["value.w"]) for row in found] == [
        ("1", "false", "2"), ("9", "false", "18"), ("2", "false", "4"),
    ]  # fmt: skip
    assert cli(*asked, "--out", "r.parquet").code == 0
    typed = pq.read_table(here / "r.parquet").to_pylist()
    assert [row["events"][0]["late"] for row in typed] == [False] * 3
    assert [row["value"] for row in typed] == [{"w": 2}, {"w": 18}, {"w": 4}]


def test_a_terminal_shows_the_columns_of_the_query(cli: Cli, trace: Trace, here: Path) -> None:
    ran = cli(
        "query", "SELECT *, v * 2 AS w FROM s", "--input", trace(*EVENTS), "--order", "sequence",
        "--clock", "d1=0±5ms", "--time-unit", "ns",
    )  # fmt: skip
    (here / "r.jsonl").write_text(ran.out)
    out = io.StringIO()
    show_results(here / "r.jsonl", Console(file=out, width=100), TableTimes("ns"))
    cells = [
        [cell.strip() for cell in line.strip("┃│\n").replace("┃", "│").split("│")]
        for line in out.getvalue().splitlines() if line[0] in "┃│"
    ]  # fmt: skip
    none = "\N{EN DASH}"
    assert cells == [
        ["ref", "source", "type", "uncertainty", "k", "v", "w", "certainty", "late"],
        ["0", "d1", "A", "5000000", "x", "1", "2", "confirmed", none],
        ["500", "d1", "A", "5000000", none, "9", "18", "confirmed", "true"],
        ["600", "d1", "B", "5000000", "y", "2", "4", "confirmed", none],
    ]


def test_rows_of_a_statement_are_read_by_others(cli: Cli, trace: Trace) -> None:
    text = (
        "CREATE STREAM m AS SELECT v, k FROM s; SELECT v + 1 AS x FROM m WHERE v > 1; "
        "SELECT sum(v) AS v FROM m WINDOW TUMBLING 1 s"
    )
    ran = cli("query", text, "--input", trace(*EVENTS), "--time-unit", "ms")
    found = [line["value"] for line in ran.lines if line["query"] != "m"]
    assert found == [{"x": 10}, {"x": 3}, {"v": 12}]
    ran = cli("query", "CREATE STREAM m AS SELECT v FROM s; SELECT k FROM m", "--input", "t.jsonl")
    assert ran.err.rstrip().endswith("it has certainty, probability and v; name it in its SELECT")


def test_one_step_of_two_types_reads_two_statements(cli: Cli, trace: Trace) -> None:
    text = (
        "CREATE STREAM a AS SELECT v FROM s; CREATE STREAM b AS SELECT v FROM t; "
        "EVENT SEQ(OR(a, b) x) RETURN x.v AS v"
    )
    ran = cli("query", text, "--input", trace(*EVENTS), "--time-unit", "ms")
    found = [line["value"]["v"] for line in ran.lines if line["query"] == "q3"]
    assert found == [1, 9, 2, 7]


def test_checks_name_columns_as_the_query_does(cli: Cli, trace: Trace) -> None:
    text = "SELECT v FROM s, t HISTORY BY source CHECK few (past_count(1 h) < 1 AND v < 9) DROP"
    ran = cli("query", text, "--input", trace(*EVENTS), "--time-unit", "ms")
    assert [value["v"] for value in values(ran)] == [1, 7]


# ---- beside the order ---------------------------------------------------------------------------
ORDERS = (
    "none", "kslack:3,late=pass", "kslack:3", "sequence:timeout=fixed:4,late=pass", "mp-kslack",
)  # fmt: skip


@st.composite
def arrivals(draw: st.DrawFn) -> list[Row]:
    count: dict[str, int] = {}
    found = []
    for n, (source, ts) in enumerate(draw(st.lists(
        st.tuples(st.sampled_from("pq"), st.integers(0, 30)), min_size=1, max_size=25,
    ))):  # fmt: skip
        count[source] = count.get(source, -1) + draw(st.sampled_from([1, 1, 1, 2]))
        found.append({
            "source": source, "seq": count[source], "ts": ts, "arrival": 100 + 2 * n, "type": "E",
            "stream": draw(st.sampled_from(["a", "b"])), "attrs": {"v": n},
        })  # fmt: skip
    return draw(st.permutations(found)).copy() if draw(st.booleans()) else found


@settings(max_examples=40)
@given(arrivals(), st.sampled_from(ORDERS), st.data())
def test_rows_are_the_ordered_stream_however_it_is_cut(
    records: list[Row], order: str, data: st.DataObject
) -> None:
    for n, record in enumerate(records):
        record["arrival"] = 100 + 2 * n
    plans = (query("SELECT v FROM a WHERE v >= 3"), query("SELECT *"))
    asked = ChainSettings(parse_order(order), plans, ordered="full", guards=Guards(None))
    chain, outputs = Chain(asked, "main"), []
    left = list(records)
    while left:
        size = data.draw(st.integers(1, len(left)))
        outputs.append(chain.process([frame(left[:size])]))
        left = left[size:]
        chain = Chain.restored(asked, "main", chain.to_bytes())
    outputs.append(chain.finish())
    stream = [
        (int(part.columns["attrs.v"][row]), int(part.columns["ref"][row]),
         int(part.columns["status"][row]) != IN_ORDER,
         part.strings.text(int(part.columns["stream"][row])))
        for output in outputs for part in output.ordered for row in range(part.n)
        if part.columns["status"][row] != LATE_DROPPED
    ]  # fmt: skip
    few, all_of = (
        [result for output in outputs for result in output.results[place]] for place in (0, 1)
    )
    assert [r["op"] for r in (*few, *all_of)] == ["+"] * (len(few) + len(all_of))
    reported = [
        (e["attrs"]["v"], e["ref"], e["late"], e["stream"]) for r in all_of for e in r["events"]
    ]  # fmt: skip
    assert reported == stream
    assert [r["value"]["v"] for r in few] == [
        v for v, _, _, name in stream if name == "a" and v >= 3
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["SELECT v", "EVENT E e", "EVENT OR(SEQ(E e), SEQ(F f))"])
def test_what_no_other_event_completes_is_never_too_late_and_not_kept(text: str) -> None:
    hour, late = 3600 * 10**9, 5
    numbers = [n for n in range(200) if n != late] + [late]
    records = [
        {"source": "p", "seq": n, "ts": n * hour, "arrival": max(n, place) * hour, "type": "E",
         "attrs": {"v": n}}
        for place, n in enumerate(numbers)
    ]  # fmt: skip
    order = parse_order("sequence:timeout=fixed:4,late=pass")
    chain = Chain(ChainSettings(order, (query(text),), guards=Guards(None)), "main")
    outputs = [chain.process([frame(records[n : n + 10])]) for n in range(0, 200, 10)]
    outputs.append(chain.finish())
    results = [result for output in outputs for result in output.results[0]]
    assert [result["events"][0]["seq"] for result in results] == numbers
    counters = chain.counters()["queries"]["q1"]
    assert (counters["too_late"], counters["buffered_max"] <= 24) == (0, True)
