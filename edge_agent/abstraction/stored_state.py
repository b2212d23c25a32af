"""Open intervals as names and values for the journal, and back.

An abstraction goes on with those that the same settings have made. What other settings have left
(a file that was edited while the agent was down) is ended at its last reading, cut ``eos``: nobody
else can tell its end.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

import msgpack

from slackwater.edge_agent.abstraction.machine import Abstraction, EndedInterval, Key
from slackwater.edge_agent.abstraction.settings import CUT, READINGS, AbstractSettings
from slackwater.edge_agent.messages import StreamSchema
from slackwater.edge_agent.outbox.journal import Change
from slackwater.edge_agent.outbox.outbox import Outbox
from slackwater.edge_agent.outbox.spool import Record
from slackwater.edge_agent.packing import Row, columns_of, data_message, encoded_data

_ROWS_MAX = 1000
"""Rows of one message of ended intervals."""


def fingerprint(settings: AbstractSettings) -> int:
    """Tells what other settings have made."""
    return zlib.crc32(repr(settings).encode())


def changes_of(machine: Abstraction) -> list[Change]:
    """What has changed since the last call; none where changes are not watched."""
    touched = machine.touched
    if not touched:
        return []
    mark, into = fingerprint(machine.settings), machine.settings.into
    found: list[Change] = []
    for key in touched:
        state = machine.state_of(key)
        name = msgpack.packb([mark, key])
        found.append((name, None if state is None else msgpack.packb([into, state])))
    touched.clear()
    return found


def resume(outbox: Outbox, machines: Sequence[Abstraction], mono_ns: int) -> int:
    """Gives ``machines`` the intervals that ``outbox`` has open; ends those of others.

    Returns:
        How many were ended.
    """
    found = _found(outbox)
    for machine in machines:
        of_machine = found.pop(fingerprint(machine.settings), [])
        for key, _, state in sorted(of_machine, key=lambda each: each[2][3]):
            machine.restore(key, state, mono_ns)
    return _end(outbox, found)


def end_all(outbox: Outbox) -> int:
    """Ends every interval that ``outbox``, of an earlier start, has open; gives how many."""
    return _end(outbox, _found(outbox))


def interval_rows(schema: StreamSchema, ended: Collection[EndedInterval]) -> list[Row]:
    """Events of the stream ``into``, whose attributes are ``by``, ``cut`` and ``readings``."""
    assert list(schema.attrs)[-2:] == [CUT, READINGS]
    return [
        Row(
            each.ts,
            each.te,
            each.id,
            each.type,
            (*each.key[: len(schema.attrs) - 2], each.cut, each.readings),
            each.clock,
        )
        for each in ended
    ]


_Found = tuple[Key, str, list[Any]]


def _found(outbox: Outbox) -> dict[int, list[_Found]]:
    """By fingerprint: the thing, the stream of its interval, and its state."""
    found: dict[int, list[_Found]] = defaultdict(list)
    for name, value in outbox.intervals.found.items():
        mark, key = msgpack.unpackb(name)
        into, state = msgpack.unpackb(value)
        found[mark].append((tuple(key), into, state))
    return found


def _end(outbox: Outbox, found: dict[int, list[_Found]]) -> int:
    rows: dict[str, list[Row]] = defaultdict(list)
    changes: dict[str, list[Change]] = defaultdict(list)
    for mark, those in found.items():
        for key, into, (type_, ts, last, id_, readings, _, _, *clock) in those:
            attrs = (*(key[:-1] if clock else key), "eos", readings)
            rows[into].append(Row(ts, last, id_, type_, attrs, clock[0] if clock else None))
            changes[into].append((msgpack.packb([mark, key]), None))
    for into, ended in rows.items():
        index = [stream.name for stream in outbox.start.streams].index(into)
        for low in range(0, len(ended), _ROWS_MAX):
            _append(outbox, index, ended[low : low + _ROWS_MAX], changes[into][low:][:_ROWS_MAX])
    return sum(map(len, rows.values()))


def _append(outbox: Outbox, index: int, rows: Sequence[Row], changes: Sequence[Change]) -> None:
    spool, schema = outbox.spools[index], outbox.start.streams[index]
    ts, te, ids, types, attrs, clocks = columns_of(schema, rows)
    message = data_message(
        index, schema, ts=ts, te=te, ids=ids, types=types, attrs=attrs, clocks=clocks
    )
    record = Record(spool.next, len(rows), encoded_data(message, spool.next, schema.name))
    outbox.intervals.add(index, record.end, changes)
    spool.append(record)
