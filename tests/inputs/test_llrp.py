"""RFID readers: an inventory on an emulated reader, and what becomes of its reads."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.edge_agent.inputs.llrp import protocol as p
from slackwater.edge_agent.inputs.llrp.inventory import (
    InventorySettings,
    ReadFilter,
    TagRead,
    reader_event,
    rospec,
    tag_reads,
)
from slackwater.edge_agent.inputs.llrp.protocol import LlrpError, Messages
from slackwater.edge_agent.packing import Row
from tests.inputs.emulated_reader import EmulatedReader
from tests.inputs.outlet import NOW_NS, KeptOutlet, an_input, met

ATTRS = {"tag": "str", "antenna": "int", "rssi": "int", "count": "int"}
EPC = bytes.fromhex("3034257BF7194E4000001A85")
CLOCK = f"rfid-llrp#{NOW_NS // 10**9}"
UTC_NS = 1_700_000_000 * 10**9

# An RO_ACCESS_REPORT (header, TagReportData) laid out by hand from LLRP 1.1, sections 17.2.7.3.
REPORT = bytes.fromhex(
    "043d 00000042 00000005"  # RO_ACCESS_REPORT, 66 bytes, message 5
    "00f0 0038"  # TagReportData, 56 bytes
    "8d 3034257bf7194e4000001a85"  # EPC-96
    "89 00000001"  # ROSpecID
    "81 0002"  # AntennaID
    "86 cd"  # PeakRSSI -51
    "87 0009"  # ChannelIndex
    "82 00060a24181e4000"  # FirstSeenTimestampUTC
    "84 00060a24181e4005"  # LastSeenTimestampUTC
    "88 0003"  # TagSeenCount
    "90 00000000"  # AccessSpecID
)


@contextlib.asynccontextmanager
async def reading(
    reader: EmulatedReader, outlet: KeptOutlet, attrs: dict[str, str] = ATTRS, **settings: Any
) -> AsyncIterator[Any]:
    port = await reader.start()
    made = an_input(
        {"kind": "rfid-llrp", "host": "127.0.0.1", "port": port, "reconnect": "10 ms",
         "reconnect_max": "20 ms", "keepalive": "50 ms", **settings},
        attrs,
    )  # fmt: skip
    task = asyncio.create_task(made.run(outlet))
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await reader.stop()


def test_a_report_is_read_as_the_standard_has_it() -> None:
    (found,) = Messages().feed(REPORT)
    assert (found.type, found.id) == (p.RO_ACCESS_REPORT, 5)
    first = 0x00060A24181E4000 * 1000
    assert tag_reads(found.body) == [
        TagRead(EPC.hex().upper(), 2, -51, 9, 3, first, None, first + 5000)
    ]


async def test_tags_are_events() -> None:
    reader, outlet = EmulatedReader(), KeptOutlet()
    async with reading(reader, outlet, antennas={"1": "SHELF", "2": "EXIT"}) as made:
        await met(lambda: reader.reading and 64 in reader.seen)
        assert reader.wrong == []
        assert reader.rospecs[1].antennas == (1, 2)
        reader.tag(EPC, 1, rssi=-48, count=2, at=7)
        reader.tag(b"\x0a\x0b", 2)
        reader.tag(EPC, 3)  # not wanted
        await met(lambda: len(outlet.rows) == 2)
        ts = UTC_NS + 7000
        assert [row for _, row in outlet.rows] == [
            Row(ts, ts, None, "SHELF", (EPC.hex().upper(), 1, -48, 2), CLOCK),
            Row(UTC_NS, UTC_NS, None, "EXIT", ("0A0B", 2, -50, 1), CLOCK),
        ]
        await met(lambda: reader.keepalives >= 2)
        assert made.counts == {"connected": 1, "reports": 2, "reads": 2}


async def test_no_tag_is_missed_over_a_lost_connection() -> None:
    reader, outlet = EmulatedReader(), KeptOutlet()
    async with reading(reader, outlet) as made:
        await met(lambda: reader.reading and 64 in reader.seen)
        reader.drop()
        reader.tag(EPC, 1)  # while nobody is connected
        await met(lambda: len(outlet.rows) == 1)
        assert made.counts["lost"] == 1
        assert reader.seen.count(p.ADD_ROSPEC) == 1  # it ran on


async def test_a_reader_that_was_switched_off_is_set_up_anew() -> None:
    reader, outlet = EmulatedReader(), KeptOutlet()
    async with reading(reader, outlet) as made:
        await met(lambda: reader.reading and 64 in reader.seen)
        await reader.stop()
        await met(lambda: made.counts["not_connected"] >= 2)
        reader.seen.clear()
        await reader.start(made._settings.port)
        await met(lambda: reader.reading and 64 in reader.seen)
        reader.tag(EPC, 1)
        await met(lambda: outlet.rows)


async def test_a_reader_that_falls_silent_is_connected_anew() -> None:
    reader, outlet = EmulatedReader(), KeptOutlet()
    async with reading(reader, outlet) as made:
        await met(lambda: reader.reading and 64 in reader.seen)
        reader.mute = True
        await met(lambda: made.counts["lost"] == 1)
        reader.mute = False
        await met(lambda: made.counts["connected"] >= 2)
        assert "silent" in outlet.faults[0]


@pytest.mark.parametrize("refused", [p.ADD_ROSPEC, p.ENABLE_ROSPEC, p.SET_READER_CONFIG])
async def test_a_refusal_is_reported_and_tried_again(refused: int) -> None:
    reader, outlet = EmulatedReader(), KeptOutlet()
    reader.refuse[refused] = 101
    async with reading(reader, outlet) as made:
        await met(lambda: made.counts["lost"] >= 2)
        assert f"the reader refuses message {refused}: 101" in outlet.faults[0]
        reader.refuse.clear()
        await met(lambda: reader.reading)


async def test_a_reader_with_another_client_is_reported() -> None:
    reader, outlet = EmulatedReader(), KeptOutlet()
    async with reading(reader, outlet) as first:
        await met(lambda: reader.reading)
        second = an_input(
            {"kind": "rfid-llrp", "host": "127.0.0.1", "port": first._settings.port}, ATTRS
        )
        task = asyncio.create_task(second.run(outlet))
        await met(lambda: outlet.faults)
        assert "the reader refuses (ConnectionAttemptEvent 2)" in outlet.faults[0]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_reader_that_knows_its_uptime_alone_has_a_clock() -> None:
    reader, outlet = EmulatedReader(uptime=True), KeptOutlet()
    async with reading(reader, outlet, {"last_seen": "int"}):
        await met(lambda: reader.reading and 64 in reader.seen)
        reader.tag(EPC, 1, at=1000)
        await met(lambda: outlet.rows)
        assert outlet.rows[0][1].ts == NOW_NS + (1000 - 7) * 1000
        assert outlet.rows[0][1].attrs == (None,)
        assert outlet.rows[0][1].clock.startswith("rfid-llrp#")


async def test_a_readers_clock_that_is_said_to_be_the_agents_is_looked_at() -> None:
    reader, outlet = EmulatedReader(utc_us=NOW_NS // 1000 + 14_000_000), KeptOutlet()
    async with reading(reader, outlet, clock="agent"):
        await met(lambda: reader.reading and 64 in reader.seen)
        reader.tag(EPC, 1)
        await met(lambda: outlet.rows)
        assert outlet.rows[0][1].clock is None
        assert not outlet.bounds
        assert any('14.0 s ahead, not this device\'s: set clock = "device"' in each
                   for each in outlet.faults)  # fmt: skip


async def test_a_reader_is_asked_for_its_time_and_goes_on_reading() -> None:
    reader, outlet = EmulatedReader(runs=True), KeptOutlet()
    async with reading(reader, outlet, ask_every="20 ms") as made:
        await met(lambda: made.counts["time_asked"] > 3)
        assert reader.connections == 1
        assert made.counts["time_not_told"] == 0
        reader.utc_us += 30_000_000
        await met(lambda: made.counts["clock_steps"] == 1)
        assert any("its clock was set ahead by about 30." in each for each in outlet.faults)
        names = {bound.clock for bound in outlet.bounds}
        assert {CLOCK, f"{CLOCK[:-1]}{int(CLOCK[-1]) + 1}"} <= names


async def test_arrivals_have_independent_errors() -> None:
    reader, outlet = EmulatedReader(), KeptOutlet()
    async with reading(reader, outlet, clock="arrival", delay_max="2 s"):
        await met(lambda: reader.reading and 64 in reader.seen)
        reader.tag(EPC, 1)
        reader.tag(EPC, 2)
        await met(lambda: len(outlet.rows) == 2)
        assert [row.ts for _, row in outlet.rows] == [NOW_NS, NOW_NS]
        clocks = [row.clock for _, row in outlet.rows]
        assert clocks == ["rfid-llrp/arrival.0", "rfid-llrp/arrival.1"]
        assert [bound.clock for bound in outlet.bounds] == clocks
        assert {bound.high - bound.low for bound in outlet.bounds} == {2 * 10**9}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"GET / HTTP/1.1\r\n", "no header of LLRP"),
        (b"\x04\x3d\x00\x00\x00\x09\x00\x00\x00\x01", "no header of LLRP"),
        (b"\x04\x3d\x7f\x00\x00\x00\x00\x00\x00\x01", "a message of 2130706432 bytes"),
    ],
)
def test_what_is_no_message_ends_the_connection(data: bytes, message: str) -> None:
    with pytest.raises(LlrpError, match=message):
        Messages().feed(data)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (REPORT[10:-1], "does not fit"),
        (b"\x00\xf0\x00\x03", "does not fit"),
        (b"\x00\xf0\x00\x04", "without its EPC"),
        (b"\x00\xf0\x00\x05\xff", "does not fit"),
        (b"\x00\xf0\x00\x0b\x00\xf1\x00\x07\x00\x60\x01", "an EPC of 96 bits in 1 bytes"),
    ],
)
def test_what_is_no_report_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(LlrpError, match=message):
        tag_reads(body)


def test_the_rospec_is_as_another_client_writes_it() -> None:
    # ADD_ROSPEC as sllurp 3.0.5 encodes the same settings.
    assert p.message(p.ADD_ROSPEC, 1, rospec(InventorySettings(antennas=(1, 2)))).hex() == (
        "04140000004d0000000100b1004300000001000000b2001200b300050100b60009000000000000"
        "b7001a00020001000200b80009000000000000ba000700010100ed000d02000100ee00061f80"
    )


def test_an_event_without_its_data_is_refused() -> None:
    with pytest.raises(LlrpError, match="without its data"):
        reader_event(b"")


def kept(
    reads: list[tuple[str, int, int]], same: int, wanted: int, window: int
) -> list[int | None]:
    """What ``ReadFilter`` says, by looking at all reads before each (times do not go back)."""
    said: list[int | None] = []
    passed: dict[str, int] = {}
    for place, (tag, ts, _) in enumerate(reads):
        near = [(t, n) for other, t, n in reads[: place + 1] if other == tag and t > ts - window]
        near = near[-wanted:]
        if wanted > 1 and sum(max(n, 1) for _, n in near) < wanted:
            said.append(None)
            continue
        if tag in passed and ts - passed[tag] < same:
            said.append(None)
            continue
        first = near[0][0] if wanted > 1 else ts
        said.append(ts if tag in passed and passed[tag] >= first else first)
        passed[tag] = ts
    return said


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 4), st.integers(0, 3)), max_size=30),
    st.integers(0, 8), st.integers(1, 4), st.integers(1, 8),
)  # fmt: skip
def test_filters_against_brute_force(
    steps: list[tuple[str, int, int]], same: int, wanted: int, window: int
) -> None:
    ts, reads = 0, []
    for tag, step, count in steps:
        ts += step
        reads.append((tag, ts, count))
    found = ReadFilter(same, wanted, window)
    said = [found.passes((tag, 1), ts, count) for tag, ts, count in reads]
    assert said == kept(reads, same, wanted, window)
    assert sum(found.counts.values()) == said.count(None)


def test_filters_forget_the_oldest_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slackwater.edge_agent.inputs.llrp.inventory.TAGS_MAX", 2)
    found = ReadFilter(100, 1, 1)
    assert [found.passes((tag, 1), 0, 1) for tag in "abab"] == [0, 0, None, None]
    assert [found.passes((tag, 1), 0, 1) for tag in "cab"] == [0, 0, 0]
    assert found.counts == {"duplicates": 2, "forgotten": 3}


def test_a_clock_that_was_set_back_hides_nothing() -> None:
    found = ReadFilter(100, 2, 10)
    assert [found.passes(("a", 1), ts, 1) for ts in (1000, 1001, 5, 6)] == [None, 1000, None, 6]
