"""An outbox against a list, with power cuts, torn writes and a disk that fails at random points."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slackwater.edge_agent.device_clock import DeviceClockBound
from slackwater.edge_agent.messages import StreamSchema
from slackwater.edge_agent.outbox.disk import load
from slackwater.edge_agent.outbox.outbox import START, Outbox, OutboxFolder, OutboxStart
from slackwater.edge_agent.outbox.spool import Record, encoded
from slackwater.edge_agent.outbox.spool import records as spooled
from slackwater.edge_agent.outbox.spooled_session import DrainLimit
from tests.outbox.fake_disk import FakeDisk

FIRST = OutboxStart(
    site="main", source="s", incarnation=5, start=77, streams=(StreamSchema("events"),)
)


class Model:
    """What must hold: ``committed`` messages by number; those below ``acked`` may go."""

    def __init__(self, random: Random, failing: float, bytes_max: int) -> None:
        self.random = random
        self.disk = FakeDisk(random, failing)
        self.bytes_max = bytes_max
        self.committed: dict[int, Record] = {}
        self.fresh: list[Record] = []
        self.faded: list[Record] = []
        """Not committed, and not there when the outbox was opened last: a power cut brings back
        what a file had before it was begun again."""
        self.sent: dict[int, Record] = {}
        self.acked = self.stored = self.expected = 0
        self.dropped: set[int] = set()
        self.keys: dict[bytes, Record] = {}
        self.open()

    def open(self) -> None:
        start = load(self.disk, START)
        failing, self.disk.failing = self.disk.failing, 0.0 if start is None else self.disk.failing
        known = FIRST if start is None else OutboxStart.from_dict(start)
        assert (known.start, known.incarnation) == (77, 5)
        self.outbox = Outbox(self.disk, known, [self.bytes_max], 300)
        self.disk.failing = failing
        self.spool = self.outbox.spools[0]
        self.expected = self.outbox.resumed().acked[0]
        assert self.expected <= self.acked
        self.acked = self.expected

    def append(self) -> None:
        record = Record(
            self.spool.next, self.random.randint(1, 3),
            self.random.randbytes(self.random.randint(0, 150)),
        )  # fmt: skip
        if self.spool.fits(record.size):
            if self.random.random() < 0.5:
                keys = [self.random.randbytes(16) for _ in range(self.random.randint(1, 2))]
                self.outbox.keys.add(0, record, keys)
                self.keys |= dict.fromkeys(keys, record)
            self.spool.append(record)
            self.fresh.append(record)
        assert self.spool.bytes <= self.bytes_max

    def commit(self) -> None:
        try:
            self.outbox.commit()
        except OSError:
            done = [record for record in self.fresh if record.end <= self.spool.committed]
        else:
            done = self.fresh
        self.committed |= {record.first: record for record in done}
        self.fresh = self.fresh[len(done) :]

    def read(self) -> None:
        for record in self.spool.read(self.random.randint(1, 400)):
            assert self.committed[record.first] == record
            assert self.sent.setdefault(record.first, record) == record
            between = range(self.expected, record.first)
            assert not [n for n in self.committed if n in between and n not in self.dropped]
            self.expected = max(self.expected, record.end)

    def ack(self) -> None:
        self.acked = self.random.randint(self.acked, self.expected)
        self.outbox.acked([self.acked])
        self.outbox.settle()

    def drop(self) -> None:
        try:
            numbers = self.spool.drop_oldest()
        except OSError:
            return
        assert not numbers or numbers.start >= self.expected
        gone = {n for n in self.committed if n in numbers}
        assert sum(self.committed[n].rows for n in gone) == len(numbers)
        self.dropped |= gone

    def cut(self) -> None:
        """The power goes: what was not committed may be there or not, and was never sent."""
        self.disk.power_cut()
        self.reopen()

    def kill(self) -> None:
        """The process goes, the disk stays."""
        self.reopen()

    def reopen(self) -> None:
        appended = [*self.fresh, *self.faded]
        self.open()
        at = top = max([r.end for r in self.committed.values()], default=0)
        assert self.spool.next >= top
        # What the disk has beyond what was committed is what was appended; it may be lost again.
        self.fresh = []
        while at < self.spool.next and at >= self.acked:
            here = [r for r in appended if r.first == at and self.disk.holds(encoded(r))]
            assert here
            self.fresh.append(here[0])
            at = here[0].end
        assert self.spool.next in (at, self.acked)
        known = {id(record) for record in (*self.committed.values(), *self.fresh)}
        self.faded = [r for r in appended if r.first >= top and id(r) not in known]
        for key, record in self.keys.items():
            # Exactly the messages whose events are there are known when they come again.
            assert (key in self.outbox.keys) == (id(record) in known)

    def drain(self) -> None:
        """On a disk that works, everything that was committed and not acked comes out."""
        self.disk.failing = 0.0
        self.commit()
        assert not self.fresh
        wanted = [
            r for n, r in sorted(self.committed.items())
            if r.end > self.expected and n not in self.dropped
        ]  # fmt: skip
        found = []
        while batch := self.spool.read(1000):
            found += batch
        assert [r for r in found if r.first not in self.dropped] == wanted


def play(seed: int, steps: list[str], failing: float, bytes_max: int) -> Model:
    model = Model(Random(seed), failing, bytes_max)
    for step in steps:
        getattr(model, step)()
    model.drain()
    return model


SEEDS = pytest.mark.parametrize(
    "seeds", [range(40), pytest.param(range(40, 2000), marks=pytest.mark.deep)], ids=str
)

STEPS = ["append", "append", "append", "commit", "read", "ack", "cut", "kill"]


@given(
    st.integers(0, 2**32), st.lists(st.sampled_from(STEPS), max_size=60),
    st.sampled_from([0.0, 0.05, 0.3]),
)  # fmt: skip
def test_what_was_committed_is_sent_whatever_happens(
    seed: int, steps: list[str], failing: float
) -> None:
    play(seed, steps, failing, 1 << 20)


@SEEDS
@pytest.mark.parametrize("failing", [0.0, 0.1])
def test_long_lives(seeds: range, failing: float) -> None:
    for seed in seeds:
        steps = Random(seed).choices([*STEPS[:-2] * 3, *STEPS], k=300)
        assert play(seed, steps, failing, 1 << 20).sent


@SEEDS
def test_a_small_outbox_drops_its_oldest_and_stays_small(seeds: range) -> None:
    dropped = 0
    for seed in seeds:
        steps = Random(seed).choices([*STEPS[:-2], "append", "drop"], k=300)
        model = play(seed, steps, 0.0, 4000)
        assert model.spool.counts["dropped"] == sum(model.committed[n].rows for n in model.dropped)
        dropped += len(model.dropped)
    assert dropped


def test_a_full_disk_keeps_what_was_appended_in_memory() -> None:
    model = Model(Random(1), 0.0, 1 << 20)
    model.disk.full = True
    for _ in range(10):
        model.append()
        model.commit()
    assert not model.committed
    model.disk.full = False
    model.drain()
    assert len(model.committed) == 10


@given(st.integers(0, 2**32), st.integers(0, 2000), st.integers(1, 60))
def test_a_damaged_place_costs_only_what_it_touches(seed: int, place: int, size: int) -> None:
    """Any bytes of any segment may rot: the others' events come, in order, and it is kept aside."""
    model = Model(Random(seed), 0.0, 1 << 20)
    for _ in range(30):
        model.append()
    model.commit()
    segments = sorted(name for name in model.disk.files if name.endswith(".seg"))[:-1]
    name = segments[place % len(segments)]
    file = model.disk.files[name]
    at = place % len(file.written)
    rotten = bytes(byte ^ 0xFF for byte in file.written[at : at + size])
    file.written = file.synced = file.written[:at] + rotten + file.written[at + size :]
    model.open()
    model.outbox.commit()
    found = []
    while batch := model.spool.read(500):
        found += batch
    whole = list(model.committed.values())
    assert all(record in whole for record in found)
    assert [r.first for r in found] == sorted(r.first for r in found)
    lost = [record for record in whole if record not in found]
    assert sum(record.size for record in lost) <= size + 2 * (150 + 24)
    if lost:
        assert model.spool.counts["damaged_segments"] == 1
        assert model.disk.files[name + ".damaged"].written == file.written


