"""Statements of every kind at once, behind barriers, over many worlds, each a site: Spark says what
chains in this process say, to the letter, with the same counters.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from slackwater.engine.hosts.options import QueryOptions
from slackwater.engine.hosts.pipeline import run_in_process
from slackwater.engine.hosts.spark.host import run_on_spark
from slackwater.engine.query.analysis.cascade import read_statements
from tests.products.questions import JOINS, PATTERNS
from tests.products.statements import CASCADES, CONSTRAINTS, REPETITIONS
from tests.products.test_every_product import steady
from tests.products.worlds import World, unruly_worlds, worlds
from tests.spark.both_hosts import answers, log_of
from tests.window.plain import Product

WINDOWS = [
    Product(("SLIDING", 9, 3), ("g",), ("median(v)",), "v > 0", "", 1, "EACH", "EMIT ON CHANGE"),
    Product(("SESSION", 6, 6), ("h",), ("last(h)",), "", "n > 1", None, "", "EMIT EARLY EVERY 5"),
    Product(("ROWS", 3, 2), (), ("count(DISTINCT h)",), "", "", None, "", ""),
]
MORE = [
    """EVENT SEQ(A{2,} a[], !N n, B b) WHERE a[i].v > a[i - 1].v WITHIN 60 PARTITION BY g
    CONTIGUITY NEXT RETURN *, count(a) AS n, last(a.v) AS top""",
    "EVENT SEQ(A a, B+ b[] UNTIL b.v > 2, C c) WITHIN 40 PARTITION BY g SKIP PAST LAST EVENT",
    "EVENT SEQ(A a, B* b[], C? c, N d) WHERE sum(b.v) > a.v WITHIN 30 LIMIT 3",
    "EVENT SEQ(A a OVERLAP B b, !N n, C c) WHERE a.g = b.g WITHIN 60",
    "EVENT SEQ(A a BEFORE PAL(B b, C c) OVERLAP A d) WHERE b.g = c.g WITHIN 50",
    """EVENT SEQ(A a, !N n, B b) WHERE a.v > 0
    UNDER CONSTRAINT some FOR TRACE BY h TIMEOUT 50 AS (A[v > 1] | B | C | N)*""",
]
"""Which plain Python does not answer."""
SITES = 14


def texts_of(cascade: str) -> list[str]:
    """Of all kinds; of patterns alone without a cascade, as ``adaptive`` is of them."""
    some = [PATTERNS, REPETITIONS, *([CONSTRAINTS] if cascade else [])]
    texts = [question.text for each in some for question in each.values()]
    texts += [text for text in MORE if cascade or "CONSTRAINT" not in text]
    texts += [question.text for name, question in JOINS.items() if "a.v < b.v" in name]
    if cascade:
        texts += [*(product.text for product in WINDOWS), CASCADES[cascade].text]
    return texts


def facts(counters: dict[str, Any]) -> Any:
    """Counters that must not depend on the host."""
    return steady({site: each["queries"] for site, each in counters["sites"].items()})


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # of many worlds, if one fails
@pytest.mark.parametrize(
    ("order", "barrier", "cascade"),
    [
        ("none", None, "window, pattern"),
        ("none", "punctuation,ordered", "rows, pattern"),
        ("kslack:5", "bounded:20", "pattern, early windows"),
        ("sequence:timeout=fixed:10,late=pass", "hold:7", "sessions, pattern"),
        ("none", "adaptive", ""),
    ],
)
@given(sites=st.lists(worlds(14) | unruly_worlds(14), min_size=SITES, max_size=SITES))
@settings(max_examples=1, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
def test_spark_says_the_same_of_every_world(
    order: str, barrier: str | None, cascade: str, sites: list[World]
) -> None:
    assume(sum(len(world.records) for world in sites) > 10 * SITES)  # the first one is the least
    texts = texts_of(cascade)
    plans, _ = read_statements(texts, names=[f"asked{place}" for place in range(len(texts))])
    options = QueryOptions(
        order=order, barrier=barrier, guard="off", window="horizon=600s" if cascade else None,
        monitor="horizon=30" if cascade else None,
    )  # fmt: skip
    chosen = options.answering(plans, "ns")
    records = [
        record | {"site": f"site {number:02}"}
        for number, world in enumerate(sites)
        for record in world.records
    ]
    records.sort(key=lambda record: record["arrival"])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = log_of("".join(json.dumps(record) + "\n" for record in records), folder, 20, 7)
        alone = run_in_process(log, chosen, folder / "here")
        there = run_on_spark(log, chosen, folder / "there", "local[2]", files_per_batch=1)
        assert len(there["batches"]) > 3  # a file each
        assert facts(there) == facts(alone)
        every = [plan.name for plan in plans]
        here = answers(folder / "here", every)
        assert answers(folder / "there", every) == here
        answered = {json.loads(line)["query"] for line in here.splitlines()}
        assert len(answered) > 0.7 * len(every), sorted({*every} - answered)
