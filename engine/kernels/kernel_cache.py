"""Compiled kernels on disk: one folder per digest of a kernel's inputs.

Numba writes and reads the files (``cache=True``); its public settings define the place. Time and
path of a source file do not matter, so all checkouts and environments of a user share the cache.
Each folder has the checksums of its files; damaged ones are compiled again. Processes that need the
same kernel at the same time take turns: one compiles it, the others read it.
"""

from __future__ import annotations

import dis
import enum
import fcntl
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b, sha256
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
from numba import config

from slackwater.engine.cache_home import NotCached, own_bytes

_SUMS: Final = "checksums.json"
_TYPES: Final = ".types"
"""Suffix of empty marker files, one per argument types for which the folder has code."""
_LOCATOR: Final = f"{__name__}.DigestLocator"
_folders: Final[dict[FunctionType, Path]] = {}


class DigestLocator:
    """The cache folder of one function (protocol of ``NUMBA_CACHE_LOCATOR_CLASSES``)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def from_function(cls, py_func: FunctionType, py_file: str) -> DigestLocator | None:  # noqa: ARG003
        """Return the locator of a function; None: it is not cached here."""
        folder = _folders.get(py_func)
        return None if folder is None else cls(folder)

    def ensure_cache_path(self) -> None:
        """Create the folder."""
        self._folder.mkdir(parents=True, exist_ok=True)

    def get_cache_path(self) -> str:
        """Return the path of the folder."""
        return str(self._folder)

    def get_source_stamp(self) -> str:
        """Return the digest of the inputs, which is the name of the folder."""
        return self._folder.name

    def get_disambiguator(self) -> str:
        """Return a constant, as a folder has one function."""
        return "kernel"


def enable(dispatcher: Any, folder: Path) -> bool:
    """Make ``dispatcher`` read and write its machine code in ``folder``.

    Return False if the folder cannot be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    _folders[dispatcher.py_func] = folder
    # Numba without locators stores files in a folder, and also checks its own source stamps.
    has_locators = hasattr(config, "CACHE_LOCATOR_CLASSES")
    name, value = (
        ("CACHE_LOCATOR_CLASSES", _LOCATOR) if has_locators else ("CACHE_DIR", str(folder))
    )
    before = getattr(config, name)  # the program's own kernels keep their setting
    setattr(config, name, value)
    try:
        dispatcher.enable_caching()
    finally:
        setattr(config, name, before)
    return True


def load_or_compile(
    dispatcher: Any, compiled: Callable[..., Any], folder: Path, compiles: Callable[[], bool],
    signature: Any,
) -> Any:  # fmt: skip
    """Return the code of ``dispatcher`` for argument types, from the cache or compiled.

    Args:
        dispatcher: Numba's dispatcher, after ``enable``.
        compiled: its method ``compile``.
        folder: the folder of its machine code.
        compiles: returns whether to compile code that is not in the folder.
        signature: the types of the arguments.

    Raises:
        NotCached: the folder lacks the code, and ``compiles`` returns False.
    """
    kept = folder / f"{blake2b(str(signature).encode(), digest_size=16).hexdigest()}{_TYPES}"
    if not compiles() and not (_is_whole(folder) and (kept.exists() or not _has_types(folder))):
        raise NotCached
    with _alone(folder):
        if not _is_whole(folder):
            _empty(folder)
        missed = len(dispatcher.stats.cache_misses)
        try:
            try:
                made = compiled(signature)
            except (ImportError, AttributeError):  # a class in its types has moved since
                _empty(folder)
                made = compiled(signature)
            if len(dispatcher.stats.cache_misses) > missed:
                _seal(folder)
            if not kept.exists():
                kept.touch(mode=0o600)
        except OSError:  # the disk is full or read-only: the kernel is compiled but not cached
            overload = dispatcher.overloads.get(tuple(signature))
            if overload is None:
                raise
            made = overload.entry_point
        return made


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock the folder against other processes; no lock if the folder cannot be written."""
    try:
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.utime(descriptor)  # records the last use, for the removal of old folders
        yield
    finally:
        os.close(descriptor)


def _empty(folder: Path) -> None:
    for path in (*_files(folder), *folder.glob(f"*{_TYPES}")):
        path.unlink(missing_ok=True)


def _seal(folder: Path) -> None:
    """Write the checksums of the folder's files."""
    aside = folder / f"{_SUMS}.{os.getpid()}"
    aside.write_text(json.dumps(_sums(folder)), encoding="ascii")
    aside.replace(folder / _SUMS)


