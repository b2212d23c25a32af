"""Columns of records inside a chain: frames decoded to NumPy, joined, and cut."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.edge_agent import records as limits
from slackwater.edge_agent import records as r
from slackwater.engine.core.errors import ContractViolation, UserError
from slackwater.engine.core.frame import ATTR_PREFIX, Frame
from slackwater.engine.core.released import Strings

# Valid values of a record: one rule for all inputs.
#
# Inputs are the gateway, traces (JSONL), CSV, Parquet, the DataFrame step and the arrival log.
# Whatever one of them accepts, the chain must process in every replay, so inputs may differ in
# their messages, but not in what they accept:
#
# * **Times and durations** within ``RANGES`` (ns) are accepted; others are *refused*.
# * **Counts** (numbers, incarnations, first numbers) are in [0, COUNTER_MAX].
# * **Fractions**: NaN means "no such attribute" and becomes null, as its writers intend; an
# infinite   value is *refused*, as no sum or mean survives it.
# * **Types**: an attribute is a number, a text or a truth value throughout a site. Integers and
# floats   mix to floats; any other mixture is *refused*.
#
# Inside the chain only uncertainties grow: they *saturate* at ``UNC_MAX_NS``
# (``engine.core.clocks.epochs.reference``). With the ranges above, every sum of a time, an offset,
# two uncertainties and a duration fits into 64 bits (``edge_agent.records``).


RANGES: Final[dict[str, tuple[int, int, str]]] = {
    r.TS: (-limits.TIME_MAX_NS, limits.TIME_MAX_NS, "146 years"),
    r.TE: (-limits.TIME_MAX_NS, limits.TIME_MAX_NS, "146 years"),
    r.ARRIVAL: (-limits.TIME_MAX_NS, limits.TIME_MAX_NS, "146 years"),
    r.OFFSET: (-limits.OFFSET_MAX_NS, limits.OFFSET_MAX_NS, "73 years"),
    r.DELAY: (0, limits.DELAY_MAX_NS, "9 years"),
    r.PRECISION: (0, limits.PRECISION_MAX_NS, "4 years"),
}
"""Least and greatest value of each time field [ns], and the greatest in words."""
COUNTS: Final[dict[str, int]] = {
    r.SEQ: limits.COUNTER_MAX,
    r.INCARNATION: limits.COUNTER_MAX,
    r.FIRST_SEQ: limits.COUNTER_MAX,
    r.SKEW_ERROR_PPB: limits.SKEW_ERROR_MAX_PPB,
}
"""Greatest value of each count; the least is 0."""


LIMITS: Final = {
    **{field: (low, high) for field, (low, high, _) in RANGES.items()},
    **{field: (0, most) for field, most in COUNTS.items()},
}
"""Least and greatest value of each limited field."""


def beyond(field: str, values: np.ndarray, unit_ns: int = 1) -> np.ndarray:
    """Return where ``values`` (int64; times in units of ``unit_ns``) exceed the range of
    ``field``.
    """
    low, high = LIMITS[field]
    if field in RANGES:
        low, high = -(-low // unit_ns), high // unit_ns
    return np.asarray((values < low) | (values > high))


def without_nan(column: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Return a float column with null for NaN, and where it is infinite (bool per row)."""
    infinite = pc.fill_null(pc.is_inf(column), fill_value=False)
    if pc.any(pc.is_nan(column)).as_py():
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    return column, np.asarray(infinite.to_numpy(zero_copy_only=False))


def joined_type(known: str | None, found: str) -> str | None:
    """Return the type of an attribute from the ``known`` (None: new) and the ``found`` type.

    Types are ``int float bool str``. None: they do not mix, which is refused.
    """
    if known is None or known == found:
        return found
    return "float" if {known, found} == {"int", "float"} else None


# Columns of records in a chain: a dict of NumPy arrays of equal length.
#
# Strings are int32 codes of the site's table (-1 = null). An attribute ``attrs.x`` has a bool mask
# ``valid.x`` only if some record lacks it. Columns that a frame omits (``te`` = ``ts``, ``kind`` =
# event) are omitted here too, until another frame has them: then they get their default
# (``fill_missing``), and so do nulls. Without ``clock`` every record has its source's own clock,
# which has the source's code.


Columns = dict[str, np.ndarray]
VALID_PREFIX: Final = "valid."
VARIES_PREFIX: Final = "varies."
"""Prefix for an attribute of a result: bool mask, where clock errors may have changed the value."""
LEAST_PREFIX: Final = "least."
MOST_PREFIX: Final = "most."
"""Prefixes of its bounds there, float64; NaN: unknown."""
ID_TYPE: Final = "$id"
"""Key of the interval id among attribute types and masks (``$`` cannot start an attribute)."""
DEFAULT_STREAM_CODE: Final = 0
"""Code of the stream ``events``, the first text of every site's table."""
_SYNC_ONLY: Final = (r.OFFSET, r.DELAY, r.FIRST_SEQ, r.PRECISION, r.SKEW_ERROR_PPB)
_CODED: Final = {r.STREAM: DEFAULT_STREAM_CODE, r.SOURCE: -1, r.CLOCK: -1, r.TYPE: -1}
"""Columns of texts, with the code for null."""