@given(
    st.integers(0, 2**32), st.integers(1, 30), st.integers(0, 99),
    st.sampled_from(["deleted", "cut", "flipped", "all deleted", "untouched"]),
)  # fmt: skip
@example(seed=0, records=1, place=0, how="cut")
def test_attack2_03_no_loss_is_silent(seed: int, records: int, place: int, how: str) -> None:
    """Whatever is done to a segment while nobody looks: lost events are reported, or leave a gap.

    But where the newest one ends with a whole message, or has none: so it looks when the power
    goes before the next message is written. A gateway that has more of them says so.
    """
    model = Model(Random(seed), 0.0, 1 << 20)
    for _ in range(records):
        model.append()
        model.commit()
    segments = sorted(name for name in model.disk.files if name.endswith(".seg"))
    name = segments[place % len(segments)]
    file = model.disk.files[name]
    content = file.written
    at = 8 + place % max(len(content) - 8, 1)
    if how == "cut":
        file.written = file.synced = content[:at]
    elif how == "flipped":
        file.written = file.synced = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
    elif how != "untouched":
        for gone in segments if how == "all deleted" else [name]:
            del model.disk.files[gone]
    model.open()
    reported = list(model.spool.faults)
    model.outbox.commit()
    found: list[Record] = []
    while batch := model.spool.read(500):
        found += batch
    reported += model.spool.faults
    seen = sum(record.rows for record in found)
    gap = model.spool.next - model.acked - seen
    lost = [record for record in model.committed.values() if record not in found]
    ends = {8, *(each.end for each in spooled(content, 8))}
    if how == "cut" and name == segments[-1] and at in ends:
        assert not reported
    else:
        assert bool(lost) == bool(reported or gap)
    if how == "untouched":
        assert not lost


