"""Promises with a number, behind order `none`: they count once the numbers below have come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.edge_agent.records import Kind
from slackwater.engine.core.clocks.prediction import SyncPoint
from slackwater.engine.core.released import Strings
from slackwater.engine.hosts.chain.state_bytes import from_bytes, to_bytes
from slackwater.engine.order.none import Proof

WAIT = 10


class Record(NamedTuple):
    kind: str
    source: str | None = "s"
    seq: int = -1
    type: str | None = None
    ref: int = 0
    stream: str = "events"
    incarnation: int = 0
    at: int = 0


WINDOW = 1024
"""So far above the next number one may lie; what is farther off gives those below up."""
INT_MAX = 2**63 - 1
"""What the end of a stream promises (SPEC 1: int64)."""
EmittedRow = tuple[int, str | None, str | None, int, int]
"""(before which record, type, source, ref, at)"""


# ---- the slow twin ----------------------------------------------------------------------------
@dataclass
class SlowLane:
    """Numbers as a set; waiting promises as [number, ref, deadline] in lists of one or two."""

    incarnation: int
    next: int = -1
    came: set[int] = field(default_factory=set)
    closed: bool = False
    waiting: dict[str | None, list[list[int]]] = field(default_factory=dict)

    def settle(self) -> None:
        while self.next in self.came:
            self.came.discard(self.next)
            self.next += 1

    def give_up(self, number: int) -> None:
        self.came = {other for other in self.came if other >= number}
        self.next = number
        self.settle()


class Slow:
    def __init__(self) -> None:
        self.lanes: dict[tuple[str, str], SlowLane] = {}
        self.said: list[EmittedRow] = []
        self.given_up = 0

    def lane(self, source: str, stream: str, incarnation: int) -> SlowLane | None:
        lane = self.lanes.setdefault((source, stream), SlowLane(incarnation))
        if incarnation > lane.incarnation:
            lane = self.lanes[source, stream] = SlowLane(incarnation)
        return lane if incarnation == lane.incarnation else None

    def count(self, key: tuple[str, str], kind: str | None, ref: int, place: int, at: int) -> None:
        if kind != "end":
            self.said.append((place, kind, key[0], ref, at))
            return
        self.lanes[key].closed = True
        if all(lane.closed for (source, _), lane in self.lanes.items() if source == key[0]):
            self.said.append((place, None, key[0], INT_MAX, at))

    def hear(self, key: tuple[str, str], place: int, at: int) -> None:
        lane = self.lanes[key]
        for kind, both in list(lane.waiting.items()):
            ready = [one for one in both if one[0] <= lane.next]
            if ready:
                self.count(key, kind, max(ref for _, ref, _ in ready), place, at)
                lane.waiting[kind] = [one for one in both if one[0] > lane.next]
            if not lane.waiting[kind]:
                del lane.waiting[kind]

    def late(self, place: int, now: int) -> None:
        while True:
            first = min(
                ((both[0][2], key, both[0][0]) for key, lane in self.lanes.items()
                 for both in lane.waiting.values()), default=(now, ("", ""), 0),
            )  # fmt: skip
            if first[0] >= now:
                return
            self.given_up += 1
            self.lanes[first[1]].give_up(first[2])
            self.hear(first[1], place, first[0])

    def record(self, place: int, record: Record) -> None:
        self.late(place, record.at)
        if record.source is None:
            if record.kind == "pog":
                self.said.append((place, record.type, None, record.ref, record.at))
            return
        if record.kind == "tick":
            return
        key = record.source, record.stream
        lane = self.lane(*key, record.incarnation)
        if lane is None:
            return
        if record.kind == "event":
            if record.seq >= 0:
                self.event(key, lane, record.seq, place, record.at)
            return
        kind = record.type if record.kind == "pog" else "end"
        if record.seq == 0 and lane.next < 0:
            lane.next = 0
        if record.seq <= max(lane.next, 0):
            self.count(key, kind, record.ref, place, record.at)
        else:
            self.wait(lane, kind, [record.seq, record.ref, record.at + WAIT])

    def event(self, key: tuple[str, str], lane: SlowLane, number: int, place: int, at: int) -> None:
        if number < lane.next:
            if lane.closed:
                self.count(key, "end", INT_MAX, place + 1, at)
            return
        lane.closed = False
        if lane.next < 0:
            lane.next = number
        elif number >= lane.next + WINDOW:
            lane.give_up(number - WINDOW + 1)
        lane.came.add(number)
        lane.settle()
        self.hear(key, place + 1, at)

    def wait(self, lane: SlowLane, kind: str | None, new: list[int]) -> None:
        both = lane.waiting.setdefault(kind, [])
        if not both:
            both.append(new)
        elif new[0] == both[0][0]:
            both[0][1] = max(both[0][1], new[1])
        elif new[0] < both[0][0]:
            both[:] = [[*new[:2], min(new[2], both[0][2])], both[-1]]
        elif len(both) == 1:
            both.append(new)
        elif new[0] >= both[1][0]:
            both[1] = [new[0], max(new[1], both[1][1]), new[2]]


# ---- the real one -----------------------------------------------------------------------------
class Real:
    def __init__(self) -> None:
        self.strings = Strings(["events"])
        self.proof = Proof(self.strings, WAIT)
        self.said: list[EmittedRow] = []
        self.rows = 0

    def feed(self, records: Sequence[Record]) -> None:
        def codes(texts: list[str | None]) -> np.ndarray:
            return np.array([-1 if t is None else self.strings.code(t) for t in texts], np.int32)

        columns = {
            "kind": np.array([int(Kind[record.kind.upper()]) for record in records], np.int8),
            "source": codes([record.source for record in records]),
            "stream": codes([record.stream for record in records]),
            "type": codes([record.type for record in records]),
            "seq": np.array([record.seq for record in records], np.int64),
            "incarnation": np.array([record.incarnation for record in records], np.int64),
            "arrival": np.array([record.at for record in records], np.int64),
        }
        ref = np.array([record.ref for record in records], np.int64)
        out = self.proof.process(columns, len(records), ref)
        text = self.strings.text
        self.said += [
            (self.rows + place, text(kind), text(source), value, at)
            for place, kind, source, value, at in zip(*(a.tolist() for a in out), strict=True)
        ]
        self.rows += len(records)
        kept = from_bytes(to_bytes(self.proof.snapshot()))
        self.proof = Proof(self.strings, WAIT)
        self.proof.restore(kept)


def by_place(found: list[EmittedRow]) -> list[EmittedRow]:
    """Of one instant and place no order is promised."""
    return sorted(found, key=lambda one: (one[0], one[4], str(one[1]), str(one[2]), one[3]))


NUMBERS = st.integers(0, 12) | st.sampled_from([WINDOW + 3, WINDOW + 4, 2 * WINDOW + 5])
HAPPENS = st.lists(
    st.tuples(
        st.sampled_from(["event", "event", "event", "pog", "pog", "eos", "tick"]),
        st.sampled_from(["s", "t", "u"]), NUMBERS, st.sampled_from(["A", "B", None]),
        st.integers(0, 50), st.sampled_from(["events", "events", "more"]),
        st.sampled_from([0, 0, 0, 0, 1]), st.integers(0, 4), st.booleans(), st.booleans(),
    ),
    max_size=60,
)  # fmt: skip


@settings(max_examples=120, deadline=None)
@given(HAPPENS)
@example([  # two numbers are given up at one instant, the larger of which was promised first
    ("event", "s", 0, "A", 0, "more", 0, 0, False, False),
    ("pog", "s", 3, "B", 0, "more", 0, 0, False, False),
    ("pog", "s", 2, "A", 0, "more", 0, 0, False, False),
    ("tick", "s", 0, None, 0, "more", 0, WAIT + 1, False, False),
])  # fmt: skip
def test_against_the_slow_twin_cut_anywhere(happens: list[tuple[object, ...]]) -> None:
    slow, real, now, batch = Slow(), Real(), 0, []
    for kind, source, seq, of, ref, stream, incarnation, later, cut, unnumbered in happens:
        now += later
        everyone = kind == "pog" and unnumbered and seq < 3
        record = Record(
            kind, None if everyone else source, -1 if unnumbered and kind != "event" else seq,
            of or ("A" if everyone else None), ref, stream, incarnation, now,
        )  # fmt: skip
        slow.record(real.rows + len(batch), record)
        batch.append(record)
        if cut:
            real.feed(batch)
            batch = []
    real.feed(batch)
    assert by_place(real.said) == by_place(slow.said)
    assert real.said == sorted(real.said, key=lambda one: one[0])
    assert sum(real.proof.unproven().values()) == slow.given_up


# ---- the rules, one by one --------------------------------------------------------------------
def event(seq: int, **more: Any) -> Record:
    return Record("event", seq=seq, **more)


def pog(seq: int, ref: int = 7, **more: Any) -> Record:
    return Record("pog", seq=seq, ref=ref, **more)


def eos(seq: int, **more: Any) -> Record:
    return Record("eos", seq=seq, **more)


def tick(at: int) -> Record:
    return Record("tick", source=None, at=at)


OVERTAKEN = [event(0), pog(2, at=5)]
MANY = [event(number) for number in range(2, WINDOW + 2)]
TWO_STREAMS = [event(0), event(0, stream="more"), eos(1)]
ENDED = [event(0), eos(2), tick(11)]
LATE = [event(2), pog(3), event(0)]
RULES: dict[str, tuple[list[Record], list[EmittedRow]]] = {
    "a promise that overtook its events waits for them": (
        [event(0), pog(3), event(2), event(1)], [(4, None, "s", 7, 0)]),
    "one that follows its events counts at once": (
        [event(0), pog(1)], [(1, None, "s", 7, 0)]),
    "so does one without a number": ([event(0), pog(-1)], [(1, None, "s", 7, 0)]),
    "and one of every source": ([pog(-1, source=None, type="A")], [(0, "A", None, 7, 0)]),
    "numbers that do not come are waited for": ([*OVERTAKEN, tick(15)], []),
    "and given up after the wait": ([*OVERTAKEN, tick(16)], [(2, None, "s", 7, 15)]),
    "numbers a little below are waited for": ([event(0), pog(2), *MANY[:-1]], []),
    "numbers far below are given up": (
        [event(0), pog(2), *MANY], [(WINDOW + 2, None, "s", 7, 0)]),
    "the first that waits and the newest are kept": (
        [event(0), pog(2, 20), pog(3, 30), pog(4, 40), event(1), event(2), event(3)],
        [(5, None, "s", 20, 0), (7, None, "s", 40, 0)]),
    "a source that restarts is not waited for": (
        [event(0), pog(5), event(0, incarnation=1), pog(1, 9, incarnation=1), tick(50)],
        [(3, None, "s", 9, 0)]),
    "a source has not ended while a stream has not": (TWO_STREAMS, []),
    "a source has ended once each of its streams has": (
        [*TWO_STREAMS, eos(1, stream="more")], [(3, None, "s", INT_MAX, 0)]),
    "an end waits for its events": (
        [event(0), eos(2), event(1)], [(3, None, "s", INT_MAX, 0)]),
    "what was given up does not take an end back": (
        [*ENDED, event(1, at=12)], [(2, None, "s", INT_MAX, 10), (4, None, "s", INT_MAX, 12)]),
    "what comes after the end does": ([*ENDED, event(2, at=12)], [(2, None, "s", INT_MAX, 10)]),
    "numbers begin with the first that comes": (LATE, [(1, None, "s", 7, 0)]),
    "or with a promise of number 0": ([pog(0, 1), *LATE], [(0, None, "s", 1, 0)]),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("at_once", [True, False])
def test_rules_of_promises(rule: str, at_once: bool) -> None:
    records, expected = RULES[rule]
    real = Real()
    for part in [records] if at_once else [[record] for record in records]:
        real.feed(part)
    assert real.said == expected


def test_an_announced_number_is_the_first() -> None:
    real = Real()
    real.proof.announce(SyncPoint("s", "events", 0, 0, 0, first_seq=4))
    real.feed([event(5), pog(6)])
    assert real.said == []
    real.feed([event(4)])
    assert real.said == [(3, None, "s", 7, 0)]


def test_a_second_announcement_changes_nothing() -> None:
    real = Real()
    real.proof.announce(SyncPoint("s", "events", 0, 0, 0, first_seq=0))
    real.proof.announce(SyncPoint("s", "events", 0, 0, 0, first_seq=4))
    real.feed([event(4), pog(5)])
    assert real.said == []


def test_many_sources_and_types() -> None:
    real, slow = Real(), Slow()
    records = []
    for number in range(40):
        name = f"s{number}"
        records.append(event(0, source=name, at=number))
        records.append(pog(2, number, source=name, type=f"T{number % 7}", at=number))
    records += [event(1, source=f"s{number}", at=41) for number in range(0, 40, 2)]
    for place, record in enumerate(records):
        slow.record(place, record)
    real.feed(records)
    assert by_place(real.said) == by_place(slow.said)
    assert (len(real.proof.unproven()), len(real.said)) == (31, 31 + 4)
