"""A query that fails at a site is set aside there, and every other answer goes on (attack-03)."""

from __future__ import annotations

import gc
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pyspark.sql import Row

from slackwater.engine.core.errors import ContractViolation, UserError
from slackwater.engine.hosts.chain import ChainSettings, site_chain
from slackwater.engine.hosts.spark import chain_state
from slackwater.engine.hosts.spark.chain_state import LiveChains
from slackwater.engine.hosts.spark.host import log_processor, part_of
from slackwater.engine.log.arrival_log import LogReader, LogWriter
from slackwater.engine.log.input.trace import TraceRead
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.output import run_writer as failed_queries
from slackwater.engine.output.run_writer import FAILED
from slackwater.engine.query import query
from slackwater.engine.query.analysis.cascade import read_statements
from slackwater.engine.query.failures import QueryFailures
from tests.live.engine_life import KilledError, Life, lines_at, passed
from tests.spark.pretend_state import Store
from tests.spark.test_growing_log import SETTINGS as GROWING
from tests.spark.test_growing_log import Growing, trace

S = 10**9
QUERIES = {
    "count": "SELECT count(*) FROM events WINDOW TUMBLING 2 s",
    "each": "SELECT count(*) FROM events WINDOW TUMBLING 2 s DRIFT EACH",
    "mean": "SELECT avg(n) FROM events WHERE n > 3 WINDOW TUMBLING 2 s",
    "pairs": "EVENT SEQ(A a, A b) WHERE b.n - a.n > 0 WITHIN 1 s",
}


def settings(*names: str, **more: Any) -> ChainSettings:
    plans = tuple(query(QUERIES[name], name=name) for name in names or QUERIES)
    return replace(made_of(plans), **more)


def made_of(plans: tuple[Any, ...]) -> ChainSettings:
    return ChainSettings(parse_order("none"), plans, guards=Guards(None), isolate_failures=True)


def events(site: str, seconds: range, n: Any = int) -> Iterator[dict[str, Any]]:
    for second in seconds:
        at = second * S
        yield {
            "site": site, "source": "d", "seq": second, "ts": at, "arrival": at, "type": "A",
            "attrs": {"n": n(second)},
        }  # fmt: skip


def sync(site: str, second: int, delay: int) -> dict[str, Any]:
    at = second * S
    return {
        "kind": "sync", "site": site, "source": "d", "offset": 0, "delay": delay, "ts": at,
        "arrival": at, "first_seq": second,
    }  # fmt: skip


