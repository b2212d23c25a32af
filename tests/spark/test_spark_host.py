"""The host on Spark gives what the one in this process gives: behind every order, after being
killed, as the log grows, with old events spilled, and of scenarios.
"""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.core.errors import UserError
from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.hosts.pipeline import run_in_process
from slackwater.engine.hosts.spark import host
from slackwater.engine.hosts.spark.host import chained, run_on_spark, spark_session
from slackwater.engine.hosts.warnings import of_tasks
from slackwater.engine.log.arrival_log import LogReader
from slackwater.engine.operators.match.spill.bounds import SpillSettings
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.output.export import export_jsonl
from slackwater.engine.output.ordered_stream import SIDE_OUTPUT, export_ordered_jsonl
from slackwater.engine.query import query
from slackwater.engine.query.pattern_settings import PatternSettings
from slackwater.engine.query.plan import Plan
from slackwater.engine.scenario import RunnableScenario
from slackwater.scenarios import elder_care, network_correlation, supply_chain, ward, warehouse
from slackwater.simulation import data_directory
from tests.spark.both_hosts import answers, log_of

pytestmark = [pytest.mark.spark]

WINDOW = "SELECT avg(v), count(*) GROUP BY k WINDOW TUMBLING 1 s DRIFT together"
PATTERN = "EVENT SEQ(A a, B b) WHERE a.k = b.k AND b.v > 60 WITHIN 100 ms"
SEED = 20261121
ROOT = Path(__file__).parents[2]
OFFSETS = {"a": 0, "b": 5 * 10**8, "c": -3 * 10**8}


def log_of_sites(folder: Path, events: int, rows_per_file: int, rows_per_frame: int = 500) -> Path:
    """Two sites of three sources each: disorder, loss, duplicates and clock offsets, by seed."""
    chance, records = random.Random(SEED), list[dict[str, Any]]()
    for site in ("north", "south"):
        numbers = dict.fromkeys("abc", 0)
        true = 10**18
        for place, name in enumerate("abc"):
            records.append({"kind": "sync", "site": site, "source": name, "arrival": true,
                            "ts": true - OFFSETS[name], "offset": OFFSETS[name],
                            "delay": (place + 1) * 10**6, "first_seq": 0})  # fmt: skip
        for row in range(events):
            true += chance.randrange(10**5, 2 * 10**6)
            name = chance.choice("abc")
            record = {"site": site, "source": name, "seq": numbers[name], "type": "AB"[row % 2],
                      "ts": true - OFFSETS[name], "attrs": {"k": row % 7, "v": row % 100 + 0.5},
                      "arrival": true + chance.randrange(10**6, 40 * 10**6)}  # fmt: skip
            numbers[name] += 1
            records += [record] * chance.choices((0, 1, 2), (10, 1000, 3))[0]
    records.sort(key=lambda record: record["arrival"])
    text = "".join(json.dumps(record) + "\n" for record in records)
    folder.mkdir(exist_ok=True)
    return log_of(text, folder, rows_per_file, rows_per_frame)


def settings(order: str = "sequence:latency=50ms") -> ChainSettings:
    """Two queries and the ordered stream itself."""
    plans: tuple[Plan, ...] = (query(WINDOW, name="w"), query(PATTERN, name="p"))
    if order.startswith("aq-kslack"):
        plans = plans[:1]  # it serves no patterns
    return ChainSettings(parse_order(order), plans, ordered="full", aside="full")


def written(parts: Path) -> str:
    """Everything a pass wrote, as text."""
    results, ordered, aside = io.StringIO(), io.StringIO(), io.StringIO()
    export_jsonl(parts, results, queries=("w", "p"))
    export_ordered_jsonl(parts, ordered)
    export_ordered_jsonl(parts, aside, files=SIDE_OUTPUT)
    return results.getvalue() + ordered.getvalue() + aside.getvalue()


def facts(counters: dict[str, Any]) -> dict[str, Any]:
    """Counters that must not depend on the host or on how batches were cut."""
    sites = {site: dict(each) for site, each in counters["sites"].items()}
    for each in sites.values():
        each.pop("buffered_max_bytes")  # columns of a batch come from its frames
    return sites


