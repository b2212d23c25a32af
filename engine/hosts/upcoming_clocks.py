"""Which clocks the events of an input that ends will name, before the first of them is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.edge_agent import records as r
from slackwater.engine.core.clocks.choice import Lane, UpcomingClocks
from slackwater.engine.core.frame import Frame, clock_names
from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.kernels.records import INT_MAX
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
    names = [clock, *(batch.column(name) if name in batch.schema.names else nothing
                      for name in (r.SOURCE, r.STREAM, r.TYPE))]  # fmt: skip
    events, syncs = np.arange(batch.num_rows), np.arange(0)
    if r.KIND in batch.schema.names:
        kind = pc.fill_null(batch.column(r.KIND), int(r.Kind.EVENT)).to_numpy()
        events = np.flatnonzero(kind == int(r.Kind.EVENT))
        if r.OFFSET in batch.schema.names:
            measured = pc.is_valid(batch.column(r.OFFSET)).to_numpy(zero_copy_only=False)
            syncs = np.flatnonzero((kind == int(r.Kind.SYNC)) & measured)
    lanes, first = set[Lane](), dict[str, int]()
    for row in _firsts(names, events):
        name, source, stream, kind_of = (column[row].as_py() for column in names)
        lanes.add((name, (name, source, stream or r.DEFAULT_STREAM, kind_of)))
        first[name] = min(row, first.get(name, row))
    of_syncs = {clock[row].as_py(): row for row in _firsts([clock], syncs)}
    return lanes, {name for name, row in of_syncs.items() if row < first.get(name, row + 1)}


def _firsts(names: Sequence[pa.Array], rows: np.ndarray) -> list[int]:
    """Of ``rows`` the first of each that have the same ``names``."""
    code, codes = np.zeros(len(rows), np.int64), 1
    for column in names:
        words = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        found = pc.fill_null(words.indices, -1).to_numpy()[rows]
        codes *= len(words.dictionary) + 1
        if codes > INT_MAX:
            code = np.unique(code, return_inverse=True)[1]
            codes = len(rows) * (len(words.dictionary) + 1)
        code = code * (len(words.dictionary) + 1) + found + 1
    first: list[int] = rows[np.unique(code, return_index=True)[1]].tolist()
    return first
