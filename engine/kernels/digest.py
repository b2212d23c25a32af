"""What a compiled kernel is made of, as a digest: the same for the same code, wherever it lies.

Numba compiles a function's bytecode with the values of the globals that it names and the functions
that it calls. Exactly these go into the digest, function by function. So an edited message, comment
or docstring elsewhere changes nothing; a changed constant of any package, or a changed callee, does.
"""

from __future__ import annotations

import enum
import re
import sys
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Protocol, runtime_checkable

import numpy as np

_NAME = re.compile(r"[A-Za-z_]\w*")


@runtime_checkable
class Kernel(Protocol):
    """What ``engine.kernels.jit`` makes of a function."""

    function: FunctionType
    options: dict[str, bool]


def digest_of(kernel: Kernel) -> str:
    """The digest of a kernel with all that it calls, as hexadecimal digits.

    Raises:
        TypeError: it uses a global value whose content is not known to matter or not.
    """
    total = sha256(_environment())
    found, left = {kernel.function}, [kernel]
    while left:
        each = left.pop()
        own, called = _described(each.function, tuple(sorted(each.options.items())))
        total.update(own)
        for other in called:
            if other.function not in found:
                found.add(other.function)
                left.append(other)
    return total.hexdigest()[:24]


@cache
def _environment() -> bytes:
    """What compiles: the versions, and our own part of it."""
    import llvmlite  # noqa: PLC0415 - only who compiles or loads needs it
    import numba  # noqa: PLC0415 - likewise

    versions = (sys.version, np.__version__, numba.__version__, llvmlite.__version__)
    here = Path(__file__).parent
    ours = [(here / name).read_bytes() for name in ("compile_once.py", "by_reference.py")]
    return sha256(repr(versions).encode() + b"".join(ours)).digest()


@cache
def _described(
    function: FunctionType, options: tuple[tuple[str, bool], ...]
) -> tuple[bytes, tuple[Kernel, ...]]:
    """The digest of one function without what it calls, and the kernels that it calls."""
    called: list[Kernel] = []
    own = sha256(f"{function.__module__}.{function.__qualname__}{options}".encode())
    skipped = function.__doc__  # a docstring is the first of the constants
    for part in _code(function.__code__, skipped):
        own.update(part)
    values = [*_globals(function), *_annotated(function), ("defaults", function.__defaults__)]
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, value in (*values, *((name, cell.cell_contents) for name, cell in cells)):
        if isinstance(value, Kernel):
            called.append(value)
            own.update(f"{name}: {value.function.__qualname__}".encode())
        else:
            own.update(f"{name}: ".encode() + _value(value, f"{function.__qualname__}: {name}"))
    return own.digest(), tuple(called)


def _code(code: CodeType, docstring: str | None = None) -> Iterator[bytes]:
    """What matters of bytecode: not its lines, its file and its docstring."""
    yield code.co_code
    yield code.co_exceptiontable
    yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)).encode()
    yield repr((code.co_argcount, code.co_kwonlyargcount, code.co_flags)).encode()
    for place, constant in enumerate(code.co_consts):
        if isinstance(constant, CodeType):
            yield from _code(constant)
        elif place or docstring is None or constant != docstring:
            yield f"{type(constant).__name__} {constant!r}\n".encode()


def _globals(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The global values that a function may use: by its names, also those of modules."""
    codes = [function.__code__]
    names: list[str] = []
    for code in codes:
        names += code.co_names
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
    for name in dict.fromkeys(names):
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType):
            for attribute in names:
                if attribute in vars(value):
                    yield f"{name}.{attribute}", vars(value)[attribute]
        elif name in function.__globals__:
            yield name, value


def _annotated(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Classes of arguments: a named tuple's fields are read by their place."""
    left = [(function.__annotations__, function.__globals__)]
    seen = set()
    for annotations, known in left:
        for text in annotations.values():
            for name in _NAME.findall(text) if isinstance(text, str) else ():
                value = known.get(name)
                if isinstance(value, type) and hasattr(value, "_fields") and value not in seen:
                    seen.add(value)
                    yield name, value
                    module = sys.modules[value.__module__]
                    left.append((value.__annotations__, vars(module)))


def _value(value: Any, place: str) -> bytes:
    """A constant's content; of what is not compiled in, the name."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype.descr} {value.shape} ".encode() + value.tobytes()
    if isinstance(value, np.generic):
        return f"{value.dtype.descr} ".encode() + value.tobytes()
    if isinstance(value, np.dtype):
        return f"dtype {value.descr}".encode()
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}{getattr(value, '_fields', '')}".encode()
    if isinstance(value, tuple):
        return repr(type(value)).encode() + b", ".join(_value(each, place) for each in value)
    if value is None or isinstance(value, enum.Enum | bool | int | float | complex | str | bytes):
        return f"{type(value).__name__} {value!r}".encode()
    if callable(value) or isinstance(value, ModuleType):
        name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
        if name is not None:
            return f"{getattr(value, '__module__', '')}.{name}".encode()
    raise TypeError(f"{place} is {type(value).__name__}: a kernel uses constants and kernels only")