class Recorded:
    """A log to which records are added, a file for each call."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = 0

    def add(self, *records: dict[str, Any]) -> int:
        self.files += 1
        trace = self.folder / f"{self.files}.jsonl"
        lines = sorted(records, key=lambda record: int(record["arrival"]))
        trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
        with LogWriter(self.folder / "log") as writer:
            for frame in TraceRead(trace):
                writer.append(frame)
            writer.flush()
            return writer.files


def test_attack_03_a_device_of_another_site_ends_no_other_answer(tmp_path: Path) -> None:
    """One sync with a delay of 20 s, and an attribute that is text."""
    log, made = Recorded(tmp_path), settings()
    life = Life(tmp_path, made)
    ill = [sync("s", 10, 20 * S), *events("s", range(10, 20), n=lambda second: f"no {second}")]
    life.engine.upto(log.add(*events("n", range(10))))
    life.engine.upto(log.add(*events("n", range(10, 20)), *ill))
    life.engine.upto(log.add(*events("n", range(20, 40))))
    assert life.failed.keys() == {("each", "s"), ("mean", "s"), ("pairs", "s")}
    assert "largest delay T_a" in life.failed["each", "s"]
    assert "text" in life.failed["mean", "s"]
    life.engine.save()
    again = Life(tmp_path, made)
    assert again.failed == life.failed
    assert again.engine.done == life.engine.done
    again.end_at(log.add(*events("n", range(40, 50)), *events("s", range(40, 50), n=str)))
    assert again.failed == life.failed
    whole = passed(tmp_path, settings("count", isolate_failures=False))
    for site in "ns":
        assert lines_at(tmp_path, ("count", site), "", ".end") == whole["count", site]
    for name in QUERIES:
        assert len(lines_at(tmp_path, (name, "n")).splitlines()) > 10
        kept = tmp_path / "answers" / name / "s.failed.json"
        assert kept.exists() is (name != "count")
        if kept.exists():
            assert json.loads(kept.read_bytes())["reason"] == life.failed[name, "s"]


class Failing:
    """An operator with a fault of the program: it fails once, when its events come to ``at``."""

    def __init__(self, operator: Any, at: int, place: str) -> None:
        self._operator, self._at, self._place = operator, at, place

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operator, name)

    def process(self, released: Any) -> Any:
        arrival = released.columns.get("release", ())
        if self._place == "process" and len(arrival) and arrival.max() >= self._at:
            raise ZeroDivisionError("by nothing")
        return self._operator.process(released)

    def advance(self, now: int) -> Any:
        if self._place == "advance" and now >= self._at:
            raise UserError("too much, of a bound of memory")
        return self._operator.advance(now)

    def snapshot(self) -> Any:
        if self._place == "snapshot":
            raise MemoryError
        return self._operator.snapshot()

    def finish(self, at: int) -> Any:
        if self._place == "finish":
            raise KeyError("end")
        return self._operator.finish(at)


@contextmanager
def fault(name: str, site: str, at: int, place: str) -> Iterator[None]:
    """In the operator of that query at that site."""
    build = site_chain.build_operator

    def built(plan: Any, chosen: Any, at_site: str, chunks: Any = None) -> Any:
        operator = build(plan, chosen, at_site, chunks)
        return Failing(operator, at, place) if (plan.name, at_site) == (name, site) else operator

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site_chain, "build_operator", built)
        yield


@given(
    name=st.sampled_from("pw"), site=st.sampled_from("ns"), at=st.integers(0, 70),
    place=st.sampled_from(["process", "advance", "finish", "snapshot"]), seed=st.integers(0, 9999),
)  # fmt: skip
@example(name="w", site="n", at=53, place="process", seed=0)
@hypothesis_settings(max_examples=4, deadline=None)
def test_whatever_fails_wherever_all_others_answer_as_a_pass(
    name: str, site: str, at: int, place: str, seed: int
) -> None:
    """Over cuts and kills; what had been answered of the failed one stays, and nothing follows."""
    random = Random(seed)
    made = replace(GROWING, plans=GROWING.plans[:2], isolate_failures=True, ordered="no")
    with tempfile.TemporaryDirectory() as folder, fault(name, site, at, place):
        growing = Growing(trace(random.randrange, 60), Path(folder), 7)
        while growing.left:
            life = Life(Path(folder), made, random.choice([5, 20, float("inf")]))
            with suppress(KilledError):
                life.follow(growing, random, saves=0.5)
        life = Life(Path(folder), made)
        life.end_at(growing.there)
        written, failed = life.written(), life.failed.keys()
        at_end = f"query {name} at site {site!r}: what the log's end would give is not written"
        only_at_end = any(line.startswith(at_end) for line in life.said)
    with tempfile.TemporaryDirectory() as folder:
        Growing(trace(Random(seed).randrange, 60), Path(folder), 7).grow(10**6)
        whole = passed(Path(folder), replace(made, isolate_failures=False))
    assert failed <= {(name, site)}
    assert written.keys() == whole.keys()
    for key, lines in written.items():
        if key == (name, site):
            assert whole[key].startswith(lines)
            assert failed or only_at_end or lines == whole[key]
        else:
            assert lines == whole[key]


def test_a_fault_of_the_program_has_its_traceback_in_the_log(tmp_path: Path) -> None:
    log = Recorded(tmp_path)
    with fault("count", "s", 5 * S, "process"):
        life = Life(tmp_path, settings("count", "pairs"))
        life.end_at(log.add(*events("n", range(9)), *events("s", range(9))))
    assert life.failed == {("count", "s"): "a fault of the program: ZeroDivisionError: by nothing"}
    assert "Traceback" in life.said[0]
    assert "in process" in life.said[0]
    assert "query count has failed at site 's' and is set aside there" in life.said[1]


def test_what_only_the_end_fails_at_is_said_and_answers_go_on(tmp_path: Path) -> None:
    log = Recorded(tmp_path)
    with fault("count", "s", 0, "finish"):
        life = Life(tmp_path, settings("count"))
        life.end_at(log.add(*events("n", range(9)), *events("s", range(9))))
        assert life.failed == {}
        assert "what the log's end would give is not written" in life.said[-1]
        Life(tmp_path, settings("count")).engine.upto(log.add(*events("s", range(9, 20))))
    assert len(lines_at(tmp_path, ("count", "s")).splitlines()) == 9


CASCADE = (
    "CREATE STREAM c AS SELECT count(*) AS n FROM events WINDOW TUMBLING 2 s;"
    "CREATE STREAM d AS SELECT max(n) AS m FROM c WINDOW TUMBLING 4 s;"
    "SELECT count(*) AS n FROM events WINDOW TUMBLING 2 s"
)


def test_queries_that_read_a_failed_one_fail_with_it(tmp_path: Path) -> None:
    plans, _ = read_statements([CASCADE])
    (other,) = {plan.name for plan in plans} - {"c", "d"}
    log = Recorded(tmp_path)
    with fault("c", "s", 5 * S, "process"):
        life = Life(tmp_path, made_of(plans))
        life.end_at(log.add(*events("n", range(20)), *events("s", range(20))))
    assert life.failed["d", "s"] == "it reads results of query c, which has failed"
    assert life.failed.keys() == {("c", "s"), ("d", "s")}
    assert len(lines_at(tmp_path, (other, "s")).splitlines()) > 7
    assert len(lines_at(tmp_path, ("d", "n")).splitlines()) > 3


def test_queries_whose_checks_look_at_a_failed_one_fail_with_it(tmp_path: Path) -> None:
    looking = QUERIES["count"] + " CHECK quiet (past_count(pairs, 6 s) = 0)"
    texts = {"pairs": QUERIES["pairs"], "looking": looking, "count": QUERIES["count"]}
    plans = tuple(query(text, name=name) for name, text in texts.items())
    log = Recorded(tmp_path)
    with fault("pairs", "s", 5 * S, "process"):
        life = Life(tmp_path, made_of(plans))
        life.end_at(log.add(*events("n", range(20)), *events("s", range(20))))
    assert life.failed.keys() == {("pairs", "s"), ("looking", "s")}
    assert life.engine.done == 1


@pytest.mark.parametrize("call", ["decode", "parts_of"])
def test_events_that_cannot_be_read_or_written_fail_their_site_alone(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Recorded(tmp_path)
    life = Life(tmp_path, settings("count", "pairs"))
    life.engine.upto(log.add(*events("n", range(9)), *events("s", range(9))))
    former = getattr(site_chain, call)

    def broken(first: Any, *others: Any) -> Any:
        if (first if call == "parts_of" else first.site) == "s":
            raise ContractViolation("broken")
        return former(first, *others)

    monkeypatch.setattr(site_chain, call, broken)
    life.engine.upto(log.add(*events("n", range(9, 20)), *events("s", range(9, 20))))
    assert life.failed.keys() == {("count", "s"), ("pairs", "s")}
    assert len(lines_at(tmp_path, ("count", "n")).splitlines()) == 9


def test_a_full_disk_is_no_query_s_fault(tmp_path: Path) -> None:
    failures = QueryFailures([query(QUERIES["count"], name="count")], [], isolate=True)

    def full() -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        failures.run(0, full)
    assert failures.take() == []


@pytest.mark.parametrize("how", ["file", "version"])
def test_a_failed_query_is_tried_again_when_asked_for(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By removing its file, and by a new version of the program."""
    log, made = Recorded(tmp_path), settings("count")
    with fault("count", "s", 5 * S, "process"):
        life = Life(tmp_path, made)
        life.engine.upto(log.add(*events("n", range(9)), *events("s", range(9))))
        life.engine.save()
        assert Life(tmp_path, made).failed == life.failed != {}
    kept = tmp_path / "answers" / "count" / "s.failed.json"
    assert Life(tmp_path, made).failed == life.failed
    if how == "file":
        kept.unlink()
    else:
        monkeypatch.setattr(failed_queries, "version", lambda _: "next")
    held = Life(tmp_path, made, again=False)
    assert (held.failed, kept.exists()) == (life.failed, True)
    assert (how == "version") or "cannot be tried again" in held.said[0]
    assert "query count is set aside at site 's'" in held.said[-1]
    if how == "file":
        kept.unlink()
    again = Life(tmp_path, made)
    assert again.failed == {}
    assert not kept.exists()
    assert "is tried again: answers are to be made again" in again.said[0]
    again.end_at(log.add(*events("s", range(9, 20))))
    assert again.written()["count", "s"] == passed(tmp_path, made)["count", "s"]
    assert again.failed == {}


