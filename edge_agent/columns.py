"""Columns that an application hands to ``emit``: anything with a buffer, never one by one.

``array('q')``, ``array('d')``, NumPy arrays and memoryviews of them are taken as they are. On the
wire a column is its elements in little-endian order: int64, float64, int32 codes or bytes.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol


class Buffer(Protocol):
    """Anything that a memoryview can be made of (``collections.abc.Buffer`` from 3.12 on)."""

    def __buffer__(self, flags: int, /) -> memoryview: ...


FORMATS: Final[dict[str, tuple[int, str]]] = {
    "int": (8, "ql"),
    "float": (8, "d"),
    "bool": (1, "?bB"),
    "code": (4, "il"),
}
"""Per kind of element: bytes, and the ``struct`` formats that a buffer of it may have."""


@dataclass(frozen=True, slots=True)
class Codes:
    """Strings of a column: ``codes[i]`` (int32) is an index into ``names``, or -1 for null."""

    names: Sequence[str]
    codes: Buffer


@dataclass(frozen=True, slots=True)
class Masked:
    """Numbers of a column of which some are null: ``valid[i]`` (one byte) is 0 where it is."""

    values: Buffer
    valid: Buffer


Column = Buffer | Codes | Masked


def check_finite(
    values: memoryview | bytes, name: str, valid: memoryview | bytes | None = None
) -> None:
    """Refuses infinite elements of a packed column of float; NaN stands for "no value".

    ``valid``: one byte per element, 0 where it does not count; None: all count.

    Raises:
        ValueError: one is infinite.
    """
    numbers = array("d")
    numbers.frombytes(values)
    if sys.byteorder == "big":
        numbers.byteswap()
    if math.inf not in numbers and -math.inf not in numbers:
        return
    counts = valid or bytes([1]) * len(numbers)
    if any(one and math.isinf(number) for one, number in zip(counts, numbers, strict=True)):
        raise ValueError(f"{name}: an infinite value; leave it out, or give NaN for no value")


def packed(values: Buffer, kind: str, rows: int, name: str) -> memoryview | bytes:
    """The elements of ``values`` as little-endian bytes, copied only where they must be.

    Raises:
        ValueError: not ``rows`` elements of ``kind`` (``int float bool code``) in one dimension.
    """
    size, formats = FORMATS[kind]
    try:
        view = memoryview(values)
    except TypeError as error:
        raise ValueError(f"{name}: give an array, not {type(values).__name__}") from error
    form = view.format.lstrip("@=")
    if view.itemsize != size or len(form) != 1 or form not in formats or view.ndim != 1:
        raise ValueError(
            f"{name}: a column of {kind} has {size}-byte elements ({formats}) in one dimension,"
            f" this has {view.itemsize}-byte {view.format!r} in {view.ndim}"
        )
    if len(view) != rows:
        raise ValueError(f"{name}: {len(view)} elements for {rows} rows")
    if sys.byteorder == "big" and size > 1:
        swapped = array({"int": "q", "float": "d", "code": "i"}[kind])
        swapped.frombytes(view.tobytes())
        swapped.byteswap()
        return swapped.tobytes()
    return view.cast("B") if view.c_contiguous else view.tobytes()
