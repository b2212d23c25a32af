"""From events of a stream to the readings of an abstraction: what is the thing, what its value."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

from edge_agent.abstraction.machine import Abstraction, Reading
from edge_agent.device_clock import device_of
from edge_agent.messages import StreamSchema
from edge_agent.packing import Row


class Reader:
    """Hands the events of one stream to one abstraction."""

    def __init__(self, machine: Abstraction, schema: StreamSchema) -> None:
        """``schema``: of the stream that is read."""
        self.machine = machine
        names = list(schema.attrs)
        settings = machine.settings
        self._by = [names.index(name) for name in settings.by]
        self._value = names.index(settings.value) if settings.value else None
        self._only = frozenset(settings.only)

    def reads(self, type_: str | None) -> bool:
        """Whether events of this type are readings."""
        return not self._only or type_ in self._only

    def take(self, rows: Sequence[Row], mono_ns: int) -> None:
        """Events, at hand now."""
        if self._only:
            rows = [row for row in rows if row.type in self._only]
        for name, some in groupby(rows, attrgetter("clock")):
            self.machine.take(self._readings(list(some), name), mono_ns, name)

    def _readings(self, rows: Sequence[Row], clock: str | None) -> list[Reading]:
        place = self._value
        thing = _picker(self._by)
        if clock is not None:
            # Of one device, whose clock has another name when it was set or is in doubt.
            attrs_of, device = thing, device_of(clock)

            def thing(attrs: tuple[Any, ...]) -> tuple[Any, ...]:
                return (*attrs_of(attrs), device)

        if place is None:
            return [(thing(row.attrs), row.ts, None) for row in rows]
        return [(thing(row.attrs), row.ts, row.attrs[place]) for row in rows]


def _picker(places: Sequence[int]) -> Any:
    """From attributes to a tuple of those at ``places``."""
    if len(places) > 1:
        return itemgetter(*places)
    if places:
        (one,) = places
        return lambda attrs: (attrs[one],)
    return lambda _: ()
