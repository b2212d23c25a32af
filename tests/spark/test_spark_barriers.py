"""Negation behind every barrier: Spark gives what the in-process host gives, to the letter."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from engine.barrier.registry import parse_barrier
from engine.chain import ChainSettings
from engine.order.base import Guards
from engine.order.registry import parse_order
from engine.passes.inprocess import run_in_process
from engine.query import query
from engine.spark.host import run_on_spark
from tests.spark.both_hosts import answers, log_of

pytestmark = [pytest.mark.spark, pytest.mark.slow]

QUERIES = {
    "middle": "EVENT SEQ(A a, !C c, B b) WHERE a.id = b.id AND c.id = a.id WITHIN 40 ns",
    "end": "EVENT SEQ(A a, B b, !C c) WHERE a.id = b.id AND c.v > a.v WITHIN 30 ns",
    "front": "EVENT SEQ(!C c, A a, B b) WHERE a.id = b.id AND a.v < b.v WITHIN 20 ns",
}
SEED = 20261121


def trace_of(seed: int) -> str:
    """Two sites of three sources: up to 20 ns late, true promises that may overtake, ends."""
    chance = random.Random(seed)
    records: list[dict[str, Any]] = []
    for site in ("north", "south"):
        sent: dict[str, list[int]] = {"x": [], "y": [], "z": []}
        ts = 0
        for _ in range(600):
            ts += chance.randint(0, 4)
            source = chance.choice("xyz")
            own = {"site": site, "source": source}
            delay = chance.randint(0, 20) if chance.random() < 0.5 else 0
            if chance.random() < 0.3:  # before the event: nothing older comes from now on
                came = ts + chance.randint(0, 15)
                records.append({"kind": "pog", **own, "seq": len(sent[source]), "ts": ts,
                                "arrival": came})  # fmt: skip
            attrs = {"id": chance.randrange(4), "v": chance.randrange(50)}
            records.append({**own, "seq": len(sent[source]), "type": chance.choice("AABBC"),
                            "ts": ts, "arrival": ts + delay, "attrs": attrs})  # fmt: skip
            sent[source].append(ts + delay)
        records += [
            {"kind": "eos", "site": site, "source": source, "seq": len(arrivals),
             "arrival": max(arrivals) + 1}
            for source, arrivals in sent.items()
        ]  # fmt: skip
    records.sort(key=lambda record: record["arrival"])
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.fixture(scope="module", name="log")
def _log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("barriers")
    return log_of(trace_of(SEED), folder, 500, 100)


def facts(counters: dict[str, Any]) -> dict[str, Any]:
    """Counters that must not depend on the host."""
    return {
        site: {name: value for name, value in each.items() if name != "buffered_max_bytes"}
        for site, each in counters["sites"].items()
    }


@pytest.mark.parametrize(
    "barrier",
    [
        "immediate", "punctuation", "bounded:20ns", "hold:15ns", "adaptive",
        "punctuation,ordered", "bounded:20ns,ordered",
    ],
)  # fmt: skip
def test_every_barrier_gives_on_spark_what_it_gives_in_process(
    barrier: str, log: Path, tmp_path: Path
) -> None:
    plans = tuple(query(text, name=name) for name, text in QUERIES.items())
    settings = ChainSettings(
        parse_order("none"), plans, parse_barrier(barrier), guards=Guards(None)
    )
    here = run_in_process(log, settings, tmp_path / "here")
    there = run_on_spark(log, settings, tmp_path / "there", "local[2]", files_per_batch=1)
    expected = answers(tmp_path / "here", QUERIES)
    assert answers(tmp_path / "there", QUERIES) == expected
    assert facts(there) == facts(here)
    assert len(there["batches"]) >= 3
    assert all(expected.count(f'"query": "{name}"') > 20 for name in QUERIES)
    taken_back = expected.count('"op": "-"')
    assert (taken_back > 0) == (barrier in {"immediate", "hold:15ns", "adaptive"})
