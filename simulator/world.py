"""A scenario as a running world: devices, links and gateway on one SimPy clock of whole ns.

Everything draws from its own named generator: ``clock/NAME``, ``poll/NAME``, ``sync/NAME``,
``promise/NAME``, ``workload/NAME...`` and ``link/NAME/...`` with NAME = site/source.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

import numpy as np

from slackwater.edge_agent import records as r
from slackwater.engine.core.frame import Frame
from slackwater.engine.gateway.core import GatewayCore, GatewaySettings, Recalled, Sink
from slackwater.simulator.alarm import VirtualTime
from slackwater.simulator.arrow_views import plain_values
from slackwater.simulator.balance import Account, add_links
from slackwater.simulator.clocks import Clock, ClockSettings, draw_rates
from slackwater.simulator.device import Device
from slackwater.simulator.digest import FrameDigest
from slackwater.simulator.feed import DeviceFeed
from slackwater.simulator.gateway_host import GatewayHost
from slackwater.simulator.links import Place
from slackwater.simulator.network import Network
from slackwater.simulator.scenario import Scenario, SourceSettings
from slackwater.simulator.seeds import Seeds
from slackwater.simulator.workload import Span

SETTLE_NS: Final = 10_000_000
"""How often a world whose devices are done looks whether the network is empty."""


class CountedSink:
    """Passes frames on, hashing them and counting their rows."""

    def __init__(self, sink: Sink) -> None:
        self.frames = 0
        self.rows: Counter[str] = Counter()
        """By kind: ``event``, ``sync``, ``tick``..."""
        self.events: Counter[str] = Counter()
        """By source."""
        self.digest = FrameDigest()
        self.recalled: Recalled | None = None
        """What a gateway that starts again reads from the log; None: it never does."""
        self._sink = sink

    def flush(self) -> None:
        """Nothing to do: a simulated gateway's disk keeps a frame as soon as it has it."""

    def append(self, frame: Frame) -> None:
        self._sink.append(frame)
        self.digest.add(frame)
        if self.recalled is not None:
            self.recalled.take(frame)
        self.frames += 1
        self._count(frame)

    def _count(self, frame: Frame) -> None:
        source = frame.batch.column(r.SOURCE)
        codes = plain_values(source.indices)
        if r.KIND in frame.batch.schema.names:
            kinds = plain_values(frame.batch.column(r.KIND))
            of_kinds = np.bincount(kinds, minlength=len(r.KIND_NAMES)).tolist()
            for name, kind in r.KIND_NAMES.items():
                self.rows[name] += of_kinds[kind]
            if not of_kinds[r.Kind.EVENT]:
                return
            codes = codes[kinds == r.Kind.EVENT]
        else:
            self.rows["event"] += frame.rows
        rows = np.bincount(codes, minlength=len(source.dictionary))
        for name, count in zip(source.dictionary.to_pylist(), rows.tolist(), strict=True):
            self.events[name] += count


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
        self.start_ns = scenario.start_ns
        self.span = Span(scenario.start_ns + scenario.warm_up_ns, scenario.duration_ns)
        self.env = VirtualTime(initial_time=scenario.start_ns)
        self.sink = CountedSink(sink)
        self._seeds = Seeds(scenario.seed)
        self._stop = self.env.event()
        place = scenario.gateway
        restarts_ns = [scenario.start_ns + at_ns for at_ns in place.restarts_ns]
        self.sink.recalled = Recalled() if restarts_ns else None
        self.gateway = GatewayHost(
            self.env, self._core, self._clock("gateway", place.clock), restarts_ns
        )
        self.devices = [
            self._device(source, Place(scenario.start_ns, data)) for source in scenario.sources
        ]

    def _core(self) -> GatewayCore:
        place = self.scenario.gateway
        settings = GatewaySettings(
            without_tokens=True,
            tick_every_ns=place.tick_every_ns,
            frame_rows=place.frame_rows,
            frame_every_ns=place.frame_every_ns,
            pull_back_ns=place.pull_back_ns,
        )
        return GatewayCore(settings, self.sink, recalled=self.sink.recalled)

    def run(self) -> None:
        """Runs until every device is done and the network is empty, or ``drain_ns`` is over."""
        self.gateway.start()
        end_ns = self.span.start_ns + self.span.length_ns + self.scenario.drain_ns
        self.env.call_at(end_ns, self._over)
        self.env.run(until=self._stop)
        self.gateway.finish()
        if not self.sink.frames:  # an empty log all the same: queries on it have answers
            self.sink.append(self.gateway.silence(self.scenario.sources[0].site))

    def accounts(self) -> dict[str, Account]:
        """Where the events of each source went, by the source's name (over all sites)."""
        found: dict[str, Account] = {}
        for device in self.devices:
            found.setdefault(device.settings.name, Account()).add(self._account(device))
        counts = self.gateway.counts
        for name, account in found.items():
            account.known = counts[name, "duplicate"]
            account.refused_by_gateway = counts[name, "refused"]
            account.logged = self.sink.events[name]
        return found

    def _account(self, device: Device) -> Account:
        network = device.network
        generated = sum(each.batch.true_ns.size for each in device.feed.generated)
        account = Account(
            generated=generated,
            made=device.counts["made"],
            abstracted=device.counts["abstracted"],
            accepted=device.counts["accepted"],
            forgotten=device.counts["forgotten"],
            not_polled=generated - device.counts["polled"],
            closed=network.fates.closed.events,
            under_way=network.fates.under_way.events,
            delivered=network.fates.delivered.events,
            unheard=self.gateway.unheard[network.name],
        )
        account.refused_by_agent.update(device.refused)
        add_links(account.up, [each.counts for each in network.up])
        return account

    def _clock(self, name: str, settings: ClockSettings, life: Span | None = None) -> Clock:
        """``life``: when it is read; else at any time."""
        scenario = self.scenario
        horizon_ns = scenario.warm_up_ns + scenario.duration_ns + scenario.drain_ns
        rates = draw_rates(settings, horizon_ns, self._seeds.generator(f"clock/{name}"))
        if life is not None:
            since_ns = life.start_ns - self.start_ns
            rates = rates.within(since_ns, since_ns + life.length_ns + scenario.drain_ns)
        return Clock(settings, self.start_ns, rates)

    def _device(self, source: SourceSettings, place: Place) -> Device:
        name = f"{source.site}/{source.name}"
        life = self.scenario.life(source)
        clock = self._clock(name, source.clock, life)
        network = Network(
            self.env,
            (source.up, source.down),
            self._seeds,
            name,
            source.connections,
            place,
            self.gateway,
            source.connect_timeout_ns,
        )
        batches = source.workload.batches(self.span, self._seeds, name)
        read = {each.stream for each in source.abstract}
        stamps = clock
        if source.device_clock is not None:
            stamps = self._clock(f"{name}/device", source.device_clock.clock, life)
        feed = DeviceFeed(batches, stamps, source.workload.streams(), read)
        drawn = int(self._seeds.generator(f"poll/{name}").integers(max(source.poll_ns, 1)))
        phase_ns = drawn if source.poll_phase_ns is None else source.poll_phase_ns
        cookies = self._seeds.generator(f"sync/{name}")
        promise_phase = float(self._seeds.generator(f"promise/{name}").random())
        return Device(
            self.env, source, clock, feed, network, cookies, self.span, life, phase_ns,
            promise_phase, self._look,
        )  # fmt: skip

    def _look(self, _: Any = None) -> None:
        """Stops the run when every device is settled; looks again while messages are under way."""
        if all(device.reported for device in self.devices):
            self._over()
        elif all(device.reported for device in self.devices):
            self.env.call_at(self.env.now + SETTLE_NS, self._look)

    def _over(self, _: Any = None) -> None:
        if not self._stop.triggered:
            self._stop.succeed()
