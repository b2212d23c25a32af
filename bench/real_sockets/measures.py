"""What is measured of an arrival log, whichever world it comes from, and what is checked of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import slackwater
from bench.real_sockets.device_clock import Bend
from bench.real_sockets.setup import DEVICES, QUERY, WITHIN_NS, SocketsSetup
from slackwater.edge_agent.records import Kind
from slackwater.engine.apps.compare.measure import measure_many
from slackwater.engine.log.arrival_log import LogReader

ORDER = "sequence"
STAMP_ERROR_NS = 1_000
"""What rounding, of clocks read to within a microsecond, may do to a time stamp."""
MS = 1_000_000


@dataclass(frozen=True)
class WorldMeasures:
    """Of one world; durations in ms, shares in percent.

    Attributes:
        latency_mean: from an event to its arrival at the gateway; also ``latency_p50`` and so on.
        disorder: events before which a later one (by ref) has arrived.
        lateness_p95: of these, by how much.
        hold_mean: from arrival to release by the order ``sequence``; also ``hold_p95``.
        uncertain: matches of the query that are not certain.
        sync_delay: mean round trip of the exchanges that were reported.
        sync_error: mean distance of the reported offset from the true one.
    """

    latency_mean: float
    latency_p50: float
    latency_p95: float
    disorder: float
    lateness_p95: float
    hold_mean: float
    hold_p95: float
    uncertain: float
    sync_delay: float
    sync_error: float


@dataclass(frozen=True)
class WorldChecks:
    """Of one world, against the truth.

    Attributes:
        events: in the log; each that happened is there once (``measure_world`` makes sure).
        syncs: offsets reported.
        beyond: of them, those wrong by more than their declared bound.
        matches: pairs that truly are matches of the query.
        missed: of them, those not found.
        wrong: matches called confirmed that are none.
    """

    events: int
    syncs: int
    beyond: int
    matches: int
    missed: int
    wrong: int


@dataclass(frozen=True)
class MeasuredWorld:
    """A log, the true time from which its events count [ns], and the clocks of its devices."""

    log: Path
    start_ns: int
    clocks: dict[str, Bend]


class UntrueLogError(Exception):
    """The events in a log are not those that happened."""


def measure_world(setup: SocketsSetup, world: MeasuredWorld) -> tuple[WorldMeasures, WorldChecks]:
    """Measures ``world``.

    Raises:
        UntrueLogError: an event is not in its log, is there twice, or has another time.
    """
    records = LogRecords(world.log)
    latency = np.concatenate([_latency(setup, world, records, each.name) for each in DEVICES])
    error, bound, delay = (
        np.concatenate(column)
        for column in zip(*(_syncs(world, records, each.name) for each in DEVICES), strict=True)
    )
    before, (ordered,) = measure_many(world.log, [ORDER])
    found = _matches(world.log)
    true = _true_matches(setup)
    confirmed = {pair for pair, certainty in found.items() if certainty == "confirmed"}
    return WorldMeasures(
        latency_mean=float(latency.mean()) / MS,
        latency_p50=float(np.percentile(latency, 50)) / MS,
        latency_p95=float(np.percentile(latency, 95)) / MS,
        disorder=100 * before.disorder / before.events,
        lateness_p95=before.slack_for(0.95) / MS,
        hold_mean=ordered.hold.mean_ns / MS,
        hold_p95=ordered.hold.p95_ns / MS,
        uncertain=100 * (1 - len(confirmed) / len(found)),
        sync_delay=float(delay.mean()) / MS,
        sync_error=float(error.mean()) / MS,
    ), WorldChecks(
        events=latency.size,
        syncs=error.size,
        beyond=int(np.count_nonzero(error > bound)),
        matches=len(true),
        missed=len(true - found.keys()),
        wrong=len(confirmed - true),
    )


class LogRecords:
    """The records of a log."""

    def __init__(self, log: Path) -> None:
        batches = [pa.Table.from_batches([frame.batch]) for frame in LogReader(log)]
        table = pa.concat_tables(batches, promote_options="permissive").unify_dictionaries()
        kind = pc.fill_null(table["kind"], int(Kind.EVENT))
        self._table = table.set_column(table.schema.get_field_index("kind"), "kind", kind)

    def columns(self, source: str, kind: Kind, *names: str) -> list[np.ndarray]:
        """int64, in the order of arrival; rows without a value in one of them are left out."""
        of = (pc.field("source") == source) & (pc.field("kind") == int(kind))
        found = self._table.filter(of).select(names).drop_null()
        return [np.asarray(found[name], np.int64) for name in names]


def _latency(
    setup: SocketsSetup, world: MeasuredWorld, records: LogRecords, source: str
) -> np.ndarray:
    """From each event of ``source`` to its arrival [ns]; makes sure that all are there, once."""
    happened = setup.events[source][0]
    number, ts, arrival = records.columns(source, Kind.EVENT, "attrs.v", "ts", "arrival")
    if sorted(number.tolist()) != list(range(happened.size)):
        there = len(set(number.tolist()))
        raise UntrueLogError(
            f"{source}: the log has {number.size} events, {there} different, of {happened.size}"
        )
    clock = world.clocks[source]
    true = np.array([clock.true_ns(each) for each in ts.tolist()]) - world.start_ns
    off = int(np.abs(true - happened[number]).max())
    if off > STAMP_ERROR_NS:
        raise UntrueLogError(f"{source}: the time of an event is off by {off} ns")
    return arrival - world.start_ns - happened[number]


def _syncs(world: MeasuredWorld, records: LogRecords, source: str) -> list[np.ndarray]:
    """Error, declared bound and round trip of each reported offset [ns]."""
    offset, delay, precision, at = records.columns(
        source, Kind.SYNC, "offset", "delay", "precision", "ts"
    )
    clock = world.clocks[source]
    true = np.array([clock.true_ns(each) - each for each in at.tolist()])
    return [np.abs(offset - true), (delay + 1) // 2 + precision, delay]


Pair = tuple[tuple[str, int], tuple[str, int]]
"""Source and ``v`` of both events of a match."""


def _matches(log: Path) -> dict[Pair, str]:
    """Certainty of each match that the query finds."""
    found = {}
    for match in slackwater.query(log, QUERY, order=ORDER):
        first, second = ((each["source"], each["attrs"]["v"]) for each in match["events"])
        found[first, second] = match["certainty"]
    return found


def _true_matches(setup: SocketsSetup) -> set[Pair]:
    """What the query would find if all clocks were right."""
    events = [
        (int(at), device.name, v, int(key), device.type)
        for device in DEVICES
        for v, (at, key) in enumerate(zip(*setup.events[device.name], strict=True))
    ]
    recent: dict[int, list[tuple[int, str, int]]] = {}
    found: set[Pair] = set()
    for at, source, v, key, kind in sorted(events):
        kept = recent[key] = [each for each in recent.get(key, []) if at - each[0] <= WITHIN_NS]
        if kind == "A":
            kept.append((at, source, v))
        else:
            found |= {((first, n), (source, v)) for then, first, n in kept if then < at}
    return found
