"""Agent and gateway together, over networks that lose, repeat, reorder and break.

Conservation: every emitted event is in the log exactly once, or died with a restarted device, or
was refused by ``emit`` and counted; and what was acked is in the log at that very moment.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_agent import session as s
from edge_agent.clock import Now
from edge_agent.messages import StreamSchema
from edge_agent.timesync import SyncSettings, SyncState
from engine.frame import Frame
from engine.gateway.core import Close, GatewayCore, GatewaySettings, Send

MS = 10**6
S = 10**9
EPOCH = 1_700_000_000 * S
STREAMS = (StreamSchema("events", {"n": "int"}), StreamSchema("other"))


@dataclass(frozen=True)
class Network:
    """Per-message chances in percent. ``whole``: in-order connections that only break, as TCP."""

    lose: int = 0
    repeat: int = 0
    breaks: int = 0
    lose_datagram: int = 0
    delay_ns_max: int = 5 * MS
    whole: bool = True


class Log:
    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.numbers: dict[tuple[int, str], set[int]] = {}
        self.rows: list[dict[str, Any]] = []

    def append(self, frame: Frame) -> None:
        self.frames.append(frame)
        for row in frame.batch.to_pylist():
            row.setdefault("kind", 0)
            row.setdefault("stream", "events")
            row.setdefault("incarnation", 0)
            self.rows.append(row)
            if row["kind"] == 0:
                have = self.numbers.setdefault((row["incarnation"], row["stream"]), set())
                assert row["seq"] not in have, "recorded twice"
                have.add(row["seq"])


class World:
    """Virtual time, one device, one gateway and the network between them."""

    def __init__(self, seed: int, network: Network, *, offset: int = 0, **options: Any) -> None:
        self.rng = random.Random(seed)
        self.network, self.offset, self.options = network, offset, options
        self.time, self.log = 0, Log()
        self.gateway = GatewayCore(GatewaySettings(frame_every_ns=20 * MS), self.log)
        self.queue: list[tuple[int, int, Any, tuple[Any, ...]]] = []
        self.order, self.uses = itertools.count(), itertools.count()
        self.keys: dict[int, int] = {}
        self.last_sent: dict[tuple[int, bool], int] = {}
        self.emitted: dict[tuple[int, str], int] = {}
        self.refused = 0
        self.acked_before: Counter[int] = Counter()
        self.agents: list[s.AgentSession] = []
        self.boot()

    # --- the device

    @property
    def agent(self) -> s.AgentSession:
        return self.agents[-1]

    def now(self) -> Now:
        return Now(EPOCH + self.time - self.offset, self.time)

    def boot(self) -> None:
        """A start, or a restart that forgets everything; the old connections break."""
        for number in list(self.keys):
            self.cut(number, told=False)
        settings_ = s.SessionSettings(
            source="d",
            sync=SyncSettings(attempts=3, spacing_ns=2 * MS, timeout_ns=20 * MS, silent_max=3),
            heartbeat_ns=50 * MS,
            ack_timeout_ns=300 * MS,
            hello_timeout_ns=200 * MS,
            reconnect_ns=5 * MS,
            reconnect_ns_max=50 * MS,
            **self.options,
        )
        agent = s.AgentSession(settings_, STREAMS, len(self.agents), self.cookie)
        self.agents.append(agent)
        agent.start(self.now())

    def cookie(self) -> int:
        return self.rng.getrandbits(64)

    def emit(self, stream: str, rows: int) -> None:
        first = self.agent.next_seq(stream)
        numbers = np.arange(first, first + rows)
        attrs = {"n": numbers} if stream == "events" else None
        ts = self.now().wall_ns + numbers
        done = self.agent.emit(stream, self.now(), ts=ts, types="A", attrs=attrs)
        key = (self.agent.incarnation, stream)
        if done.accepted:
            assert done.first_seq == first
            self.emitted[key] = self.emitted.get(key, 0) + rows
        else:
            assert done.reason == "full"
            self.refused += rows

    # --- the network

    def later(self, key: int, up: bool, action: Any, *args: Any) -> None:
        at = self.time + self.rng.randint(1, self.network.delay_ns_max)
        if self.network.whole and key >= 0:
            at = max(at, self.last_sent.get((key, up), 0))
            self.last_sent[key, up] = at
        heapq.heappush(self.queue, (at, next(self.order), action, args))

    def chance(self, percent: int) -> bool:
        return self.rng.randrange(100) < percent

    def send(self, key: int, up: bool, action: Any, *args: Any) -> None:
        if key >= 0 and self.chance(self.network.breaks):
            # One side may notice much later than the other, or never but by its timers.
            number = next((n for n, k in self.keys.items() if k == key), None)
            if number is not None:
                self.cut(number, told=self.chance(70))
            return
        lose = self.network.lose if key >= 0 else self.network.lose_datagram
        for _ in range(1 + self.chance(self.network.repeat)):
            if not self.chance(lose):
                self.later(key, up, action, *args)

    def cut(self, number: int, told: bool) -> None:
        key = self.keys.pop(number)
        self.gateway.disconnected(key, EPOCH + self.time)
        if told:
            self.agent.disconnected(number, self.now())

    def to_gateway(self, key: int, data: bytes) -> None:
        if key in self.keys.values():
            self.gateway.received(key, data, EPOCH + self.time)

    def to_agent(self, key: int, data: bytes) -> None:
        for number, open_ in list(self.keys.items()):
            if open_ == key:
                self.agent.received(number, data, self.now())

    def ask(self, agent: s.AgentSession, data: bytes) -> None:
        at = EPOCH + self.time
        answer = self.gateway.datagram_received(data, at, at)
        self.send(-1, False, self.told_time, agent, answer)

    def told_time(self, agent: s.AgentSession, data: bytes) -> None:
        agent.datagram_received(data, self.now())

    # --- virtual time

    def carry(self) -> None:
        """Carries out what both ask for, and what that makes them ask for."""
        while wishes := [*self.agent.outputs(), *self.gateway.outputs()]:
            for wish in wishes:
                self.carry_out(wish)
        self.check_acked()

    def carry_out(self, wish: Any) -> None:
        match wish:
            case s.Connect(number):
                if self.chance(self.network.breaks):
                    self.agent.disconnected(number, self.now())
                    return
                self.keys[number] = next(self.uses)
                self.gateway.connected(self.keys[number], EPOCH + self.time)
                self.agent.connected(number, self.now())
            case s.SendBytes(number, data):
                if number in self.keys:
                    key = self.keys[number]
                    self.send(key, True, self.to_gateway, key, data)
            case s.SendDatagram(data):
                self.send(-1, True, self.ask, self.agent, data)
            case s.Close(number, _):
                if number in self.keys:
                    self.cut(number, told=False)
            case Send(key, data):
                self.send(key, False, self.to_agent, key, data)
            case Close(key, _):
                self.later(key, False, self.closed_by_gateway, key)

    def closed_by_gateway(self, key: int) -> None:
        for number, open_ in list(self.keys.items()):
            if open_ == key:
                self.cut(number, told=True)

    def check_acked(self) -> None:
        """Everything acked is in the log, and acks never go back."""
        agent = self.agent
        acked = agent.counts["acked"]
        assert acked >= self.acked_before[agent.incarnation]
        self.acked_before[agent.incarnation] = acked
        for lane, stream in enumerate(STREAMS):
            have = self.log.numbers.get((agent.incarnation, stream.name), set())
            if agent.settings.delivery is s.Delivery.RESEND:
                assert have.issuperset(range(agent._acked[lane]))

    def run(self, duration: int) -> None:
        end = self.time + duration
        while True:
            self.carry()
            gateway_due = self.gateway.next_wake()
            dues = [
                self.agent.next_wake(),
                None if gateway_due is None else gateway_due - EPOCH,
                self.queue[0][0] if self.queue else None,
            ]
            due = min((each for each in dues if each is not None), default=end)
            if due >= end:
                self.time = end
                return
            self.time = max(self.time, due)
            if self.queue and self.queue[0][0] <= self.time:
                _, _, action, args = heapq.heappop(self.queue)
                action(*args)
            else:
                self.agent.wake(self.now())
                self.gateway.wake(EPOCH + self.time)

    def settle(self) -> None:
        """The network heals; the device says that it is done, and everything comes to rest."""
        self.network = Network(whole=self.network.whole)
        self.agent.finish(self.now())
        for _ in range(60):
            if self.agent.state is s.SessionState.DONE:
                break
            self.run(S)
        assert self.agent.state is s.SessionState.DONE
        self.gateway.finish(EPOCH + self.time)

    def check(self) -> None:
        rows = self.log.rows
        arrivals = [row["arrival"] for row in rows]
        assert arrivals == sorted(arrivals)
        for (incarnation, stream), emitted in self.emitted.items():
            have = self.log.numbers.get((incarnation, stream), set())
            assert have <= set(range(emitted))
            if incarnation == self.agent.incarnation and self.resends:
                assert len(have) == emitted
        recorded = self.gateway.counts["d", "recorded"]
        assert recorded == sum(len(each) for each in self.log.numbers.values())
        assert sum(agent.counts["refused_full"] for agent in self.agents) == self.refused
        for row in rows:
            if row["kind"] == 0 and row["stream"] == "events":
                assert row["attrs.n"] == row["seq"]
        self.check_first_records()

    @property
    def resends(self) -> bool:
        return self.agent.settings.delivery is s.Delivery.RESEND

    def check_first_records(self) -> None:
        """Each incarnation begins with its first numbers; the last one ends with EOS."""
        of_device = [row for row in self.log.rows if row["source"] == "d"]
        for incarnation in {row["incarnation"] for row in of_device}:
            own = [row for row in of_device if row["incarnation"] == incarnation]
            first = [(row["kind"], row["stream"], row["first_seq"]) for row in own[:2]]
            assert first == [(3, "events", 0), (3, "other", 0)]
        ends = [(row["stream"], row["seq"]) for row in of_device if row["kind"] == 5]
        final = self.agent
        assert ends == [(each.name, final.next_seq(each.name)) for each in STREAMS]


NETWORKS = st.builds(
    Network,
    lose=st.sampled_from([0, 0, 10]),
    repeat=st.sampled_from([0, 20]),
    breaks=st.sampled_from([0, 3, 10]),
    lose_datagram=st.sampled_from([0, 30, 100]),
    delay_ns_max=st.sampled_from([MS, 30 * MS]),
    whole=st.booleans(),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("emit"), st.integers(1, 60)),
        st.tuples(st.just("other"), st.integers(1, 9)),
        st.tuples(st.just("run"), st.integers(1, 200)),
        st.tuples(st.just("cut"), st.integers(0, 2)),
        st.tuples(st.just("boot"), st.just(0)),
        st.tuples(st.just("promise"), st.just(0)),
    ),
    max_size=30,
)


@settings(max_examples=120, deadline=None)
@given(
    st.integers(0, 2**32), NETWORKS, STEPS, st.integers(1, 3), st.sampled_from([2_500, 1 << 20]),
    st.sampled_from(list(s.Delivery)),
)  # fmt: skip
def test_conservation_over_any_network(
    seed: int,
    network: Network,
    steps: list[tuple[str, int]],
    connections: int,
    unacked_bytes_max: int,
    delivery: s.Delivery,
) -> None:
    world = World(
        seed, network, connections=connections, unacked_bytes_max=unacked_bytes_max,
        delivery=delivery,
    )  # fmt: skip
    for step, size in steps:
        match step:
            case "emit":
                world.emit("events", size)
            case "other":
                world.emit("other", size)
            case "run":
                world.run(size * MS)
            case "cut" if size in world.keys:
                world.cut(size, told=True)
            case "boot":
                world.boot()
            case "promise":
                world.agent.promise(world.now(), world.now().wall_ns, stream="events")
        assert world.agent.unacked_bytes <= unacked_bytes_max + 1000
    world.settle()
    world.check()


def test_a_quiet_network_needs_no_resending() -> None:
    world = World(1, Network(), offset=3600 * S, connections=3)
    world.run(S)
    assert world.agent.state is s.SessionState.RUNNING
    for _ in range(50):
        world.emit("events", 20)
        world.run(3 * MS)
    world.settle()
    world.check()
    assert world.agent.counts["resent_messages"] == 0
    assert world.gateway.counts == {("d", "recorded"): 1000}
    assert world.agent.sync_state is SyncState.SYNCED
    clock = world.gateway.sources.get("main", "d")
    assert clock is not None
    assert clock.offset_ns is not None
    assert clock.delay_ns is not None
    assert abs(clock.offset_ns - 3600 * S) <= clock.delay_ns // 2 + 1
    # Three connections with delays of their own: events overtook each other.
    seqs = [row["seq"] for row in world.log.rows if row["kind"] == 0]
    assert sorted(seqs) == list(range(1000)) != seqs


def test_events_wait_until_the_clock_is_known() -> None:
    world = World(2, Network())
    world.emit("events", 5)
    world.settle()
    kinds = [row["kind"] for row in world.log.rows if row["source"]]
    assert kinds[:2] == [3, 3]
    assert kinds.count(0) == 5


def test_a_server_that_never_answers_does_not_stop_the_events() -> None:
    world = World(3, Network(lose_datagram=100))
    world.emit("events", 5)
    world.run(S)
    world.settle()
    world.check()
    first = next(row for row in world.log.rows if row["kind"] == 3)
    assert (first["offset"], first["delay"], first["first_seq"]) == (None, None, 0)


def test_silent_streams_promise_that_nothing_older_comes() -> None:
    world = World(4, Network(), offset=S)
    world.run(S)
    world.emit("events", 3)
    world.run(300 * MS)
    promises = [row for row in world.log.rows if row["kind"] == 1]
    of_events = [row for row in promises if row["stream"] == "events" and row["seq"] == 3]
    assert len(of_events) >= 3
    assert all(row.get("type") is None for row in promises)
    assert all(row["ts"] <= row["arrival"] - S for row in promises)


def test_what_a_lost_connection_carried_is_resent_on_another() -> None:
    world = World(5, Network(delay_ns_max=30 * MS), connections=2)
    world.run(S)
    for _ in range(10):
        world.emit("events", 2)
    world.carry()
    carried = [each for each in world.agent._unacked._all() if each.connection == 0]
    world.cut(0, told=True)
    assert world.agent.counts["resent_messages"] == len(carried) >= 5
    assert {each.connection for each in carried} == {1}
    world.run(100 * MS)
    world.settle()
    world.check()


def test_a_full_buffer_refuses_and_takes_again_after_acks() -> None:
    world = World(6, Network(), unacked_bytes_max=5000)
    world.run(S)
    while not world.refused:
        world.emit("events", 50)
    emitted = world.emitted[0, "events"]
    world.run(100 * MS)
    world.emit("events", 50)
    assert world.emitted[0, "events"] == emitted + 50
    assert world.refused == world.agent.counts["refused_full"] == 50
    world.settle()
    world.check()


def test_delivery_once_leaves_what_is_lost_missing() -> None:
    world = World(7, Network(), delivery=s.Delivery.ONCE)
    world.run(S)
    world.network = Network(lose=30)
    for _ in range(100):
        world.emit("events", 1)
        world.run(MS)
    world.settle()
    world.check()
    have = world.log.numbers[0, "events"]
    assert 40 < len(have) < 95
    assert world.agent.unacked_bytes == 0


def test_a_restart_is_neither_a_gap_nor_a_duplicate() -> None:
    world = World(8, Network())
    world.run(S)
    world.emit("events", 10)
    world.run(S)
    world.boot()
    world.run(S)
    world.emit("events", 4)
    world.settle()
    world.check()
    assert {key: len(have) for key, have in world.log.numbers.items()} == {
        (0, "events"): 10,
        (1, "events"): 4,
    }
    assert world.gateway.counts["d", "duplicate"] == 0


def test_a_wrong_token_fails_for_good_and_says_why() -> None:
    world = World(9, Network(), token="wrong")
    world.gateway = GatewayCore(GatewaySettings(tokens={("main", "d"): "right"}), world.log)
    world.boot()
    world.run(S)
    assert world.agent.state is s.SessionState.FAILED
    assert world.agent.failure is not None
    assert world.agent.failure.reason == "token"
    assert world.agent.next_wake() is None
    done = world.agent.emit("events", world.now(), ts=np.zeros(1, np.int64))
    assert done == (False, 0, "failed")


def test_after_finish_nothing_is_taken() -> None:
    world = World(10, Network())
    world.agent.finish(world.now())
    done = world.agent.emit("events", world.now(), ts=np.zeros(1, np.int64))
    assert done.reason == "finished"
    world.settle()
    assert world.agent.counts["refused_finished"] == 1


def test_a_gateway_that_talks_nonsense_loses_its_connection_only() -> None:
    world = World(11, Network())
    world.run(S)
    for noise in (b"\0\0\0\x01\xc0", b"\xff" * 9):
        before = world.agent.counts["bad_message"]
        world.agent.received(0, noise, world.now())
        assert world.agent.counts["bad_message"] == before + 1
        world.run(S)
    world.emit("events", 3)
    world.settle()
    world.check()


@pytest.mark.parametrize("percent", [0, 100])
def test_the_checks_can_fail(percent: int) -> None:
    """A canary: a sink that forgets frames must be noticed."""
    world = World(12, Network())
    keep = world.log.append
    world.log.append = lambda frame: None if world.chance(percent) else keep(frame)  # type: ignore[method-assign]

    def go() -> None:
        world.run(S)
        world.emit("events", 3)
        world.settle()
        world.check()

    if percent:
        with pytest.raises(AssertionError):
            go()
    else:
        go()
