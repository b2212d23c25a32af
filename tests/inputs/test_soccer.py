"""Positions of the DEBS 2013 Grand Challenge over UDP."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from slackwater.edge_agent.inputs import base as datagrams
from slackwater.edge_agent.packing import Row
from tests.inputs.outlet import NOW_NS, KeptOutlet, an_input, met

# The schema and the first instant of the game as R19, Table 5.1, prints them; the ball is sensor 4.
CLOCK = f"soccer-udp#{NOW_NS // 10**9}"
LINES = (
    b"4,10753295594424116,26001,2,17,1234567,890,-5,9999,17,0,-1,2\n"
    b"67,10753295594425999,-150,33965,1000,0,0,0,0,0,0,0,0\n"
)
ATTRS = {"sid": "int", "x": "int", "y": "int", "v": "float"}
SETTINGS = {"kind": "soccer-udp", "port": 0, "types": {"4": "BALL"}, "type": "PLAYER"}


def sent(
    data: list[bytes], wanted: int, attrs: dict[str, str], **settings: Any
) -> tuple[Any, KeptOutlet]:
    """What has become of datagrams, once ``wanted`` of them have come."""

    async def play() -> tuple[Any, KeptOutlet]:
        outlet = KeptOutlet()
        made = an_input({**SETTINGS, **settings}, attrs)
        task = asyncio.create_task(made.run(outlet))
        await met(lambda: made.port)
        with socket.socket(type=socket.SOCK_DGRAM) as sender:
            for each in data:
                sender.sendto(each, ("127.0.0.1", made.port))
        await met(lambda: made.counts["positions"] + made.counts["bad"] >= wanted)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return made, outlet

    return asyncio.run(play())


def test_positions_are_events() -> None:
    made, outlet = sent([LINES], 2, ATTRS)
    first, second = 10753295594424, 10753295594425
    assert outlet.rows == [
        ("events", Row(first, first, None, "BALL", (4, 26001, 2, 1234567.0), CLOCK)),
        ("events", Row(second, second, None, "PLAYER", (67, -150, 33965, 0.0), CLOCK)),
    ]
    assert made.counts == {"datagrams": 1, "positions": 2}


def test_the_sensors_time_may_begin_at_the_game() -> None:
    _, outlet = sent([LINES[:60]], 1, {"sid": "int"}, zero="2013-06-29T11:00:00.5Z")
    assert outlet.rows[0][1].ts == 1372503600_500_000_000 + 10753295594424


def test_1_9_the_sensors_time_may_begin_at_1970() -> None:
    line = LINES[:60].replace(b"10753295594424116", b"1795816513000000000123")
    _, outlet = sent([line], 1, {"sid": "int"})
    assert outlet.rows[0][1].ts == 1795816513_000_000_000


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"4,1,2,3", "4 values; a position has 13"),
        (b"4,-1" + b",0" * 11, "ts: '-1' is no whole number"),
        (b"4,1.5" + b",0" * 11, "ts: '1.5' is no whole number"),
        (b"4," + b"9" * 22 + b",0" * 11, "a time beyond the years"),
        (b"4," + b"9" * 23 + b",0" * 11, "is no whole number"),
        (b"4," + "\u0661".encode() + b",0" * 11, "is no whole number"),
        (b"x,1" + b",0" * 11, "sid: 'x' is not of type int"),
        (b"4,1,nan" + b",0" * 10, "x: 'nan' is not of type int"),
        (b"4,1,1,1,1,inf" + b",0" * 7, "attribute v: an infinite value"),
        (b"\xff" * 1001, "a line of 1001 characters"),
    ],
)
def test_lines_that_are_no_position_are_counted(line: bytes, message: str) -> None:
    made, outlet = sent([line + b"\n" + LINES], 3, ATTRS)
    assert message in outlet.faults[0]
    assert (made.counts["bad"], len(outlet.rows)) == (1, 2)


def test_what_does_not_fit_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datagrams, "WAITING_MAX", 3 * len(LINES))
    counts: Any = an_input(SETTINGS, ATTRS).counts
    waiting = datagrams.Datagrams(counts)
    for _ in range(5):
        waiting.datagram_received(LINES, None)
    assert counts == {"datagrams": 5, "dropped_datagrams": 2}
    assert asyncio.run(waiting.take()) == [LINES] * 3