def test_spark_equals_in_process(tmp_path: Path) -> None:
    log = log_of_sites(tmp_path, 3_000, 1_000)
    last = LogReader(log).files[-1]
    last.rename(last.with_name("zz last %41.parquet"))
    assert len(LogReader(log).files) > 4
    here = run_in_process(log, settings(), tmp_path / "here")
    there = run_on_spark(log, settings(), tmp_path / "there", "local[2]", files_per_batch=2)
    expected = written(tmp_path / "here")
    assert expected.count('"certainty"') > 100
    assert expected.count('"window"') > 50
    assert written(tmp_path / "there") == expected
    assert facts(there) == facts(here)
    assert len(there["batches"]) >= 3
    other = ChainSettings(parse_order("none"), settings().plans)
    with pytest.raises(UserError, match="was begun with another query, order or other settings"):
        run_on_spark(log, other, tmp_path / "there", "local[2]")


@pytest.mark.slow
@pytest.mark.parametrize(
    "order",
    [
        "sequence:timeout=r19,late=pass", "sequence:timeout=fixed:20ms,time=ts",
        "sequence:timeout=r19-code:us",
        "mp-kslack:late=drop", "aq-kslack:error=0.05,window=100ms,agg=avg,attr=v",
        "ldop:0..2,window=10ms", "kslack-chain:5ms,30ms",
    ],
)  # fmt: skip
def test_every_order_gives_on_spark_what_it_gives_in_process(order: str, tmp_path: Path) -> None:
    log = log_of_sites(tmp_path, 2_000, 1_000)
    here = run_in_process(log, settings(order), tmp_path / "here")
    there = run_on_spark(log, settings(order), tmp_path / "there", "local[2]", files_per_batch=1)
    assert written(tmp_path / "there") == written(tmp_path / "here")
    assert facts(there) == facts(here)
    assert len(there["batches"]) >= 3


@pytest.mark.slow
def test_a_log_that_grows_between_runs_and_during_them_equals_in_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = LogReader(log_of_sites(tmp_path / "all", 2_000, 400)).files
    log = tmp_path / "log"
    log.mkdir()

    def grow() -> None:
        if left:
            shutil.copy2(left.pop(0), log)

    grow()
    (log / "manifest.json").write_text("{}")  # as a simulated log has it

    def chained_and_grown(*arguments: Any, **more: Any) -> DataFrame:
        grow()
        grow()
        return chained(*arguments, **more)

    calls = 0
    while left:
        grow()
        run_in_process(log, settings(), tmp_path / "here")
        with monkeypatch.context() as patch:
            patch.setattr(host, "chained", chained_and_grown)
            there = run_on_spark(log, settings(), tmp_path / "there", "local[2]", 1)
        calls += bool(there["batches"])
        assert written(tmp_path / "there") == written(tmp_path / "here")
    assert calls >= 2


@pytest.mark.slow
def test_a_run_that_has_fewer_tasks_than_it_could_says_so(tmp_path: Path) -> None:
    first, *more = LogReader(log_of_sites(tmp_path / "all", 2_000, 1_000)).files
    log = tmp_path / "log"
    log.mkdir()
    shutil.copy2(first, log)
    spark_session().stop()  # of the tests before, with more cores
    there = run_on_spark(log, settings(), tmp_path / "there", "local[1]", 1)
    assert (there["tasks"], of_tasks(there)) == ((1, 1), [])
    spark_session().stop()  # which has the cores that it began with
    for file in more:
        shutil.copy2(file, log)
    there = run_on_spark(log, settings(), tmp_path / "there", "local[2]", 4)
    assert there["tasks"] == (1, 2)
    assert "has 1 tasks at a time where 2 could run" in of_tasks(there)[0]
    run_in_process(log, settings(), tmp_path / "here")
    assert written(tmp_path / "there") == written(tmp_path / "here")
    there = run_on_spark(log, settings(), tmp_path / "there", "local[2]", 4)
    assert of_tasks(there) == []  # nothing was left to do


@pytest.mark.slow
def test_killed_and_started_again_equals_undisturbed(tmp_path: Path) -> None:
    log = log_of_sites(tmp_path, 6_000, 1_000)
    run_in_process(log, settings(), tmp_path / "here")
    out = tmp_path / "there"
    command = [sys.executable, "-m", "tests.spark.test_spark_host", str(log), str(out)]
    first = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    try:
        _wait_for_batches(out, 3, first)
    finally:
        os.killpg(first.pid, signal.SIGKILL)  # the JVM and its workers too
        first.wait()
    done = _batches(out)
    assert done < 10, "killed too late to prove anything"
    subprocess.run(command, cwd=ROOT, check=True, timeout=150)
    assert _batches(out) > done
    assert written(out) == written(tmp_path / "here")


def _batches(out: Path) -> int:
    """That have their results."""
    return len(list((out / "spark" / "_spark_metadata").glob("[0-9]*")))


