"""Which clocks the events of an input that ends will name, before the first of them is read."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.edge_agent import records as r
from slackwater.engine.core.frame import Frame, clock_names
from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.log.following import Log, opened

_FRAMES: Final = 256
"""Looked through; what only comes later is known when it comes."""
_SITES: Final = 256
_CLOCKS: Final = 64


def with_upcoming_clocks(log: Path | Log, settings: ChainSettings) -> ChainSettings:
    """``settings`` that know the clocks of ``log``: a match may be ruled out by an event of a clock
    that has not been heard of yet.

    Raises:
        UserError: not an arrival log, or a damaged one.
    """
    if settings.clock.exact or not settings.plans:
        return settings
    clocks = dict[str, set[str]]()
    synced = dict[str, set[str]]()
    for frame in islice(opened(log).one_by_one(), _FRAMES):
        named, of_syncs = _clocks(frame)
        clocks.setdefault(frame.site, set()).update(named)
        synced.setdefault(frame.site, set()).update(of_syncs)
        if len(clocks) > _SITES:
            return settings
    upcoming = tuple(
        (site, tuple(sorted(names)[:_CLOCKS]), tuple(sorted(synced[site])))
        for site, names in sorted(clocks.items())
        if len(names) > 1
    )
    return replace(settings, clock=replace(settings.clock, upcoming=upcoming))


def _clocks(frame: Frame) -> tuple[set[str], set[str]]:
    """(clocks of events, clocks of syncs) of a frame."""
    batch = frame.batch
    clock = clock_names(batch)
    if r.KIND not in batch.schema.names:
        return _texts(clock), set()
    kind = pc.fill_null(batch.column(r.KIND), int(r.Kind.EVENT))
    events = clock.filter(pc.equal(kind, int(r.Kind.EVENT)))
    syncs = pc.equal(kind, int(r.Kind.SYNC))
    if r.OFFSET in batch.schema.names:
        syncs = pc.and_(syncs, pc.is_valid(batch.column(r.OFFSET)))
    else:
        syncs = pc.and_(syncs, False)
    return _texts(events), _texts(clock.filter(syncs))


def _texts(column: pa.Array) -> set[str]:
    return {text for text in pc.unique(column).to_pylist() if text is not None}
