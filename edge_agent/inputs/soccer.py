"""``kind = "soccer-udp"``: positions of players and ball in the DEBS 2013 Grand Challenge format.

A datagram has lines of CSV, a position each: ``sid,ts,x,y,z,|v|,|a|,vx,vy,vz,ax,ay,az`` (DEBS 2013
Grand Challenge, "Soccer monitoring"; SPEC R19, Table 5.1): sensor, time [ps], place [mm], speed
[um/s], acceleration [um/s^2], and their directions. Locating systems send it over UDP, which loses
and reorders; losses between sensor and agent cannot be detected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from slackwater.edge_agent.errors import AgentError, did_you_mean
from slackwater.edge_agent.inputs.base import Outlet, Surroundings, receive
from slackwater.edge_agent.inputs.record_fields import instant_ns, read_text
from slackwater.edge_agent.inputs.stamping import DEVICE, StampingClocks, read_stamping
from slackwater.edge_agent.messages import StreamSchema
from slackwater.edge_agent.packing import BadRecord, Row, checked_row
from slackwater.edge_agent.settings_file import Table
from slackwater.edge_agent.units import NS_PER

PORT: Final = 9763
COLUMNS: Final = ("sid", "ts", "x", "y", "z", "v", "a", "vx", "vy", "vz", "ax", "ay", "az")
DELAY_MIN_MAX_NS: Final = 200 * NS_PER["ms"]
DELAY_MAX_NS: Final = 10 * NS_PER["s"]
LINE_MAX: Final = 1_000
"""Longest line [characters]."""
_PS_PER_NS: Final = 1_000
_DIGITS_MAX: Final = 22
"""Most digits of a time [ps] since 1970."""
_ROWS_MAX: Final = 4_096
"""Most events that are passed on together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionFields:
    """Mapping of a position to an event."""

    schema: StreamSchema
    places: Mapping[str, int]
    """Attribute -> column."""
    types: Mapping[str, str]
    """Event type per sensor (``sid``)."""
    type: str
    """Event type of other sensors; empty: none."""
    zero_ns: int
    """The instant at which the sensors' time is 0 [ns since 1970]."""

    def row(self, line: str) -> Row:
        """Parse a line; raises BadRecord if it is no position."""
        if len(line) > LINE_MAX:
            raise BadRecord(f"a line of {len(line)} characters")
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(COLUMNS):
            raise BadRecord(f"{len(cells)} values; a position has {len(COLUMNS)}")
        ps = cells[1]
        if not (ps.isascii() and ps.isdecimal() and len(ps) <= _DIGITS_MAX):
            raise BadRecord(f"ts: {ps!r:.50} is no whole number of picoseconds")
        attrs: dict[str, Any] = {
            name: read_text(cells[place], self.schema.attrs[name], name)
            for name, place in self.places.items()
        }
        ts = self.zero_ns + int(ps) // _PS_PER_NS
        type_ = self.types.get(cells[0], self.type) or None
        return checked_row(self.schema, ts, None, None, type_, attrs)


def lines_of(datagram: bytes) -> list[str]:
    """The non-empty lines of a datagram."""
    lines = datagram.decode("ascii", "replace").split("\n")
    return [line for line in lines if line.strip()]


class SoccerInput:
    """A UDP socket that receives positions."""

    def __init__(
        self, name: str, host: str, port: int, fields: PositionFields, clocks: StampingClocks
    ) -> None:
        self.counts: Counter[str] = Counter()
        """``datagrams``, ``dropped_datagrams`` (no room), ``positions``, ``bad`` lines; and the
        counters of ``StampingClocks``."""
        clocks.counts = self.counts
        self._clocks = clocks
        self._name = name
        self._host = host
        self._port = port
        self._fields = fields
        self.port = 0
        """The port that it listens on; 0: not yet."""

    async def run(self, outlet: Outlet) -> None:
        place = f"{self._name}: {self._host} port {self._port}"
        try:
            transport, datagrams = await receive(self._host, self._port, self.counts)
        except OSError as error:
            raise AgentError(f"{place}: {error.strerror}") from error
        self.port = transport.get_extra_info("sockname")[1]
        try:
            while True:
                rows = self._rows(await datagrams.take(), outlet, place)
                for first in range(0, len(rows), _ROWS_MAX):
                    some = await self._clocks.stamped(rows[first : first + _ROWS_MAX], outlet)
                    await outlet.take(self._fields.schema.name, some)
        finally:
            transport.abort()

    def _rows(self, found: list[bytes], outlet: Outlet, place: str) -> list[Row]:
        rows = []
        for datagram in found:
            for line in lines_of(datagram):
                try:
                    rows.append(self._fields.row(line))
                except BadRecord as error:
                    self.counts["bad"] += 1
                    outlet.bad(str(error), place)
        self.counts["positions"] += len(rows)
        return rows


def soccer_input(table: Table, around: Surroundings) -> SoccerInput:
    """``kind = "soccer-udp"``; its settings are in docs/devices.md."""
    schema = around.schemas[
        table.text("stream", next(iter(around.schemas)), among=list(around.schemas))
    ]
    for name, kind in schema.attrs.items():
        if name not in COLUMNS or name == "ts" or kind == "bool":
            raise table.wrong(
                "stream", f"attribute {name} ({kind}) is no value of a position"
                f"{did_you_mean(name, [each for each in COLUMNS if each != 'ts'])}",
            )  # fmt: skip
    types = table.table("types")
    fields = PositionFields(
        schema=schema,
        places={name: COLUMNS.index(name) for name in schema.attrs},
        types={sid: types.text(sid) for sid in types.keys()},  # noqa: SIM118 - a Table is no dict
        type=table.text("type", ""),
        zero_ns=_zero(table),
    )
    host, port = table.host("listen", "127.0.0.1"), table.integer("port", PORT, 0, 65_535)
    stamping = read_stamping(
        table, DEVICE, delay_min_max_ns=DELAY_MIN_MAX_NS, delay_max_ns=DELAY_MAX_NS
    )
    clocks = StampingClocks(stamping, around)
    return SoccerInput(around.name, host, port, fields, clocks)


def _zero(table: Table) -> int:
    try:
        return instant_ns(table.text("zero", "1970-01-01T00:00:00Z"), "ns")
    except ValueError as error:
        raise table.wrong("zero", f'write an instant as "2013-06-29T13:00:00Z": {error}') from error
