"""Statements of every kind at once, over many worlds, each a site: Spark says what chains say."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from engine.passes.asked import asked_of_queries
from engine.passes.inprocess import run_in_process
from engine.query.analysis.cascade import read_statements
from engine.spark.host import run_on_spark
from tests.products.questions import JOINS, PATTERNS
from tests.products.statements import CASCADES, CONSTRAINTS, REPETITIONS
from tests.products.worlds import World, unruly_worlds, worlds
from tests.spark.both_hosts import answers, log_of
from tests.window.plain import Product

WINDOWS = [
    Product(("SLIDING", 9, 3), ("g",), ("median(v)",), "v > 0", "", 1, "EACH", "EMIT ON CHANGE"),
    Product(("SESSION", 6, 6), ("h",), ("last(h)",), "", "n > 1", None, "", "EMIT EARLY EVERY 5"),
    Product(("ROWS", 3, 2), (), ("count(DISTINCT h)",), "", "", None, "", ""),
]
SITES = 24


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # of many worlds, if one fails
@pytest.mark.parametrize(
    ("order", "cascade"),
    [
        ("none", "window, pattern"), ("kslack:5", "pattern, early windows"),
        ("sequence:timeout=fixed:10,late=pass", "sessions, pattern"),
    ],
)  # fmt: skip
@given(sites=st.lists(worlds(14) | unruly_worlds(14), min_size=SITES, max_size=SITES))
@settings(
    max_examples=1, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
def test_spark_says_the_same_of_every_world(order: str, cascade: str, sites: list[World]) -> None:
    assume(sum(len(world.records) for world in sites) > 10 * SITES)  # the first one is the least
    texts = [product.text for product in WINDOWS]
    for some in (PATTERNS, REPETITIONS, CONSTRAINTS):
        texts += [question.text for question in some.values()]
    texts += [question.text for name, question in JOINS.items() if "a.v < b.v" in name]
    texts.append(CASCADES[cascade].text)
    names = [f"asked{place}" for place in range(len(texts))]
    plans, _ = read_statements(texts, names=names)
    chosen = asked_of_queries(
        plans, "ns", order=order, guard="off", window="horizon=600s", monitor="horizon=30"
    )
    records = [
        record | {"site": f"site {number:02}"}
        for number, world in enumerate(sites)
        for record in world.records
    ]
    records.sort(key=lambda record: record["arrival"])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = log_of("".join(json.dumps(record) + "\n" for record in records), folder, 60, 7)
        run_in_process(log, chosen, folder / "here")
        there = run_on_spark(log, chosen, folder / "there", "local[2]", files_per_batch=1)
        assert len(there["batches"]) > 3
        every = [plan.name for plan in plans]
        here = answers(folder / "here", every)
        assert answers(folder / "there", every) == here
        told = {json.loads(line)["query"] for line in here.splitlines()}
        assert len(told) > len(every) - 4, sorted({*every} - told)
