"""Events from before a clock's first sync, and from before the offsets that are kept: matches and
windows are confirmed only if they hold under every error that the clocks may have (SPEC 2, Age).

The oracle knows each clock's one sync, and that its error grows by RATE in both directions.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from tests.order.conftest import frame

S, PPB, RATE = 10**9, 10**9, 10**6
"""A clock that may run 0.1 % wrong: within a few minutes that is more than the windows here."""
Record = dict[str, Any]


class Event(NamedTuple):
    source: str
    type: str
    ts: int


class Clock(NamedTuple):
    synced: int
    offset: int
    unc: int

    def ref(self, event: Event) -> int:
        return event.ts + self.offset

    def error(self, event: Event) -> int:
        return self.unc + abs(event.ts - self.synced) * RATE // PPB


@st.composite
def worlds(draw: st.DrawFn) -> tuple[dict[str, Clock], list[Event]]:
    clocks = {
        source: Clock(draw(st.integers(0, 5)) * 1000 * S, draw(st.integers(-2, 2)) * S, S // 100)
        for source in "ab"
    }
    times = draw(st.lists(st.integers(0, 100) | st.integers(4000, 4100), min_size=5, unique=True))
    events = [
        Event(draw(st.sampled_from("ab")), draw(st.sampled_from("AB")), time * S // 2)
        for time in times
    ]
    return clocks, sorted(events, key=lambda event: clocks[event.source].ref(event))


def answers(text: str, clocks: dict[str, Clock], events: list[Event], cut: int) -> list[Record]:
    """What stands at the end, of a log that has the syncs first."""
    records: list[Record] = [
        {"kind": "sync", "source": source, "ts": clock.synced, "offset": clock.offset,
         "delay": 2 * clock.unc, "skew_error_ppb": RATE, "arrival": 0}
        for source, clock in clocks.items()
    ]  # fmt: skip
    records += [
        {"source": event.source, "seq": place, "type": event.type, "ts": event.ts,
         "arrival": 10**13 + place}
        for place, event in enumerate(events)
    ]  # fmt: skip
    chosen = ChainSettings(parse_order("none"), (query(text),), guards=Guards(None))
    chain, found = Chain(chosen, "main"), []
    for start, end in itertools.pairwise([0, cut, len(records)]):
        if end > start:
            found += chain.process([frame(records[start:end])]).results[0]
            chain = Chain.restored(chosen, "main", chain.to_bytes())
    standing: dict[Any, Record] = {}
    for result in [*found, *chain.finish().results[0]]:
        if "events" in result:
            key: Any = tuple(event["seq"] for event in result["events"])
        else:
            key = result["window"]["start"]
        if result["op"] == "+":
            standing[key] = result
        else:
            del standing[key]
    return [standing[key] | {"of": key} for key in sorted(standing)]


@settings(max_examples=60, deadline=None)
@given(world=worlds(), within=st.sampled_from([1, 5, 60]), cut=st.integers(0, 30))
def test_pairs_are_confirmed_if_no_error_undoes_them(
    world: tuple[dict[str, Clock], list[Event]], within: int, cut: int
) -> None:
    clocks, events = world
    text = f"EVENT SEQ(A a, B b) WITHIN {within} s"
    found = {each["of"]: each["certainty"] for each in answers(text, clocks, events, cut)}
    expected = {}
    for (i, a), (j, b) in itertools.product(enumerate(events), repeat=2):
        if (a.type, b.type) != ("A", "B"):
            continue
        apart = clocks[b.source].ref(b) - clocks[a.source].ref(a)
        one, other = clocks[a.source].error(a), clocks[b.source].error(b)
        synced = clocks[a.source].synced
        # Of one clock, on one side of its sync, only its rate is unknown.
        alike = a.source == b.source and (a.ts < synced) == (b.ts < synced)
        wrong = abs(one - other) if alike else one + other
        if wrong < apart < within * S - wrong or (not wrong and 0 < apart <= within * S):
            expected[i, j] = "confirmed"
        elif -wrong <= apart <= within * S + wrong and wrong:
            expected[i, j] = "uncertain"
    assert found == expected


@settings(max_examples=60, deadline=None)
@given(world=worlds(), size=st.sampled_from([20, 100]), cut=st.integers(0, 30))
def test_windows_count_what_surely_and_what_possibly_lies_in_them(
    world: tuple[dict[str, Clock], list[Event]], size: int, cut: int
) -> None:
    clocks, events = world
    text = f"SELECT count(*) AS n FROM events WINDOW TUMBLING {size} s"
    found = answers(text, clocks, events, cut)
    for each in found:
        start, end = each["window"]["start"], each["window"]["end"]
        surely = possibly = 0
        for event in events:
            ref, wrong = clocks[event.source].ref(event), clocks[event.source].error(event)
            surely += start <= ref - wrong and ref + wrong < end
            possibly += ref + wrong >= start and ref - wrong < end
        assert (each["certain"], each["certain"] + each["ambiguous"]) == (surely, possibly)
        low, high = each["bounds"]["n"]
        assert surely <= low <= high <= possibly
    starts = {each["of"] for each in found}
    for event in events:
        clock = clocks[event.source]
        if clock.error(event) < size * S // 2:
            assert clock.ref(event) // (size * S) * size * S in starts
