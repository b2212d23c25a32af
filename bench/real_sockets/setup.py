"""The set-up, declared once: eight devices with their clocks, links and events.

Each world gets it in its own words: settings files for agents, gateway and ``slackwater emulate``,
and a scenario for the simulator. One number is translated, not copied: how long TCP takes to send a
lost packet again, which the kernel decides and a scenario states (``retransmit_timeout``).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from slackwater.edge_agent.messages import StreamSchema
from slackwater.edge_agent.timesync import SyncSettings
from slackwater.simulator.clocks import ClockSettings
from slackwater.simulator.links import LinkSettings
from slackwater.simulator.scenario import Scenario, SourceSettings
from slackwater.simulator.seeds import Seeds
from slackwater.simulator.settings import parse
from slackwater.simulator.workload import Batch, Span

MS = 1_000_000
SECOND = 1_000 * MS
GATEWAY = "gateway"
PORT = 9750
ATTRS = {"v": "int", "k": "int"}
"""``v``: number of the event among its source's; ``k``: what the query joins."""
KEYS = 100
WITHIN_NS = 500 * MS
QUERY = f"EVENT SEQ(A a, B b) WHERE a.k = b.k WITHIN {WITHIN_NS // MS} ms"
GAP_MIN_NS, GAP_MEAN_NS = 5 * MS, 22 * MS
SYNC = {"attempts": 4, "spacing": "20 ms", "timeout": "1 s", "resync": "400 ms",
        "skew_error_ppb": 250_000}  # fmt: skip
"""Rounds are short, so that a minute has a thousand of them; 250 ppm covers the clocks' skew."""


def lognormal(median_ms: int, min_ms: int, sigma: float) -> dict[str, Any]:
    return {"model": "lognormal", "median": f"{median_ms} ms", "min": f"{min_ms} ms",
            "sigma": sigma}  # fmt: skip


LINKS = {
    "lan": ({"delay": lognormal(4, 2, 0.5), "loss": 0.002},
            {"delay": lognormal(3, 2, 0.4), "loss": 0.002}),
    "wifi": ({"delay": lognormal(14, 5, 0.6), "loss": 0.01},
             {"delay": lognormal(8, 4, 0.5), "loss": 0.005}),
    "mobile": ({"delay": lognormal(35, 20, 0.4), "loss": 0.01},
               {"delay": lognormal(25, 15, 0.4), "loss": 0.005}),
    "far": ({"delay": lognormal(70, 55, 0.35), "loss": 0.005},
            {"delay": lognormal(60, 50, 0.35), "loss": 0.005}),
}  # fmt: skip
"""Up and down; packets may overtake each other on all of them (``fifo = false``)."""


@dataclass(frozen=True)
class SocketsDevice:
    """One device.

    Attributes:
        name: of its source and namespace.
        link: a key of ``LINKS``.
        fast_ns: by how much its clock is ahead (negative: behind) when it is switched on.
        rate_ppm: how much faster its clock runs.
        connections: of its agent.
    """

    name: str
    link: str
    fast_ns: int
    rate_ppm: int
    connections: int

    @property
    def rate(self) -> float:
        return 1 + self.rate_ppm / 1_000_000

    @property
    def type(self) -> str:
        """Of its events: even ones send A, odd ones B."""
        return "AB"[int(self.name[1:]) % 2]


DEVICES = (
    SocketsDevice("d0", "lan", 3600 * SECOND, 200, 1),
    SocketsDevice("d1", "lan", -3600 * SECOND, -200, 1),
    SocketsDevice("d2", "wifi", 60 * SECOND, -150, 1),
    SocketsDevice("d3", "wifi", -1 * SECOND, 100, 2),
    SocketsDevice("d4", "mobile", 1800 * SECOND, 50, 1),
    SocketsDevice("d5", "mobile", -300 * SECOND, -50, 2),
    SocketsDevice("d6", "far", 5 * SECOND, 20, 1),
    SocketsDevice("d7", "far", -1800 * SECOND, 200, 1),
)


