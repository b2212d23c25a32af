"""Alerts whose clocks' bounds are refuted: by what events may err then, none is surely false."""

from __future__ import annotations

import random
from typing import Any

import pytest

from slackwater.engine.query.monitor_plan import MonitorSettings
from tests.clocks.test_clock_cases import changes, event, sync
from tests.constraint.slow_traces import Seq
from tests.constraint.test_doubt import ENDING, ENDLESS, standing, worlds
from tests.constraint.test_monitor import FLOWS, SEQS
from tests.pattern.conftest import Event

US, MS = 1_000, 1_000_000
LATE = 30 * US
"""By how much an event arrives before it happened, at least."""


def world(chance: random.Random) -> tuple[list[dict[str, Any]], list[Event], int]:
    """Records; the events as they may have happened by the refuted bound; when it was refuted."""
    records, events = [sync("p", 0, delay=2 * US), sync("q", 0, delay=2 * US)], []
    time, refuted = 100 * MS, 0
    for n in range(7):
        time += chance.choice([1, 4, 15]) * US
        at = time + 2 * US
        letter, source = chance.choice("ABC"), chance.choice("pq")
        trace = 7 + (chance.random() < 0.2)
        when = time if chance.random() < 0.85 else time - 5 * US
        records.append(event(source, letter, when, attrs={"id": trace}, arrival=at))
        unc = US + (LATE if source == "p" else 0)
        events.append(Event(letter, when, unc, source, 0, attrs={"id": trace}))
        if n == 4:
            refuted = at
            records.append(event("p", "X", at + LATE + US, attrs={"id": 0}, arrival=at))
            events.append(Event("X", at + LATE + US, 0, "p", 0, attrs={"id": 0}))
    return records, events, refuted


def holds(
    result: dict[str, Any], events: list[Event], text: tuple[Seq, str], by_time: bool
) -> bool:
    """Whether an alert is true in every order that clocks allow, of the events up to its own."""
    mine = [each for each in events if each.source == result["source"]][result["seq"]]
    known = sorted(events, key=lambda each: each.ref) if by_time else events
    place = next(n for n, each in enumerate(known) if each is mine)
    return worlds(result | {"seq": place}, known, *text) == {True}


@pytest.mark.parametrize("horizon", [None, 10**9])
@pytest.mark.parametrize("seed", range(5))
def test_no_alert_rests_on_a_refuted_bound(seed: int, horizon: int | None) -> None:
    chance = random.Random(seed)
    for _ in range(4):
        records, events, refuted = world(chance)
        seq, expression = chance.choice(SEQS), chance.choice([*FLOWS, *ENDLESS, *ENDING])
        more: dict[str, Any] = {
            "guard": 10**9, "monitor": MonitorSettings(horizon_ns=horizon),
        }  # fmt: skip
        text = f"{seq.text()} UNDER CONSTRAINT flow FOR TRACE BY id AS {expression}"
        found = changes(text, records, **more)
        assert found == changes(text, records, at_once=True, **more)
        for each in standing(found):
            if each["certainty"] == "confirmed" and (horizon or each["at"] > refuted):
                assert holds(each, events, (seq, expression), bool(horizon)), (text, each)


@pytest.mark.parametrize("horizon", [None, 20 * US, 10**9])
def test_what_is_taken_back_was_given_under_timeouts_and_steps(horizon: int | None) -> None:
    chance, taken_back = random.Random(horizon or 0), 0
    for _ in range(12):
        records, _, refuted = world(chance)
        step = sync("p", refuted, -LATE, delay=2 * US) | {"arrival": refuted}
        if chance.random() < 0.5:
            records = [step if one.get("type") == "X" else one for one in records]
        seq, expression = chance.choice(SEQS), chance.choice([*FLOWS, *ENDLESS, *ENDING])
        text = f"{seq.text()} UNDER CONSTRAINT flow FOR TRACE BY id TIMEOUT 9 us AS {expression}"
        more: dict[str, Any] = {
            "guard": 10**9, "monitor": MonitorSettings(horizon_ns=horizon),
        }  # fmt: skip
        found = changes(text, records, **more)
        assert found == changes(text, records, at_once=True, **more)
        standing(found)
        taken_back += sum(one["op"] == "-" and one["at"] == refuted for one in found)
    assert taken_back or horizon is None