def _is_whole(folder: Path) -> bool:
    content = own_bytes(folder / _SUMS)
    try:
        return content is not None and json.loads(content) == _sums(folder)
    except ValueError:
        return False


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in {".nbi", ".nbc"})


def _has_types(folder: Path) -> bool:
    """Return whether the folder has marker files of types; older folders have none."""
    return any(folder.glob(f"*{_TYPES}"))


def _sums(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): blake2b(own_bytes(path) or b"", digest_size=16).hexdigest()
        for path in _files(folder)
    }


# The digest of a kernel's inputs: equal for equal code, independent of paths.
#
# Numba compiles the bytecode of a function with the values of its globals and the functions that it
# calls. The digest covers exactly these, function by function. So an edited message, comment or
# docstring does not change it; a changed constant of any package, or a changed callee, does.


_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_LIBRARIES: Final = frozenset({"numba", "numpy", "math", "builtins", "typing", "_heapq"})
"""Modules whose functions kernels may call; their versions are part of the digest."""
_LOAD_GLOBAL: Final = dis.opmap["LOAD_GLOBAL"]
_EXTENDED: Final = dis.EXTENDED_ARG
_NO_CODE: Final = frozenset({"NUMBA_CACHE_DIR", "NUMBA_CACHE_LOCATOR_CLASSES", "NUMBA_DEBUG_CACHE"})
"""Settings of Numba that do not affect code."""


@runtime_checkable
class CompiledKernel(Protocol):
    """A function decorated by ``engine.kernels.jit``."""

    function: FunctionType
    options: dict[str, bool]


def digest_of(kernel: CompiledKernel) -> str:
    """Return the digest of a kernel and its callees, as hexadecimal digits.

    Raises:
        TypeError: it uses a global value of a type without a digest.
    """
    total = sha256(_environment())
    found, left = {kernel.function}, [kernel]
    while left:
        each = left.pop()
        digest, called = _described(each.function, tuple(sorted(each.options.items())))
        total.update(digest)
        for other in called:
            if other.function not in found:
                found.add(other.function)
                left.append(other)
    return total.hexdigest()[:24]


@cache
def _environment() -> bytes:
    """Return the digest of the compiler: versions, Numba's settings, and ``compile_once``."""
    import llvmlite  # noqa: PLC0415 - needed only to compile or load
    import numba  # noqa: PLC0415 - likewise

    from slackwater.engine.kernels.compile_once import is_plain  # noqa: PLC0415 - likewise

    settings = sorted(
        each
        for each in os.environ.items()
        if each[0].startswith("NUMBA_") and each[0] not in _NO_CODE
    )
    versions = (sys.version, np.__version__, numba.__version__, llvmlite.__version__)
    ours = (Path(__file__).parent / "compile_once.py").read_bytes()
    return sha256(repr((versions, settings, is_plain())).encode() + ours).digest()


@cache
def _described(
    function: FunctionType, options: tuple[tuple[str, bool], ...]
) -> tuple[bytes, tuple[CompiledKernel, ...]]:
    """Return the digest of one function without its callees, and the kernels that it calls."""
    called: list[CompiledKernel] = []
    digest = sha256(f"{_name_of(function)} {options}".encode())
    for part in _code(function.__code__, function.__doc__):
        digest.update(part)
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    used = [*_globals(function), *((name, cell.cell_contents) for name, cell in cells)]
    for name, value in (*used, *_annotated(function), ("defaults", function.__defaults__)):
        if isinstance(value, CompiledKernel):
            called.append(value)
            digest.update(f"{name}: {_name_of(value.function)}\n".encode())
        else:
            place = f"{_name_of(function)}: {name}"
            digest.update(f"{name}: ".encode() + _value(value, place) + b"\n")
    return digest.digest(), tuple(called)


