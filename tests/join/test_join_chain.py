"""Joins in whole chains: orders, late events, cuts, state on disk, and on Spark."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.barrier.registry import parse_barrier
from engine.chain import Chain, ChainSettings
from engine.log.input.trace import TraceRead
from engine.order.base import Guards
from engine.order.registry import parse_order
from engine.passes.inprocess import run_in_process
from engine.pattern.settings import PatternSettings
from engine.pattern.spill.settings import SpillSettings
from engine.query import query
from engine.results.export import export_jsonl
from engine.stream.frame import Frame
from tests.join.sides import Definition, Sided, tumbling, within
from tests.spark.both_hosts import answers, log_of

KINDS = {"inner": "", "left": "LEFT", "right": "RIGHT", "full": "FULL", "anti": "ANTI"}
COLUMNS = "a.seq AS x, b.seq AS y, b.ts - a.ts AS gap"
TEXTS = {
    f"{kind}{number}": f"SELECT {'a.seq AS x' if kind == 'anti' else COLUMNS} "
    f"FROM a {word} JOIN b ON a.id = b.id {near}"
    for kind, word in KINDS.items()
    for number, near in enumerate(("WITHIN 12", "WINDOW TUMBLING 20"))
}  # fmt: skip


def records(n: int = 300, late: int = 60) -> list[dict[str, Any]]:
    """Each stream has a source of its own, whose numbers tell its events apart."""
    chance, found, numbers = random.Random(3), list[dict[str, Any]](), Counter[str]()
    for arrival in range(n):
        stream = chance.choice("ab")
        delay = chance.randint(1, late) if chance.random() < 0.2 else 0
        found.append({
            "stream": stream, "source": f"of {stream}", "seq": numbers[stream],
            "ts": arrival - delay, "arrival": arrival, "attrs": {"id": chance.randrange(4)},
        })  # fmt: skip
        numbers[stream] += 1
    return found


def expected(name: str, made: Sequence[dict[str, Any]]) -> set[tuple[int | None, int | None]]:
    events = [
        Sided("T", ref=one["ts"], stream=one["stream"], attrs=one["attrs"], seq=one["seq"])
        for one in made
    ]
    near = within(12) if name.endswith("0") else tumbling(20)
    rows = Definition(name[:-1], near, lambda x, y: x.attrs["id"] == y.attrs["id"]).rows(events)
    return {
        tuple(None if n is None else events[n].seq for n in row)  # type: ignore[misc]
        for row in rows
    }


def left_of(results: Sequence[dict[str, Any]]) -> set[tuple[int | None, int | None]]:
    counts: Counter[tuple[int | None, int | None]] = Counter()
    for one in results:
        value = one["value"]
        counts[value["x"], value.get("y")] += 1 if one["op"] == "+" else -1
    assert set(counts.values()) <= {0, 1}
    return {row for row, n in counts.items() if n}


def settings(order: str, barrier: str | None = None, **more: Any) -> ChainSettings:
    plans = tuple(query(text, name=name) for name, text in TEXTS.items())
    in_force = None if barrier is None else parse_barrier(barrier)
    return ChainSettings(parse_order(order), plans, in_force, guards=Guards(None), **more)


def frames(made: Sequence[dict[str, Any]], folder: Path) -> list[Frame]:
    path = folder / "t.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in made), "utf-8")
    return list(TraceRead(path, "ns"))


def run(chosen: ChainSettings, given: Sequence[Frame], every: int) -> list[list[dict[str, Any]]]:
    """Cut after so many rows, and restored there."""
    chain, found = Chain(chosen, "main"), [list[dict[str, Any]]() for _ in TEXTS]
    parts = [
        Frame("main", frame.batch.slice(start, every))
        for frame in given
        for start in range(0, frame.rows, every)
    ]
    for part in parts:
        for mine, results in zip(found, chain.process([part]).results, strict=True):
            mine += list(results)
        chain = Chain.restored(chosen, "main", chain.snapshot())
    for mine, results in zip(found, chain.finish().results, strict=True):
        mine += list(results)
    return found


@pytest.mark.parametrize(
    ("order", "barrier"),
    [
        ("none", "immediate"), ("none", "bounded:60"), ("kslack:60", None), ("kslack:5", None),
        ("sequence:latency=100,late=pass", None),
    ],
)  # fmt: skip
def test_late_events_and_any_cut(tmp_path: Path, order: str, barrier: str | None) -> None:
    made = records()
    given, chosen = frames(made, tmp_path), settings(order, barrier)
    whole = run(chosen, given, 10_000)
    assert run(chosen, given, 53) == whole
    taken_back = 0
    for name, results in zip(TEXTS, whole, strict=True):
        assert left_of(results) == expected(name, made)
        taken_back += sum(one["op"] == "-" for one in results)
    # What is in order when it comes, or waits long enough, is never taken back.
    assert (taken_back > 0) == ((order, barrier) in {
        ("none", "immediate"), ("kslack:5", None),
    } or order.startswith("sequence"))  # fmt: skip


@pytest.mark.parametrize("keyed", [True, False])
def test_state_on_disk(tmp_path: Path, keyed: bool) -> None:
    """Events up to 300 late; memory holds 40."""
    made = records(400, late=300)
    names = ["inner0", "left0", "full1", "anti0"]
    key = "a.id = b.id" if keyed else "a.id <= b.id AND a.id >= b.id"
    plans = tuple(query(TEXTS[name].replace("a.id = b.id", key), name=name) for name in names)
    chosen = replace(
        settings("none", "bounded:10", pattern=PatternSettings(keep_late_ns=1000)), plans=plans
    )
    spill = SpillSettings(tmp_path / "chunks", 40, 25, pending=5, wait_ns=100)
    log = log_of("".join(json.dumps(one) + "\n" for one in made), tmp_path, 100, 50)
    counters = run_in_process(log, replace(chosen, spill=spill), tmp_path / "parts")
    results = [json.loads(line) for line in answers(tmp_path / "parts", names).splitlines()]
    for name in names:
        mine = [one for one in results if one["query"] == name]
        assert left_of(mine) == expected(name, made), name
        assert counters["sites"]["main"]["queries"][name]["spilled"] > 50


def test_values_are_the_same_one_by_one_and_as_lines(tmp_path: Path) -> None:
    """Columns make the text that the dict of a result makes."""
    made = records(200)
    made[7]["attrs"] = {"id": 2, "name": 'a "quoted"\nname', "v": 1.5e-7}
    made[9]["attrs"] = {"id": 2, "name": "é", "v": 3.0}
    text = (
        "SELECT a.name, a.v, b.v AS w, a.v * b.v AS product, b.name AS other, a.id + b.id AS ids "
        "FROM a FULL JOIN b ON a.id = b.id WITHIN 12"
    )
    chosen = replace(settings("none", "immediate"), plans=(query(text),))
    given = frames(made, tmp_path)
    chain = Chain(chosen, "main")
    results = [*chain.process(given).results[0], *chain.finish().results[0]]
    log = log_of((tmp_path / "t.jsonl").read_text(), tmp_path, 60, 30)
    run_in_process(log, chosen, tmp_path / "parts")
    with (tmp_path / "out").open("w") as out:
        export_jsonl(tmp_path / "parts", out)
    lines = (tmp_path / "out").read_text().splitlines()
    assert lines == [json.dumps(one, ensure_ascii=False) for one in results]
    assert {type(one["value"]["product"]) for one in results} == {float, type(None)}


@pytest.mark.spark
@pytest.mark.slow
def test_spark_gives_the_same(tmp_path: Path) -> None:
    from engine.spark.host import run_on_spark  # noqa: PLC0415 - needs Java

    made = [one | {"site": site} for one in records(400) for site in ("north", "south")]
    log = log_of("".join(json.dumps(one) + "\n" for one in made), tmp_path, 200, 50)
    chosen = settings("kslack:5")
    run_in_process(log, chosen, tmp_path / "here")
    there = run_on_spark(log, chosen, tmp_path / "there", "local[2]", files_per_batch=1)
    assert len(there["batches"]) >= 3
    here = answers(tmp_path / "here", TEXTS)
    assert here.count('"op": "-"') > 10
    assert answers(tmp_path / "there", TEXTS) == here