@given(st.integers(0, 2**32), st.sets(st.integers(0, 12)), st.booleans())
@example(seed=0, places=set(range(9)), reopened=True)  # nothing is left
def test_segments_that_cannot_be_read_are_set_aside(
    seed: int, places: set[int], reopened: bool
) -> None:
    """The others' events come, then what is appended, and the loss is known at once."""
    model = Model(Random(seed), 0.0, 1 << 20)
    for _ in range(30):
        model.append()
        model.commit()
    segments = sorted(name for name in model.disk.files if name.endswith(".seg"))
    bad = {segments[place] for place in places if place < len(segments)}
    model.disk.unreadable = set(bad)
    if reopened:
        model.open()
    model.commit()
    found: list[Record] = []
    for _ in range(3):
        while batch := model.spool.read(500):
            found += batch
        assert model.spool.looked_to == model.spool.next
        assert not model.fresh or found[-1] == model.fresh[-1]
        model.fresh = []
        model.append()
        model.outbox.commit()
    firsts = [int(name[4:24]) for name in segments] + [1 << 62]
    spans = [(a, b) for a, b, n in zip(firsts, firsts[1:], segments, strict=False) if n not in bad]
    good = [r for r in model.committed.values() if any(a <= r.first < b for a, b in spans)]
    assert [r for r in found if r in good] == good
    assert model.spool.counts["unreadable_segments"] == len(bad) == len(model.spool.faults)
    aside = [name for name in model.disk.files if name.endswith(".damaged")]
    assert len(aside) == min(len(bad), 4)