def _name_of(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"


def _code(code: CodeType, docstring: str | None = None) -> Iterator[bytes]:
    """Yield the relevant parts of bytecode: not its lines, its file or its docstring."""
    yield code.co_code
    yield code.co_exceptiontable
    yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)).encode()
    yield repr((code.co_argcount, code.co_kwonlyargcount, code.co_flags)).encode()
    for place, constant in enumerate(code.co_consts):
        if isinstance(constant, CodeType):
            yield from _code(constant)
        elif place == 0 and constant is not None and constant == docstring:
            yield b"NoneType None\n"  # the constant of a function without a docstring
        else:
            yield _value(constant, code.co_name) + b"\n"


def _globals(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the global values that a function uses, including attributes of modules."""
    codes = [function.__code__]
    used: list[str] = []
    for code in codes:
        used += _loaded_names(code)
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
    known = function.__globals__
    left = [(name, known[name]) for name in dict.fromkeys(used) if name in known]
    attributes = dict.fromkeys(name for code in codes for name in code.co_names)
    seen = set()
    while left:
        name, value = left.pop()
        if not isinstance(value, ModuleType):
            yield name, value
        elif name not in seen:
            seen.add(name)
            inside = vars(value)
            left += [(f"{name}.{each}", inside[each]) for each in attributes if each in inside]


def _loaded_names(code: CodeType) -> Iterator[str]:
    """Yield the names that bytecode loads as globals; an attribute may have the same name.

    ``dis`` gives the same result 20 times slower.
    """
    instructions, argument = code.co_code, 0
    for operation, low in zip(instructions[::2], instructions[1::2], strict=True):
        argument = argument << 8 | low
        if operation != _EXTENDED:
            if operation == _LOAD_GLOBAL:
                yield code.co_names[argument >> 1]  # the lowest bit means a NULL before it
            argument = 0


def _annotated(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the classes of arguments: fields of a named tuple are compiled to places."""
    left = [(function.__annotations__, function.__globals__)]
    seen = set()
    for named, known in left:
        for text in named.values():
            for name in _NAME.findall(text) if isinstance(text, str) else ():
                value = known.get(name)
                if isinstance(value, type) and hasattr(value, "_fields") and value not in seen:
                    seen.add(value)
                    yield name, value
                    module = sys.modules[value.__module__]
                    left.append((value.__annotations__, vars(module)))


def _value(value: Any, place: str) -> bytes:
    """Return the content of a constant, or the name of a value that is not compiled in.

    Raises:
        TypeError: the value has an unsupported type.
    """
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        facts = f"{value.dtype.descr} {value.shape} {value.flags.f_contiguous} "
        return facts.encode() + value.tobytes()
    if isinstance(value, np.dtype) and not value.hasobject:
        return f"dtype {value.descr} {value.itemsize}".encode()
    if isinstance(value, tuple):
        return repr(type(value)).encode() + b", ".join(_value(each, place) for each in value)
    if isinstance(value, frozenset):  # in an order that does not change from process to process
        return b"set " + b", ".join(sorted(_value(each, place) for each in value))
    if isinstance(value, enum.Enum):
        return f"{_name_of(type(value))} {value.name} ".encode() + _value(value.value, place)
    if (
        value is None
        or value is ...
        or isinstance(value, bool | int | float | complex | str | bytes)
    ):
        return f"{type(value).__name__} {value!r}".encode()
    if isinstance(value, enum.EnumMeta):
        members: dict[str, enum.Enum] = dict(value.__members__)
        return b", ".join(_value(each, place) for each in members.values())
    if isinstance(value, type) and hasattr(value, "_fields"):
        defaults = tuple(getattr(value, "_field_defaults", {}).items())
        return f"{_name_of(value)} {value._fields} ".encode() + _value(defaults, place)
    if isinstance(value, type) and (_is_library(value) or issubclass(value, BaseException)):
        return _name_of(value).encode()
    if isinstance(value, np.ufunc):
        return f"numpy.{value.__name__}".encode()
    if callable(value) and not isinstance(value, type) and _is_library(value):
        return _name_of(value).encode()
    raise TypeError(f"{place} is {value!r}: kernels use constants, kernels and NumPy only")


def _is_library(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).partition(".")[0] in _LIBRARIES