@dataclass(frozen=True)
class SocketsSetup:
    """The whole set-up: how long events happen, and the root of all that is drawn."""

    seconds: int
    seed: int = 12

    @cached_property
    def events(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Per device: when its events happen [ns after the start], and their ``k``."""
        found = {}
        for device in DEVICES:
            generator = Seeds(self.seed).generator(f"events/{device.name}")
            count = self.seconds * SECOND // GAP_MEAN_NS
            gaps = generator.standard_exponential(count) * (GAP_MEAN_NS - GAP_MIN_NS)
            times = np.cumsum(GAP_MIN_NS + np.rint(gaps).astype(np.int64))
            found[device.name] = times, generator.integers(0, KEYS, count)
        return found

    # --- for the real programs

    def links_file(self, prefix: str) -> str:
        """Settings of ``slackwater emulate``."""
        lines = [f"seed = {self.seed}", f'prefix = "{prefix}"', 'status = "links.json"']
        for device in DEVICES:
            up, down = LINKS[device.link]
            lines += ["[[links]]", f'between = ["{device.name}", "{GATEWAY}"]']
            lines += [f"up = {inline(up | {'fifo': False})}"]
            lines += [f"down = {inline(down | {'fifo': False})}"]
        return "\n".join(lines) + "\n"

    def site_file(self) -> str:
        """Settings of ``slackwater serve``."""
        tokens = "".join(f'"main/{device.name}" = "token-{device.name}"\n' for device in DEVICES)
        return f'[gateway]\nlog = "site.log"\nlisten = "0.0.0.0"\nport = {PORT}\n[tokens]\n{tokens}'

    def agent_file(self, device: SocketsDevice, gateway: str) -> str:
        """Settings of ``slackwater agent``; its events come from ``bench.real_sockets.feeder``."""
        program = [sys.executable, "-m", "bench.real_sockets.feeder", f"{device.name}.jsonl"]
        sync = "\n".join(f"{name} = {inline(value)}" for name, value in SYNC.items())
        return (
            f'[agent]\nsource = "{device.name}"\ntoken = "token-{device.name}"\n'
            f'[gateway]\nhost = "{gateway}"\nport = {PORT}\n'
            f"[delivery]\nconnections = {device.connections}\n"
            # As the simulator's agents have it.
            'ack_timeout = "30 s"\nack_timeout_min = "30 s"\n'
            f"[sync]\n{sync}\n"
            f'[[stream]]\nname = "events"\nattrs = {inline(ATTRS)}\n'
            f'[[input]]\nkind = "exec"\ncommand = {inline(program)}\n'
        )

    # --- for the simulator

    def scenario(self) -> Scenario:
        """The same devices, links and events on virtual time."""
        return Scenario(
            name="real-sockets",
            seed=self.seed,
            duration_ns=max(int(times[-1]) for times, _ in self.events.values()) + 1,
            sources=tuple(self._source(device) for device in DEVICES),
        )

    def _source(self, device: SocketsDevice) -> SourceSettings:
        timeout_ns = recovery_ns(device)
        up, down = (
            parse(
                LinkSettings,
                link_values | {"reliable": True, "retransmit_timeout": timeout_ns},
                "link",
            )
            for link_values in LINKS[device.link]
        )
        return SourceSettings(
            name=device.name,
            workload=ListedEvents(device.type, *self.events[device.name]),
            clock=ClockSettings(offset_ns=-device.fast_ns, skew_ppb=-device.rate_ppm * 1000),
            up=up,
            down=down,
            connections=device.connections,
            poll_ns=0,
            heartbeat_ns=0,
            sync=parse(SyncSettings, SYNC, "sync"),
        )


@dataclass(frozen=True)
class ListedEvents:
    """A simulated device's events, as they are listed."""

    type: str
    times: np.ndarray
    keys: np.ndarray

    def streams(self) -> Sequence[StreamSchema]:
        return (StreamSchema("events", ATTRS),)

    def batches(self, span: Span, seeds: Seeds, source: str) -> Iterator[Batch]:
        del seeds, source
        numbers = np.arange(self.times.size, dtype=np.int64)
        attrs = {"v": numbers, "k": self.keys}
        yield Batch("events", span.start_ns + self.times, self.type, attrs)


def recovery_ns(device: SocketsDevice) -> int:
    """How long after a packet TCP sends it again, if it is lost (RFC 8985, RACK).

    The next packet of the connection tells of the gap: it is sent a gap later, its SACK is back
    after a round trip, and reordering is waited for, for an eighth of one (as Linux does it).
    """
    up, down = LINKS[device.link]
    trip = mean_ns(up["delay"]) + mean_ns(down["delay"])
    return GAP_MEAN_NS * device.connections + trip * 9 // 8


def mean_ns(delay: dict[str, Any]) -> int:
    """Mean of a lognormal delay: min + (median - min) exp(sigma^2 / 2)."""
    least, median = (int(delay[name].removesuffix(" ms")) * MS for name in ("min", "median"))
    return int(least + (median - least) * np.exp(delay["sigma"] ** 2 / 2))


def inline(value: Any) -> str:
    """A value as TOML in one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {inline(each)}" for name, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(inline, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str | Path) else str(value)
