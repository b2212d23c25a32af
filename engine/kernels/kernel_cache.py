"""Compiled kernels on disk: a folder for each digest of what a kernel is made of.

Numba writes and reads them (``cache=True``); its public settings say where. Neither the time nor
the place of a source file decides anything, so all checkouts and environments of a user share the
cache. Each folder has the checksums of its files: what is damaged is compiled again. Processes that
need the same kernel at once take turns, so one compiles it and the others read it.
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
"""Ends the name of an empty file for the types of each call that the folder has code for."""
_LOCATOR: Final = f"{__name__}.DigestLocator"
_folders: Final[dict[FunctionType, Path]] = {}


class DigestLocator:
    """Where Numba keeps one function (the protocol of ``NUMBA_CACHE_LOCATOR_CLASSES``)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def from_function(cls, py_func: FunctionType, py_file: str) -> DigestLocator | None:  # noqa: ARG003
        """None: this function is not kept here."""
        folder = _folders.get(py_func)
        return None if folder is None else cls(folder)

    def ensure_cache_path(self) -> None:
        """Makes the folder."""
        self._folder.mkdir(parents=True, exist_ok=True)

    def get_cache_path(self) -> str:
        """The folder."""
        return str(self._folder)

    def get_source_stamp(self) -> str:
        """What the content of the folder is made of."""
        return self._folder.name

    def get_disambiguator(self) -> str:
        """Nothing to tell apart: a folder has one function."""
        return "kernel"


def enable(dispatcher: Any, folder: Path) -> bool:
    """From now on ``dispatcher`` reads its machine code from ``folder``, and writes it there.

    False: there is no such folder, and none can be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    _folders[dispatcher.py_func] = folder
    # A Numba without locators keeps files in a folder, by its own stamps of the source, too.
    has_locators = hasattr(config, "CACHE_LOCATOR_CLASSES")
    name, value = (
        ("CACHE_LOCATOR_CLASSES", _LOCATOR) if has_locators else ("CACHE_DIR", str(folder))
    )
    before = getattr(config, name)  # a program's own kernels are kept as it likes
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
    """What ``compiled`` of ``dispatcher`` gives for the types of a call.

    Args:
        dispatcher: Numba's, after ``enable``.
        compiled: its method ``compile``.
        folder: where its machine code is kept.
        compiles: whether it is compiled where the folder has none.
        signature: the types of the arguments.

    Raises:
        NotCached: the folder has none, and it is not to be compiled.
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
            except (ImportError, AttributeError):  # a class that its types name has moved since
                _empty(folder)
                made = compiled(signature)
            if len(dispatcher.stats.cache_misses) > missed:
                _seal(folder)
            if not kept.exists():
                kept.touch(mode=0o600)
        except OSError:  # a disk that is full or read-only: the kernel is there, but not kept
            overload = dispatcher.overloads.get(tuple(signature))
            if overload is None:
                raise
            made = overload.entry_point
        return made


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Within, no other process is; a disk that has no locks, or cannot be written, gives none."""
    try:
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.utime(descriptor)  # when it was last used, for who removes old ones
        yield
    finally:
        os.close(descriptor)


def _empty(folder: Path) -> None:
    for path in (*_files(folder), *folder.glob(f"*{_TYPES}")):
        path.unlink(missing_ok=True)


def _seal(folder: Path) -> None:
    """Notes the checksums of the folder's files."""
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
    """Whether it is known for which types the folder has machine code: once, it was not kept."""
    return any(folder.glob(f"*{_TYPES}"))


def _sums(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): blake2b(own_bytes(path) or b"", digest_size=16).hexdigest()
        for path in _files(folder)
    }


# What a compiled kernel is made of, as a digest: the same for the same code, wherever it lies.
#
# Numba compiles a function's bytecode with the values of the globals that it names and the
# functions that it calls. Exactly these go into the digest, function by function. So an edited
# message, comment or docstring changes nothing; a changed constant of any package, or a changed
# callee, does.


_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_LIBRARIES: Final = frozenset({"numba", "numpy", "math", "builtins", "typing", "_heapq"})
"""Where functions may come from that are no kernels; their versions are part of the digest."""
_LOAD_GLOBAL: Final = dis.opmap["LOAD_GLOBAL"]
_EXTENDED: Final = dis.EXTENDED_ARG
_NO_CODE: Final = frozenset({"NUMBA_CACHE_DIR", "NUMBA_CACHE_LOCATOR_CLASSES", "NUMBA_DEBUG_CACHE"})
"""Settings of Numba that change no code."""


@runtime_checkable
class CompiledKernel(Protocol):
    """What ``engine.kernels.jit`` makes of a function."""

    function: FunctionType
    options: dict[str, bool]


def digest_of(kernel: CompiledKernel) -> str:
    """The digest of a kernel with all that it calls, as hexadecimal digits.

    Raises:
        TypeError: it uses a global value of a kind that has no digest.
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
    """What compiles: the versions, Numba's settings, and our own part of it."""
    import llvmlite  # noqa: PLC0415 - only who compiles or loads needs it
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
    """The digest of one function without what it calls, and the kernels that it calls."""
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
    """What matters of bytecode: not its lines, its file and its docstring."""
    yield code.co_code
    yield code.co_exceptiontable
    yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)).encode()
    yield repr((code.co_argcount, code.co_kwonlyargcount, code.co_flags)).encode()
    for place, constant in enumerate(code.co_consts):
        if isinstance(constant, CodeType):
            yield from _code(constant)
        elif place == 0 and constant is not None and constant == docstring:
            yield b"NoneType None\n"  # what stands there if there is no docstring
        else:
            yield _value(constant, code.co_name) + b"\n"


def _globals(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The global values that a function uses, also those of modules."""
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
    """Names that bytecode loads as globals: an attribute may be called as a global, too.

    ``dis`` says the same 20 times slower.
    """
    instructions, argument = code.co_code, 0
    for operation, low in zip(instructions[::2], instructions[1::2], strict=True):
        argument = argument << 8 | low
        if operation != _EXTENDED:
            if operation == _LOAD_GLOBAL:
                yield code.co_names[argument >> 1]  # the lowest bit asks for a NULL before it
            argument = 0


def _annotated(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Classes of arguments: a named tuple's fields are read by their place."""
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
    """A constant's content; of what is not compiled in, the name.

    Raises:
        TypeError: it is of another kind.
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