def test_a_start_that_is_renewed_sends_what_no_process_has_sent() -> None:
    model = Model(Random(3), 0.0, 1 << 20)
    for _ in range(10):
        model.append()
    model.commit()
    model.outbox.welcomed(5)
    before = model.spool.next
    name = max(name for name in model.disk.files if name.endswith(".seg"))
    model.disk.files[name].written = model.disk.files[name].synced = b""
    model.open()
    unsent = model.spool.next
    assert unsent < before
    model.committed = {n: record for n, record in model.committed.items() if n < unsent}
    model.fresh = []
    for process in range(3):  # none of them hears from a gateway
        if process:
            model.open()
        model.append()
        model.commit()
    assert model.outbox.resumed().unsent == (unsent,)
    assert model.spool.next > unsent
    model.spool.read(1 << 20)
    model.outbox.renew((before,), 99)
    resumed = model.outbox.resumed()
    assert (resumed.start, resumed.welcomed, resumed.again) == (99, False, False)
    assert (resumed.acked, model.outbox.start.incarnation) == ((unsent,), 6)
    new = [number for number in sorted(model.committed) if number >= unsent]
    assert [r.first for r in model.spool.read(1 << 20)] == new
    again = OutboxStart.from_dict(load(model.disk, START) or {})
    assert (again.start, again.incarnation, again.unsent) == (99, 6, (unsent,))


def test_a_renewed_start_sends_of_whole_streams_what_the_gateway_does_not_have() -> None:
    disk = FakeDisk(Random(1))
    streams = (StreamSchema("lost"), StreamSchema("whole"))
    start = replace(FIRST, streams=streams)
    outbox = Outbox(disk, start, [1 << 20] * 2, 300)
    outbox.welcomed(5)
    for spool in outbox.spools:
        for number in range(6):
            spool.append(Record(number, 1, bytes(80)))
    outbox.commit()
    name = max(name for name in disk.files if name.startswith("s00-"))
    del disk.files[name]
    outbox = Outbox(disk, OutboxStart.from_dict(load(disk, START) or {}), [1 << 20] * 2, 300)
    lost, whole = outbox.spools
    assert lost.next < 6 == whole.next
    for spool in (lost, whole):
        spool.append(Record(spool.next, 1, b"new"))
    outbox.commit()
    begin = lost.next - 1
    outbox.renew((6, 2), 7)
    assert outbox.resumed().acked == (begin, 2)
    assert [record.first for record in lost.read(1 << 20)] == [begin]
    assert [record.first for record in whole.read(1 << 20)] == [2, 3, 4, 5, 6]


@pytest.mark.parametrize(("received", "twice"), [(9, 3), (6, 2), (4, 0), (3, 0)])
def test_a_renewed_start_counts_what_was_there_before_it_and_the_gateway_has(
    received: int, twice: int
) -> None:
    """Of events 4 to 6, which a process left that no gateway had welcomed."""
    disk = FakeDisk(Random(1))
    outbox = Outbox(disk, FIRST, [1 << 20], 300)
    outbox.welcomed(5)
    for count in (4, 3, 3):
        for _ in range(count):
            outbox.spools[0].append(Record(outbox.spools[0].next, 1, b"new"))
        outbox.commit()
        if outbox.spools[0].next < 10:
            outbox = Outbox(disk, OutboxStart.from_dict(load(disk, START) or {}), [1 << 20], 300)
    outbox.renew((received,), 7)
    assert outbox.counts["possible_duplicates"] == twice
    begin = min(received, 4)
    assert [record.first for record in outbox.spools[0].read(1 << 20)] == [*range(begin, 10)]


S = 10**9

STREAM = StreamSchema("vitals", {"value": "float", "low": "float", "units": "str"})

OTHER = StreamSchema("vitals", {"low": "float", "value": "float", "units": "str"})


def opened(folder: Path, stream: StreamSchema) -> list[tuple[int, list[str]]]:
    """Incarnation and attributes of each start, the newest last."""
    outboxes = OutboxFolder(folder, lambda line: None)
    try:
        found = outboxes.open("main", "door", [stream], [1 << 20], 5, lambda: 7)
        return [(each.start.incarnation, list(each.start.streams[0].attrs)) for each in found]
    finally:
        outboxes.close()


def test_attributes_keep_their_order_on_the_disk() -> None:
    start = OutboxStart(site="main", source="door", incarnation=1, start=2, streams=(STREAM,))
    again = OutboxStart.from_dict(json.loads(json.dumps(start.as_dict(), sort_keys=True)))
    assert again == start
    assert list(again.streams[0].attrs) == ["value", "low", "units"]


