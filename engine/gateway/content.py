"""Checks of the content of ``Data`` messages, column by column.

The wire protocol has checked lengths and counts; these rules need the stream's schema or the
values.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Final

import numpy as np

from slackwater.edge_agent.errors import WireError
from slackwater.edge_agent.messages import CELLS_MAX, Data, Packed, StreamSchema, Texts, Values
from slackwater.edge_agent.pull_back import BatchSlice, EventBatch, Events
from slackwater.edge_agent.records import TIME_MAX_NS

# Schemas that sources declare: equal ones are stored once, while some declaring source is
# connected.
#
# A HELLO of 64 KB becomes 260 KB of Python objects. They are counted, and freed when the last
# connection of the last source that declared them closes: the next HELLO brings them again. Types
# of attributes are kept while the log may contain them: permanently or, if nothing of a source was
# ever recorded, until it leaves.


SITE_ATTRS_MAX: Final = 1024
_OBJECT_BYTES: Final = 200
"""Charged per name in addition to its characters; measured with msgpack's strings in dicts."""

Schemas = tuple[StreamSchema, ...]


class Refusal(Exception):  # noqa: N818 - a refusal is not an error of the gateway
    """A HELLO that is refused. ``retry``: the same HELLO may be accepted later.

    ``above``: see ``edge_agent.messages.ErrorMessage``.
    """

    def __init__(self, reason: str, detail: str, *, retry: bool, above: int | None = None) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
        self.retry = retry
        self.above = above


def digest(schemas: Schemas) -> bytes:
    """Digest that identifies a declaration; the order of attributes matters."""
    text = repr([(schema.name, list(schema.attrs.items())) for schema in schemas])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class SchemaStore:
    """Declarations in use, and each site's attribute types; ``bytes``: memory of both."""

    def __init__(self, attr_types: Mapping[str, Mapping[str, str]]) -> None:
        self.bytes = 0
        self._used: dict[bytes, tuple[Schemas, int, int]] = {}  # schemas, users, cost
        self._attr_types: dict[str, dict[str, tuple[str, int]]] = {}  # type, how many claim it
        for site, types in attr_types.items():
            self.claim(site, (StreamSchema("", dict(types)),))

    def new_types(self, site: str, schemas: Schemas) -> dict[str, str]:
        """The attributes in ``schemas`` that the site has not had yet.

        Raises:
            Refusal: ``attr_type`` (an attribute has another type elsewhere at the site) or
                ``attrs_max``.
        """
        known = self._attr_types.get(site, {})
        new: dict[str, str] = {}
        for schema in schemas:
            for name, kind in schema.attrs.items():
                have = known[name][0] if name in known else new.setdefault(name, kind)
                if have != kind:
                    detail = f"attribute {name} is {kind} here and {have} elsewhere at the site"
                    raise Refusal("attr_type", detail, retry=False)
        if len(known) + len(new) > SITE_ATTRS_MAX:
            raise Refusal("attrs_max", f"{SITE_ATTRS_MAX} attributes at one site", retry=False)
        return {name: kind for name, kind in new.items() if name not in known}

    def cost(self, declared: bytes, schemas: Schemas, new: Mapping[str, str]) -> int:
        """Bytes that ``hold`` and ``claim`` would add."""
        return (0 if declared in self._used else _cost(schemas)) + _names_cost(new)

    def hold(self, declared: bytes, schemas: Schemas) -> Schemas:
        """The shared copy of ``schemas``, whose digest is ``declared``; call ``release`` once per
        call.
        """
        kept, users, cost = self._used.get(declared) or (schemas, 0, _cost(schemas))
        if not users:
            self.bytes += cost
        self._used[declared] = (kept, users + 1, cost)
        return kept

    def release(self, declared: bytes) -> None:
        """Undo one ``hold``."""
        kept, users, cost = self._used[declared]
        if users > 1:
            self._used[declared] = (kept, users - 1, cost)
        else:
            del self._used[declared]
            self.bytes -= cost

    def claim(self, site: str, schemas: Schemas) -> None:
        """Record that the log may have the attributes of ``schemas`` at ``site`` from now on."""
        known = self._attr_types.setdefault(site, {})
        for schema in schemas:
            for name, kind in schema.attrs.items():
                users = known[name][1] if name in known else 0
                known[name] = (kind, users + 1)
                self.bytes += 0 if users else _names_cost((name,))

    def give_up(self, site: str, schemas: Schemas) -> None:
        """Undo one ``claim``: nothing with these attributes was recorded because of it."""
        known = self._attr_types[site]
        for schema in schemas:
            for name in schema.attrs:
                kind, users = known[name]
                if users > 1:
                    known[name] = (kind, users - 1)
                else:
                    del known[name]
                    self.bytes -= _names_cost((name,))
        if not known:
            del self._attr_types[site]


def _names_cost(names: Iterable[str]) -> int:
    return sum(_OBJECT_BYTES + len(name) for name in names)


def _cost(schemas: Schemas) -> int:
    return sum(
        2 * _OBJECT_BYTES + len(schema.name) + _names_cost(schema.attrs) for schema in schemas
    )


