"""Dataflows as operators of a chain: barriers, cuts, restarts, files, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slackwater
from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.core.errors import UserError
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.hosts.pipeline import run_in_process
from slackwater.engine.hosts.spark import chain as step
from slackwater.engine.hosts.spark.host import run_on_spark, spark_session
from slackwater.engine.log.input.trace import TraceRead
from slackwater.engine.operators.grouping.dataflow import Dataflow
from slackwater.engine.operators.grouping.operations import GroupingPlan
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from tests.grouping.chain_flows import events, plans, trace
from tests.spark.both_hosts import answers, log_of

LATE = 60


def chain_settings(order: str, barrier: str, **more: Any) -> ChainSettings:
    return ChainSettings(
        parse_order(order), plans(**more), parse_barrier(barrier), guards=Guards(None)
    )


def frames(tmp: Path, records: list[dict[str, Any]]) -> list[Any]:
    (tmp / "t.jsonl").write_text(trace(records))
    return list(TraceRead(tmp / "t.jsonl"))


def answered(chain: Chain, given_: list[Any]) -> list[list[dict[str, Any]]]:
    out = [list(each) for each in chain.process(given_).results]
    return [[*each, *more] for each, more in zip(out, chain.finish().results, strict=True)]


def net(results: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What is left, in order of time."""
    left: dict[str, tuple[Any, ...]] = {}
    for each in results:
        shown = (each["ts"], each["source"], each["seq"], json.dumps(each["item"]))
        if each["op"] == "+":
            assert left.setdefault(repr(shown), shown) is shown
        else:
            del left[repr(shown)]
    return sorted(left.values())


@pytest.mark.parametrize("barrier", ["bounded:60", "punctuation", "immediate"])
def test_whatever_waits_for_order_the_answer_is_one(barrier: str, tmp_path: Path) -> None:
    """Disorder handled before the operator (K-slack), after it, or by retractions."""
    given_ = frames(tmp_path, events(1, 400, LATE))
    buffered = answered(Chain(chain_settings("kslack:60", "immediate"), "main"), given_)
    order = "kslack:60" if barrier == "punctuation" else "none"
    found = answered(Chain(chain_settings(order, barrier), "main"), given_)
    for one, other in zip(found, buffered, strict=True):
        assert len(other) > 100
        assert net(one) == net(other)
        if barrier != "immediate":
            assert [each["ts"] for each in one] == sorted(each["ts"] for each in one)
    if barrier == "immediate":
        assert any(each["op"] == "-" for each in found[0])


@settings(max_examples=5)
@given(
    st.lists(st.integers(0, 120), max_size=5),
    st.sampled_from(["bounded:25", "punctuation", "immediate"]),
    st.integers(0, 5),
)
def test_cuts_and_restarts_of_a_chain(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], barrier: str, seed: int
) -> None:
    """Some events come later than the barrier allows: they are left out at any cut alike."""
    order = "kslack:25" if barrier == "punctuation" else "none"
    chosen = chain_settings(order, barrier, keep_ns=25 if barrier == "immediate" else None)
    (frame,) = frames(tmp_path_factory.mktemp("t"), events(seed, 120, LATE))
    whole, cut = Chain(chosen, "main"), Chain(chosen, "main")
    expected = answered(whole, [frame])
    out: list[list[dict[str, Any]]] = [[], []]
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), 120], strict=True):
        for place, more in enumerate(cut.process([frame.slice(start, end - start)]).results):
            out[place] += more
        cut = Chain.restored(chosen, "main", cut.to_bytes())
    for place, more in enumerate(cut.finish().results):
        out[place] += more
    assert out == expected
    counters = cut.counters()["queries"]
    assert counters == whole.counters()["queries"]
    if barrier != "punctuation":
        assert counters["sums"]["late"] > 0
    assert counters["sums"]["incomplete"] > 0
    assert counters["pairs"]["incomplete"] == 0


