"""Which clocks the events of an input that ends will name, before the first of them is read."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.edge_agent import records as r
from slackwater.engine.core.clocks.choice import Lane, UpcomingClocks
from slackwater.engine.core.frame import Frame, clock_names
from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.log.following import Log, opened

_FRAMES: Final = 256
"""Looked through; what only comes later is known when it comes."""
_SITES: Final = 256
_CLOCKS: Final = 64
_LANES: Final = 1024


def with_upcoming_clocks(log: Path | Log, settings: ChainSettings) -> ChainSettings:
    """``settings`` that know the clocks of ``log``: a match may be ruled out by an event of a clock
    that has not been heard of yet.

    Raises:
        UserError: not an arrival log, or a damaged one.
    """
    if settings.clock.exact or not settings.plans:
        return settings
    lanes, synced = dict[str, set[Lane]](), dict[str, set[str]]()
    for frame in islice(opened(log).one_by_one(), _FRAMES):
        mine, known = lanes.setdefault(frame.site, set()), synced.setdefault(frame.site, set())
        of_events, of_syncs = _clocks(frame)
        known |= of_syncs - {clock for clock, _ in mine}
        mine |= of_events
        if len(lanes) > _SITES:
            return settings
    upcoming = tuple(
        UpcomingClocks(site, _some(mine), tuple(sorted(synced[site])))
        for site, mine in sorted(lanes.items())
        if len({clock for clock, _ in mine}) > 1
    )
    return replace(settings, clock=replace(settings.clock, upcoming=upcoming))


def _some(lanes: set[Lane]) -> tuple[Lane, ...]:
    """Of as many clocks as are looked at; of anything where there is too much to tell apart."""
    clocks = sorted({clock for clock, _ in lanes})[:_CLOCKS]
    found = [lane for lane in lanes if lane[0] in clocks]
    if len(found) > _LANES:
        return tuple((clock, (None, None, None, None)) for clock in clocks)
    return tuple(sorted(found, key=repr))


def _clocks(frame: Frame) -> tuple[set[Lane], set[str]]:
    """The lanes of a frame's events, and the clocks of its syncs that come before their events."""
    batch, clock = frame.batch, clock_names(frame.batch)
    nothing = pa.nulls(batch.num_rows, pa.string())
    keys = [r.CLOCK, r.SOURCE, r.STREAM, r.TYPE]
    names = [clock, *(batch.column(name) if name in batch.schema.names else nothing
                      for name in keys[1:])]  # fmt: skip
    table = pa.table([each.cast(pa.string()) for each in names], keys)
    table = table.append_column("row", pa.array(np.arange(batch.num_rows)))
    if r.KIND in batch.schema.names:
        kind = pc.fill_null(batch.column(r.KIND), int(r.Kind.EVENT))
        syncs = pc.equal(kind, int(r.Kind.SYNC))
        offset = pc.is_valid(batch.column(r.OFFSET)) if r.OFFSET in batch.schema.names else False
        synced = table.filter(pc.and_(syncs, offset))
        table = table.filter(pc.equal(kind, int(r.Kind.EVENT)))
    else:
        synced = table.slice(0, 0)
    lanes, first = set[Lane](), dict[str, int]()
    for each in _firsts(table, keys):
        name = each[r.CLOCK]
        stream = each[r.STREAM] or r.DEFAULT_STREAM
        lanes.add((name, (name, each[r.SOURCE], stream, each[r.TYPE])))
        first[name] = min(each["row_min"], first.get(name, batch.num_rows))
    return lanes, {
        each[r.CLOCK] for each in _firsts(synced, [r.CLOCK])
        if each["row_min"] < first.get(each[r.CLOCK], batch.num_rows)
    }  # fmt: skip


def _firsts(table: pa.Table, keys: list[str]) -> list[dict[str, Any]]:
    """What there is of ``keys``, and where first."""
    found: list[dict[str, Any]] = table.group_by(keys).aggregate([("row", "min")]).to_pylist()
    return found
