"""A world of one device, one gateway and the network between them, on virtual time."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from slackwater.edge_agent import session as s
from slackwater.edge_agent.clock import Now
from slackwater.edge_agent.messages import StreamSchema
from slackwater.edge_agent.timesync import SyncSettings
from slackwater.engine.core.frame import Frame
from slackwater.engine.gateway.core import (
    CloseConnection,
    GatewayCore,
    GatewaySettings,
    Recalled,
    Send,
)

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


class NumberedLog:
    """A log whose frames are durable when ``flush`` says so; it may fail, and may crash."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.numbers: dict[tuple[int, str], set[int]] = {}
        self.rows: list[dict[str, Any]] = []
        self.waiting: list[Frame] = []
        self.fails: set[str] = set()

    def append(self, frame: Frame) -> None:
        if "append" in self.fails:
            raise OSError("disk full")
        for before in [*self.frames, *self.waiting][-1:]:
            assert frame.first_arrival >= before.last_arrival, "arrival goes back"
        self.waiting.append(frame)

    def flush(self) -> None:
        if "flush" in self.fails:
            raise OSError("disk full")
        taken, self.waiting = self.waiting, []
        for frame in taken:
            self._keep(frame)

    def _keep(self, frame: Frame) -> None:
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
        self.time, self.log = 0, NumberedLog()
        self.set_back = 0
        """By how much the engine's clock was set back so far."""
        self.commit_every_ns = 0
        self.gateway_starts = 0
        self.queue: list[tuple[int, int, Any, tuple[Any, ...]]] = []
        self.order, self.uses = itertools.count(), itertools.count()
        self.keys: dict[int, int] = {}
        self.last_sent: dict[tuple[int, bool], int] = {}
        self.agents: list[s.AgentSession] = []
        self.emitted: dict[tuple[int, str], int] = {}
        self.begun: dict[int, list[int]] = {}
        """Intervals that began, by start."""
        self.refused = 0
        self.acked_before: Counter[int] = Counter()
        self.start_gateway()
        self.boot()

    # --- the gateway

    def engine_now(self) -> int:
        return EPOCH + self.time - self.set_back

    def start_gateway(self, **options: Any) -> None:
        """A start, or a restart that knows its log alone; what it had not written is gone."""
        for number in list(self.keys):
            self.cut(number, reported=True)
        self.log.waiting.clear()
        settings_ = GatewaySettings(
            frame_every_ns=20 * MS, sink_retry_ns=50 * MS, commit_every_ns=self.commit_every_ns,
            pull_back_ns=50 * MS, **options,
        )  # fmt: skip
        self.gateway = GatewayCore(settings_, self.log, recalled=Recalled(self.log.frames))
        self.gateway_starts += 1

    # --- the device

    @property
    def agent(self) -> s.AgentSession:
        return self.agents[-1]

    def now(self) -> Now:
        return Now(EPOCH + self.time - self.offset, self.time)

    def boot(self, incarnation: int | None = None) -> None:
        """A start, or a restart that forgets everything; the old connections break.

        ``incarnation``: what the device says; None: one more than at every start before.
        """
        for number in list(self.keys):
            self.cut(number, reported=False)
        usual = {
            "sync": SyncSettings(attempts=3, spacing_ns=2 * MS, timeout_ns=20 * MS, silent_max=3),
            "heartbeat_ns": 50 * MS,
            "ack_timeout_ns": 300 * MS,
            "hello_timeout_ns": 200 * MS,
            "reconnect_ns": 5 * MS,
            "reconnect_ns_max": 50 * MS,
        }
        settings_ = s.SessionSettings(source="d", **(usual | self.options))
        if incarnation is None:
            incarnation = max([-1, *(each.incarnation for each in self.agents)]) + 1
        agent = s.AgentSession(settings_, STREAMS, incarnation, self.cookie)
        self.agents.append(agent)
        agent.start(self.now())

    def cookie(self) -> int:
        return self.rng.getrandbits(64)

    def emit(self, stream: str, rows: int) -> None:
        first = self.agent.next_seq(stream)
        numbers = np.arange(first, first + rows)
        attrs = {"n": numbers} if stream == "events" else None
        ts = self.now().wall_ns + numbers
        start = f"start {len(self.agents) - 1}"
        done = self.agent.emit(stream, self.now(), ts=ts, types=start, attrs=attrs)
        key = (len(self.agents) - 1, stream)
        if done.accepted:
            assert done.first_seq == first
            self.emitted[key] = self.emitted.get(key, 0) + rows
        else:
            assert done.reason == "full"
            self.refused += rows

    def begin(self) -> None:
        """An interval begins, as the gateway hears."""
        start = len(self.agents) - 1
        begun, wall = self.begun.setdefault(start, []), self.now().wall_ns
        of_start = {"id": len(begun), "type": f"start {start}"}
        if self.agent.begin("events", self.now(), ts=wall, **of_start).accepted:
            begun.append(len(begun))

    def end(self, id_: int) -> bool:
        """An interval of this start ends, and is sent; False: there was no room for it."""
        start, first = len(self.agents) - 1, self.agent.next_seq("events")
        done = self.agent.emit(
            "events", self.now(), ts=np.full(1, self.now().wall_ns), ids=np.full(1, id_),
            types=f"start {start}", attrs={"n": np.full(1, first)},
        )  # fmt: skip
        if done.accepted:
            self.emitted[start, "events"] = self.emitted.get((start, "events"), 0) + 1
        else:
            self.refused += 1
        return done.accepted

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
                self.cut(number, reported=self.chance(70))
            return
        lose = self.network.lose if key >= 0 else self.network.lose_datagram
        for _ in range(1 + self.chance(self.network.repeat)):
            if not self.chance(lose):
                self.later(key, up, action, *args)

    def take(self, step: str, size: Any) -> None:
        """A step of a test that draws them; ``size``: as it needs one."""
        match step:
            case "emit":
                self.emit("events", size)
            case "other":
                self.emit("other", size)
            case "run":
                self.run(size * MS)
            case "cut" if size in self.keys:
                self.cut(size, reported=True)
            case "boot":
                self.boot(size)
            case "begin":
                self.begin()
            case "promise":
                self.agent.promise(self.now(), self.now().wall_ns, stream="events")

    def cut(self, number: int, reported: bool) -> None:
        key = self.keys.pop(number)
        self.gateway.disconnected(key, self.engine_now())
        if reported:
            self.agent.disconnected(number, self.now())

    def to_gateway(self, key: int, data: bytes) -> None:
        if key in self.keys.values():
            self.gateway.received(key, data, self.engine_now())

    def to_agent(self, key: int, data: bytes) -> None:
        for number, open_ in list(self.keys.items()):
            if open_ == key:
                self.agent.received(number, data, self.now())

    def ask(self, agent: s.AgentSession, data: bytes) -> None:
        at = self.engine_now()
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
                self.gateway.connected(self.keys[number], self.engine_now(), "::1")
                self.agent.connected(number, self.now())
            case s.SendBytes(number, data):
                if number in self.keys:
                    key = self.keys[number]
                    self.send(key, True, self.to_gateway, key, data)
            case s.SendDatagram(data):
                self.send(-1, True, self.ask, self.agent, data)
            case s.Close(number, _):
                if number in self.keys:
                    self.cut(number, reported=False)
            case Send(key, data):
                self.send(key, False, self.to_agent, key, data)
            case CloseConnection(key, _):
                self.later(key, False, self.closed_by_gateway, key)

    def closed_by_gateway(self, key: int) -> None:
        for number, open_ in list(self.keys.items()):
            if open_ == key:
                self.cut(number, reported=True)

    def check_acked(self) -> None:
        """Everything acked is in the log, and acks never go back."""
        agent = self.agent
        acked = agent.counts["acked"]
        assert acked >= self.acked_before[len(self.agents)]
        self.acked_before[len(self.agents)] = acked
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
                None if gateway_due is None else gateway_due - EPOCH + self.set_back,
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
                self.gateway.wake(self.engine_now())

    def settle(self) -> None:
        """The network heals; the device says that it is done, and everything comes to rest."""
        self.network = Network(whole=self.network.whole)
        self.agent.finish(self.now())
        for _ in range(60):
            if self.agent.state is s.SessionState.DONE:
                break
            self.run(S)
        assert self.agent.state is s.SessionState.DONE
        self.gateway.finish(self.engine_now())

    def check(self) -> None:
        rows = self.log.rows
        arrivals = [row["arrival"] for row in rows]
        assert arrivals == sorted(arrivals)
        for (start, stream), emitted in self.emitted.items():
            mine = [
                row["seq"]
                for row in rows
                if row["kind"] == 0 and (row["stream"], row["type"]) == (stream, f"start {start}")
            ]
            assert set(mine) <= set(range(emitted))
            if start == len(self.agents) - 1 and self.resends:
                assert len(mine) == emitted
        if self.gateway_starts == 1:
            recorded = self.gateway.counts["main", "d", "recorded"]
            assert recorded == sum(len(each) for each in self.log.numbers.values())
        counts = self.gateway.counts
        ends = ("recorded", "duplicate", "refused", "put_off")
        assert counts["main", "d", "received"] == sum(counts["main", "d", end] for end in ends)
        assert sum(agent.counts["refused_full"] for agent in self.agents) == self.refused
        for row in rows:
            if row["kind"] == 0:
                start = int(row["type"].removeprefix("start "))
                assert row["incarnation"] == self.agents[start].incarnation
                assert row["stream"] == "other" or row["attrs.n"] == row["seq"]
        self.check_begun()
        self.check_first_records()

    def check_begun(self) -> None:
        """A gateway that started again may hear of an interval's begin a second time."""
        for start, begun in self.begun.items():
            mine = [
                row for row in self.log.rows if row["kind"] == 2 and row["type"] == f"start {start}"
            ]
            ids = [row["id"] for row in mine]
            assert {row["incarnation"] for row in mine} <= {self.agents[start].incarnation}
            assert self.gateway_starts > 1 or len(ids) == len(set(ids))
            assert set(ids) <= set(begun)
            if start == len(self.agents) - 1:
                assert set(ids) == set(begun)

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
        if self.gateway_starts > 1:  # an end that was not acked is said to the next one again
            ends = list(dict.fromkeys(ends))
        assert ends == [(each.name, final.next_seq(each.name)) for each in STREAMS]


def world_of(seed: int, network: dict[str, Any], **options: Any) -> World:
    """``network``: fields of Network; ``options``: settings of the session."""
    return World(seed, Network(**network), **options)


NETWORKS = st.fixed_dictionaries(
    {
        "lose": st.sampled_from([0, 0, 10]),
        "repeat": st.sampled_from([0, 20]),
        "breaks": st.sampled_from([0, 3, 10]),
        "lose_datagram": st.sampled_from([0, 30, 100]),
        "delay_ns_max": st.sampled_from([MS, 30 * MS]),
        "whole": st.booleans(),
    }
)
DEVICE_STEPS = (
    st.tuples(st.just("emit"), st.integers(1, 60)),
    st.tuples(st.just("other"), st.integers(1, 9)),
    st.tuples(st.just("run"), st.integers(1, 400)),
    st.tuples(st.just("cut"), st.integers(0, 2)),
    st.tuples(st.just("promise"), st.just(0)),
    st.tuples(st.just("begin"), st.just(0)),
)
"""What happens to a device and its connections, as ``World.take`` takes it."""
