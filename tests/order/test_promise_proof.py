"""Promises with a number, behind order `none`: they count once the numbers below have come."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edge_agent.records import Kind
from engine.clocks.reference import Sync
from engine.errors import UserError
from engine.kernels.integers import INT_MAX
from engine.order.registry import parse_order
from engine.order.unordered.none import NoneSettings
from engine.order.unordered.proof import Proof
from engine.order.unordered.proof_kernel import WINDOW
from engine.stream.released import Strings

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


Said = tuple[int, str | None, str | None, int, int]
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
        self.said: list[Said] = []
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
        self.said: list[Said] = []
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
        kept = pickle.loads(pickle.dumps(self.proof.snapshot()))
        self.proof = Proof(self.strings, WAIT)
        self.proof.restore(kept)


def said(*records: Record, at_once: bool = True) -> list[Said]:
    real = Real()
    for part in [records] if at_once else [[record] for record in records]:
        real.feed(part)
    return real.said


def by_place(found: list[Said]) -> list[Said]:
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


@settings(max_examples=200, deadline=None)
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
def test_a_promise_that_overtook_its_events_waits_for_them() -> None:
    records = [
        Record("event", seq=0), Record("pog", seq=3, ref=7), Record("event", seq=2),
        Record("event", seq=1),
    ]  # fmt: skip
    assert said(*records) == said(*records, at_once=False) == [(4, None, "s", 7, 0)]


def test_one_that_follows_its_events_or_has_no_number_counts_at_once() -> None:
    assert said(Record("event", seq=0), Record("pog", seq=1, ref=7)) == [(1, None, "s", 7, 0)]
    assert said(Record("event", seq=0), Record("pog", ref=7)) == [(1, None, "s", 7, 0)]
    assert said(Record("pog", source=None, type="A", ref=7)) == [(0, "A", None, 7, 0)]


def test_numbers_that_never_come_are_given_up_after_the_wait() -> None:
    lost = [Record("event", seq=0), Record("pog", seq=2, ref=7, at=5)]
    assert said(*lost, Record("tick", source=None, at=15)) == []
    assert said(*lost, Record("tick", source=None, at=16)) == [(2, None, "s", 7, 15)]


def test_numbers_far_below_are_given_up() -> None:
    many = [Record("event", seq=number) for number in range(2, WINDOW + 2)]
    waits = [Record("event", seq=0), Record("pog", seq=2, ref=7)]
    assert said(*waits, *many[:-1]) == []
    assert said(*waits, *many) == [(WINDOW + 2, None, "s", 7, 0)]


def test_the_first_that_waits_and_the_newest_are_kept() -> None:
    pogs = [Record("pog", seq=number, ref=10 * number) for number in (2, 3, 4)]
    events = [Record("event", seq=number) for number in (1, 2, 3)]
    found = said(Record("event", seq=0), *pogs, *events)
    assert found == [(5, None, "s", 20, 0), (7, None, "s", 40, 0)]


def test_a_source_that_begins_anew_is_not_waited_for() -> None:
    found = said(
        Record("event", seq=0), Record("pog", seq=5, ref=7), Record("event", seq=0, incarnation=1),
        Record("pog", seq=1, ref=9, incarnation=1), Record("tick", source=None, at=50),
    )  # fmt: skip
    assert found == [(3, None, "s", 9, 0)]


def test_a_source_has_ended_once_each_of_its_streams_has() -> None:
    events = [Record("event", seq=0), Record("event", seq=0, stream="more")]
    ends = [Record("eos", seq=1), Record("eos", seq=1, stream="more")]
    assert said(*events, ends[0]) == []
    assert said(*events, *ends) == [(3, None, "s", INT_MAX, 0)]


def test_an_end_waits_for_its_events() -> None:
    records = [Record("event", seq=0), Record("eos", seq=2), Record("event", seq=1)]
    assert said(*records) == [(3, None, "s", INT_MAX, 0)]


def test_what_was_given_up_does_not_take_an_end_back() -> None:
    ended = [Record("event", seq=0), Record("eos", seq=2), Record("tick", source=None, at=11)]
    assert said(*ended, Record("event", seq=1, at=12)) == [
        (2, None, "s", INT_MAX, 10), (4, None, "s", INT_MAX, 12),
    ]  # fmt: skip
    assert len(said(*ended, Record("event", seq=2, at=12))) == 1


def test_an_announced_number_is_the_first() -> None:
    real = Real()
    real.proof.announce(Sync("s", "events", 0, 0, 0, first_seq=4))
    real.feed([Record("event", seq=5), Record("pog", seq=6, ref=7)])
    assert real.said == []
    real.feed([Record("event", seq=4)])
    assert real.said == [(3, None, "s", 7, 0)]


def test_numbers_begin_with_a_promise_of_number_0_else_with_the_first_that_comes() -> None:
    late = [Record("event", seq=2), Record("pog", seq=3, ref=7), Record("event", seq=0)]
    assert said(*late) == [(1, None, "s", 7, 0)]
    assert said(Record("pog", seq=0, ref=1), *late) == [(0, None, "s", 1, 0)]


def test_many_sources_and_types() -> None:
    real, slow = Real(), Slow()
    records = []
    for number in range(40):
        source = f"s{number}"
        records.append(Record("event", source, 0, at=number))
        records.append(Record("pog", source, 2, f"T{number % 7}", number, at=number))
    records += [Record("event", f"s{number}", 1, at=41) for number in range(0, 40, 2)]
    for place, record in enumerate(records):
        slow.record(place, record)
    real.feed(records)
    assert by_place(real.said) == by_place(slow.said)
    assert (len(real.proof.unproven()), len(real.said)) == (31, 31 + 4)


def test_the_wait_is_a_setting() -> None:
    assert parse_order("none:wait=5ms") == NoneSettings("ref", 5_000_000)
    assert parse_order("none") == NoneSettings("ref", 1_000_000_000)
    with pytest.raises(UserError, match="wait"):
        parse_order("none:wait=soon")
