"""A state as bytes. Reading them runs no code, unlike pickle.

Plain values are in msgpack, with extension types for what msgpack lacks; the contents of all arrays
follow. So write access to a checkpoint can change answers, but cannot run code.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache, partial
from typing import Any, Final

import msgpack
import numpy as np
import pyarrow as pa

from slackwater.engine.core.errors import SlackwaterError

_BEGINS: Final = b"slackwater state 1\n"
"""The number is raised when the encoding changes."""
_LENGTH: Final = 8
_TUPLE, _SET, _FROZENSET, _INTEGER, _ARRAY, _OBJECTS, _SCALAR, _TABLE = range(8)
_KINDS: Final = frozenset("biufcSUV")
"""Kinds of arrays: numbers, texts, records."""


class StateDamagedError(SlackwaterError):
    """Bytes that are no state, or a part of one."""


class NotPlainError(SlackwaterError):
    """A value of a type that a state cannot have."""

    def __init__(self, kind: type) -> None:
        super().__init__(
            f"values of type {kind.__qualname__} cannot be kept in a state: use None, bool, int, "
            "float, str, bytes, list, tuple, dict, set or arrays of numbers"
        )


def to_bytes(state: Any) -> bytes:
    """Return the bytes of ``state``.

    It may have None, numbers, texts, bytes, lists, tuples, dicts, sets, arrays and tables.

    Raises:
        NotPlainError: it has a value of another type.
    """
    return _Writer().write(state)


def from_bytes(content: bytes) -> Any:
    """Return the state of ``to_bytes``; its arrays are copies.

    Raises:
        StateDamagedError: ``content`` does not come from ``to_bytes``, or is damaged.
    """
    if not content.startswith(_BEGINS):
        raise StateDamagedError("is not of this version, or damaged")
    values = len(_BEGINS) + _LENGTH
    arrays = values + int.from_bytes(content[len(_BEGINS) : values], "big")
    try:
        return _read(memoryview(content)[arrays:], content[values:arrays])
    except (ValueError, TypeError, LookupError, OverflowError, OSError, pa.ArrowException) as error:
        raise StateDamagedError(f"is damaged: {error}") from error


class _Writer:
    """Encodes one state."""

    def __init__(self) -> None:
        self._arrays: list[Any] = []
        self._bytes = 0
        self._idle: list[msgpack.Packer] = []
        """Packers for reuse: one is busy while values inside its value are packed."""

    def write(self, state: Any) -> bytes:
        values = self._pack(state)
        return b"".join((_BEGINS, len(values).to_bytes(_LENGTH, "big"), values, *self._arrays))

    def _pack(self, value: Any) -> bytes:
        packer = self._idle.pop() if self._idle else self._packer()
        packed: bytes = packer.pack(value)
        self._idle.append(packer)
        return packed

    def _packer(self) -> msgpack.Packer:
        return msgpack.Packer(
            default=self._pack_extension, strict_types=True, unicode_errors="surrogatepass"
        )

    def _pack_extension(self, value: Any) -> msgpack.ExtType:
        """Return the extension for a value whose exact type msgpack does not have."""
        kind = type(value)
        if kind is np.ndarray:
            return self._array(value)
        if kind is tuple:
            return msgpack.ExtType(_TUPLE, self._pack(list(value)))
        if kind in {set, frozenset}:
            code = _SET if kind is set else _FROZENSET
            return msgpack.ExtType(code, self._pack(list(value)))
        if kind is int:
            length = value.bit_length() // 8 + 1
            return msgpack.ExtType(_INTEGER, value.to_bytes(length, "big", signed=True))
        if isinstance(value, np.generic) and value.dtype.kind in _KINDS:
            return msgpack.ExtType(
                _SCALAR, self._pack([_encode_dtype(value.dtype), value.tobytes()])
            )
        if kind is pa.Table:
            return msgpack.ExtType(_TABLE, _of_table(value))
        raise NotPlainError(kind)

    def _array(self, array: np.ndarray) -> msgpack.ExtType:
        if array.dtype == object:
            content = self._pack([list(array.shape), array.reshape(-1).tolist()])
            return msgpack.ExtType(_OBJECTS, content)
        if array.dtype.kind not in _KINDS or array.dtype.hasobject:
            raise NotPlainError(array.dtype.type)
        self._arrays.append(np.ascontiguousarray(array))
        facts = [_encode_dtype(array.dtype), array.shape, self._bytes]
        self._bytes += array.nbytes
        return msgpack.ExtType(_ARRAY, msgpack.packb(facts))


def _of_table(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _read(arrays: memoryview, values: bytes) -> Any:
    return msgpack.unpackb(
        values, ext_hook=partial(_decode_extension, arrays), strict_map_key=False,
        unicode_errors="surrogatepass",
    )  # fmt: skip


def _decode_extension(arrays: memoryview, code: int, content: bytes) -> Any:
    """Return the value of a msgpack extension that ``_Writer`` made."""
    if code == _INTEGER:
        return int.from_bytes(content, "big", signed=True)
    if code == _TABLE:
        table = pa.ipc.open_stream(content).read_all()
        table.validate(full=True)
        return table
    parts = _read(arrays, content)
    if code == _ARRAY:
        dtype_code, shape, begin = parts
        dtype = _decode_dtype(dtype_code)
        # A copy, so that the array is writable and aligned.
        buffer = bytearray(arrays[begin : begin + dtype.itemsize * _product(shape)])
        return np.ndarray(shape, dtype, buffer)
    if code == _OBJECTS:
        shape, objects = parts
        return np.fromiter(objects, object, len(objects)).reshape(shape)
    if code == _SCALAR:
        dtype_code, buffer = parts
        return np.frombuffer(buffer, _decode_dtype(dtype_code))[0]
    kinds: dict[int, Any] = {_TUPLE: tuple, _SET: set, _FROZENSET: frozenset}
    return kinds[code](parts)


def _product(numbers: Iterable[int]) -> int:
    product = 1
    for number in numbers:
        product *= number
    return product


@lru_cache(maxsize=256)
def _encode_dtype(dtype: np.dtype[Any]) -> str | list[Any]:
    """Return a type as plain values for msgpack.

    NumPy's ``descr`` loses the alignment, and Numba compiles again for an unaligned type.
    """
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return [_encode_dtype(base), list(shape)]
    if dtype.names is None:
        return dtype.str
    fields = [dtype.fields[name] for name in dtype.names] if dtype.fields else []
    formats, offsets = [_encode_dtype(field[0]) for field in fields], [field[1] for field in fields]
    return [list(dtype.names), formats, offsets, dtype.itemsize, dtype.isalignedstruct]


def _decode_dtype(code: str | list[Any]) -> np.dtype[Any]:
    return _simple(code) if isinstance(code, str) else _structured(msgpack.packb(code))


@lru_cache(maxsize=256)
def _simple(code: str) -> np.dtype[Any]:
    found = np.dtype(code)
    if found.kind not in _KINDS or found.hasobject:
        raise ValueError(f"arrays of {code!r}")
    return found


@lru_cache(maxsize=256)
def _structured(packed: bytes) -> np.dtype[Any]:
    description = msgpack.unpackb(packed)
    if len(description) == 2:
        base, shape = description
        return np.dtype((_decode_dtype(base), tuple(shape)))
    names, formats, offsets, itemsize, aligned = description
    if not isinstance(aligned, bool):
        raise TypeError(f"an array is aligned or not, not {aligned!r}")
    formats = [_decode_dtype(each) for each in formats]
    fields: Any = {"names": names, "formats": formats, "offsets": offsets, "itemsize": itemsize}
    found: np.dtype[Any] = np.dtype(fields, align=aligned)
    return found
