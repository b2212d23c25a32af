"""Spilled chunks in Spark's state store: the same answers as in process with files."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from engine.barrier.registry import parse_barrier
from engine.chain import ChainSettings
from engine.order.base import Guards
from engine.order.registry import parse_order
from engine.passes.inprocess import run_in_process
from engine.pattern.settings import PatternSettings
from engine.pattern.spill.settings import SpillSettings
from engine.query import query
from engine.spark.host import run_on_spark
from tests.spark.both_hosts import answers, log_of

pytestmark = [pytest.mark.spark, pytest.mark.slow]

QUERIES = {
    "middle": "EVENT SEQ(A a, !C c, B b) WHERE a.id = b.id AND c.id = a.id WITHIN 20 ns",
    "front": "EVENT SEQ(!C c, A a, B b) WHERE a.id = b.id WITHIN 20 ns",
}


@pytest.fixture(scope="module", name="log")
def _log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sites; a tenth of the events up to 400 ns late."""
    folder = tmp_path_factory.mktemp("spill")
    chance, lines = random.Random(5), []
    for number in range(3000):
        ts = number - (chance.randint(1, 400) if chance.random() < 0.1 else 0)
        lines.append(
            f'{{"site": "{chance.choice(["north", "south"])}", "source": "s{number % 3}", '
            f'"type": "{chance.choice("AABBC")}", "ts": {ts}, "arrival": {number}, '
            f'"attrs": {{"id": {chance.randrange(3)}}}}}\n'
        )
    return log_of("".join(lines), folder, 800, 200)


@pytest.mark.parametrize(
    ("spill", "front"),
    [
        (SpillSettings(None, 40, 25, pending=5, wait_ns=200), "a.id = b.id"),
        (SpillSettings(None, 8, 20, 300, 150, parts=2), "a.id = b.id AND c.id = b.id"),
    ],
    ids=["beyond", "within"],
)
def test_the_state_store_keeps_chunks_between_batches(
    log: Path, tmp_path: Path, spill: SpillSettings, front: str
) -> None:
    texts = QUERIES | {"front": QUERIES["front"].replace("a.id = b.id", front)}
    plans = tuple(query(text, name=name) for name, text in texts.items())
    settings = ChainSettings(
        parse_order("none"), plans, parse_barrier("bounded:10ns"), guards=Guards(None),
        pattern=PatternSettings(keep_late_ns=1000), spill=spill,
    )  # fmt: skip
    files = replace(settings, spill=replace(spill, folder=tmp_path / "chunks"))
    run_in_process(log, files, tmp_path / "here")
    there = run_on_spark(log, settings, tmp_path / "there", "local[2]", files_per_batch=1)
    assert len(there["batches"]) >= 3
    expected = answers(tmp_path / "here", QUERIES)
    assert expected.count('"op": "+"') > 200
    assert answers(tmp_path / "there", QUERIES) == expected
    for site in there["sites"].values():
        for counts in site["queries"].values():
            assert counts["spilled"] > 500
            assert counts["chunk_loads"] > 10
            assert (counts["chunks"], counts["pending"]) == (0, 0)