def test_another_process_goes_on_with_the_same_columns(tmp_path: Path) -> None:
    assert opened(tmp_path, STREAM) == [(5, ["value", "low", "units"])]
    assert opened(tmp_path, STREAM) == [(5, ["value", "low", "units"])]


def test_attack2_01_a_session_keeps_its_number_until_it_restarts(tmp_path: Path) -> None:
    def life(name: str, asked: list[tuple[str, bool]]) -> list[int]:
        """Session numbers of an agent that is killed afterwards."""
        folder, draws = OutboxFolder(tmp_path, print), iter(range(1000 * len(name), 10**6))
        outbox = folder.open("main", "s", [StreamSchema(name)], [9999], 1, draws.__next__)[-1]
        numbers = [outbox.session(sender, next(draws), kept=kept) for sender, kept in asked]
        folder.close()
        return numbers

    first, other, again = life("a", [("x", True), ("y", False), ("x", True)])
    assert first == again != other
    new, old = life("a", [("x", False), ("y", True)])
    assert (new != first, old) == (True, other)
    assert life("a", [("x", True)]) == [new]
    # Other streams begin a new outbox, and the broker knows nothing of that.
    assert life("other streams", [("x", True), ("y", True)]) == [new, other]


def test_attributes_in_another_order_are_another_start(tmp_path: Path) -> None:
    opened(tmp_path, STREAM)
    assert opened(tmp_path, OTHER) == [
        (5, ["value", "low", "units"]),
        (6, ["low", "value", "units"]),
    ]


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


def test_bounds_of_clocks_outlive_the_process_but_not_the_boot() -> None:
    disk = FakeDisk(Random(1), 0.0)
    outbox = Outbox(disk, FIRST, [1 << 20], 300, boot="one")
    bound = DeviceClockBound("monitor#7", -20, 30, stamp=1000, mono=500, skew_ppb=50_000)
    outbox.clocks([bound, bound._replace(clock="reader#1")])
    outbox.clocks([bound._replace(high=25)])

    def opened(boot: str) -> Outbox:
        kept = load(disk, START)
        assert kept is not None
        return Outbox(disk, OutboxStart.from_dict(kept), [1 << 20], 300, boot=boot)

    again = opened("one")
    known = {each.clock: each for each in again.known_clocks()}
    assert known == {
        "monitor#7": bound._replace(high=25), "reader#1": bound._replace(clock="reader#1")
    }  # fmt: skip
    refuting = bound._replace(low=-900, high=-800, refutes=True)
    again.clocks([refuting])  # takes no place of what it contradicts
    found = [each for each in again.known_clocks() if each.clock == "monitor#7"]
    assert sorted(found) == sorted([bound._replace(high=25), refuting])
    # The machine was started again: its monotonic clock restarts, and nobody knows by how much its
    # wall clock was set meanwhile.
    assert opened("two").known_clocks() == []
    assert opened("").known_clocks() == []
    rebooted = opened("two")
    rebooted.clocks([bound._replace(mono=3)])
    assert opened("two").known_clocks() == [bound._replace(mono=3)]
    assert opened("one").known_clocks() == []


def test_a_system_without_an_identity_of_boots_keeps_no_bounds() -> None:
    disk = FakeDisk(Random(1), 0.0)
    outbox = Outbox(disk, FIRST, [1 << 20], 300)
    outbox.clocks([DeviceClockBound("monitor#7", -20, 30, stamp=1000, mono=500, skew_ppb=50_000)])
    assert outbox.known_clocks() == []


def test_a_start_from_before_clocks_had_names_is_read() -> None:
    before = {name: each for name, each in FIRST.as_dict().items() if name != "clock_bounds"}
    assert OutboxStart.from_dict(before) == FIRST


def test_bounds_relative_to_the_wall_clock_are_not_used() -> None:
    before = FIRST.as_dict() | {"clocks": {"monitor#7": [-10_020, -9_970, 1000, 10_500, 50_000]}}
    assert OutboxStart.from_dict(before) == FIRST
