"""Kernels as plain Python, for debuggers and for test coverage.

NumPy gives the results of Numba if arguments are wrapped: items of structured arrays have their
fields as attributes, small integers are read as int64, which wraps around, and division by zero
follows IEEE 754 without a warning. Arguments are wrapped when a kernel is called from outside;
inner calls pass them on. Remaining differences raise errors: ``IndexError`` for an index beyond an
array, ``OverflowError`` for a number that does not fit.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeVar, cast

import numpy as np

_F = TypeVar("_F", bound=Callable[..., Any])

_AS_COMPILED: Final[dict[type, Callable[[Any], Any]]] = {
    int: lambda number: (np.int64 if number < 2**63 else np.uint64)(number),
    float: np.float64, np.float32: np.float64, np.bool_: bool,
    **dict.fromkeys(
        (np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32), np.int64
    ),
}  # fmt: skip
"""Conversions to the types that Numba computes with, by stored type."""
_INTEGERS: Final = frozenset((int, np.int64, np.int32, np.uint64))


class _Inside(threading.local):
    """Per thread, whether it runs a kernel."""

    yes = False


_inside: Final = _Inside()


def uncompiled(function: _F) -> _F:
    """Wrap ``function`` so that it behaves as if it were compiled."""

    @functools.wraps(function)
    def enter(*arguments: Any) -> Any:
        if _inside.yes:
            made = function(*arguments)
            return _handed_in(made) if isinstance(made, np.ndarray | tuple) else made
        _inside.yes = True
        try:
            with np.errstate(all="ignore"):
                return _handed_out(function(*map(_handed_in, arguments)))
        finally:
            _inside.yes = False

    return cast("_F", enter)


def _handed_in(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _dressed(value)
    if isinstance(value, tuple):
        return _of_same_kind(value, map(_handed_in, value))
    as_compiled = _AS_COMPILED.get(type(value))
    return as_compiled(value) if as_compiled else value


def _handed_out(value: Any) -> Any:
    """Return a result as Numba does: plain numbers and arrays."""
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    if isinstance(value, tuple):
        return _of_same_kind(value, map(_handed_out, value))
    return value.item() if isinstance(value, np.generic) else value


def _of_same_kind(value: Any, items: Any) -> Any:
    return type(value)._make(items) if hasattr(value, "_make") else tuple(items)


def _dressed(array: np.ndarray) -> np.ndarray:
    """Return a view whose items are read as compiled code reads them."""
    if array.dtype.names is not None:
        return array.view(_Records)
    return array.view(_Small) if array.dtype.type in _AS_COMPILED else array


class _Small(np.ndarray):
    """An array of small numbers; items are converted to the types that Numba computes with."""

    def __getitem__(self, place: Any) -> Any:
        item = super().__getitem__(place)
        as_compiled = _AS_COMPILED.get(type(item))
        return as_compiled(item) if as_compiled else item


class _Record:
    """An item of a structured array; ``_record_type`` adds its fields."""

    __slots__ = ("_columns", "_place")

    def __init__(self, columns: dict[str, np.ndarray], place: Any) -> None:
        self._columns = columns
        self._place = place

    def __repr__(self) -> str:
        fields = (f"{name}={column[self._place]}" for name, column in self._columns.items())
        return f"record {self._place}: {', '.join(fields)}"


@cache
def _record_type(names: tuple[str, ...]) -> type[_Record]:
    return type("_RecordOf", (_Record,), {"__slots__": ()} | {name: _field(name) for name in names})


def _field(name: str) -> property:
    def read(record: _Record) -> Any:
        return record._columns[name][record._place]  # noqa: SLF001 - a part of it

    def write(record: _Record, value: Any) -> None:
        record._columns[name][record._place] = value  # noqa: SLF001 - likewise

    return property(read, write)


class _Records(np.ndarray):
    """A structured array; items are views, as in compiled code."""

    @functools.cached_property
    def _record(self) -> type[_Record]:
        return _record_type(self.dtype.names or ())

    @functools.cached_property
    def _columns(self) -> dict[str, np.ndarray]:
        of = np.asarray(self)
        return {name: _dressed(of[name]) for name in self.dtype.names or ()}

    def __getitem__(self, place: Any) -> Any:
        if type(place) is tuple:
            is_one = len(place) == self.ndim and _INTEGERS.issuperset(map(type, place))
        else:
            is_one = type(place) in _INTEGERS and self.ndim == 1
        return self._record(self._columns, place) if is_one else super().__getitem__(place)

    def __setitem__(self, place: Any, value: Any) -> None:
        if isinstance(value, _Record):
            value = tuple(column[value._place] for column in value._columns.values())  # noqa: SLF001
        super().__setitem__(place, value)
