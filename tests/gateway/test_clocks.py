"""Events that name the clock that stamped them, from a session through the gateway to the log."""

from __future__ import annotations

import itertools
from array import array
from typing import Any

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import wire
from slackwater.edge_agent.clock import Now
from slackwater.edge_agent.device_clock import DeviceClockBound
from slackwater.edge_agent.packing import Codes
from slackwater.edge_agent.session import AgentSession, Connect, SendBytes, SendDatagram
from slackwater.edge_agent.settings import SessionSettings
from slackwater.edge_agent.timesync import SyncSettings
from slackwater.engine.gateway.frames import clock_name
from tests.gateway.conftest import SCHEMA, SYNC, Bench, a_data, a_hello

MS, S = 10**6, 10**9
BOUND = DeviceClockBound("monitor#1", 20 * S, 20 * S + 100 * MS, 5 * S, 25 * S, 50_000)


class Pair:
    """A session and a gateway, which talk without delay; the agent's wall clock is 3 s slow."""

    def __init__(self, source: str = "ward", **options: Any) -> None:
        self.bench = Bench(**options)
        self.cookies = itertools.count(1)
        sync = SyncSettings(attempts=1, resync_ns=60 * S)
        settings = SessionSettings(source=source, sync=sync)
        self.session = AgentSession(settings, [SCHEMA], 1, lambda: next(self.cookies))
        self.at = 1000 * S
        self.sent: list[m.Message] = []
        self.old_gateway = False

    def now(self) -> Now:
        return Now(self.at - 3 * S, self.at - 900 * S)

    def start(self) -> None:
        self.session.start(self.now())
        self.run()
        self.later(S)  # the first sync is durable, and data may follow

    def run(self) -> None:
        while outputs := self.session.outputs():
            for output in outputs:
                match output:
                    case Connect(number):
                        self.bench.core.connected(number, self.at, "127.0.0.1")
                        self.session.connected(number, self.now())
                    case SendBytes(number, data):
                        self.say(number, data)
                    case SendDatagram(data):
                        answer = self.bench.core.datagram_received(data, self.at, self.at)
                        assert answer is not None
                        self.session.datagram_received(answer, self.now())

    def say(self, number: int, data: bytes) -> None:
        message = wire.decode(data[4:])
        self.sent.append(message)
        if self.old_gateway:
            assert not wire.names_clocks(data)
            if isinstance(message, m.Hello):  # it knows no such word
                data = wire.encode(m.Hello(**{**vars_of(message), "capabilities": (m.PULL_BACK,)}))
        self.bench.core.received(number, data, self.at)
        self.answer(number)

    def answer(self, number: int) -> None:
        for output in self.bench.core.outputs():
            self.session.received(number, output.data, self.now())  # type: ignore[union-attr]

    def later(self, ns: int) -> None:
        self.at += ns
        self.bench.core.wake(self.at)
        self.answer(0)
        self.session.wake(self.now())
        self.run()

    def emit(self, *clocks: str | None) -> None:
        names = [name for name in dict.fromkeys(clocks) if name]
        codes = array("i", [names.index(each) if each else -1 for each in clocks])
        ts = array("q", [self.at + i for i in range(len(clocks))])
        self.session.emit("events", self.now(), ts=ts, clocks=Codes(names, codes))
        self.run()

    def rows(self, *names: str) -> list[tuple[Any, ...]]:
        self.bench.core.finish(self.at)
        return self.bench.log.rows(*names)


def vars_of(hello: m.Hello) -> dict[str, Any]:
    return {name: getattr(hello, name) for name in hello.__slots__}


def test_the_log_names_the_clock_of_each_event_and_sync() -> None:
    pair = Pair()
    pair.start()
    pair.session.clock(BOUND, pair.now())
    pair.emit("monitor#1", None, "monitor#1")
    rows = pair.rows("kind", "source", "clock", "seq")
    assert [row for row in rows if row[0] in (None, 0)] == [
        (0, "ward", "ward/monitor#1", 0), (0, "ward", None, 1), (0, "ward", "ward/monitor#1", 2),
    ]  # fmt: skip
    assert [row[2] for row in rows if row[0] == 3] == [None, "ward/monitor#1"]


def test_a_sync_of_a_device_adds_both_errors() -> None:
    pair = Pair()
    pair.start()
    pair.at += 10 * S
    bound = BOUND._replace(mono=pair.now().mono_ns, stamp=77)
    pair.session.clock(bound, pair.now())
    pair.emit("monitor#1")
    rows = pair.rows("kind", "clock", "ts", "offset", "delay", "precision", "skew_error_ppb")
    own, device = [row for row in rows if row[0] == 3]
    engine_minus_mono = 900 * S
    assert own[3] == 3 * S
    assert device[2:4] == (77, 20 * S + 50 * MS + engine_minus_mono)
    grown = 2 * 11 * 50_000
    assert device[4:] == (100 * MS + 1 + own[4] + grown, own[5], own[6] + 50_000)


