"""Runs that stand from batch to batch: in one operator, whatever room it had to make meanwhile, and
while it forgets events; nothing is walked for those in order that find room.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from engine.pattern.alone import Alone
from engine.pattern.settings import PatternSettings
from engine.query import query
from engine.query.repeat_plan import RepeatPlan
from engine.repetition import kernel
from engine.repetition.matcher import RepeatMatcher
from engine.stream.released import Strings

PATTERNS = [
    "SEQ(A a, B+ b[], C c) WITHIN 90 PARTITION BY k CONTIGUITY NEXT",
    "SEQ(A a, B+ b[], !D n, C c) WITHIN 90 PARTITION BY k CONTIGUITY NEXT SKIP TO NEXT",
    "SEQ(A+ a[], B+ b[]) WHERE b[i].v > b[i - 1].v WITHIN 90 CONTIGUITY STRICT SKIP PAST LAST",
    "SEQ(A a, B{2,} b[] UNTIL b.v > 7, C c) WITHIN 900 PARTITION BY k CONTIGUITY NEXT LIMIT 2",
]


def events_of(tools: Any, late: float, seed: int) -> list[Any]:
    chance, ref, events = random.Random(seed), 0, []
    for _ in range(300):
        ref += chance.randint(1, 6)
        release = ref + (chance.randint(10, 60) if chance.random() < late else 0)
        attrs = {"v": chance.randrange(10), "k": chance.randrange(9)}
        events.append(tools.Event(chance.choice("AABBBCD"), ref, release=release, attrs=attrs))
    return sorted(events, key=lambda event: event.release)


@pytest.mark.parametrize(("late", "room"), [(0.0, 8), (0.03, 8), (0.0, 0)])
@pytest.mark.parametrize("text", PATTERNS)
def test_runs_stand_from_batch_to_batch(
    tools: Any, monkeypatch: pytest.MonkeyPatch, text: str, late: float, room: int
) -> None:
    monkeypatch.setattr(kernel, "_LINKS", room)
    plan, events = query(f"EVENT {text}"), events_of(tools, late, len(text))
    assert isinstance(plan, RepeatPlan)
    settings = PatternSettings(keep_late_ns=100)
    whole = tools.run(lambda: Alone(RepeatMatcher(plan, settings)), events)
    assert len(whole) > 2
    matcher = RepeatMatcher(plan, settings)
    operator, strings, found = Alone(matcher), Strings(), list[Any]()
    for start in range(0, len(events), 7):
        stop = min(start + 7, len(events))
        found += operator.process(tools.batch(events, strings, start, stop))
    assert [*found, *operator.finish(10**9)] == whole
    walked = matcher.counters()["looked_at"]
    assert late or bool(walked) == (not room)
    assert matcher.table.n < 300 or "900" in text  # events were forgotten meanwhile
