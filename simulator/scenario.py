"""A simulated scenario in settings: who is there, with what clock, link and workload.

Everything random or chosen is declared here; a scenario and the versions repeat a run byte
for byte. Frozen dataclasses, written in Python or as plain dicts (TOML):

>>> scenario = read_scenario({
...     "name": "two", "seed": 1, "duration": "10 s",
...     "sources": [{"name": "s0", "workload": {"model": "periodic", "period": "10 ms"},
...                  "up": {"delay": {"model": "constant", "delay": "3 ms"}},
...                  "clock": {"offset": "5 ms"}}],
... })
>>> scenario.sources[0].clock.offset_ns
5000000
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from slackwater.edge_agent.abstraction.settings import AbstractSettings
from slackwater.edge_agent.errors import SettingsError
from slackwater.edge_agent.messages import NAME_MAX
from slackwater.edge_agent.records import DEFAULT_SITE
from slackwater.edge_agent.timesync import SyncSettings
from slackwater.engine.core.errors import UserError
from slackwater.simulator.abstracting import parse_abstracts
from slackwater.simulator.clocks import ClockSettings, StampingDevice
from slackwater.simulator.links import LinkSettings
from slackwater.simulator.settings import (
    check,
    parse,
    parse_many,
    parse_share,
    parse_times,
    parsed_by,
    value_text,
)
from slackwater.simulator.workload import Span, Workload, parse_workload

SECOND: Final = 10**9
START_NS: Final = 1_767_225_600 * SECOND
"""2026-01-01T00:00:00Z."""
CLOCK_ROWS_MAX: Final = 2_000_000
"""Of clock errors in the truth table of all sources, of 56 bytes each."""


def _parse_sync(value: object, place: str) -> SyncSettings:
    try:
        return parse(SyncSettings, value, place)
    except SettingsError as error:
        raise UserError(f"{place}: {error}") from error


def _parse_types(value: object, place: str) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise UserError(f"{place}: expected a list of types, found {value!r}")
    for name in value:
        named = isinstance(name, str) and 1 <= len(name) <= NAME_MAX
        check(named, place, f"{name!r} is not a text of 1 to {NAME_MAX} characters")
    return tuple(value)


def _settings_of(cls: type[Any]) -> Mapping[str, Any]:
    return parsed_by(lambda value, place: parse(cls, value, place))


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings:
    """One device with its agent.

    Attributes:
        name: of the source, unique in the scenario.
        workload: its events.
        site: where its events go.
        clock: the device's clock.
        device_clock: of a device behind the agent, which stamps the events; None: the agent does.
        up: link from the agent to the gateway; NTP requests take the same path as datagrams.
        down: link from the gateway to the agent (acks, NTP answers).
        connections: pool of parallel connections (R19); each is a link of its own.
        connect_timeout_ns: after so long without an answer the device gives up opening a
            connection, and tries again; 10 s in a scenario file, as the agent's own driver.
        resend: whether unacked messages are sent again; if not, a loss stays a gap.
        poll_ns: the agent collects events for this long and sends them as one message; 0 = each
            event at once.
        poll_phase_ns: of the polls; None = drawn from the seed.
        heartbeat_ns: silence after which the agent promises progress, 0 = never.
        heartbeat_lag_ns: how much older than the device's clock an event (the end of an interval)
            may be when it is sent; None = two polls, and the longest gap that ends an interval:
            right for point events and for what ``abstract`` makes.
        promise_share: promises of the agent's own accord per event: L09's POG percentage / 100.
        promise_by_type: one for each type of events, instead of one for the whole stream.
        promise_first: types that the device will send, each promised when it is switched on: who
            waits for what is promised of a type then knows of this source before its first event.
        abstract: intervals that the agent makes of readings before they are sent.
        sync: time sync.
        on_ns: after the start, when the device is switched on; nobody has what happens before.
        off_ns: after the start, when it is switched off in good order, with all that happened until
            then; None: it stays on until the end of the duration.
        restarts_ns: instants after the start at which the agent restarts, with a new
            incarnation; what was not yet sent is gone.
        counts_boots: the device's disk keeps how often it was started; if not, each start says
            incarnation 0, and the gateway makes it take a larger one.
        unacked_bytes_max: how much the agent buffers; it refuses events beyond.
        pull_back_bytes: of intervals that were sent, kept to be sent again when the gateway asks;
            0: an agent that is never asked.
    """

    name: str
    workload: Workload = field(metadata=parsed_by(parse_workload))
    site: str = DEFAULT_SITE
    clock: ClockSettings = field(default=ClockSettings(), metadata=_settings_of(ClockSettings))
    device_clock: StampingDevice | None = field(default=None, metadata=_settings_of(StampingDevice))
    up: LinkSettings = field(default=LinkSettings(), metadata=_settings_of(LinkSettings))
    down: LinkSettings = field(default=LinkSettings(), metadata=_settings_of(LinkSettings))
    connections: int = 1
    connect_timeout_ns: int = 3 * SECOND
    resend: bool = True
    poll_ns: int = 20_000_000
    poll_phase_ns: int | None = None
    heartbeat_ns: int = SECOND
    heartbeat_lag_ns: int | None = None
    promise_share: float = field(default=0.0, metadata=parsed_by(parse_share))
    promise_by_type: bool = False
    promise_first: tuple[str, ...] = field(default=(), metadata=parsed_by(_parse_types))
    abstract: tuple[AbstractSettings, ...] = field(default=(), metadata=parsed_by(parse_abstracts))
    sync: SyncSettings = field(default=SyncSettings(), metadata=parsed_by(_parse_sync))
    on_ns: int = 0
    off_ns: int | None = None
    restarts_ns: tuple[int, ...] = field(default=(), metadata=parsed_by(parse_times))
    counts_boots: bool = True
    unacked_bytes_max: int = 8 << 20
    pull_back_bytes: int = 0

    def __post_init__(self) -> None:
        check(self.pull_back_bytes >= 0, "pull_back_bytes", "must not be negative")
        named = 1 <= len(self.name) <= NAME_MAX
        check(named, "name", f"{value_text(self.name)} must have 1 to {NAME_MAX} characters")
        check(1 <= len(self.site) <= NAME_MAX, "site", f"must have 1 to {NAME_MAX} characters")
        check(1 <= self.connections <= 64, "connections", "must lie in 1..64")
        check(self.connect_timeout_ns > 0, "connect_timeout", "must be positive")
        check(self.poll_ns >= 0, "poll", "must not be negative")
        phase = self.poll_phase_ns is None or self.poll_phase_ns >= 0
        check(phase, "poll_phase", "must not be negative")
        check(self.heartbeat_ns >= 0, "heartbeat", "must not be negative")
        lag = self.heartbeat_lag_ns is None or self.heartbeat_lag_ns >= 0
        check(lag, "heartbeat_lag", "must not be negative")
        check(0 <= self.promise_share <= 1, "promise_share", "must lie in 0..1")
        check(self.unacked_bytes_max > 0, "unacked_bytes_max", "must be positive")
        check(self.on_ns >= 0, "on", "must not be negative")
        check(self.off_ns is None or self.off_ns > self.on_ns, "off", "must come after on")
        _check_restarts(self.restarts_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayPlace:
    """The gateway and the clock of its machine (the engine's clock).

    Attributes:
        clock: error of the engine's clock; none by default: engine time = true time.
        tick_every_ns: silence that is recorded, 0 = none.
        frame_rows: a frame is written when it has so many rows, or
        frame_every_ns: after so long.
        pull_back_ns: an interval that began and did not come is asked for after so long, 0 = never.
        restarts_ns: instants after the start at which it stops in good order and starts again:
            connections break, and all that it knows of the devices is what its log says.
    """

    clock: ClockSettings = field(default=ClockSettings(), metadata=_settings_of(ClockSettings))
    tick_every_ns: int = 100_000_000
    frame_rows: int = 8192
    frame_every_ns: int = 200_000_000
    pull_back_ns: int = 10 * SECOND
    restarts_ns: tuple[int, ...] = field(default=(), metadata=parsed_by(parse_times))

    def __post_init__(self) -> None:
        check(self.tick_every_ns >= 0, "tick_every", "must not be negative")
        check(self.frame_rows > 0, "frame_rows", "must be positive")
        check(self.frame_every_ns > 0, "frame_every", "must be positive")
        check(self.pull_back_ns >= 0, "pull_back", "must not be negative")
        _check_restarts(self.restarts_ns)


def _check_restarts(restarts_ns: tuple[int, ...]) -> None:
    in_order = list(restarts_ns) == sorted(set(restarts_ns))
    check(in_order and min(restarts_ns, default=1) > 0, "restarts", "must be in order, > 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A whole simulated run.

    Attributes:
        name: of the scenario.
        seed: root of all randomness.
        duration_ns: how long events happen.
        warm_up_ns: how long the devices are on, and synchronise, before the first event.
        sources: the devices.
        gateway: the receiver.
        start_ns: true time at the start, when the devices are switched on, since the Unix epoch.
            Steps of clocks, outages and restarts count from here.
        drain_ns: how long after the last event the run waits for what is still under way.
        clock_sample_ns: distance of the clock errors in the truth table; None: 1 s, or so many
            whole seconds that the table has ``CLOCK_ROWS_MAX`` rows at most.
    """

    name: str
    seed: int
    duration_ns: int
    sources: tuple[SourceSettings, ...] = field(
        metadata=parsed_by(lambda value, place: parse_many(SourceSettings, value, place))
    )
    gateway: GatewayPlace = field(default=GatewayPlace(), metadata=_settings_of(GatewayPlace))
    start_ns: int = START_NS
    warm_up_ns: int = 2 * SECOND
    drain_ns: int = 60 * SECOND
    clock_sample_ns: int | None = None

    def __post_init__(self) -> None:
        check(self.seed >= 0, "seed", "must not be negative")
        check(self.duration_ns > 0, "duration", "must be positive")
        check(self.warm_up_ns >= 0, "warm_up", "must not be negative")
        check(self.drain_ns >= 0, "drain", "must not be negative")
        sampled = self.clock_sample_ns is None or self.clock_sample_ns > 0
        check(sampled, "clock_sample", "must be positive")
        check(bool(self.sources), "sources", "there must be at least one")
        names = Counter((source.site, source.name) for source in self.sources)
        twice = sorted(name for name, number in names.items() if number > 1)
        check(not twice, "sources", f"two are called {twice[0][1] if twice else ''!r} in one site")
        for number, source in enumerate(self.sources):
            there = source.on_ns < self.warm_up_ns + self.duration_ns
            check(there, f"sources[{number}].on", "must come before the end of the duration")

    def life(self, source: SourceSettings) -> Span:
        """From when ``source`` is switched on until it is switched off, in true time."""
        end_ns = self.warm_up_ns + self.duration_ns
        if source.off_ns is not None:
            end_ns = min(end_ns, source.off_ns)
        return Span(self.start_ns + source.on_ns, end_ns - source.on_ns)

    @property
    def clock_sampled_ns(self) -> int:
        """The distance of the clock errors in force."""
        if self.clock_sample_ns is not None:
            return self.clock_sample_ns
        lives = sum(self.life(source).length_ns for source in self.sources)
        return max(-(-lives // (CLOCK_ROWS_MAX * SECOND)), 1) * SECOND


def read_scenario(value: object, place: str = "scenario") -> Scenario:
    """A scenario from plain dicts.

    Raises:
        UserError: the message names the key.
    """
    return parse(Scenario, value, place)


def options(settings: object) -> Any:
    """Every setting as plain data, for the manifest; objects without fields by their class."""
    if dataclasses.is_dataclass(settings) and not isinstance(settings, type):
        names = [each.name for each in dataclasses.fields(settings) if each.repr]
        plain = {name: options(getattr(settings, name)) for name in names}
        return {"is": type(settings).__name__, **plain}
    if isinstance(settings, tuple | list):
        return [options(each) for each in settings]
    if isinstance(settings, Mapping):
        return {str(key): options(value) for key, value in settings.items()}
    if settings is None or isinstance(settings, int | float | str | bool):
        return settings
    return {"is": type(settings).__name__}