def test_attack_03_a_worker_of_spark_sets_aside_likewise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it has the chain of the batch before, or the state alone."""
    log, store = Recorded(tmp_path), Store()
    log.add(*events("s", range(10)))
    log.add(sync("s", 10, 20 * S), *events("s", range(10, 20), n=str))
    log.add(*events("s", range(20, 40), n=str))
    found = []
    for file in sorted((tmp_path / "log").glob("*.parquet")):
        monkeypatch.setattr(chain_state, "LIVE", LiveChains())
        task = log_processor(settings("each", "count"), tmp_path / "log", files=False)
        counts = pq.read_table(file, columns=["rows"])["rows"].to_pylist()
        rows = [
            Row(site="s", batch=0, file=file.name, place=place, rows=n)
            for place, n in enumerate(counts)
        ]
        found.append([part_of(row) for row in store.run(task, rows, site="s")])
    failed = [part.content() for parts in found for part in parts if part.kind == FAILED]
    assert [[each["query"] for each in rows] for rows in failed] == [["each"]]
    given = [part.content()["query"].unique().to_pylist() for part in found[2]]
    assert given == [["count"]]


def test_a_failed_query_holds_no_state(tmp_path: Path) -> None:
    """What failed at its bound of memory has that memory no more."""
    log = Recorded(tmp_path)
    with fault("pairs", "s", 0, "process"):
        chain = site_chain.Chain(settings("count", "pairs"), "s")
        log.add(*events("s", range(9)))
        for frame in LogReader(tmp_path / "log"):
            output = chain.process([frame])
            assert [each.query for each in output.failures] == ["pairs"]
    gc.collect()
    assert not any(isinstance(each, Failing) for each in gc.get_objects())
    again = site_chain.Chain.restored(settings("count", "pairs"), "s", chain.to_bytes())
    assert "pairs" in again.counters()["queries"]
    assert again.finish().failures == []
