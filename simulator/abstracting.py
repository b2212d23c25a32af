"""Interval abstraction on a simulated device: the agent's own, fed from columns.

Readings are converted to rows one by one, as on a device: use it for sources with thousands of
readings, not millions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, repeat
from operator import itemgetter
from typing import Any, Final

from slackwater.edge_agent.abstraction.machine import Abstraction, EndedInterval, IntervalBegin
from slackwater.edge_agent.abstraction.settings import AbstractSettings
from slackwater.edge_agent.abstraction.stored_state import interval_rows
from slackwater.edge_agent.clock import earliest
from slackwater.edge_agent.device_clock import device_of
from slackwater.edge_agent.errors import SettingsError
from slackwater.edge_agent.messages import StreamSchema
from slackwater.edge_agent.packing import Codes, Column, MaskedColumn, Row
from slackwater.engine.core.errors import UserError
from slackwater.simulator.settings import check, parse_many
from slackwater.simulator.workload import AttributeViews

BOOT_SHIFT: Final = 32
"""Distance of the first interval ids of two starts of a device without a disk [bits]."""
Made = tuple[str, list[IntervalBegin] | list[Row]]
"""A stream of intervals, and its begins or its intervals."""


class DeviceAbstraction:
    """All abstractions of one device; does nothing if there are none."""

    def __init__(
        self, settings: Sequence[AbstractSettings], schemas: Sequence[StreamSchema]
    ) -> None:
        """``schemas``: of the workload's streams.

        Raises:
            UserError: settings that do not fit the schemas.
        """
        known = {schema.name: schema for schema in schemas}
        self.streams: dict[str, StreamSchema] = {}
        """Streams of intervals by name."""
        for each in settings:
            check(each.stream in known, "abstract.stream", f"no stream {each.stream}")
            try:
                schema = each.schema(known[each.stream])
            except SettingsError as error:
                raise UserError(f"abstract.{error}") from error
            same = self.streams.setdefault(each.into, schema) == schema
            check(same, "abstract.into", f"intervals of {each.into} have other attributes")
            check(not each.only, "abstract.only", "a simulated stream is read as a whole")
        self._settings = settings
        self._kept = {each.stream for each in settings if each.keep}
        self._read = {each.stream for each in settings}
        self._machines: list[Abstraction] = []
        self.restart(0)

    def restart(self, boots: int) -> None:
        """Forget open intervals: the device has no disk."""
        self._machines = [
            Abstraction(each, place, boots << BOOT_SHIFT)
            for place, each in enumerate(self._settings)
        ]

    def passes(self, stream: str) -> bool:
        """Whether the events of a stream are sent."""
        return stream not in self._read or stream in self._kept

    def take(
        self,
        stream: str,
        ts: Sequence[int],
        columns: AttributeViews,
        low: int,
        high: int,
        mono_ns: int,
        clocks: Sequence[str] | None = None,
    ) -> None:
        """Take events [low, high) of a batch; ``ts``: their times, by ``clocks`` (None: the agent's
        own).
        """
        attrs = columns.attrs(low, high)
        for machine in self._machines:
            settings = machine.settings
            if settings.stream == stream:
                rows = len(ts)
                things = [_values(attrs.get(name), rows) for name in settings.by]
                keys: Iterator[tuple[Any, ...]] = (
                    zip(*things, strict=True) if things else repeat((), rows)
                )
                values = _values(attrs.get(settings.value), rows)
                readings = zip(keys, ts, values, strict=True)
                if clocks is None:
                    machine.take(readings, mono_ns)
                    continue
                for name, some in groupby(zip(clocks, readings, strict=True), itemgetter(0)):
                    device = device_of(name)
                    device_readings = [((*key, device), at, value) for _, (key, at, value) in some]
                    machine.take(device_readings, mono_ns, name)

    def next_wake(self) -> int | None:
        """Monotonic instant [ns] at which ``wake`` is due."""
        return earliest(*[machine.next_wake() for machine in self._machines])

    def wake(self, mono_ns: int) -> None:
        """End intervals that have been silent for too long."""
        for machine in self._machines:
            machine.wake(mono_ns)

    def finish(self) -> None:
        """End all intervals: no further reading will arrive."""
        for machine in self._machines:
            machine.finish()

    def outputs(self) -> Iterator[Made]:
        """Per abstraction, begins to send, then intervals. Drained."""
        for machine in self._machines:
            made = machine.outputs()
            into = machine.settings.into
            begins = [each for each in made if isinstance(each, IntervalBegin)]
            ended = [each for each in made if isinstance(each, EndedInterval)]
            if begins:
                yield into, begins
            if ended:
                yield into, interval_rows(self.streams[into], ended)


def parse_abstracts(value: object, place: str) -> tuple[AbstractSettings, ...]:
    """Parse settings from plain dicts.

    Raises:
        UserError: the message names the key.
    """
    try:
        return parse_many(AbstractSettings, value, place)
    except SettingsError as error:
        raise UserError(f"{place}: {error}") from error


def _values(column: Column | None, rows: int) -> Sequence[Any]:
    if column is None:
        return [None] * rows
    if isinstance(column, Codes):
        names = [*column.names, None]  # code -1 is null
        return [names[code] for code in memoryview(column.codes)]
    if isinstance(column, MaskedColumn):
        pairs = zip(memoryview(column.values), memoryview(column.valid), strict=True)
        return [value if valid else None for value, valid in pairs]
    return memoryview(column).tolist()
