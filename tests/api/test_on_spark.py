"""With ``master``, the same on Spark."""

from __future__ import annotations

from typing import Any

import pytest

import slackwater

ROWS = [
    {"type": kind, "ts": 10 * seq, "seq": seq, "arrival": 10 * seq + late}
    for seq, (kind, late) in enumerate((("A", 1), ("B", 15), ("A", 6), ("B", 1)))
]


@pytest.mark.slow
@pytest.mark.spark
def test_spark_answers_the_same(trace: Any) -> None:
    asked = "EVENT SEQ(A a, B b) WITHIN 50"
    with slackwater.read(trace(sorted(ROWS, key=lambda row: row["arrival"]))) as events:
        here = slackwater.query(events, asked, late=True)
        there = slackwater.query(events, asked, late=True, master="local[2]")
        assert list(there) == list(here)
        assert len(here) == 3
        assert there.to_arrow() == here.to_arrow()
        assert there.counters["sites"] == here.counters["sites"]
        assert list(slackwater.order(events, master="local[2]")) == list(slackwater.order(events))