def _wait_for_batches(out: Path, batches: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(3_000):
        if _batches(out) >= batches:
            return
        assert process.poll() is None, "ended before it could be killed"
        time.sleep(0.05)
    pytest.fail("no batches within 150 s")


SPILLED = {
    "middle": "EVENT SEQ(A a, !C c, B b) WHERE a.id = b.id AND c.id = a.id WITHIN 20 ns",
    "front": "EVENT SEQ(!C c, A a, B b) WHERE a.id = b.id WITHIN 20 ns",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spill", "front"),
    [
        (SpillSettings(None, 40, 25, pending=5, wait_ns=200), "a.id = b.id"),
        (SpillSettings(None, 8, 20, 300, 150, parts=2), "a.id = b.id AND c.id = b.id"),
    ],
    ids=["beyond", "within"],
)
def test_the_state_store_keeps_chunks_between_batches(
    tmp_path: Path, spill: SpillSettings, front: str
) -> None:
    chance, lines = random.Random(5), []
    for number in range(3000):  # a tenth of the events come up to 400 ns late
        ts = number - (chance.randint(1, 400) if chance.random() < 0.1 else 0)
        lines.append(
            f'{{"site": "{chance.choice(["north", "south"])}", "source": "s{number % 3}", '
            f'"type": "{chance.choice("AABBC")}", "ts": {ts}, "arrival": {number}, '
            f'"attrs": {{"id": {chance.randrange(3)}}}}}\n'
        )
    log = log_of("".join(lines), tmp_path, 800, 200)
    texts = SPILLED | {"front": SPILLED["front"].replace("a.id = b.id", front)}
    plans = tuple(query(text, name=name) for name, text in texts.items())
    settings = ChainSettings(
        parse_order("none"), plans, parse_barrier("bounded:10ns"), guards=Guards(None),
        pattern=PatternSettings(keep_late_ns=1000), spill=spill,
    )  # fmt: skip
    files = replace(settings, spill=replace(spill, folder=tmp_path / "chunks"))
    run_in_process(log, files, tmp_path / "here")
    there = run_on_spark(log, settings, tmp_path / "there", "local[2]", files_per_batch=1)
    assert len(there["batches"]) >= 3
    expected = answers(tmp_path / "here", SPILLED)
    assert expected.count('"op": "+"') > 200
    assert answers(tmp_path / "there", SPILLED) == expected
    for site in there["sites"].values():
        for counts in site["queries"].values():
            assert counts["spilled"] > 500
            assert counts["chunk_loads"] > 10
            assert (counts["chunks"], counts["pending"]) == (0, 0)


SMALL = {
    "warehouse": (
        warehouse.scenario,
        {"duration": "6 min", "zones": "1", "pallets": "40", "seed": "3"},
    ),
    "network-correlation": (network_correlation.scenario, {"duration": "7 min", "servers": "4"}),
    "elder-care": (
        elder_care.scenario,
        {"persons": "3", "days": "2", "forgotten": "0.2", "seed": "2"},
    ),
    "supply-chain": (supply_chain.scenario, {"duration": "30 s"}),
    "ward": (ward.scenario, {"patients": "60", "hours": "150"}),
    "ward of mimic": (ward.scenario, {"of": "mimic"}),
}
DATA = data_directory({"SLACKWATER_DATA": "/work/shared/data"})


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SMALL))
def test_a_scenario_of_intervals_on_both_hosts(tmp_path: Path, name: str) -> None:
    make, given = SMALL[name]
    if "of" in given and not (DATA / "mimic_iv_demo").is_dir():
        pytest.skip("the recording is not here")
    scenario: RunnableScenario = make()
    scenario.make(tmp_path, given, DATA)
    plans = tuple(query(text, name=of) for of, text in scenario.queries(given).items())
    first = scenario.passes(given)[0]
    settings = ChainSettings(
        parse_order(first.order),
        plans,
        None if first.barrier is None else parse_barrier(first.barrier),
        guards=first.guards,
    )
    here, there = tmp_path / "here", tmp_path / "there"
    run_in_process(tmp_path / "log", settings, here)
    run_on_spark(tmp_path / "log", settings, there, "local[2]", files_per_batch=1)
    names = [plan.name for plan in plans]
    expected = answers(here, names)
    assert '"op": "+"' in expected
    assert answers(there, names) == expected


if __name__ == "__main__":
    run_on_spark(Path(sys.argv[1]), settings(), Path(sys.argv[2]), "local[2]", files_per_batch=1)
