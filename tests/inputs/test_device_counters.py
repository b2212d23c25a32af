"""Numbers of devices behind an agent: what was lost before it, and what came twice."""

from __future__ import annotations

import json
import random
from random import Random
from typing import Any

import pytest

from slackwater.edge_agent.errors import SettingsError
from slackwater.edge_agent.inputs.mqtt.subscription import PayloadFields, read_payload_fields
from slackwater.edge_agent.inputs.record_columns import events
from slackwater.edge_agent.inputs.record_fields import JsonBatch, RecordFields, read_fields
from slackwater.edge_agent.messages import StreamSchema
from slackwater.edge_agent.outbox.disk import load
from slackwater.edge_agent.outbox.outbox import START, Outbox, OutboxStart
from slackwater.edge_agent.sequence import DeviceCounters
from slackwater.edge_agent.settings_file import Table
from tests.outbox.fake_disk import FakeDisk

SCHEMAS = {"events": StreamSchema("events", {"v": "int"})}


def fields_of(**settings: Any) -> RecordFields:
    return read_fields(Table({"seq_bits": 8, **settings}, "agent.toml", "input"), SCHEMAS)


def values(fields: RecordFields, records: list[dict[str, Any]]) -> list[Any]:
    """Attribute v of each event that passes."""
    bad: list[str] = []
    found = events(
        fields, JsonBatch([json.dumps(record) for record in records]), 0,
        lambda what, place: bad.append(what),
    )  # fmt: skip
    passed = [row.attrs[0] for _, rows in found for row in rows]
    return [*passed, *bad]


def counts(fields: RecordFields) -> dict[str, int]:
    assert fields.counters is not None
    return dict(fields.counters.counts)


def test_a_hole_is_counted_and_copies_go_no_further() -> None:
    fields = fields_of(map={"seq": "fCnt"})
    records = [
        {"fCnt": number, "ts": ts, "v": v}
        for number, ts, v in (
            (253, 1, 0), (254, 2, 1), (1, 5, 2), (0, 4, 3), (1, 5, 2), (1, 6, 4), (2, 7, 5),
        )
    ]  # fmt: skip
    assert values(fields, records) == [0, 1, 2, 3, 4, 5]
    assert counts(fields) == {
        "device_lost": 2, "device_late": 1, "device_copies": 1, "device_reused": 1,
    }  # fmt: skip


def test_11_chirpstack_leaves_number_zero_out() -> None:
    """7 uplinks, 1 lost (3): numbers 0 1 2 4, a restart, 0 1 2; no 0 is written."""
    fields = fields_of(seq_bits=16)
    numbers = (None, 1, 2, 4, None, 1, 2)
    records = [{"seq": n, "ts": 60 * i, "v": i} for i, n in enumerate(numbers)]
    assert values(fields, records) == list(range(7))
    assert counts(fields) == {"device_unnumbered": 2, "device_lost": 1, "device_restarts": 1}
    fields = fields_of(seq_bits=16)
    records = [{"seq": n, "ts": i, "v": i} for i, n in enumerate((65_534, 65_535, None, 1, 2))]
    assert values(fields, records) == list(range(5))
    assert counts(fields) == {"device_unnumbered": 1}


def test_an_event_without_a_number_takes_none() -> None:
    fields = fields_of()
    records = [{"seq": n, "ts": i, "v": i} for i, n in enumerate((0, 1, None, 2, 3))]
    assert values(fields, records) == list(range(5))
    assert counts(fields) == {"device_unnumbered": 1}


def test_a_device_that_begins_again() -> None:
    fields = fields_of()
    records = [{"seq": n, "ts": i, "v": i} for i, n in enumerate((*range(50), *range(50)))]
    assert values(fields, records) == list(range(100))
    assert counts(fields) == {"device_restarts": 1}


def test_payloads_of_several_devices() -> None:
    """Each topic counts by itself; without ts a copy has the same attributes."""
    table = Table({"parts": ["", "type"], "seq_bits": 8}, "agent.toml", "input")
    payloads: PayloadFields = read_payload_fields(table, read_fields(table, SCHEMAS))
    found = [
        len(payloads.events(f"m/{topic}", json.dumps({"seq": seq, "v": v}).encode(), now))
        for now, (topic, seq, v) in enumerate(
            [("a", 7, 1), ("b", 9, 1), ("a", 8, 1), ("a", 8, 1), ("b", 10, 1), ("b", 10, 2)]
        )
    ]
    assert found == [1, 1, 1, 0, 1, 1]
    assert counts(payloads.fields) == {"device_copies": 1, "device_reused": 1}


@pytest.mark.parametrize("seq", [256, -1, True, "7", 1.0])
def test_what_is_no_number_is_a_bad_record(seq: Any) -> None:
    (what,) = values(fields_of(), [{"seq": seq, "ts": 1, "v": 1}])
    assert what == f"seq {seq!r} is no number of 8 bits, as seq_bits says"


def test_mistakes_of_settings() -> None:
    with pytest.raises(SettingsError, match="a counter has 8, 16, 32 bits"):
        fields_of(seq_bits=12)
    with pytest.raises(SettingsError, match="needs seq_bits in"):
        fields_of(seq_bits=0, map={"seq": "fCnt"})


@pytest.mark.parametrize("seed", range(40))
def test_any_device_against_the_truth(seed: int) -> None:
    rng = random.Random(seed)
    bits = rng.choice((8, 16))
    counters = DeviceCounters(bits)
    number, ts = rng.randrange(2**bits), 0
    lost = late = copies = 0
    sent: list[tuple[float, int, int]] = []
    for place in range(900):
        ts += rng.randint(50, 100)
        number += 1
        sent.append((ts + rng.randint(0, 200), number, ts))
        if rng.random() < 0.1 and place:
            copies += 1
            sent.append((ts + rng.randint(201, 400), number, ts))
        if rng.random() < 0.05 and place < 899:
            number += 1 + rng.randrange(5)  # lost
    sent.sort()
    newest, seen, skipped = sent[0][1] - 1, set[int](), set[int]()
    for _, each, at in sent:
        copy = counters.is_copy("d", each % 2**bits, at, at)
        assert copy == (each in seen)
        if each in seen:
            continue
        seen.add(each)
        if each > newest:
            skipped |= set(range(newest + 1, each))
            lost += each - newest - 1
            newest = each
        else:
            late += 1
    expected = {"device_lost": lost, "device_late": late, "device_copies": copies}
    assert dict(counters.counts) == {name: n for name, n in expected.items() if n}


def test_numbers_go_on_where_the_agent_stopped() -> None:
    before = DeviceCounters(8)
    for number in (253, 254, 255):
        assert not before.is_copy("a", number, number, number)
    before.is_copy("b", None, 1, 1)
    disk = FakeDisk(Random(1), 0.0)
    start = OutboxStart(site="main", source="s", incarnation=5, start=77, streams=())
    outbox = Outbox(disk, start, [], 300)
    assert outbox.counters == {}
    outbox.stopped({"stdin 8": before.newest()})

    def opened() -> Outbox:
        kept = load(disk, START)
        assert kept is not None
        return Outbox(disk, OutboxStart.from_dict(kept), [], 300)

    again = DeviceCounters(8)
    again.resume(opened().counters["stdin 8"])
    assert not again.is_copy("a", 3, 400, 3)
    assert again.counts == {"device_lost": 3}
    assert opened().counters == {}  # of a process that was killed
