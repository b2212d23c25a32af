"""Open intervals on a disk that fails, tears and forgets: none is sent twice, none is lost."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.edge_agent import wire
from slackwater.edge_agent.abstraction.machine import Abstraction, EndedInterval
from slackwater.edge_agent.abstraction.settings import AbstractSettings
from slackwater.edge_agent.abstraction.stored_state import (
    changes_of,
    end_all,
    interval_rows,
    resume,
)
from slackwater.edge_agent.messages import Data, StreamSchema
from slackwater.edge_agent.outbox.journal import JOURNAL
from slackwater.edge_agent.outbox.outbox import Outbox, OutboxStart
from slackwater.edge_agent.outbox.spool import Record
from slackwater.edge_agent.packing import columns_of, data_message, encoded_data
from tests.abstraction.by_definition import intervals
from tests.outbox.fake_disk import FakeDisk

STAY = AbstractSettings(
    stream="reads", into="stays", kind="presence", by=("tag",), type="STAY", gap_ns=3
)
SCHEMA = STAY.schema(StreamSchema("reads", {"tag": "str"}))
START = OutboxStart(site="main", source="door", incarnation=1, start=7, streams=(SCHEMA,))


class Device:
    """An agent whose sender sends a message again until it knows that it is durable."""

    def __init__(self, seed: int, failing: float) -> None:
        self.random = Random(seed)
        self.disk = FakeDisk(self.random, failing)
        self.unsure: list[tuple[bytes, int, str]] = []
        """Messages (key, time, tag) that the sender does not know to be safe."""
        self.boots = 0
        self.open()

    def open(self) -> None:
        failing, self.disk.failing = self.disk.failing, 0.0
        self.outbox = Outbox(self.disk, START, [1 << 20], 4096)
        self.machine = Abstraction(STAY, 0, self.boots * 1000)
        self.boots += 1
        resume(self.outbox, [self.machine], 0)
        self.machine.touched = set()
        self.disk.failing = failing

    def read(self, at: int, tag: str) -> None:
        message = (at.to_bytes(16, "big"), at, tag)
        self.unsure.append(message)
        self.take(message)

    def take(self, message: tuple[bytes, int, str]) -> None:
        key, at, tag = message
        if key in self.outbox.intervals.messages:
            return
        self.machine.take([((tag,), at, None)], 0)
        self.put([key])

    def put(self, keys: list[bytes]) -> None:
        """As ``OutboxChannel.put_intervals``."""
        ended = [each for each in self.machine.outputs() if isinstance(each, EndedInterval)]
        spool, journal, changes = (
            self.outbox.spools[0], self.outbox.intervals, changes_of(self.machine)
        )  # fmt: skip
        journal.add(0, spool.next + len(ended), changes, keys)
        if ended:
            ts, te, ids, types, attrs, _ = columns_of(SCHEMA, interval_rows(SCHEMA, ended))
            message = data_message(0, SCHEMA, ts=ts, te=te, ids=ids, types=types, attrs=attrs)
            spool.append(Record(spool.next, len(ended), encoded_data(message, spool.next, "stays")))

    def commit(self) -> None:
        with suppress(OSError):
            self.outbox.commit()
            self.unsure.clear()

    def cut(self) -> None:
        self.disk.power_cut()
        self.open()
        for message in self.unsure:
            self.take(message)

    def kill(self) -> None:
        self.open()
        for message in self.unsure:
            self.take(message)

    def sent(self) -> list[tuple[str, int, int, int]]:
        """Everything at the end: tag, begin, end and id of each interval."""
        self.disk.failing = 0.0
        self.machine.finish()
        self.put([])
        self.outbox.commit()
        found = []
        self.outbox.spools[0].rewind(0)
        for record in self.outbox.spools[0].read(1 << 20):
            (data,) = wire.Decoder().feed(record.data)
            assert isinstance(data, Data)
            assert data.te is not None or record.rows
            found += rows_of(data)
        return found


def rows_of(data: Data) -> list[tuple[str, int, int, int]]:
    ts = memoryview(data.ts).cast("q").tolist()
    te = ts if data.te is None else memoryview(data.te).cast("q").tolist()
    assert data.ids is not None
    ids = memoryview(data.ids).cast("q").tolist()
    tags = data.attrs[0]
    assert tags is not None
    codes = memoryview(tags.codes).cast("i").tolist()  # type: ignore[union-attr]
    return [(tags.names[c], *row) for c, *row in zip(codes, ts, te, ids, strict=True)]  # type: ignore[union-attr]


STEPS = st.lists(
    st.sampled_from(["read", "read", "read", "read", "commit", "commit", "cut", "kill"]),
    min_size=5, max_size=60,
)  # fmt: skip


@given(seed=st.integers(0, 10**6), steps=STEPS, failing=st.sampled_from([0.0, 0.0, 0.15]))
def test_every_interval_is_sent_once_wherever_the_power_is_cut(
    seed: int, steps: list[str], failing: float
) -> None:
    device = Device(seed, failing)
    random = Random(seed)
    at = 100
    samples: dict[str, list[tuple[int, None]]] = {"a": [], "b": []}
    for step in steps:
        if step == "read":
            at += random.choice((1, 1, 2, 3, 9))
            tag = random.choice("ab")
            samples[tag].append((at, None))
            device.read(at, tag)
        else:
            getattr(device, step)()
    sent = device.sent()
    expected = [
        (tag, each.ts, each.te) for tag, those in samples.items() for each in intervals(STAY, those)
    ]
    assert sorted(each[:3] for each in sent) == sorted(expected)
    assert len({each[3] for each in sent}) == len(sent)


def test_the_file_is_written_anew_before_it_is_large() -> None:
    device = Device(1, 0.0)
    for at in range(3000):
        device.read(at, "a" if at % 2 else "b")
        device.commit()
    assert device.disk.size(JOURNAL) < 1 << 18
    device.kill()
    assert device.machine.things() == [("b",), ("a",)]


def test_what_other_settings_have_left_open_is_ended_with_a_flag() -> None:
    device = Device(1, 0.0)
    device.read(5, "a")
    device.read(7, "a")
    device.commit()
    again = Outbox(device.disk, START, [1 << 20], 4096)
    assert resume(again, [Abstraction(replace(STAY, gap_ns=9))], 0) == 1
    again.commit()
    (record,) = again.spools[0].read(1 << 20)
    (data,) = wire.Decoder().feed(record.data)
    assert isinstance(data, Data)
    assert [each[:3] for each in rows_of(data)] == [("a", 5, 7)]
    third = Outbox(device.disk, START, [1 << 20], 4096)
    assert (third.spools[0].next, end_all(third)) == (1, 0)


@pytest.mark.parametrize("lost", ["unreadable", "torn"])
def test_a_journal_on_a_bad_sector_costs_the_open_intervals_alone(lost: str) -> None:
    device = Device(1, 0.0)
    for at in (1, 2, 9, 10):
        device.read(at, "a")
    device.commit()
    if lost == "unreadable":
        device.disk.unreadable.add(JOURNAL)
    else:
        file = device.disk.files[JOURNAL]
        file.written = file.synced = file.synced[:20]
    device.kill()
    device.read(20, "a")
    assert [each[:3] for each in device.sent()] == [("a", 1, 2), ("a", 20, 20)]
