"""What intervals and their begins take: begins without an interval fill no memory and cost no
answer.
"""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.intervals import bytes_held, chain, stream, timed
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.log.input.trace import TraceRead
from slackwater.engine.operators.match.interval import half_intervals as announced
from slackwater.engine.operators.match.interval.half_intervals import WAITING_MAX, Announced
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from slackwater.engine.query.pattern_settings import PatternSettings

BATCH = 4096
MB_MAX = 16
"""``WAITING_MAX`` IBPs are 3 MB, and as much again while they are put together."""
QUERY = "EVENT ISEQ[a.ts < b.te < c.te](A a, B b, C c) WITHIN 9"
PAIRS = 40


def flood(ibps: int) -> tuple[Announced, int]:
    """What is known after so many IBPs of one source, and the most bytes that it took."""
    heard = Announced(["A", "B"], 1000)
    tracemalloc.start()
    try:
        for first in range(0, ibps, BATCH):
            at = np.arange(first, min(first + BATCH, ibps))
            same = np.zeros(len(at), np.int32)
            heard.begins({"type": same, "source": same, "incarnation": same.astype(np.int64),
                          "ref": at, "arrival": at, "id": at})  # fmt: skip
        return heard, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_million_begins_without_an_interval_take_no_more_than_a_tenth_of_them() -> None:
    few, least = flood(100_000)
    many, most = flood(1_000_000)
    assert most < least + (1 << 20)
    assert most < MB_MAX << 20
    assert few.count == 100_000
    assert many.count == 1_000_000
    assert len(many.snapshot()["_waiting"]["ref"]) <= WAITING_MAX + BATCH


def records() -> list[dict[str, Any]]:
    """Every A is announced before the first row; each B and C come before their A."""
    begins = [
        {"kind": "ibp", "type": "A", "source": "a", "id": n, "ts": 10 * n, "arrival": 1}
        for n in range(PAIRS)
    ]
    rows = []
    for n in range(PAIRS):
        b = {"type": "B", "source": "b", "ts": 10 * n + 2, "te": 10 * n + 4}
        c = {"type": "C", "source": "c", "ts": 10 * n + 5, "te": 10 * n + 6}
        a = {"type": "A", "source": "a", "ts": 10 * n, "te": 10 * n + 9, "id": n}
        rows += [each | {"arrival": 1000 + int(each["te"])} for each in (b, c, a)]
    return begins + rows


def answers(folder: Path, intervals: str, batch: int) -> tuple[list[Any], dict[str, int]]:
    """Results in full and the operator's counters."""
    path = folder / "trace.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in records()))
    pattern = PatternSettings(purge="promises", intervals=intervals)
    plan = query(QUERY, name="q")
    settings = ChainSettings(parse_order("kslack:0"), (plan,), pattern=pattern)
    chain = Chain(settings, "main")
    found: list[Any] = []
    for frame in TraceRead(path, "ns"):
        for start in range(0, frame.rows, batch):
            part = frame.slice(start, min(batch, frame.rows - start))
            found += [list(of) for of in chain.process([part]).results]
    found += [list(of) for of in chain.finish().results]
    return [each for of in found for each in of], chain.counters()["queries"]["q"]


@pytest.mark.parametrize("most", [4, PAIRS // 2, 1 << 16])
def test_what_is_forgotten_costs_no_answer_and_hangs_on_no_batch(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    want, _ = answers(tmp_path, "naive", 1000)
    assert len(want) >= PAIRS
    monkeypatch.setattr(announced, "WAITING_MAX", most)
    whole = answers(tmp_path, "ibp", 1000)
    assert whole[0] == want
    assert whole[1]["ibp_forgotten"] == max(PAIRS - most, 0)
    for batch in (1, 7):
        found, counters = answers(tmp_path, "ibp", batch)
        assert found == want
        for name in ("ibp", "ibp_forgotten", "ibp_late", "unannounced", "dropped"):
            assert counters[name] == whole[1][name], name


@pytest.mark.parametrize("keyed", [True, False])
def test_an_interval_takes_170_bytes_at_most(keyed: bool) -> None:
    _, _, matcher = timed(query(chain(3, keyed=keyed)), stream(600), "ibp", 600)
    assert matcher.table.n > 20
    assert bytes_held(matcher) <= 170