def mask_name(column: str) -> str:
    """Return the name of the mask of an attribute column or of ``id``."""
    return VALID_PREFIX + (ID_TYPE if column == r.ID else column.removeprefix(ATTR_PREFIX))


def type_name(column: str) -> str:
    """Return the key of an attribute column or of ``id`` among the attribute types."""
    return ID_TYPE if column == r.ID else column.removeprefix(ATTR_PREFIX)


def _codes(array: pa.Array, strings: Strings, null: int = -1) -> np.ndarray:
    """Return text (dictionary-encoded or plain) as codes of the site's table; ``null`` for
    nulls.
    """
    if pa.types.is_null(array.type):
        return np.full(len(array), null, np.int32)
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    table = np.array(
        [null if text is None else strings.code(text) for text in array.dictionary.to_pylist()]
        + [null],
        np.int32,
    )
    indices = array.indices
    if indices.null_count:
        indices = indices.fill_null(len(table) - 1)
    return np.asarray(table[indices.to_numpy(zero_copy_only=False)])


def _integers(array: pa.Array, null: int) -> np.ndarray:
    if pa.types.is_null(array.type):
        return np.full(len(array), null, np.int64)
    if array.null_count:
        array = array.fill_null(null)
    # Arrow's memory is read-only, and kernels would be compiled again for read-only arrays.
    return np.require(array.to_numpy(zero_copy_only=False), None, ["C", "W"])


def _attribute(array: pa.Array, strings: Strings) -> tuple[str, np.ndarray, np.ndarray | None]:
    """Return (type name, values, mask or None) of an attribute column."""
    valid = None
    if array.null_count:
        valid = np.asarray(array.is_valid().to_numpy(zero_copy_only=False))
    kind = array.type
    if pa.types.is_dictionary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "str", _codes(array, strings), valid
    if pa.types.is_boolean(kind):
        filled = array.fill_null(False) if array.null_count else array
        return "bool", np.asarray(filled.to_numpy(zero_copy_only=False)), valid
    if pa.types.is_integer(kind):
        return "int", _integers(array, 0).astype(np.int64, copy=False), valid
    if pa.types.is_floating(kind):
        filled = array.fill_null(0.0) if array.null_count else array
        values = np.asarray(filled.to_numpy(zero_copy_only=False)).astype(np.float64, copy=False)
        return "float", values, valid
    raise ContractViolation(f"attribute of type {kind}; frames hold int64, float64, bool or text")


def decode(
    frame: Frame, strings: Strings, attributes: set[str] | None
) -> tuple[Columns, dict[str, str]]:
    """Return the frame's columns and its attributes' types.

    Args:
        frame: records in arrival order.
        strings: the site's table; new texts are added.
        attributes: attribute columns to decode; None: all.

    Raises:
        UserError: an event lacks a source, a time or an arrival; the message names its row.
    """
    columns: Columns = {}
    types: dict[str, str] = {}
    for name, array in zip(frame.batch.schema.names, frame.batch.columns, strict=True):
        if name in _CODED:
            columns[name] = _codes(array, strings, _CODED[name])
        elif is_valued(name):
            # A column of untyped nulls is equivalent to an omitted one.
            if (attributes is None or name in attributes) and not pa.types.is_null(array.type):
                types[type_name(name)], columns[name], valid = _attribute(array, strings)
                if valid is not None:
                    columns[mask_name(name)] = valid
        elif name not in _SYNC_ONLY:
            null = -1 if name == r.SEQ else 0
            columns[name] = _integers(array, null)
    if r.TE in columns:
        te = frame.batch.column(r.TE)
        if te.null_count:
            valid_te = te.is_valid().to_numpy(zero_copy_only=False)
            columns[r.TE] = np.where(valid_te, columns[r.TE], columns[r.TS])
    if r.CLOCK in columns:
        clock = columns.pop(r.CLOCK)
        if (clock >= 0).any():
            columns[r.CLOCK] = np.where(clock < 0, columns[r.SOURCE], clock)
    _refuse_holes(frame, columns)
    return columns, types


_NEEDED: Final = {
    r.SOURCE: (r.Kind.EVENT, r.Kind.IBP, r.Kind.IBE, r.Kind.EOS),
    r.TS: (r.Kind.EVENT, r.Kind.IBP, r.Kind.IBE, r.Kind.POG),
    r.ARRIVAL: tuple(r.Kind),
}
"""Fields without a default, and the kinds of records that need them."""


