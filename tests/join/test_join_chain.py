"""Joins in whole chains: state on disk, and the lines that results make.

Orders, barriers, cuts and hosts: tests/products."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.hosts.pipeline import run_in_process
from slackwater.engine.log.input.trace import TraceRead
from slackwater.engine.operators.match.spill.bounds import SpillSettings
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.output.export import export_jsonl
from slackwater.engine.query import query
from slackwater.engine.query.pattern_settings import PatternSettings
from tests.join.definition import Definition, sliding, tumbling, within
from tests.join.sides import Sided
from tests.spark.both_hosts import answers, log_of

KINDS = {"inner": "", "left": "LEFT", "right": "RIGHT", "full": "FULL", "anti": "ANTI"}
COLUMNS = "a.seq AS x, b.seq AS y, b.ts - a.ts AS gap"
NEAR = {
    "WITHIN 12": within(12), "WINDOW TUMBLING 20": tumbling(20),
    "WINDOW SLIDING 20 EVERY 8": sliding(20, 8),
}  # fmt: skip
TEXTS = {
    f"{kind}{number}": f"SELECT {'a.seq AS x' if kind == 'anti' else COLUMNS} "
    f"FROM a {word} JOIN b ON a.id = b.id {near}"
    for kind, word in KINDS.items()
    for number, near in enumerate(NEAR)
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
    near = list(NEAR.values())[int(name[-1])]
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
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in made), "utf-8")
    chain = Chain(chosen, "main")
    results = [*chain.process(list(TraceRead(path, "ns"))).results[0], *chain.finish().results[0]]
    log = log_of(path.read_text(), tmp_path, 60, 30)
    run_in_process(log, chosen, tmp_path / "parts")
    with (tmp_path / "out").open("w") as out:
        export_jsonl(tmp_path / "parts", out)
    lines = (tmp_path / "out").read_text().splitlines()
    assert lines == [json.dumps(one, ensure_ascii=False) for one in results]
    assert {type(one["value"]["product"]) for one in results} == {float, type(None)}
