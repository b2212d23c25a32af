"""Instants written as text, ISO 8601 above all, as ns since 1970 UTC, on whole columns."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_NAIVE: Final = pa.timestamp("ns")
_UTC: Final = pa.timestamp("ns", "UTC")
_GERMAN: Final = r"^([0-3][0-9])\.([01][0-9])\.([0-9]{4})(?:[ T]+|$)"
"""Day, month and year with points, as German loggers write them; slashes could be either way."""
_ISO: Final = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)?$"
)
_ZONED: Final = r"(Z|:[0-9]{2}(\.[0-9]+)?[+-][0-9]{2}(:?[0-9]{2})?)$"
_REWRITTEN: Final = (
    (_GERMAN, r"\3-\2-\1 "),
    (r"^([0-9-]+) $", r"\1"),
    (r"(:[0-9]{2}),([0-9]+)", r"\1.\2"),
    (r"(\.[0-9]{9})[0-9]+", r"\1"),
    (r"(:[0-9]{2}(?:\.[0-9]+)?) ?(?:z|UTC|GMT)$", r"\1Z"),
    (r"(:[0-9]{2}(?:\.[0-9]+)?) ([+-][0-9]{2})", r"\1\2"),
)
Faults = dict[int, str]


def instants_of(texts: pa.Array, zone: str | None) -> tuple[pa.Array, Faults]:
    """Instants as ns, null for nulls.

    Args:
        texts: ISO 8601 with a blank or T, to the ns, with or without zone or time of day; or
            ``31.12.2026 23:59:59``.
        zone: of those that name none; None: UTC.

    Returns:
        the ns, and a reason for each row that gives none; ``""``: it is no instant at all.
    """
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), pa.int64()), {}
    plain = texts
    for pattern, written in _REWRITTEN:
        plain = pc.replace_substring_regex(plain, pattern, written)
    right = pc.fill_null(pc.match_substring_regex(plain, _ISO), fill_value=True)
    faults = dict.fromkeys(
        map(int, np.flatnonzero(~np.asarray(right.to_numpy(zero_copy_only=False)))), ""
    )
    nothing = pa.scalar(None, pa.string())
    plain = pc.if_else(right, plain, nothing)
    zoned = pc.fill_null(pc.match_substring_regex(plain, _ZONED), fill_value=False)
    absolute, wrong = _cast(pc.if_else(zoned, plain, nothing), _UTC)
    local, also = _cast(pc.if_else(zoned, nothing, plain), _NAIVE)
    ns, doubted = utc_ns(local, zone)
    return pc.coalesce(absolute.cast(pa.int64()), ns), faults | wrong | also | doubted


def _cast(texts: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Faults]:
    """As ``kind``; a fault where the text has the form of an instant and is none (month 13)."""
    try:
        return texts.cast(kind), {}
    except pa.ArrowInvalid:
        pass
    values, faults = [], {}
    for row, text in enumerate(texts.to_pylist()):  # only where some text of the chunk is wrong
        value = None
        if text is not None:
            try:
                value = pa.array([text], pa.string()).cast(kind).cast(pa.int64())[0].as_py()
            except pa.ArrowInvalid:
                faults[row] = ""
        values.append(value)
    return pa.array(values, pa.int64()).cast(kind), faults


def utc_ns(local: pa.Array, zone: str | None) -> tuple[pa.Array, Faults]:
    """Local timestamps [ns] of ``zone`` as ns since 1970 UTC; faults where a clock is turned."""
    if zone is None or local.null_count == len(local):
        return local.cast(pa.int64()), {}
    first, last = (
        pc.assume_timezone(local, zone, ambiguous=which, nonexistent=which).cast(pa.int64())
        for which in ("earliest", "latest")
    )
    doubtful = pc.fill_null(pc.not_equal(first, last), fill_value=False)
    rows = np.flatnonzero(np.asarray(doubtful.to_numpy(zero_copy_only=False)))
    why = (
        f"is there twice or never in {zone}, as clocks are turned then; write its offset, as in "
        "2026-10-25T02:30:00+01:00"
    )
    return pc.if_else(doubtful, pa.scalar(None, pa.int64()), first), dict.fromkeys(
        map(int, rows), why
    )