def _refuse_holes(frame: Frame, columns: Columns) -> None:
    """Refuse rows without a needed field, which would be looked up by -1."""
    for name, kinds in _NEEDED.items():
        column = frame.batch.column(name)
        if name in _CODED:
            missing = columns[name] < 0
        elif column.null_count:
            missing = np.asarray(column.is_null().to_numpy(zero_copy_only=False))
        else:
            continue
        concerned = np.isin(columns[r.KIND], kinds) if r.KIND in columns else True
        for row in np.flatnonzero(missing & concerned)[:1].tolist():
            record = {
                n: v for n, v in frame.batch.slice(row, 1).to_pylist()[0].items() if v is not None
            }
            raise UserError(
                f"site {frame.site!r}: row {row} of a frame has no {name}: {record}; give it one, "
                "or leave the record out"
            )


def records_by_kind(frame: Frame) -> dict[str, int]:
    """Return the number of records by kind, for a frame with a column of kinds."""
    counts = pc.value_counts(frame.batch.column(r.KIND)).to_pylist()
    names = [r.Kind(count["values"] or 0).name.lower() for count in counts]
    return {
        name: sum(c["counts"] for c, of in zip(counts, names, strict=True) if of == name)
        for name in names
    }


def sync_records(frame: Frame) -> list[dict[str, Any]]:
    """Return the sync records of a frame with a column of kinds, each with its ``row``."""
    rows = np.flatnonzero(_integers(frame.batch.column(r.KIND), 0) == int(r.Kind.SYNC))
    if not len(rows):
        return []
    names = [n for n in (r.SOURCE, r.CLOCK, r.STREAM, r.INCARNATION, r.TS, r.ARRIVAL, *_SYNC_ONLY)
             if n in frame.batch.schema.names]  # fmt: skip
    found = frame.batch.select(names).take(pa.array(rows)).to_pylist()
    return [{**record, "row": int(row)} for record, row in zip(found, rows, strict=True)]


def at_once(records: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Group adjacent sync records of one arrival: no deadline is between them."""

    def place(at: tuple[int, dict[str, Any]]) -> tuple[int, int]:
        number, record = at
        return record["row"] - number, record[r.ARRIVAL]

    for _, group in groupby(enumerate(records), place):
        yield [record for _, record in group]


def fill_missing(name: str, part: Columns, rows: int, dtype: np.dtype[Any]) -> np.ndarray:
    """Return the default of a column that ``part`` (of ``rows`` rows) omits."""
    if name == r.TE:
        return part[r.TS]
    if name == r.CLOCK:
        return part[r.SOURCE]
    if name.startswith(VALID_PREFIX):
        key = name.removeprefix(VALID_PREFIX)
        column = r.ID if key == ID_TYPE else ATTR_PREFIX + key
        return np.full(rows, column in part)
    if name in _CODED:
        return np.full(rows, _CODED[name], np.int32)
    return np.full(rows, -1 if name == r.SEQ else 0, dtype)


def varying(columns: Columns, rows: int) -> np.ndarray:
    """Return, per row, whether clock errors may have changed one of its values; bool (rows,)."""
    found = np.zeros(rows, np.bool_)
    for name, mask in columns.items():
        if name.startswith(VARIES_PREFIX):
            found |= mask
    return found


def clock_codes(columns: Columns) -> np.ndarray:
    """Return the codes of the clocks that stamped these records."""
    return columns.get(r.CLOCK, columns[r.SOURCE])


def is_valued(name: str) -> bool:
    """Whether a column may have a mask: an attribute, or ``id``."""
    return name.startswith(ATTR_PREFIX) or name == r.ID


def join(parts: list[Columns], lengths: list[int]) -> Columns:
    """Concatenate the parts; a column that some part lacks is filled in."""
    names: dict[str, np.ndarray] = {}
    for part in parts:
        names.update(part)
    for name in list(names):
        if is_valued(name) and any(name not in p for p in parts):
            names.setdefault(mask_name(name), np.empty(0, bool))
    return {
        name: np.concatenate(
            [
                part[name] if name in part else fill_missing(name, part, rows, like.dtype)
                for part, rows in zip(parts, lengths, strict=True)
            ]
        )
        for name, like in names.items()
    }


def promote(columns: Columns, types: dict[str, str], known: dict[str, str], site: str) -> None:
    """Convert attribute columns to the types ``known`` so far, which may widen int to float.

    Raises:
        ContractViolation: an attribute has incompatible types; the message names it.
    """
    for name, found in types.items():
        joined = joined_type(known.get(name), found)
        if joined is None:
            raise ContractViolation(
                f"site {site!r}: attribute {name!r} is {found} here and was {known[name]} before; "
                "give one of them another name"
            )
        known[name] = joined
    for name in types:
        column = r.ID if name == ID_TYPE else ATTR_PREFIX + name
        if known[name] == "float" and columns[column].dtype != np.float64:
            columns[column] = columns[column].astype(np.float64)
