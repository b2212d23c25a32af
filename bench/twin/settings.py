"""Known settings of the proof: links, clocks and a query each, in the words of every program.

Four devices that are alike, as ``slackwater validate`` takes the sources of a site to be: one link
of the same kind each, and clocks that are equally wrong, each in its own way. Two see A, two see B.
"""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bench.real_sockets.setup import LINKS, MS, SECOND, inline, lognormal
from slackwater.simulator.seeds import Seeds

GATEWAY = "gateway"
PORT = 9750
DEVICES = ("d0", "d1", "d2", "d3")
MEASURED = DEVICES[0]
"""The device that is validated; it stands for all."""
GAP_MIN_NS, GAP_MEAN_NS = 5 * MS, 22 * MS
KEYS = 12
RECORDING = "events.csv"
QUERY = "pairs"
SECONDS = 20


@dataclass(frozen=True, kw_only=True)
class TwinSetting:
    """One set-up.

    Attributes:
        name: of it.
        up: a direction of ``slackwater emulate``'s links, from device to gateway; also ``down``.
        fast_ns: by how much each device's clock is ahead when it is switched on.
        rate_ppm: how much faster each runs.
        sync: ``[sync]`` of the agents.
        within_ms: of the query.
        connections: of each agent.
        limits: ``[limits]`` of the gateway.
    """

    name: str
    up: dict[str, Any]
    down: dict[str, Any]
    fast_ns: tuple[int, int, int, int]
    rate_ppm: tuple[int, int, int, int]
    sync: dict[str, Any]
    within_ms: int = 200
    connections: int = 1
    limits: dict[str, Any] = field(default_factory=dict)
    seconds: int = SECONDS
    seed: int = 12

    @property
    def query(self) -> str:
        return f"EVENT SEQ(A a, B b) WHERE a.k = b.k WITHIN {self.within_ms} ms"

    @cached_property
    def events(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Per device: when its events happen [ns after the start], and their ``k``."""
        found = {}
        for name in DEVICES:
            generator = Seeds(self.seed).generator(f"events/{name}")
            count = self.seconds * SECOND // GAP_MEAN_NS
            gaps = generator.standard_exponential(count) * (GAP_MEAN_NS - GAP_MIN_NS)
            times = np.cumsum(GAP_MIN_NS + np.rint(gaps).astype(np.int64))
            found[name] = times, generator.integers(0, KEYS, count)
        return found

    @property
    def first_ns(self) -> int:
        """Of all events, the first; a recording's times count from it."""
        return min(int(times[0]) for times, _ in self.events.values())

    def write(self, folder: Path, gateway: str) -> None:
        """All files but those that the programs write: settings, events, the recording."""
        (folder / "site.toml").write_text(self._site_file())
        with (folder / RECORDING).open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["ts", "source", "type", "k", "v"])
            for name in DEVICES:
                writer.writerows(
                    (at, name, type_of(name), k, v)
                    for v, (at, k) in enumerate(self._listed(name))
                )  # fmt: skip
        for number, name in enumerate(DEVICES):
            (folder / f"{name}.toml").write_text(self._agent_file(name, gateway))
            rate = 1 + self.rate_ppm[number] / 1_000_000
            lines = [
                json.dumps({"type": type_of(name), "ts": round(at * rate), "v": v, "k": k})
                for v, (at, k) in enumerate(self._listed(name))
            ]
            (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")

    def _listed(self, name: str) -> list[tuple[int, int]]:
        times, keys = self.events[name]
        return list(zip(times.tolist(), keys.tolist(), strict=True))

    def links_file(self, prefix: str) -> str:
        """Settings of ``slackwater emulate``."""
        lines = [f"seed = {self.seed}", f'prefix = "{prefix}"', 'status = "links.json"']
        for name in DEVICES:
            lines += ["[[links]]", f'between = ["{name}", "{GATEWAY}"]']
            lines += [f"up = {inline(self.up | {'fifo': False})}"]
            lines += [f"down = {inline(self.down | {'fifo': False})}"]
        return "\n".join(lines) + "\n"

    def _site_file(self) -> str:
        limits = "\n".join(f"{name} = {inline(value)}" for name, value in self.limits.items())
        return (
            f'[gateway]\nlog = "site.log"\nlisten = "0.0.0.0"\nport = {PORT}\n'
            f'without_tokens = true\n[limits]\n{limits}\n[engine]\nkind = "embedded"\n'
            f'[[query]]\nname = "{QUERY}"\ntext = "{self.query}"\n'
        )

    def _agent_file(self, name: str, gateway: str) -> str:
        program = [sys.executable, "-m", "bench.real_sockets.feeder", f"{name}.jsonl"]
        sync = "\n".join(f"{key} = {inline(value)}" for key, value in self.sync.items())
        return (
            f'[agent]\nsource = "{name}"\n[gateway]\nhost = "{gateway}"\nport = {PORT}\n'
            f"[delivery]\nconnections = {self.connections}\n"
            'ack_timeout = "30 s"\nack_timeout_min = "30 s"\n'
            f"[sync]\n{sync}\n"
            f'[[stream]]\nname = "events"\nattrs = {{ v = "int", k = "int" }}\n'
            f'[[input]]\nkind = "exec"\ncommand = {inline(program)}\n'
        )


def type_of(device: str) -> str:
    """Of its events."""
    return "AB"[int(device[1:]) % 2]


def bend_words(setting: TwinSetting, device: str) -> str:
    """For faketime's ``-f``."""
    number = DEVICES.index(device)
    rate = 1 + setting.rate_ppm[number] / 1_000_000
    return f"{setting.fast_ns[number] // SECOND:+d}s x{rate:.6f}"


def _seconds(*fast: int) -> Any:
    return tuple(each * SECOND for each in fast)


@dataclass(frozen=True, kw_only=True)
class _TwinClocks:
    """How wrong the devices' clocks are, and how often they are compared with the gateway's."""

    fast_s: tuple[int, int, int, int]
    rate_ppm: tuple[int, int, int, int]
    sync: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class _Links:
    """One kind of link, and over what time a match may stretch on it."""

    up: dict[str, Any]
    down: dict[str, Any]
    within_ms: int


_SYNC = {"attempts": 4, "spacing": "20 ms", "timeout": "1 s", "resync": "2 s"}
_CLOCKS = {
    "close": _TwinClocks(fast_s=(1, -1, 2, -2), rate_ppm=(15, -15, 10, -5), sync=_SYNC),
    "apart": _TwinClocks(fast_s=(60, -1, -30, 5), rate_ppm=(-40, 40, 20, -30), sync=_SYNC),
    "seldom": _TwinClocks(
        fast_s=(5, -5, 3, -2), rate_ppm=(20, -20, 10, -10), sync=_SYNC | {"resync": "10 s"}
    ),
    "bad": _TwinClocks(
        fast_s=(3600, -3600, 1800, -300), rate_ppm=(200, -200, 150, -180),
        sync=_SYNC | {"attempts": 2, "resync": "15 s", "skew_error_ppb": 250_000},
    ),
}  # fmt: skip
"""``seldom`` and ``bad`` are compared less often; the crystals of ``bad`` are worse than any."""
_LINKS = {
    "wired": _Links(
        up=LINKS["lan"][0] | {"loss": 0}, down=LINKS["lan"][1] | {"loss": 0}, within_ms=200
    ),
    "wifi": _Links(
        up={"delay": lognormal(14, 5, 0.6), "loss": 0.01},
        down={"delay": lognormal(8, 4, 0.5), "loss": 0.01},
        within_ms=500,
    ),
    "far": _Links(up=LINKS["far"][0], down=LINKS["far"][1], within_ms=1000),
}

SETTINGS = tuple(
    TwinSetting(
        name=f"{link}-{clock}",
        up=links.up, down=links.down, within_ms=links.within_ms,
        fast_ns=_seconds(*clocks.fast_s), rate_ppm=clocks.rate_ppm, sync=clocks.sync,
    )
    for link, links in _LINKS.items()
    for clock, clocks in _CLOCKS.items()
)  # fmt: skip
"""Each kind of clock on each kind of link."""
EACH_ONCE = tuple(SETTINGS[place] for place in (0, 5, 10, 3))
"""Of them so many that every clock and every link is there."""
