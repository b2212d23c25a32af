"""What Python answers is what the command line answers, line by line and file by file."""

from __future__ import annotations

import json
import random
import re
import warnings
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import slackwater

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PATTERN = "EVENT SEQ(A a, !C c, B b) WHERE a.k = b.k AND c.k = a.k WITHIN 50 ms"
WINDOWS = "SELECT k, count(*), avg(v), max(ref) GROUP BY k WINDOW TUMBLING 100 ms"


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def random_records(seed: int, count: int = 400) -> list[dict[str, Any]]:
    """Two sources with clocks that err, events that come late or not at all; times in ms."""
    chance = random.Random(seed)
    records = [
        {"kind": "sync", "source": source, "offset": offset, "delay": 4, "arrival": 0}
        for source, offset in (("s0", 0), ("s1", 3))
    ]
    events = [
        {
            "source": source, "seq": seq, "ts": 5 * seq, "type": chance.choice("ABC"),
            "arrival": 5 * seq + chance.choice((2, 3, 40)),
            "attrs": {"k": chance.randrange(3), "v": round(chance.random(), 3)},
        }
        for source in ("s0", "s1")
        for seq in range(count // 2)
        if chance.random() > 0.02
    ]  # fmt: skip
    return records + sorted(events, key=lambda event: event["arrival"])


def test_the_taste_of_the_readme(here: Path, command: Any) -> None:
    taste = re.search(r"printf '%s\\n' (.*?) > trace.jsonl", README, re.DOTALL)
    assert taste is not None
    (here / "trace.jsonl").write_text("\n".join(re.findall("'([^']*)'", taste[1])) + "\n")
    wait = "sequence:timeout=fixed:10"
    assert f"order --input trace.jsonl --order {wait}\n" in README
    ordered = slackwater.order("trace.jsonl", wait)
    assert list(ordered) == lines(command("order", "--input", "trace.jsonl", "--order", wait))
    assert [event["ts"] for event in ordered] == [10, 20, 30, 40]
    text = re.search(r"slackwater query '(.*)' --input trace.jsonl", README)
    assert text is not None
    matches = slackwater.query("trace.jsonl", text[1])
    assert list(matches) == lines(command("query", text[1], "--input", "trace.jsonl"))
    assert len(matches) == 1


@pytest.mark.parametrize("order", ["none", "sequence:latency=30ms", "kslack:20ms"])
def test_a_random_trace(order: str, trace: Any, command: Any) -> None:
    name = trace(random_records(7))
    given = ("--input", name, "--time-unit", "ms", "--order", order)
    with slackwater.read(name, time_unit="ms") as events:
        found = slackwater.query(events, [PATTERN, WINDOWS], order=order, barrier="bounded:1ms")
        assert list(found) == lines(
            command("query", PATTERN, WINDOWS, *given, "--barrier", "bounded:1ms")
        )
        assert len(found) > 20
        ordered = slackwater.order(events, order, late=True)
        assert list(ordered) == lines(command("order", *given, "--late", "late.jsonl"))
        assert ordered.late is not None
        assert list(ordered.late) == lines(Path("late.jsonl").read_text())
    counted = [lane["arrived"] for lane in found.counters["sites"]["main"]["lanes"]]
    dropped = [event for event in ordered.late if event["dropped"]]
    assert sum(counted) == len(ordered) + len(dropped)


@pytest.mark.parametrize("text", [PATTERN, WINDOWS, "EVENT SEQ(A a, B b) WHERE a.v > 1e9 WITHIN 5"])
@pytest.mark.parametrize("ending", ["jsonl", "parquet", "csv"])
def test_files(text: str, ending: str, trace: Any, command: Any) -> None:
    name = trace(random_records(8))
    command("query", text, "--input", name, "--time-unit", "ms", "--out", f"c.{ending}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", slackwater.SlackwaterWarning)
        found = slackwater.query(slackwater.read(name, time_unit="ms"), text)
    assert found.write(f"p.{ending}") == len(found)
    assert Path(f"p.{ending}").read_bytes() == Path(f"c.{ending}").read_bytes()
    if ending == "parquet":
        assert found.to_arrow() == pq.read_table("c.parquet")
    if ending == "csv":
        heading = Path("c.csv").read_text().splitlines()[0]
        assert found.to_arrow(flat=True).column_names == heading.replace('"', "").split(",")


def test_final_results_and_changes_of_a_file_and_of_a_log(trace: Any, command: Any) -> None:
    asked = "EVENT SEQ(A a, !B b) WITHIN 20"
    records = [
        {"type": kind, "ts": ts, "arrival": ts} for kind, ts in (("A", 1), ("B", 5), ("A", 9))
    ]
    name = trace(records)
    command("log", "import", name, "--out", "made.log")
    options = {"order": "none", "barrier": "immediate"}
    here = slackwater.query(name, asked, **options)
    there = slackwater.query("made.log", asked, **options)
    assert list(here) == list(there.final())
    assert list(here.changes()) == list(there)
    assert [each["op"] for each in there] == ["+", "-", "+"]
    assert [each["op"] for each in here] == ["+"]
    assert here.to_arrow().num_rows == 1


def test_options_reach_the_chain(trace: Any, command: Any) -> None:
    name = trace(random_records(9))
    options = {"certainty": "max-delay", "purge": "late:1s", "guard": "off"}
    found = slackwater.query(slackwater.read(name, time_unit="ms"), PATTERN, **options)  # type: ignore[arg-type]
    words = [word for key, value in options.items() for word in (f"--{key}", value)]
    said = lines(command("query", PATTERN, "--input", name, "--time-unit", "ms", *words))
    assert list(found) == said
    assert said != list(slackwater.query(slackwater.read(name, time_unit="ms"), PATTERN))
    far = slackwater.query(
        slackwater.read(name, time_unit="ms"), WINDOWS, order="none", window="horizon=0ms"
    )
    assert list(far) == lines(
        command("query", WINDOWS, "--input", name, "--time-unit", "ms", "--order", "none",
                "--window", "horizon=0ms")
    )  # fmt: skip


def test_queries_by_name(trace: Any) -> None:
    name = trace(random_records(10))
    asked = {"pairs": PATTERN, "counts": WINDOWS}
    found = slackwater.query(slackwater.read(name, time_unit="ms"), asked)
    assert [*dict.fromkeys(each["query"] for each in found)] == ["pairs", "counts"]


def test_the_form_of_an_input(here: Path, command: Any) -> None:
    (here / "t.csv").write_text("b;2,5;5\na;1,5;4\n")
    found = slackwater.read(
        "t.csv", time_unit="ms", mapping={"type": "what", "ts": "when"}, attrs=["n"],
        delimiter=";", header=["what", "when", "n"], sort="ts",
    )  # fmt: skip
    said = command(
        "order", "--input", "t.csv", "--time-unit", "ms", "--map", "type=what", "--map", "ts=when",
        "--attrs", "n", "--delimiter", ";", "--header", "what,when,n", "--sort", "ts",
    )  # fmt: skip
    assert list(slackwater.order(found)) == lines(said)
    assert len(lines(said)) == 2


def test_comparisons(trace: Any, command: Any) -> None:
    name = trace(random_records(11))
    orders = ["none", "sequence", "kslack:10ms"]
    words = [word for order in orders for word in ("--order", order)]
    said = json.loads(command("compare", "--input", name, "--time-unit", "ms", "--json", *words))
    found = slackwater.compare(slackwater.read(name, time_unit="ms"), orders)

    def without_speed(numbers: Any) -> Any:
        timed = ("seconds", "events_per_second")
        plain = [{k: v for k, v in each.items() if k not in timed} for each in numbers["orders"]]
        return {**numbers, "orders": plain, "verdict": numbers["verdict"]["suits"]}

    assert without_speed(found.numbers) == without_speed(said)
    assert found.suits == said["verdict"]["suits"]
    assert said["verdict"]["reason"] in found.verdict
    table = found.to_arrow()
    assert table["order"].to_pylist() == orders == [each["order"] for each in found]
    assert table["hold_ns.p99"].to_pylist() == [each["hold_ns"]["p99"] for each in found]
    assert found.write("compared").read_text().startswith("<!DOCTYPE html>")


def test_verdicts_of_a_log(trace: Any, command: Any) -> None:
    path = trace(random_records(5))
    log = str(Path(path).with_name("seen.log"))
    command("log", "import", path, "--out", log, "--time-unit", "ms")
    asked = command("validate", "--log", log, "--query", PATTERN, "--uncertain", "1", "--json")
    with slackwater.read(log) as recorded:
        found = slackwater.validate(recorded, PATTERN, uncertain=1.0)
    assert found.pop("looked_at") != ""
    want = json.loads(asked)
    assert found == {name: want[name] for name in found}
    assert [each["name"] for each in found["queries"]] == ["q1"]
    with pytest.raises(slackwater.UserError, match="no event has an attribute 'z'"):
        slackwater.validate(log, "EVENT SEQ(A a, B b) WHERE a.z = b.z WITHIN 1 s")


def test_plans(command: Any) -> None:
    said = command("query", f"EXPLAIN {PATTERN}", "--barrier", "bounded:1s", "--time-unit", "ms")
    for text in (PATTERN, f"EXPLAIN {PATTERN}"):
        assert slackwater.explain(text, time_unit="ms", barrier="bounded:1s") == said


@pytest.mark.slow
def test_scenarios(command: Any) -> None:
    settings = {"duration": "200ms"}
    command("run", "soccer", "--set", "duration=200ms", "--in-process", "--out", "c")
    with slackwater.run("soccer", settings, out="p") as done:
        assert list(done.results) == lines(Path("c/results.jsonl").read_text())
        assert done.results.counters["sites"]
        assert {path.name for path in done.folder.iterdir()} == {
            path.name for path in Path("c").iterdir()
        }
    assert Path("p/report.html").exists()
    assert done.score.claims
    with slackwater.run("soccer", settings) as other:
        folder = other.folder
        assert other.manifest["log_sha256"] == done.manifest["log_sha256"]
        assert slackwater.read(other.log).arrival_given
        assert other.report.exists()
    assert not folder.exists()
    alone = slackwater.run("soccer", settings).results
    assert list(alone) == lines(Path("c/results.jsonl").read_text())


ROWS = [
    {"type": kind, "ts": 10 * seq, "seq": seq, "arrival": 10 * seq + late}
    for seq, (kind, late) in enumerate((("A", 1), ("B", 15), ("A", 6), ("B", 1)))
]


@pytest.mark.slow
@pytest.mark.spark
def test_spark_answers_the_same(trace: Any) -> None:
    asked = "EVENT SEQ(A a, B b) WITHIN 50"
    with slackwater.read(trace(sorted(ROWS, key=lambda row: row["arrival"]))) as events:
        here = slackwater.query(events, asked, late=True).changes()
        there = slackwater.query(events, asked, late=True, master="local[2]")
        assert list(there) == list(here)
        assert len(here) == 3
        assert there.to_arrow() == here.to_arrow()
        assert there.counters["sites"] == here.counters["sites"]
        assert list(slackwater.order(events, master="local[2]")) == list(slackwater.order(events))
