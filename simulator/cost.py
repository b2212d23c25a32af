"""Estimated cost of a run: messages, frames of the log, processor time and memory.

Most of the cost of a long run with few events comes from idle agents: each promises progress every
``heartbeat``, asks for the time every ``sync.resync``, and the gateway records silence every
``tick_every`` in a separate frame. All of it is in the arrival log, so none can be omitted.

>>> from slackwater.simulator.scenario import read_scenario
>>> week = read_scenario({
...     "name": "week", "seed": 1, "duration": "7 d",
...     "sources": [{"name": "s0", "workload": {"model": "poisson", "mean": "1 min"}}],
... })
>>> round(cost_of(week).messages / 1e6, 1), round(cost_of(week).frames / 1e6, 1)
(1.4, 2.4)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from slackwater.simulator.device import watched_if_set
from slackwater.simulator.scenario import Scenario, SourceSettings
from slackwater.simulator.workload import Span, expected_events

FRAME_S: Final = 0.0009
"""Processor time of a frame with a few rows: made, written, hashed, read again and answered."""
MESSAGE_S: Final = 0.00008
"""Processor time of a message or datagram, from its creation to the receiver's reaction."""
EVENT_S: Final = 0.00005
LOOK_S: Final = 0.00001
"""Processor time of a check whether a clock was set."""
EVENT_BYTES: Final = 500
"""Memory of an event until its run is scored: its truth, and its name in the answers."""
LINE_BYTES: Final = 48
"""Memory of one period of a wandering clock: a row of two tables."""
BASE_BYTES: Final = 400 << 20
"""Memory of the program, and of frames of the log that are not on disk yet."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Estimated cost of a run.

    Attributes:
        events: made by workloads, as far as known in advance.
        heartbeats: promises of idle agents, and their acks.
        exchanges: datagrams of time sync.
        others: messages with events, and their acks.
        looks: checks of clocks that may be set or have a coarse resolution.
        frames: of the arrival log.
        lines: rows of the tables of wandering clocks.
    """

    events: int
    heartbeats: int
    exchanges: int
    others: int
    looks: int
    frames: int
    lines: int

    @property
    def messages(self) -> int:
        """All messages over links."""
        return self.heartbeats + self.exchanges + self.others

    @property
    def seconds(self) -> float:
        """Processor time [s] on a core of 2020."""
        said = MESSAGE_S * self.messages + LOOK_S * self.looks
        return FRAME_S * self.frames + said + EVENT_S * self.events

    @property
    def bytes(self) -> int:
        """Largest memory."""
        return BASE_BYTES + EVENT_BYTES * self.events + LINE_BYTES * self.lines


def cost_of(scenario: Scenario) -> Cost:
    """Estimate the cost of a run of ``scenario``.

    Events of machines, and of workloads without a known number, are not counted.
    """
    sites: dict[str, list[SourceSettings]] = {}
    for source in scenario.sources:
        sites.setdefault(source.site, []).append(source)
    return Cost(*map(sum, zip(*(_of_site(scenario, each) for each in sites.values()), strict=True)))


def _of_site(scenario: Scenario, sources: Iterable[SourceSettings]) -> tuple[int, ...]:
    """The fields of ``Cost`` for one site."""
    events = beats = exchanges = others = looks = lines = 0
    lives = [scenario.life(source) for source in sources]
    for source, (_, alive_ns) in zip(sources, lives, strict=True):
        count = expected_events(source.workload, scenario.duration_ns)
        events += count
        polls = min(count, alive_ns // source.poll_ns) if source.poll_ns else count
        others += 2 * polls
        if source.heartbeat_ns:  # an event replaces a heartbeat
            beats += 2 * max(alive_ns // source.heartbeat_ns - polls, 0)
        exchanges += 2 * source.sync.attempts * (alive_ns // source.sync.resync_ns + 1)
        watch_ns = watched_if_set(source.sync, source.clock).watch_ns
        looks += alive_ns // watch_ns if watch_ns else 0
        if source.clock.wander_ppb:
            lines += (alive_ns + scenario.drain_ns) // source.clock.wander_period_ns
    place, someone_ns = scenario.gateway, sum(high - low for low, high in _together(lives))
    # A frame is open from its first record: the next message or, in silence, a tick.
    first_ns = someone_ns // max((beats + others) // 2, 1)
    if place.tick_every_ns:
        first_ns = min(first_ns, place.tick_every_ns // 2)
    frames = someone_ns // (place.frame_every_ns + first_ns)
    return events, beats, exchanges, others, looks, frames, lines


def _together(lives: Iterable[Span]) -> Iterator[tuple[int, int]]:
    """The union of the lives as disjoint intervals, in order."""
    low = high = 0
    for start_ns, length_ns in sorted(lives):
        if start_ns > high:
            yield low, high
            low = start_ns
        high = max(high, start_ns + length_ns)
    yield low, high