def test_clocks_are_said_again_when_the_agents_own_is_measured() -> None:
    pair = Pair()
    pair.start()
    pair.session.clock(BOUND._replace(mono=pair.now().mono_ns), pair.now())
    pair.emit("monitor#1")
    pair.later(61 * S)
    syncs = [row for row in pair.rows("kind", "clock") if row[0] == 3]
    assert [clock for _, clock in syncs] == [None, "ward/monitor#1", None, "ward/monitor#1"]


def test_a_clock_that_is_said_before_the_agents_own_comes_before_its_events() -> None:
    pair = Pair()
    pair.session.clock(BOUND._replace(mono=pair.now().mono_ns), pair.now())
    pair.emit("monitor#1")
    pair.session.clock(BOUND._replace(mono=pair.now().mono_ns, low=20 * S + 1), pair.now())
    pair.start()
    rows = pair.rows("kind", "clock", "offset")
    assert [(kind, clock) for kind, clock, _ in rows] == [
        (3, None), (3, "ward/monitor#1"), (0, "ward/monitor#1"),
    ]  # fmt: skip
    assert rows[1][2] is not None


def test_a_gateway_from_before_is_sent_no_clocks_and_that_is_counted() -> None:
    pair = Pair()
    pair.old_gateway = True
    pair.start()
    pair.session.clock(BOUND, pair.now())
    pair.emit("monitor#1")
    pair.session.begin("events", pair.now(), ts=1, id=1, type="X", clock="monitor#1")
    pair.run()
    rows = pair.rows("kind", "clock", "seq", "offset")
    assert [row[:3] for row in rows] == [
        (3, None, None), (3, None, None), (0, None, 0), (2, None, None),
    ]  # fmt: skip
    assert rows[0][3] == rows[1][3] == 3 * S
    assert pair.session.counts["clocks_left_out"] == 3


def test_an_agent_from_before_gets_the_welcome_that_it_knows() -> None:
    bench = Bench()
    (welcome,) = bench.join("c", a_hello(capabilities=(m.PULL_BACK,)))
    assert welcome == m.Welcome(0, (0,))
    assert len(wire.encode(welcome)) == len(wire.encode(m.Welcome(0, (0,), ())))
    bench.say("c", SYNC, a_data(0, 2))
    bench.core.finish(0)
    assert all("clock" not in frame.batch.schema.names for frame in bench.log.frames)


def test_no_source_can_speak_of_another_ones_clock() -> None:
    names = [
        clock_name(source, clock)
        for source in ("a", "a/b", "a%2Fb", "a/b/c")
        for clock in (None, "b", "b/c", "c", "%2Fb")
    ]
    assert len(set(names)) == len(names)


def test_clocks_of_a_source_have_an_end() -> None:
    bench = Bench(clocks_max=2)
    bench.join("c", a_hello(capabilities=(m.CLOCKS,)))
    data = a_data(0, 1)
    bench.say("c", SYNC)
    for seq, name in enumerate(["x", "y", "z", "x"]):
        bench.say("c", data._replace(first_seq=seq, clocks=m.Texts([name], None)))
    bench.say("c", m.Sync(1, 5, 5, 5, 5, 5, "z"))
    bench.core.finish(0)
    assert bench.core.counts["main", "d", "clocks_max"] == 2
    assert bench.core.counts["main", "d", "refused"] == 1
    assert [row for row in bench.log.rows("kind", "clock") if row[0] == 0] == [
        (0, "d/x"), (0, "d/y"), (0, "d/x"),
    ]  # fmt: skip


def test_a_device_that_starts_again_and_again_does_not_use_them_up() -> None:
    bench = Bench(clocks_max=200)
    bench.join("c", a_hello(capabilities=(m.CLOCKS,)))
    data = a_data(0, 1)
    bench.say("c", SYNC)
    for n in range(500):
        bench.say("c", m.Sync(n + 1, 5, 5, 5, 5, 5, f"x#{n}"))
        bench.say("c", data._replace(first_seq=n, clocks=m.Texts([f"x#{n}", "y"], None)))
    bench.core.finish(0)
    assert ("main", "d", "clocks_max") not in bench.core.counts
    assert sum(kind == 0 for (kind,) in bench.log.rows("kind")) == 500


def test_codes_of_clocks_lie_in_their_dictionary() -> None:
    bench = Bench()
    bench.join("c", a_hello(capabilities=(m.CLOCKS,)))
    codes = array("i", [1]).tobytes()
    bench.say("c", SYNC, a_data(0, 1)._replace(clocks=m.Texts(["x"], codes)))
    assert bench.core.counts["main", "d", "codes"] == 1


def test_the_first_message_may_be_of_a_devices_clock() -> None:
    bench = Bench()
    bench.join("c", a_hello(capabilities=(m.CLOCKS,)))
    bench.say("c", m.Sync(0, 5, 5, 5, 5, 5, "x"))
    bench.core.finish(0)
    rows = bench.log.rows("kind", "clock", "first_seq", "offset")
    assert rows == [(3, None, 0, None), (3, "d/x", None, 5)]
