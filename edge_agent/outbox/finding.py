"""Intervals that the gateway asks for, looked for among the events on the disk by stream and id."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from edge_agent import wire
from edge_agent.messages import Data
from edge_agent.outbox.outbox import Outbox
from edge_agent.outbox.segment import Record
from edge_agent.outbox.spool import Spool
from edge_agent.pull_back import Interval, ids_of
from edge_agent.wire import PREFIX_BYTES

LOOK_BYTES: Final = 8 << 20
"""Of the newest segments of a stream, per look: what is older is sent soon, as its turn comes."""


class Looked(NamedTuple):
    """Records of streams that have some of what was looked for, and intervals that none has."""

    records: list[tuple[int, Record]]
    gone: list[Interval]


def look_for(outbox: Outbox, asked: Sequence[Interval]) -> Looked:
    """*Disk.* Of what was not reached, or is not on the disk yet, nothing is said.

    Raises:
        OSError: a segment cannot be read.
    """
    ids: dict[int, set[int]] = defaultdict(set)
    for stream, id_ in asked:
        ids[stream].add(id_)
    found = Looked([], [])
    for stream, wanted in ids.items():
        if stream >= len(outbox.spools):
            found.gone.extend((stream, id_) for id_ in wanted)
            continue
        spool = outbox.spools[stream]
        whole = not spool.unwritten and spool.bytes <= LOOK_BYTES
        found.records.extend((stream, record) for record in _having(spool, wanted))
        if whole:
            found.gone.extend((stream, id_) for id_ in sorted(wanted))
    return found


def _having(spool: Spool, wanted: set[int]) -> list[Record]:
    """Takes what is found out of ``wanted``."""
    found = []
    for record in spool.newest(LOOK_BYTES):
        if not wanted:
            break
        message = wire.decode(record.data[PREFIX_BYTES:])
        assert isinstance(message, Data)
        mine = wanted.intersection(ids_of(message))
        if mine:
            wanted -= mine
            found.append(record)
    return found
