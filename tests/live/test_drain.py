"""What has waited through an outage is sent no faster than it may be."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from edge_agent.outbox.drain import DrainLimit
from tests.live.conftest import Field, until

S = 10**9


@given(st.integers(1, 10**6), st.lists(st.tuples(st.integers(0, S), st.integers(1, 5000))))
def test_no_span_has_more_than_the_rate_and_one_message(
    rate: int, tries: list[tuple[int, int]]
) -> None:
    limit, now, sent = DrainLimit(rate), 0, []
    for step, rows in tries:
        now += step
        if limit.wait_ns(now) == 0:
            limit.sent(rows, now)
            sent.append((now, rows))
    for place, (began, _) in enumerate(sent):
        total = 0
        for at, rows in sent[place:]:
            # Before the last message, what was sent is paid for (whole ns are rounded down).
            assert total * S <= (at - began + len(sent)) * rate
            total += rows


def test_without_a_limit_nothing_waits() -> None:
    limit = DrainLimit(0)
    limit.sent(10**9, 0)
    assert limit.wait_ns(0) == 0


def test_a_backlog_leaves_at_the_rate(field: Field) -> None:
    inputs = field.replay("a.jsonl", range(6000))
    name = field.agent_file("door", inputs, '[outbox]\nfolder = "outbox"\n')
    text = (field.folder / name).read_text().replace("[gateway]\n", "[gateway]\ndrain_max = 2000\n")
    (field.folder / name).write_text(text)
    field.site()
    field.serve()
    began = time.monotonic()
    running = field.start("agent", "--config", name)
    assert running.end(None) == 0, running.text
    assert time.monotonic() - began >= 2.4  # the last of six messages is not waited for
    assert until(lambda: field.values("door"), "the events") == list(range(6000))
