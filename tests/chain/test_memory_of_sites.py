"""Ten thousand sites of few events each fit a small machine: what one site holds."""

from __future__ import annotations

import tracemalloc

import pytest

from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from tests.order.conftest import frame

SITES = 40
EVENTS = frame(
    [
        {"source": f"s{n % 3}", "seq": n // 3, "type": "AB"[n % 2], "attrs": {"v": n / 2}}
        | {"ts": 1_000 * n, "arrival": 1_000 * n}
        for n in range(10)
    ]
)


@pytest.mark.parametrize(
    ("text", "kib"),
    [
        ("SELECT count(*), avg(v) FROM events GROUP BY source WINDOW TUMBLING 5 us", 80),
        ("SELECT max(v) FROM events WINDOW SLIDING 5 us EVERY 1 us", 256),
        ("SELECT sum(v) FROM events WINDOW SESSION 5 us", 128),
        ("SELECT sum(v) FROM events WINDOW ROWS 3", 128),
        ("EVENT SEQ(A a, B b) WITHIN 5 us", 256),
        ("EVENT SEQ(A+ a[], B b) WITHIN 5 us", 256),
    ],
)
def test_a_site_of_ten_events_holds_little(text: str, kib: int) -> None:
    settings = ChainSettings(parse_order("none"), (query(text),))

    def chain_of_ten() -> Chain:
        chain = Chain(settings, "main")
        chain.process([EVENTS])
        return chain

    chains = [chain_of_ten()]  # what all share
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        chains += [chain_of_ten() for _ in range(SITES)]
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / SITES < kib * 1024
