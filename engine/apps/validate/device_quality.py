"""Converts a device's measurements to the quality of its clock and of its path to the gateway.

One line through the best exchange of each train describes the clock; the residuals of all exchanges
describe the path. Each one-way delay is known only within half the round trip (R19 Eq 3.14); its
variation is known exactly, because a constant asymmetry is part of the line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from slackwater.edge_agent.measure import Exchange, Findings, ServerFindings
from slackwater.engine.apps.validate.quality import (
    AgentHabits,
    Agreement,
    ClockQuality,
    DelayLaw,
    LinkQuality,
    Setup,
    SourceQuality,
    agreement,
    allan_deviation,
    delay_law,
    wander_ppb,
)
from slackwater.engine.apps.validate.verdict import duration

SECOND: Final = 10**9
_FSYNC_SLOW_NS: Final = 100_000_000
_COARSE_NS: Final = 1_000_000
_FREE_MIN: Final = 64 << 20


class AgentFacts(NamedTuple):
    """The agent's settings that matter here."""

    attempts: int
    resync_ns: int
    skew_error_ppb: int
    resends: bool
    outbox_bytes: int
    streams: tuple[str, ...]
    habits: AgentHabits | None = None


class ClockLine(NamedTuple):
    """``offset_ns + skew_ppb * (t - at_ns) / 1e9``; bounds hold if every exchange's bound does."""

    at_ns: int
    offset_ns: int
    bound_ns: int
    skew_ppb: float
    skew_bound_ppb: float

    def offsets(self, at_ns: np.ndarray) -> np.ndarray:
        """Offsets minus ``offset_ns``, float64 [ns]."""
        return (at_ns - self.at_ns) * self.skew_ppb / SECOND


def setup_of(found: Findings, facts: AgentFacts, step_ns: int) -> Setup:
    """The set-up, with one measured device as its example.

    Args:
        found: the measurements.
        facts: about the agent.
        step_ns: time between trains of questions.
    """
    exchanges = found.path.exchanges
    has_path = bool(exchanges)
    if not has_path:
        exchanges = max((each.exchanges for each in found.servers), key=len, default=())
    clock, line = clock_of(exchanges, found, facts, step_ns if has_path else 2 * SECOND)
    link = link_of(found, line, facts) if has_path and line is not None else None
    servers = agreement_of(found)
    source = SourceQuality(
        site=found.site,
        name=found.source,
        clock=clock,
        link=link,
        streams=facts.streams,
        habits=facts.habits,
    )
    return Setup(
        sources=(source,), alike=True, facts=_facts(found, servers, step_ns),
        concerns=tuple(_concerns(found, servers, facts, has_path)),
    )  # fmt: skip


def clock_of(
    exchanges: Sequence[Exchange], found: Findings, facts: AgentFacts, step_ns: int
) -> tuple[ClockQuality, ClockLine | None]:
    """The clock's quality, and the line through its offsets; None without an exchange."""
    if not exchanges:
        return ClockQuality(offset_ns=None, age_ns=facts.resync_ns), None
    best = min(exchanges, key=lambda each: each.bound_ns)
    line = line_through(exchanges, step_ns)
    at = np.array([each.at_ns for each in exchanges], np.int64)
    left = np.array([each.offset_ns - line.offset_ns for each in exchanges], np.float64)
    left -= line.offsets(at)
    grid = _grid(exchanges, step_ns)
    deviations = allan_deviation(grid, step_ns)
    return ClockQuality(
        offset_ns=best.offset_ns, offset_bound_ns=best.bound_ns,
        # Devices stamp the events, and their clocks are known less well than the agent's.
        delay_ns=_worst_round(exchanges, facts.attempts) + _widest(found),
        precision_ns=best.precision_ns + best.root_ns,
        skew_ppb=round(line.skew_ppb), skew_bound_ppb=round(line.skew_bound_ppb),
        skew_error_ppb=facts.skew_error_ppb, age_ns=facts.resync_ns, syncs=len(exchanges),
        steps=tuple(jump for _, jump in found.clock.steps),
        jitter_ns=round(float(np.std(left))), wander_ppb=wander_ppb(deviations, SECOND),
        resolution_ns=found.clock.resolution_ns,
        deviations=tuple((each.tau_ns, each.ppb) for each in deviations),
    ), line  # fmt: skip


