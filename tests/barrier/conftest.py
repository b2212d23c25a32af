"""Random traces with disorder, and what a chain makes of them."""

from __future__ import annotations

import itertools
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from lifetimes import Event, PatternSpec, Record

from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.core.frame import Frame
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.log.input.trace import TraceRead
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query

DELAY = 8
"""No event comes later than this after its time [ns]."""


@dataclass(frozen=True)
class Outcome:
    """(op, rows of the match's events by arrival, at) in order of output; the query's counters."""

    given: list[tuple[str, tuple[int, ...], int]]
    counters: dict[str, int] = field(default_factory=dict)


def random_trace(
    seed: int,
    events: int,
    types: str,
    pogs: float = 0.3,
    late: float = 0.4,
    ids: int = 2,
    *,
    numbered: bool = True,
) -> list[Record]:
    """Records in order of arrival, arrival >= event time.

    Three sources number their events. A share ``late`` of events comes up to DELAY late, so that
    they come in any order. After a share ``pogs`` of its events a source promises truly that none
    below the time of its next one follows; the promise may overtake events. Before anything else
    each source names each type, so that it is known whom to wait for: an event of a source that
    nobody knew of breaks the promises of the others. One source ends early. Not ``numbered``:
    promises and ends have no number and overtake nothing.
    """
    chance = random.Random(seed)
    made: list[Event] = []
    ts = 0
    for _ in range(events):
        ts += chance.choice((0, 1, 1, 2, 3))
        delay = chance.randint(1, DELAY) if chance.random() < late else 0
        source = chance.choice("xyz")
        made.append(Event(source, chance.choice(types), ts, ts + delay, chance.randrange(ids)))
    records = [Record("pog", 0, source, 0, None, 0, kind) for source in "xyz" for kind in types]
    for source in "xyz":
        mine = [event for event in made if event.source == source]
        for number, event in enumerate(mine):
            records.append(Record("event", event.arrival, source, number, event))
            if chance.random() < pogs:
                following = [later.ts for later in mine[number + 1 :]]
                promised = following[0] if following else event.ts
                kind = chance.choice((None, None, *types))
                came, after = event.ts + chance.randint(0, DELAY), number + 1
                if not numbered:
                    came, after = max([came, *(one.arrival for one in mine[: number + 1])]), -1
                records.append(Record("pog", came, source, after, None, promised, kind))
        if source == "z":
            last = max((event.arrival for event in mine), default=0)
            records.append(Record("eos", last + 1, source, len(mine) if numbered else -1))
    records.sort(key=lambda record: record.arrival)
    return records


def _line(record: Record) -> dict[str, Any]:
    line: dict[str, Any] = {
        "kind": record.kind, "source": record.source, "arrival": record.arrival,
        "seq": None if record.seq < 0 else record.seq,
    }  # fmt: skip
    if record.event is not None:
        event = record.event
        line |= {"type": event.type, "ts": event.ts, "attrs": {"id": event.id}}
    if record.kind == "pog":
        line |= {"ts": record.promised} | ({"type": record.type} if record.type else {})
    return line


def answered(
    folder: Path,
    records: Sequence[Record],
    asked: PatternSpec,
    barrier: str,
    cuts: Sequence[int] = (),
) -> Outcome:
    """A chain over the records, cut there, behind order ``none``."""
    path = folder / "t.jsonl"
    path.write_text("".join(json.dumps(_line(record)) + "\n" for record in records))
    (frame,) = TraceRead(path)
    plan = query(asked.text)
    chain = Chain(
        ChainSettings(parse_order("none"), (plan,), parse_barrier(barrier), guards=Guards(None)),
        "main",
    )
    rows = {
        (record.source, record.seq): row
        for row, record in enumerate(record for record in records if record.kind == "event")
    }
    given: list[tuple[str, tuple[int, ...], int]] = []
    borders = [0, *sorted({cut for cut in cuts if 0 < cut < len(records)}), len(records)]
    outputs = [
        chain.process([_part(frame, start, stop)]) for start, stop in itertools.pairwise(borders)
    ]
    for output in (*outputs, chain.finish()):
        for result in output.results[0]:
            found = tuple(rows[event["source"], event["seq"]] for event in result["events"])
            given.append((result["op"], found, result["at"]))
    return Outcome(given, chain.counters()["queries"][plan.name])


def _part(frame: Frame, start: int, stop: int) -> Frame:
    return frame.slice(start, stop - start)


@pytest.fixture(scope="session", name="tools")
def _tools() -> Any:
    """``random_trace``, ``answered`` and DELAY, for test modules."""

    class Tools:
        pass

    found: Any = Tools()
    found.random_trace, found.answered, found.DELAY = random_trace, answered, DELAY
    return found