def test_results_as_lines_and_as_a_table(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(trace(events(2, 50, LATE)))
    with slackwater.query(
        tmp_path / "t.jsonl", list(plans()), order="none", barrier="bounded:60", clock="exact"
    ) as found:
        found.write(tmp_path / "out.jsonl")
        lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        assert lines == list(found)
    assert {tuple(line) for line in lines} == {
        ("op", "query", "site", "at", "ts", "source", "seq", "item")
    }
    with slackwater.query(
        tmp_path / "t.jsonl", plans()[0], order="none", barrier="bounded:60", clock="exact"
    ) as found:
        found.write(tmp_path / "out.parquet")
        expected = [each for each in lines if each["query"] == "sums"]
        table = pq.read_table(tmp_path / "out.parquet")
        assert table.column("item").to_pylist() == [each["item"] for each in expected]


@pytest.mark.parametrize("barrier", ["hold:3", "adaptive"])
def test_barriers_that_a_dataflow_does_not_have(barrier: str) -> None:
    with pytest.raises(UserError, match=r"a dataflow has no barrier \w+; use bounded:K"):
        Chain(chain_settings("none", barrier), "main")


def test_what_cannot_be_is_reported(tmp_path: Path) -> None:
    given_ = frames(tmp_path, events(2, 5, LATE))
    with pytest.raises(UserError, match="name the types that are read"):
        Chain(chain_settings("none", "punctuation"), "main").process(given_)
    sums = plans()[0]
    reading_text = Dataflow(sums.flow.operations, {"id": int, "v": int, "type": int})
    text = GroupingPlan("q", reading_text)
    chosen = ChainSettings(parse_order("none"), (text,), guards=Guards(None))
    with pytest.raises(UserError, match="'type' is text, and compiled maps read numbers"):
        Chain(chosen, "main").process(given_)
    with pytest.raises(UserError, match="no event has an attribute 'w'"):
        slackwater.query({"ts": [1], "v": [2]}, GroupingPlan("q", plans()[1].flow, ("w",)))


def test_promises_by_type_let_go(tmp_path: Path) -> None:
    records = [
        {"type": "A", "ts": 5, "attrs": {"id": 1, "v": 1}},
        {"type": "B", "ts": 9, "attrs": {"id": 1, "v": 1}},
        {"type": "A", "ts": 3, "attrs": {"id": 1, "v": 2}},
        {"kind": "pog", "type": "A", "ts": 6},
        {"type": "C", "ts": 2, "attrs": {"id": 1, "v": 2}},
        {"kind": "pog", "type": "B", "ts": 4},
        {"kind": "pog", "type": "B", "ts": 7},
    ]
    chosen = chain_settings("none", "punctuation", types=("A", "B"))
    found = Chain(chosen, "main").process(frames(tmp_path, records)).results[1]
    assert [(each["at"], each["ts"]) for each in found] == [(6, 3), (6, 3), (7, 5), (7, 5)]


@pytest.mark.spark
@pytest.mark.slow
def test_spark_gives_what_this_process_gives(tmp_path: Path) -> None:
    settings = chain_settings("none", "immediate")
    log = log_of(trace(events(7, 500, 60, ("north", "south"))), tmp_path, 200, 30)
    run_in_process(log, settings, tmp_path / "here")
    run_on_spark(log, settings, tmp_path / "there", "local[2]", files_per_batch=1)
    here = answers(tmp_path / "here", ("sums", "pairs"))
    assert here == answers(tmp_path / "there", ("sums", "pairs"))
    assert here.count('"query": "pairs"') > 500
    assert '"op": "-"' in here


@pytest.mark.spark
@pytest.mark.slow
def test_items_as_rows_of_a_dataframe() -> None:
    session = spark_session("local[2]")
    rows = session.createDataFrame(
        [("a", 10, 100, 1, 3), ("a", 30, 110, 1, 5), ("a", 20, 120, 1, 5)],
        "source string, ts long, arrival long, id long, v long",
    )
    found = rows.transform(step("none", plans()[0], "bounded:5ns")).collect()
    assert [(row.query, row.ts, row.source, row.item) for row in found] == [
        ("sums", 10, "a", '{"id": 1, "total": 3}'), ("sums", 30, "a", '{"id": 1, "total": 26}'),
    ]  # fmt: skip