def _widest(found: Findings) -> int:
    return max((each.clock.width_ns for each in found.inputs if each.clock), default=0)


def line_through(exchanges: Sequence[Exchange], step_ns: int) -> ClockLine:
    """Least squares through each train's best; its error is bounded by two exchanges' own bounds.

    The line between the best of the first third and of the last third is right within their bounds
    over the time between them (Moon, Skelly, Towsley 1999). So the error of least squares is at
    most that plus the difference of the two lines.
    """
    best = min(exchanges, key=lambda each: each.bound_ns)
    trains = _trains(exchanges, step_ns)
    if len(trains) < 3:
        return ClockLine(best.at_ns, best.offset_ns, best.bound_ns, 0.0, float(10**6))
    third = max(len(trains) // 3, 1)
    first = min(trains[:third], key=lambda each: each.bound_ns)
    last = min(trains[-third:], key=lambda each: each.bound_ns)
    run = (last.at_ns - first.at_ns) / SECOND
    at = np.array([each.at_ns - best.at_ns for each in trains], np.float64) / SECOND
    offset = np.array([each.offset_ns - best.offset_ns for each in trains], np.float64)
    skew, _ = np.polyfit(at, offset, 1)
    straight = (last.offset_ns - first.offset_ns) / run
    bound = (first.bound_ns + last.bound_ns) / run + abs(float(skew) - straight)
    return ClockLine(best.at_ns, best.offset_ns, best.bound_ns, float(skew), bound)


def _trains(exchanges: Sequence[Exchange], step_ns: int) -> list[Exchange]:
    """The best exchange in each ``step_ns``, in order of time."""
    first = exchanges[0].at_ns
    found: dict[int, Exchange] = {}
    for each in exchanges:
        place = (each.at_ns - first) // step_ns
        if place not in found or each.delay_ns < found[place].delay_ns:
            found[place] = each
    return [found[place] for place in sorted(found)]


def _grid(exchanges: Sequence[Exchange], step_ns: int) -> np.ndarray:
    """Offsets [ns] minus the first one, at constant distances; NaN where no train was answered."""
    trains = _trains(exchanges, step_ns)
    first = exchanges[0].at_ns
    made = np.full((trains[-1].at_ns - first) // step_ns + 1, np.nan)
    for each in trains:
        made[(each.at_ns - first) // step_ns] = each.offset_ns - trains[0].offset_ns
    return made


def _worst_round(exchanges: Sequence[Exchange], attempts: int) -> int:
    """Largest, over all rounds, of the least delay in ``attempts`` (R19's minimum filter)."""
    delays = np.array([each.delay_ns for each in exchanges], np.int64)
    if len(delays) <= attempts:
        return int(delays.min())
    rounds = np.lib.stride_tricks.sliding_window_view(delays, attempts)
    return int(rounds.min(axis=1).max())


def link_of(found: Findings, line: ClockLine, facts: AgentFacts) -> LinkQuality:
    """The quality of the path to the gateway."""
    path = found.path
    at = np.array([each.at_ns for each in path.exchanges], np.int64)
    up = np.array([each.up_ns - line.offset_ns for each in path.exchanges], np.float64)
    up -= line.offsets(at)
    delay = np.array([each.delay_ns for each in path.exchanges], np.float64)
    quantiles = np.quantile(np.maximum(up, 0), [0, 0.5, 0.95, 0.999, 1], method="higher")
    least, p50, p95, p999, most = (round(each) for each in quantiles.tolist())
    return LinkQuality(
        least_ns=least, p50_ns=p50, p95_ns=p95, p999_ns=p999, most_ns=most,
        transit_error_ns=line.bound_ns,
        round_trip_ns=round(float(np.quantile(delay, 0.99, method="higher"))),
        trials=path.questions, lost=path.lost, resends=facts.resends,
        reordered=path.reordered_up + path.reordered_down, laws=_laws(path.exchanges, line),
    )  # fmt: skip


def _laws(exchanges: Sequence[Exchange], line: ClockLine) -> tuple[DelayLaw, DelayLaw]:
    """Distributions of the delay each way. Both ways are assumed to have the same least delay:
    their difference cannot be measured, their variation can.
    """
    at = np.array([each.at_ns for each in exchanges], np.int64)
    run = line.offset_ns + line.offsets(at)
    up = np.array([each.up_ns for each in exchanges], np.float64) - run
    down = np.array([each.down_ns for each in exchanges], np.float64) + run
    apart = (up.min() - down.min()) / 2
    return delay_law(up - apart), delay_law(down + apart)


class Opinion(NamedTuple):
    """Intervals of the device's offset by each server, at its best exchange."""

    names: tuple[str, ...]
    intervals: tuple[tuple[int, int], ...]
    agreed: Agreement | None

    def false(self) -> list[str]:
        """Servers that disagree with the majority."""
        if self.agreed is None:
            return []
        return [
            name for name, each in zip(self.names, self.intervals, strict=True)
            if not self.agreed.holds(*each)
        ]  # fmt: skip


def agreement_of(found: Findings) -> Opinion:
    """Marzullo's intersection of the servers' intervals; the gateway's is separate."""
    answering = [each for each in found.servers if each.exchanges]
    best = [min(each.exchanges, key=lambda one: one.bound_ns) for each in answering]
    intervals = tuple((each.offset_ns - each.bound_ns, each.offset_ns + each.bound_ns)
                      for each in best)  # fmt: skip
    names = tuple(each.name for each in answering)
    return Opinion(names, intervals, agreement(intervals) if intervals else None)


def _facts(found: Findings, servers: Opinion, step_ns: int) -> dict[str, Any]:
    clock, path, machine = found.clock, found.path, found.machine
    burst = path.burst
    packed = max(int((path.mss or 1400) // max(machine.event_bytes, 1)), 1)
    rate = None if burst is None or burst.packets_per_s is None else burst.packets_per_s
    return {
        "seconds": found.seconds,
        "is_whole": found.is_whole,
        "clock": {
            "resolution_ns": clock.resolution_ns,
            "monotonic_resolution_ns": clock.monotonic_resolution_ns,
            "steps_ns": [jump for _, jump in clock.steps],
            "backwards": clock.backwards,
            "steered_ppb": clock.disciplined_ppb,
            "watched_s": clock.seconds,
        },
        "series": series(path.exchanges, step_ns),
        "servers": [_server(each, servers) for each in found.servers],
        "agreement": None if servers.agreed is None else {
            "low_ns": servers.agreed.low, "high_ns": servers.agreed.high,
            "count": servers.agreed.among, "of": len(servers.names), "false": servers.false(),
        },
        "interfaces": list(found.interfaces),
        "path": {
            "host": path.host, "port": path.port, "ntp_port": path.ntp_port,
            "stratum": path.stratum, "asked": path.questions, "lost": path.lost,
            "reordered_up": path.reordered_up, "reordered_down": path.reordered_down,
            "refused": path.refused, "error": path.error, "connect_error": path.connect_error,
            "connect_ns": sorted(path.connect_ns), "mtu": path.mtu, "mss": path.mss,
            "asymmetry_bound_ns": min((each.delay_ns for each in path.exchanges), default=None),
            "burst": burst,
        },
        "rate": {
            "packed_per_s": machine.packed_per_s, "event_bytes": machine.event_bytes,
            "events_per_packet": packed, "packets_per_s": rate,
            "events_per_s": None if rate is None else min(machine.packed_per_s, rate * packed),
        },
        "disk": None if found.disk is None else {
            "folder": found.disk.folder, "free_bytes": found.disk.free_bytes,
            "fsync_p50_ns": _quantile(found.disk.fsync_ns, 0.5),
            "fsync_p99_ns": _quantile(found.disk.fsync_ns, 0.99), "error": found.disk.error,
        },
        "machine": machine,
        "inputs": [
            replace(each, said=f"{each.said}; {each.clock.said}") if each.clock else each
            for each in found.inputs
        ],
    }  # fmt: skip


def series(exchanges: Sequence[Exchange], step_ns: int) -> dict[str, list[int]]:
    """Each train's best, for a figure: time since the first, offset minus the first, bound."""
    trains = _trains(exchanges, step_ns) if exchanges else []
    return {
        "at_ns": [each.at_ns - trains[0].at_ns for each in trains],
        "offset_ns": [each.offset_ns - trains[0].offset_ns for each in trains],
        "bound_ns": [each.bound_ns for each in trains],
        "delay_ns": [each.delay_ns for each in trains],
    }


def _server(found: ServerFindings, opinion: Opinion) -> dict[str, Any]:
    best = min(found.exchanges, key=lambda each: each.bound_ns, default=None)
    return {
        "name": found.name, "asked": found.questions, "answered": len(found.exchanges),
        "stratum": found.stratum, "refused": found.refused,
        "offset_ns": None if best is None else best.offset_ns,
        "bound_ns": None if best is None else best.bound_ns,
        "delay_ns": None if best is None else best.delay_ns,
        "agrees": found.name not in opinion.false() if best is not None else None,
    }  # fmt: skip


def _quantile(values: Sequence[int], share: float) -> int | None:
    if not values:
        return None
    return int(np.quantile(np.array(values, np.int64), share, method="higher"))


def _concerns(
    found: Findings, servers: Opinion, facts: AgentFacts, has_path: bool
) -> list[tuple[str, bool]]:
    """Problems apart from the queries' needs, each with whether it makes the set-up unfit."""
    path, clock, made = found.path, found.clock, list[tuple[str, bool]]()
    if path.connect_error:
        made.append((f"the gateway cannot be reached: {path.connect_error}", True))
    if not has_path:
        why = path.error or next(iter(path.refused), "no answer; is its UDP port open?")
        made.append(((f"the gateway's clock does not answer at {path.host} port {path.ntp_port}: "
                     f"{why}"), not servers.names))  # fmt: skip
    if clock.backwards:
        made.append((f"the monotonic clock ran backwards {clock.backwards} times", True))
    if clock.steps:
        largest = max((abs(jump) for _, jump in clock.steps))
        made.append(((f"the clock was set {len(clock.steps)} times meanwhile, by up to "
                     f"{duration(largest)}: let one program alone steer it"), False))  # fmt: skip
    if clock.resolution_ns >= _COARSE_NS:
        made.append((f"the clock reads in steps of {duration(clock.resolution_ns)}", False))
    silent = [each.name for each in found.servers if not each.exchanges]
    if silent:
        made.append((f"time servers that gave no good answer: {', '.join(silent)}", False))
    if servers.false():
        made.append((f"time servers that most do not agree with: {', '.join(servers.false())}",
                     False))  # fmt: skip
    for each in found.inputs:
        if each.is_reachable is False:
            made.append((f"input {each.name}: {each.said}", "agent running" not in each.said))
        if each.clock is not None and each.clock.wrong:
            made.append((f"input {each.name}: {each.clock.said}", True))
    return made + _machine_concerns(found, facts)


def _machine_concerns(found: Findings, facts: AgentFacts) -> list[tuple[str, bool]]:
    made, machine, disk = list[tuple[str, bool]](), found.machine, found.disk
    if disk is not None:
        slow = _quantile(disk.fsync_ns, 0.99) or 0
        if disk.error:
            made.append((f"the outbox's disk cannot be written: {disk.folder}: {disk.error}", True))
        if slow > _FSYNC_SLOW_NS:
            made.append(((f"the disk takes {duration(slow)} for an fsync (p99): raise [outbox] "
                         "sync_every, or use another disk"), False))  # fmt: skip
        if disk.free_bytes is not None and disk.free_bytes < facts.outbox_bytes:
            made.append(((f"{disk.free_bytes >> 20} MiB are free for the outbox, it may want "
                         f"{facts.outbox_bytes >> 20}"), False))  # fmt: skip
    if machine.load is not None and machine.load > 2 * machine.cores:
        made.append(((f"the processor is busy: load {machine.load:.1f} on {machine.cores} cores, "
                     "so delays are too long"), False))  # fmt: skip
    if machine.memory_free_bytes is not None and machine.memory_free_bytes < _FREE_MIN:
        made.append((f"{machine.memory_free_bytes >> 20} MiB of memory are free", False))
    return made
