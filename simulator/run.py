"""Runs a scenario and stores its outcome: arrival log, truth, manifest with a hash.

    OUT/log/           the arrival log: all that the engine may see
    OUT/truth/         true times and clock errors (``simulator.truth``)
    OUT/manifest.json  seed, options, versions, counts, and the hash of the log's content

The same scenario and versions give the same files, byte for byte.
"""

from __future__ import annotations

import gc
import json
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import Frame
from slackwater.engine.gateway.core import Sink
from slackwater.engine.log.arrival_log import LogWriter
from slackwater.simulator.balance import Account, check_balance
from slackwater.simulator.scenario import Scenario, options
from slackwater.simulator.truth import clock_table, event_table, write_truth
from slackwater.simulator.world import World

LOG: Final = "log"
TRUTH: Final = "truth"
MANIFEST: Final = "manifest.json"
COLLECTED_EVERY: Final = 200_000
"""New objects between garbage collections: those of some 10,000 messages under way."""
VERSIONED: Final = ("slackwater", "simpy", "numpy", "numba", "pyarrow", "msgpack")


@dataclass(frozen=True, slots=True)
class SimulationOutcome:
    """Outcome of a run.

    Attributes:
        manifest: seed, options, versions, counts, hash; plain data.
        events: truth of every event (``simulator.truth``).
        clocks: clock errors over time.
    """

    manifest: dict[str, Any]
    events: pa.Table
    clocks: pa.Table

    @property
    def digest(self) -> str:
        """Hash of the arrival log's content (``simulator.digest``)."""
        return str(self.manifest["log_sha256"])


class FrameList:
    """A sink that keeps the frames in memory."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []

    def append(self, frame: Frame) -> None:
        self.frames.append(frame)

    def flush(self) -> None:
        """Do nothing: frames stay in memory."""


def simulate(scenario: Scenario, sink: Sink, data: Path) -> SimulationOutcome:
    """Run ``scenario``; its frames go to ``sink`` meanwhile.

    Args:
        scenario: what to run.
        sink: the arrival log, or a ``FrameList``.
        data: directory of the recordings (``simulator.recorded.data_directory``).

    Raises:
        UserError: a recording that the scenario needs is missing.
        ContractViolation: the sums of events do not balance.
    """
    world = World(scenario, sink, data)
    with seldom_collected():
        world.run()
    accounts = world.accounts()
    check_balance(accounts)
    devices = world.devices
    events = event_table(
        (each.settings.site, each.settings.name, each.feed.generated) for each in devices
    )
    clocks = clock_table(
        (
            (each.settings.site, each.settings.name, each.clock, scenario.life(each.settings))
            for each in devices
        ),
        world.gateway.clock,
        scenario.clock_sampled_ns,
    )
    return SimulationOutcome(_manifest(world, accounts), events, clocks)


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Run Python's cyclic garbage collector seldom: messages create no cycles and are numerous.

    At its default frequency it takes a fifth of the time of a simulation.
    """
    before = gc.get_threshold()
    gc.set_threshold(COLLECTED_EVERY, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def simulate_to(scenario: Scenario, directory: Path, data: Path, **facts: Any) -> SimulationOutcome:
    """``simulate`` with everything written to ``directory``, which must be new or empty.

    ``facts``: further plain data for the manifest, such as what was ``set``.

    Raises:
        UserError: ``directory`` is not empty; or as ``simulate``.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UserError(f"{directory}: is not an empty folder; choose another one with --out")
    writer = LogWriter(directory / LOG)
    try:
        done = simulate(scenario, writer, data)
    finally:
        writer.close()
    done.manifest.update(facts)
    write_truth(directory / TRUTH, done.events, done.clocks)
    text = json.dumps(done.manifest, indent=2) + "\n"
    (directory / MANIFEST).write_text(text, encoding="utf-8")
    return done


def _manifest(world: World, accounts: dict[str, Account]) -> dict[str, Any]:
    total = Account()
    for account in accounts.values():
        total.add(account)
    sessions = [each.session for each in world.devices]
    refusals = sorted(world.gateway.counts.items())
    return {
        "scenario": world.scenario.name,
        "seed": world.scenario.seed,
        "options": options(world.scenario),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in VERSIONED},
        },
        "log_sha256": world.sink.digest.hexdigest(),
        "frames": world.sink.frames,
        "rows": dict(sorted(world.sink.rows.items())),
        "end_ns": int(world.env.now),
        "events": total.plain(),
        "sources": {
            f"{device.settings.site}/{device.settings.name}": {
                "state": session.state.value,
                "incarnations": len(device.sessions),
                "bytes": device.counts["bytes"],
                "session": dict(sorted(session.counts.items())),
                "sync": dict(sorted(session.sync_counts.items())),
            }
            for device, session in zip(world.devices, sessions, strict=True)
        },
        "events_by_source": {name: account.plain() for name, account in accounts.items()},
        "gateway": [[source, reason, count] for (source, reason), count in refusals],
    }
