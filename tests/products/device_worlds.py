"""A ward: a call button by the agent's clock, and a monitor behind it with a clock of its own.

Sessions, gateway and the estimate of the monitor's clock are ours, on virtual time; what happened
when is known here, so that the true matches are found by brute force.
"""

from __future__ import annotations

import itertools
import random
import warnings
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import slackwater
from slackwater.edge_agent import messages as m
from slackwater.edge_agent.clock import Now
from slackwater.edge_agent.device_clock import DeviceClockSettings, FollowedClock
from slackwater.edge_agent.packing import Codes
from slackwater.edge_agent.session import AgentSession, Connect, SendBytes, SendDatagram
from slackwater.edge_agent.settings import SessionSettings
from slackwater.edge_agent.timesync import SyncSettings
from slackwater.engine.gateway.core import GatewayCore, GatewaySettings, Send
from slackwater.engine.log.arrival_log import LogWriter

MS, S = 10**6, 10**9
BEGAN = 1_790_000_000 * S
SCHEMA = m.StreamSchema("events", {"v": "int"})


@dataclass(frozen=True, kw_only=True)
class Monitor:
    """``ahead``: of true time at the start; ``fast_ppb``; ``steps``: (after, by); ``grain``."""

    ahead: int = 0
    fast_ppb: int = 0
    steps: tuple[tuple[int, int], ...] = ()
    grain: int = MS

    def shows(self, true: int) -> int:
        ran = true - BEGAN
        stepped = sum(by for after, by in self.steps if after <= ran)
        return (true + self.ahead + ran * self.fast_ppb // S + stepped) // self.grain * self.grain


class Agent:
    """One session, joined to a gateway without delay; its wall clock is ``slow`` behind."""

    def __init__(self, core: GatewayCore, source: str, slow: int, seed: int) -> None:
        self.core, self.source, self.slow = core, source, slow
        cookies = itertools.count(seed << 20)
        sync = SyncSettings(attempts=2, spacing_ns=MS, resync_ns=60 * S)
        settings = SessionSettings(source=source, sync=sync, heartbeat_ns=0)
        self.session = AgentSession(settings, [SCHEMA], 1, lambda: next(cookies))

    def now(self, at: int) -> Now:
        return Now(at - self.slow, at - BEGAN + 77 * S)

    def run(self, at: int) -> None:
        now = self.now(at)
        while outputs := self.session.outputs():
            for output in outputs:
                match output:
                    case Connect(number):
                        self.core.connected((self.source, number), at, "127.0.0.1")
                        self.session.connected(number, now)
                    case SendBytes(number, data):
                        self.core.received((self.source, number), data, at)
                    case SendDatagram(data):
                        answer = self.core.datagram_received(data, at, at)
                        assert answer is not None
                        self.session.datagram_received(answer, now)


class Ward:
    """Everything, advanced in order of true time."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.log = LogWriter(folder)
        limits = GatewaySettings(tick_every_ns=0, frame_every_ns=100 * MS)
        self.core = GatewayCore(limits, self.log)
        self.agents = [Agent(self.core, "nurse", 2 * S, seed), Agent(self.core, "ward", -S, seed)]
        self.at = BEGAN - 2 * S
        for agent in self.agents:
            agent.session.start(agent.now(self.at))
        self.until(BEGAN)

    def until(self, at: int) -> None:
        """Every timer that is due."""
        while True:
            self.exchange()
            dues = [self.core.next_wake()]
            dues += [
                None if (due := agent.session.next_wake()) is None else due - 77 * S + BEGAN
                for agent in self.agents
            ]
            known = [max(due, self.at) for due in dues if due is not None]
            if not known or min(known) > at:
                break
            self.at = min(known)
            self.core.wake(self.at)
            for agent in self.agents:
                agent.session.wake(agent.now(self.at))
        self.at = max(self.at, at)

    def exchange(self) -> None:
        for _ in range(20):
            for agent in self.agents:
                agent.run(self.at)
            said = self.core.outputs()
            if not said:
                return
            for output in said:
                if isinstance(output, Send):
                    source, number = output.connection
                    (agent,) = (each for each in self.agents if each.source == source)
                    agent.session.received(number, output.data, agent.now(self.at))

    def close(self) -> None:
        for agent in self.agents:
            agent.session.finish(agent.now(self.at))
        self.until(self.at + 2 * S)
        self.core.finish(self.at)
        self.log.close()


def lived(
    folder: Path, seed: int, monitor: Monitor, *, seconds: int, apart: int,
    delay: Callable[[random.Random], int], declared: DeviceClockSettings,
) -> tuple[list[tuple[int, str, int]], FollowedClock]:  # fmt: skip
    """Writes the log of a world; gives its events (true time, type, v) and the estimate."""
    chance = random.Random(seed)
    ward = Ward(folder, seed)
    nurse, agent = ward.agents
    clock = FollowedClock("monitor", declared, itertools.count(1).__next__)
    events: list[tuple[int, str, int]] = []
    at = BEGAN
    while (at := at + chance.randrange(apart // 2, apart * 3 // 2)) < BEGAN + seconds * S:
        events.append((at, "SPO2" if chance.random() < 0.7 else "CALL", len(events)))
    coming = []
    for true, type_, v in events:
        came = true + (delay(chance) if type_ == "SPO2" else chance.randrange(MS))
        coming.append((came, true, type_, v))
    for came, true, type_, v in sorted(coming):
        ward.until(came)
        if type_ == "CALL":
            ts, name, of = true - nurse.slow, None, nurse
        else:
            ts, of = monitor.shows(true), agent
            now = agent.now(came)
            clock.add_message(now.mono_ns, ts, monitor.grain)
            name = clock.name_of(ts)
            for bound in clock.take_bounds():
                agent.session.clock(bound, now)
        names = [] if name is None else [name]
        clocks = None if name is None else Codes(names, array("i", [0]))
        of.session.emit(
            "events", of.now(came), ts=array("q", [ts]), types=type_,
            attrs={"v": array("q", [v])}, clocks=clocks,
        )  # fmt: skip
        ward.exchange()
    ward.close()
    return events, clock


def true_pairs(events: list[tuple[int, str, int]], within: int) -> set[tuple[int, int]]:
    calls = [(true, v) for true, type_, v in events if type_ == "CALL"]
    seen = [(true, v) for true, type_, v in events if type_ == "SPO2"]
    return {(a, b) for t, a in calls for u, b in seen if t < u <= t + within}


def found_pairs(folder: Path, within: str, **options: Any) -> dict[tuple[int, int], str]:
    """What the engine says of CALL -> SPO2, and how certain it is."""
    text = f"EVENT SEQ(CALL c, SPO2 s) WITHIN {within}"
    found: dict[tuple[int, int], str] = {}
    with warnings.catch_warnings():
        # Delayed messages are numbered as they come, so that times do not follow numbers.
        warnings.simplefilter("ignore", slackwater.SlackwaterWarning)
        results = list(slackwater.query(folder, text, **options))
    for result in results:
        pair = tuple(event["attrs"]["v"] for event in result["events"])
        if result.get("op", "+") == "-":
            found.pop(pair, None)
        else:
            found[pair] = result["certainty"]
    return found


def assert_honest(events: list[tuple[int, str, int]], folder: Path, within_s: int) -> float:
    """No false ``confirmed``, no true match missing; gives the share that is confirmed."""
    true = true_pairs(events, within_s * S)
    found = found_pairs(folder, f"{within_s} s")
    confirmed = {pair for pair, certainty in found.items() if certainty == "confirmed"}
    assert confirmed <= true, f"false confirmed: {sorted(confirmed - true)[:5]}"
    assert true <= found.keys(), f"missing: {sorted(true - found.keys())[:5]}"
    return len(confirmed) / max(len(true), 1)
