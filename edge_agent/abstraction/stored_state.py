"""Conversion of open intervals to names and values for the journal, and back.

An abstraction continues intervals that the same settings have made. Intervals of other settings
(the file was edited while the agent was down) are ended at their last readings, cut ``eos``,
because their ends cannot be determined.
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
"""Rows per message of ended intervals."""


def fingerprint(settings: AbstractSettings) -> int:
    """Identifies settings, to recognise intervals of others."""
    return zlib.crc32(repr(settings).encode())


def changes_of(machine: Abstraction) -> list[Change]:
    """Changes since the last call; empty if changes are not tracked."""
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
    """Give ``machines`` their open intervals from ``outbox``; end those of other settings.

    Returns:
        The number of ended intervals.
    """
    found = _found(outbox)
    for machine in machines:
        of_machine = found.pop(fingerprint(machine.settings), [])
        for key, _, state in sorted(of_machine, key=lambda each: each[2][3]):
            machine.restore(key, state, mono_ns)
    return _end(outbox, found)


def end_all(outbox: Outbox) -> int:
    """End all open intervals of ``outbox``, an earlier start; return their number."""
    return _end(outbox, _found(outbox))


def interval_rows(schema: StreamSchema, ended: Collection[EndedInterval]) -> list[Row]:
    """Ended intervals as rows of the stream ``into``, with ``by``, ``cut`` and ``readings``."""
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
    """Fingerprint -> thing, stream of its intervals, and state, per open interval."""
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