INT: Final = np.dtype("<i8")
FLOAT: Final = np.dtype("<f8")
CODE: Final = np.dtype("<i4")
_SIZES: Final = {"int": 8, "float": 8, "bool": 1}
"""Bytes of an element, by attribute type."""
_FEW: Final = 32 if sys.byteorder == "little" else 0
"""Up to this many elements, Python's own minimum is faster than a NumPy call."""


class ContentRefused(WireError):  # noqa: N818 - a refusal is expected traffic
    """A message with valid numbers whose columns the engine could not read.

    ``rows``: number of its events that had not arrived before.
    """

    rows = 0


def check_data(data: Events, schema: StreamSchema) -> None:
    """Refuse a message that the engine could not read.

    Raises:
        ContentRefused: ``attrs`` (not the schema's), ``cells`` (rows times present attributes
            beyond CELLS_MAX), ``time`` (outside the years 1823-2116), ``te`` (an event ends before
            it begins), ``codes`` (outside their dictionary) or ``infinite``.
    """
    if isinstance(data, BatchSlice):
        whole = data.batch
        known = whole.sound is schema or _sound(whole, schema)
        if known and data.rows * whole.attr_count <= CELLS_MAX:
            return
        data = data.to_data()
    if len(data.attrs) != len(schema.attrs):
        detail = f"{len(data.attrs)} attributes instead of {len(schema.attrs)}"
        raise ContentRefused("attrs", detail)
    rows = data.rows
    if rows * (len(data.attrs) - data.attrs.count(None)) > CELLS_MAX:
        raise ContentRefused("cells", f"more than {CELLS_MAX} values in one message")
    _check_columns(data, schema)


def _check_columns(data: Data, schema: StreamSchema) -> None:
    rows = data.rows
    _check_times(data.ts, rows, "ts")
    if data.te is not None:
        _check_times(data.te, rows, "te")
        if (np.frombuffer(data.te, INT) < np.frombuffer(data.ts, INT)).any():
            raise ContentRefused("te", "an event ends before it begins")
    if data.types is not None:
        _check_codes(data.types, rows, "types")
    if data.clocks is not None:
        _check_codes(data.clocks, rows, "clocks")
    floats: list[Packed] = []
    for (name, kind), column in zip(schema.attrs.items(), data.attrs, strict=True):
        if isinstance(column, Values):
            if len(column.values) != rows * _SIZES.get(kind, -1):
                raise ContentRefused("attrs", f"attribute {name} is not a column of type {kind}")
            # A sum is infinite or NaN if an element is, and rarely otherwise: checked below.
            if kind == "float" and not (
                rows <= _FEW and isfinite(sum(memoryview(column.values).cast("d")))
            ):
                floats.append(column.values)
        elif column is not None:
            if kind != "str":
                raise ContentRefused("attrs", f"attribute {name} is not of type {kind}")
            _check_codes(column, rows, name)
    # For all columns at once: a NumPy call costs more than some hundred numbers.
    if floats and np.logical_or.reduce(np.isinf(np.frombuffer(b"".join(floats), FLOAT))):
        for (name, kind), column in zip(schema.attrs.items(), data.attrs, strict=True):
            if kind == "float" and isinstance(column, Values):
                _check_finite(column, name)


def _sound(whole: EventBatch, schema: StreamSchema) -> bool:
    """Whether all rows of a batch are valid; a positive result is stored in the batch."""
    if len(whole.data.attrs) != len(schema.attrs):
        return False
    try:
        _check_columns(whole.data, schema)
    except ContentRefused:
        return False
    whole.sound = schema
    return True


def _check_times(column: Packed, rows: int, name: str) -> None:
    if rows <= _FEW:
        few = memoryview(column).cast("q")
        wrong = min(few) < -TIME_MAX_NS or max(few) > TIME_MAX_NS
    else:
        # One comparison for both bounds: below -TIME_MAX_NS wraps to a huge unsigned number.
        from_least = np.frombuffer(column, INT) + TIME_MAX_NS
        wrong = bool(np.maximum.reduce(from_least.view(np.uint64)) > 2 * TIME_MAX_NS)
    if wrong:
        raise ContentRefused("time", f"{name} lies beyond {TIME_MAX_NS} ns")


def _check_finite(column: Values, name: str) -> None:
    infinite = np.isinf(np.frombuffer(column.values, FLOAT))
    if column.valid is not None:
        infinite &= np.frombuffer(column.valid, np.uint8) != 0
    if infinite.any():
        raise ContentRefused("infinite", f"attribute {name} is infinite")


def _check_codes(texts: Texts, rows: int, name: str) -> None:
    if texts.codes is None:
        return
    if rows <= _FEW:
        few = memoryview(texts.codes).cast("i")
        wrong = min(few) < -1 or max(few) >= len(texts.names)
    else:
        from_least = np.frombuffer(texts.codes, CODE) + np.int32(1)
        wrong = bool(np.maximum.reduce(from_least.view(np.uint32)) > len(texts.names))
    if wrong:
        raise ContentRefused("codes", f"{name}: a code lies outside its dictionary")
