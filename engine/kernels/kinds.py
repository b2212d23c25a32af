"""What tells which compiled code fits a kernel's arguments: their types, as Numba has them.

Integers are int64 (uint64 beyond), arrays differ by type, number of dimensions, order in memory and
whether they can be written to; tuples by what is in them, named ones by their class, too.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

_IN_C, _IN_FORTRAN, _TO_WRITE = 0x1, 0x2, 0x400
"""Of an array's flags: its order in memory, which may be both, and whether it can be written to."""
_NUMBERS: Final[dict[type, type]] = {
    bool: bool, np.bool_: bool, float: float, np.float64: float, np.int64: int,
    **{
        kind: kind
        for kind in (np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32, np.uint64,
                     np.float32, type(None))
    },
}  # fmt: skip
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


class UnknownKindError(Exception):
    """An argument is of a kind that only Numba can tell."""


def kinds_of(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The kinds of ``arguments``: equal and of equal hash if the same code fits.

    Raises:
        UnknownKindError: of one of them.
    """
    return tuple([_kind(one) for one in arguments])


def _kind(value: Any) -> Any:
    kind = type(value)
    if kind is np.ndarray:
        flags = value.flags.num
        order = _IN_C if flags & _IN_C else flags & _IN_FORTRAN
        return value.dtype, order | flags & _TO_WRITE, value.ndim
    if kind is int:
        if _SMALLEST <= value <= _LARGEST:
            return int
        raise UnknownKindError
    if kind in _NUMBERS:
        return _NUMBERS[kind]
    if isinstance(value, tuple):
        if kind is tuple:
            return tuple([_kind(one) for one in value])
        return kind, *[_kind(one) for one in value]
    if kind is np.void:
        return kind, value.dtype
    raise UnknownKindError


def named(kinds: Any) -> str:
    """Kinds in words that are the same in every process."""
    if isinstance(kinds, tuple):
        return f"({', '.join(map(named, kinds))})"
    if isinstance(kinds, type):
        fields = getattr(kinds, "_fields", "")
        return f"{kinds.__module__}.{kinds.__qualname__}{fields}"
    return repr(kinds)
