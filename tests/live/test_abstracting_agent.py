"""Interval abstraction the whole way: an agent's stdin, the wire, the gateway, its log, a trace."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import Any

import pytest

from tests.live.conftest import ENV, SLACKWATER, Field, until

pytestmark = pytest.mark.slow

SPEC_READINGS = [55, 70, 95, 80, 110, 120, 90, 60, 30]
SPEC_INTERVALS = [
    ("MEDIUM", 0, 8, None),
    ("HIGH", 8, 12, None),
    ("MEDIUM", 12, 16, None),
    ("LOW", 16, 16, "eos"),
]
ABSTRACT = """
[[input]]
kind = "stdin"
time_unit = "s"
[[abstract]]
into = "bands"
kind = "bands"
value = "v"
bands = ["LOW", 50, "MEDIUM", 100, "HIGH"]
"""


def readings_of(readings: list[tuple[int, int]]) -> list[str]:
    return [f'{{"ts": {ts}, "v": {v}}}' for ts, v in readings]


def exported(field: Field) -> list[dict[str, Any]]:
    subprocess.run(
        [*SLACKWATER, "log", "export", "site.log", "--out", "trace.jsonl", "--quiet"],
        cwd=field.folder, env=ENV, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return [json.loads(line) for line in (field.folder / "trace.jsonl").read_text().splitlines()]


def begins_and_intervals(field: Field) -> tuple[list[Any], list[Any]]:
    """Begins, and intervals, of the source; seconds."""
    trace = exported(field)
    begins = [(e["type"], e["ts"] // 10**9, e["id"]) for e in trace if e.get("kind") == "ibp"]
    ended = [
        (e["type"], e["ts"] // 10**9, e.get("te", e["ts"]) // 10**9, e["id"], e["attrs"].get("cut"))
        for e in trace
        if e.get("kind", "event") == "event"
    ]
    return begins, ended


def test_golden_of_spec_4_10_reaches_the_log_as_intervals_and_their_begins(field: Field) -> None:
    field.site('[limits]\nframe_every = "20 ms"\n')
    gateway = field.serve()
    agent = field.fed(field.agent_file("fridge", ABSTRACT))
    agent.feed(*readings_of([(2 * i, v) for i, v in enumerate(SPEC_READINGS)]))
    agent.finish()
    assert gateway.end() == 0
    begins, ended = begins_and_intervals(field)
    assert [each[:2] for each in begins] == [
        ("MEDIUM", 0),
        ("HIGH", 8),
        ("MEDIUM", 12),
        ("LOW", 16),
    ]
    assert [each[:3] + each[4:] for each in ended] == SPEC_INTERVALS
    assert [each[2] for each in begins] == [each[3] for each in ended]
    # The same trace is the same log again.
    subprocess.run(
        [*SLACKWATER, "log", "import", "trace.jsonl", "--out", "again.log", "--quiet"],
        cwd=field.folder, env=ENV, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    first = (field.folder / "trace.jsonl").read_text()
    (field.folder / "site.log").rename(field.folder / "first.log")
    (field.folder / "again.log").rename(field.folder / "site.log")
    exported(field)
    assert (field.folder / "trace.jsonl").read_text() == first


def test_an_agent_that_is_killed_goes_on_with_its_open_intervals(field: Field) -> None:
    field.site('[limits]\nframe_every = "20 ms"\n')
    gateway = field.serve()
    name = field.agent_file("fridge", ABSTRACT, '[outbox]\nfolder = "box"\nsync_every = "1 ms"\n')
    readings = [(2 * i, v) for i, v in enumerate(SPEC_READINGS)]
    for low, high, sent in ((0, 3, 0), (3, 6, 1), (6, 9, 3)):
        agent = field.fed(name)
        agent.says("running")
        agent.feed(*readings_of(readings[low:high]))
        journal = field.folder / "box" / "000001" / "intervals"
        # What was read is on the disk: its last reading is.
        last = readings[high - 1][0] * 10**9
        mark = last.to_bytes(8, "big").lstrip(b"\0")
        until(lambda j=journal, m=mark: j.exists() and m in j.read_bytes(), "the journal")
        # Its intervals are, too: they have been sent.
        until(lambda most=sent: len(field.rows()) >= most, "the intervals")
        if high < 9:
            agent.end(signal.SIGKILL)
    agent.finish()
    assert gateway.end() == 0
    _, ended = begins_and_intervals(field)
    assert [each[:3] + each[4:] for each in ended] == SPEC_INTERVALS
    assert len({each[3] for each in ended}) == 4


def test_ends_that_wait_in_an_outbox_come_when_they_are_asked_for(field: Field) -> None:
    """Z10 5.3.2: begins overtake a backlog that may drain slowly; the gateway asks for the ends."""
    field.site('[limits]\nframe_every = "20 ms"\npull_back = "200 ms"\n')
    name = field.agent_file("fridge", ABSTRACT, '[outbox]\nfolder = "box"\n')
    field.change(name, "[gateway]\n", "[gateway]\ndrain_max = 2\n")
    agent = field.fed(name)
    agent.feed(*readings_of([(n, 10 + 60 * (n % 2)) for n in range(400)]))
    until(lambda: list((field.folder / "box" / "000001").glob("*.seg")), "events on the disk")
    gateway = field.serve()
    # In their turn the last of 399 would be sent after minutes.
    until(lambda: len(field.rows()) == 399, "all that ended")
    agent.finish()
    assert gateway.end() == 0
    seqs = [row["seq"] for row in field.rows()]
    assert sorted(seqs) == list(range(400))
