"""A scenario as a running world: devices, links and gateway on one SimPy clock of whole ns.

Everything draws from its own named generator: ``clock/NAME``, ``poll/NAME``, ``sync/NAME``,
``workload/NAME...`` and ``link/NAME/...`` with NAME = site/source.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

import numpy as np
from engine.gateway.core import GatewayCore, GatewaySettings, Sink
from simpy import Environment

from edge_agent.records import KIND
from edge_agent.records import Kind as RecordKind
from engine.frame import Frame
from simulator.alarm import call_at
from simulator.clocks import Clock, ClockSettings, draw_rates
from simulator.device import Device
from simulator.digest import FrameDigest
from simulator.feed import Feed
from simulator.gateway_host import GatewayHost
from simulator.links import Place
from simulator.network import Network
from simulator.scenario import Scenario, SourceSettings
from simulator.seeds import Seeds
from simulator.workload import Span

SETTLE_NS: Final = 10_000_000
"""How often a world whose devices are done looks whether the network is empty."""


class CountedSink:
    """Passes frames on, hashing them and counting their rows by kind."""

    def __init__(self, sink: Sink) -> None:
        self.rows: Counter[str] = Counter()
        """``event``, ``sync``, ``tick``..., and ``frames``."""
        self.digest = FrameDigest()
        self._sink = sink

    def append(self, frame: Frame) -> None:
        self._sink.append(frame)
        self.digest.add(frame)
        self.rows["frames"] += 1
        if KIND not in frame.batch.schema.names:
            self.rows["event"] += frame.rows
            return
        kinds = np.bincount(frame.batch.column(KIND).to_numpy(), minlength=len(RecordKind))
        for kind in RecordKind:
            self.rows[kind.name.lower()] += int(kinds[kind])


class World:
    """One run of ``scenario``, whose frames go to ``sink``.

    Args:
        scenario: who is there.
        sink: takes the frames of the arrival log.
        data: directory of the recordings (``recorded.data_directory``).

    Raises:
        UserError: a recording is missing, or two sources share a name.
    """

    def __init__(self, scenario: Scenario, sink: Sink, data: Path) -> None:
        self.scenario = scenario
        self.span = Span(scenario.start_ns, scenario.duration_ns)
        self.env = Environment(initial_time=scenario.start_ns)
        self.sink = CountedSink(sink)
        self._seeds = Seeds(scenario.seed)
        self._stop = self.env.event()
        place = scenario.gateway
        core = GatewayCore(
            GatewaySettings(
                tick_every_ns=place.tick_every_ns,
                frame_rows=place.frame_rows,
                frame_every_ns=place.frame_every_ns,
            ),
            self.sink,
        )
        self.gateway = GatewayHost(self.env, core, self._clock("gateway", place.clock))
        self.devices = [
            self._device(source, Place(scenario.start_ns, data)) for source in scenario.sources
        ]

    def run(self) -> None:
        """Runs until every device is done and the network is empty, or ``drain_ns`` is over."""
        self.gateway.start()
        end_ns = self.span.start_ns + self.span.length_ns + self.scenario.drain_ns
        call_at(self.env, end_ns, self._over)
        self.env.run(until=self._stop)
        self.gateway.finish()

    def _clock(self, name: str, settings: ClockSettings) -> Clock:
        horizon_ns = self.span.length_ns + self.scenario.drain_ns
        generator = self._seeds.generator(f"clock/{name}")
        return Clock(settings, self.span.start_ns, draw_rates(settings, horizon_ns, generator))

    def _device(self, source: SourceSettings, place: Place) -> Device:
        name = f"{source.site}/{source.name}"
        clock = self._clock(name, source.clock)
        network = Network(
            self.env,
            (source.up, source.down),
            self._seeds,
            name,
            source.connections,
            place,
            self.gateway,
        )
        feed = Feed(source.workload.batches(self.span, self._seeds, name), clock)
        drawn = int(self._seeds.generator(f"poll/{name}").integers(max(source.poll_ns, 1)))
        phase_ns = drawn if source.poll_phase_ns is None else source.poll_phase_ns
        cookies = self._seeds.generator(f"sync/{name}")
        return Device(
            self.env, source, clock, feed, network, cookies, self.span, phase_ns, self._look
        )

    def _look(self, _: Any = None) -> None:
        """Stops the run when every device is settled; looks again while messages are under way."""
        if all(device.settled for device in self.devices):
            self._over()
        elif all(device.told for device in self.devices):
            call_at(self.env, self.env.now + SETTLE_NS, self._look)

    def _over(self, _: Any = None) -> None:
        if not self._stop.triggered:
            self._stop.succeed()
