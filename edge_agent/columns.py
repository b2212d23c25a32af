"""Columns that an application hands to ``emit``: anything with a buffer, never one by one.

``array('q')``, ``array('d')``, NumPy arrays and memoryviews of them are taken as they are. On the
wire a column is its elements in little-endian order: int64, float64, int32 codes or bytes.
"""

from __future__ import annotations

import math
import re
import struct
import sys
from array import array
from collections.abc import Iterable, Sequence
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
_AS_THEY_ARE: Final = {
    (kind, order + form)
    for kind, (size, forms) in FORMATS.items()
    for order in ("", "@", "=")
    for form in forms
    if struct.calcsize(order + form) == size
}
"""Kinds, and formats that are that kind on this machine."""
_INFINITE: Final = re.compile(6 * b"\x00" + b"\xf0[\x7f\xff]")
"""The bytes of an infinite number, little-endian."""


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


def may_be_infinite(columns: Iterable[bytes]) -> bool:
    """False: no element of these packed columns is an infinite float, masked or not.

    A search for the bytes of an infinite number in all of them at once, which takes a small part of
    the time that looking at the numbers does. Other numbers may have these bytes too, or between
    them, so that a column must be looked at where this is True.
    """
    return _INFINITE.search(b"".join(columns)) is not None


def check_finite(values: bytes, name: str, valid: bytes | None = None) -> None:
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


def packed(values: Buffer, kind: str, rows: int, name: str) -> bytes:
    """The elements of ``values`` as little-endian bytes.

    Raises:
        ValueError: not ``rows`` elements of ``kind`` (``int float bool code``) in one dimension.
    """
    size, formats = FORMATS[kind]
    try:
        view = memoryview(values)
    except TypeError as error:
        raise ValueError(f"{name}: give an array, not {type(values).__name__}") from error
    if (kind, view.format) not in _AS_THEY_ARE or view.ndim != 1:
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
    return view.tobytes()
