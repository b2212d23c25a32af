"""What the columns of a ``Data`` message contain: checked at once, column by column.

The wire has checked lengths and counts; here are the rules that need the stream's schema or a
look at the elements.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from edge_agent.errors import WireError
from edge_agent.excerpt import Events, Excerpt
from edge_agent.limits import TIME_MAX_NS
from edge_agent.messages import CELLS_MAX, Data, Packed, StreamSchema, Texts, Values

INT: Final = np.dtype("<i8")
FLOAT: Final = np.dtype("<f8")
CODE: Final = np.dtype("<i4")
_SIZES: Final = {"int": 8, "float": 8, "bool": 1}
"""Bytes of an element, by the type of the attribute."""


class ContentRefused(WireError):  # noqa: N818 - a refusal is expected traffic
    """A message whose numbers are known but whose columns the engine could not read.

    ``rows``: how many of its events had not come before.
    """

    rows = 0


def check_data(data: Events, schema: StreamSchema) -> None:
    """Refuses a message that the engine could not read.

    Raises:
        ContentRefused: ``attrs`` (not those of the schema), ``cells`` (rows times attributes that
            are given beyond CELLS_MAX), ``time`` (beyond the years 1823-2116), ``te`` (an event
            that ends before it begins), ``codes`` (outside their dictionary) or ``infinite``.
    """
    if isinstance(data, Excerpt):
        if _sound(data, schema):
            return
        data = data.written()
    if len(data.attrs) != len(schema.attrs):
        detail = f"{len(data.attrs)} attributes instead of {len(schema.attrs)}"
        raise ContentRefused("attrs", detail)
    rows = data.rows
    if rows * (len(data.attrs) - data.attrs.count(None)) > CELLS_MAX:
        raise ContentRefused("cells", f"more than {CELLS_MAX} values in one message")
    _check_columns(data, schema)


def _check_columns(data: Data, schema: StreamSchema) -> None:
    rows = data.rows
    ts = np.frombuffer(data.ts, INT)
    _check_times(ts, "ts")
    if data.te is not None:
        te = np.frombuffer(data.te, INT)
        _check_times(te, "te")
        if (te < ts).any():
            raise ContentRefused("te", "an event ends before it begins")
    if data.types is not None:
        _check_codes(data.types, "types")
    floats: list[Packed] = []
    for (name, kind), column in zip(schema.attrs.items(), data.attrs, strict=True):
        if isinstance(column, Values):
            if len(column.values) != rows * _SIZES.get(kind, -1):
                raise ContentRefused("attrs", f"attribute {name} is not a column of type {kind}")
            if kind == "float":
                floats.append(column.values)
        elif column is not None:
            if kind != "str":
                raise ContentRefused("attrs", f"attribute {name} is not of type {kind}")
            _check_codes(column, name)
    # Of all columns at once: what NumPy takes for a call is more than for some hundred numbers.
    if floats and np.logical_or.reduce(np.isinf(np.frombuffer(b"".join(floats), FLOAT))):
        for (name, kind), column in zip(schema.attrs.items(), data.attrs, strict=True):
            if kind == "float" and isinstance(column, Values):
                _check_finite(column, name)


def _sound(data: Excerpt, schema: StreamSchema) -> bool:
    """Whether all rows of its batch are right; found out once, a message of it at least."""
    whole = data.whole
    if data.rows * whole.given > CELLS_MAX:
        return False
    if whole.sound is not schema:
        if len(whole.data.attrs) != len(schema.attrs):
            return False
        try:
            _check_columns(whole.data, schema)
        except ContentRefused:
            return False
        whole.sound = schema
    return True


def _check_times(times: np.ndarray, name: str) -> None:
    # One comparison for both ends: below -TIME_MAX_NS wraps to a huge unsigned number.
    if np.maximum.reduce((times + TIME_MAX_NS).view(np.uint64)) > 2 * TIME_MAX_NS:
        raise ContentRefused("time", f"{name} lies beyond {TIME_MAX_NS} ns")


def _check_finite(column: Values, name: str) -> None:
    infinite = np.isinf(np.frombuffer(column.values, FLOAT))
    if column.valid is not None:
        infinite &= np.frombuffer(column.valid, np.uint8) != 0
    if infinite.any():
        raise ContentRefused("infinite", f"attribute {name} is infinite")


def _check_codes(texts: Texts, name: str) -> None:
    if texts.codes is None:
        return
    codes = np.frombuffer(texts.codes, CODE)
    if np.maximum.reduce((codes + np.int32(1)).view(np.uint32)) > len(texts.names):
        raise ContentRefused("codes", f"{name}: a code lies outside its dictionary")
