"""``njit`` with a compiled cache that is never stale and also works in Spark's workers.

Numba's own cache looks only at the file of the outermost kernel, so a change in a kernel that
it calls, or in a constant that it uses, would go unnoticed; and installs may be read-only. Hence
one cache directory per state of a kernel's module and of all of ours that it imports, which
every checkout and environment of a user shares.
``SLACKWATER_CACHE`` moves it (default: the user's cache directory); the Spark host hands it to
executors. ``SLACKWATER_UNCOMPILED=1`` leaves kernels plain Python (``engine.kernels.uncompiled``)
for a debugger.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, cached_property
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, TypeVar, cast

from engine.cache_home import own_cache
from engine.kernels.left_out import left_out
from engine.kernels.numba_parts import version

_F = TypeVar("_F", bound=Callable[..., Any])

_ROOT = Path(__file__).resolve().parents[2]
_COMPILING = {_ROOT / "engine/kernels" / name for name in ("jit.py", "by_reference.py", "parts.py")}
_BEGAN = time.time()
_IMPORT = re.compile(rb"^[ ]*from (engine(?:\.\w+)*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)


class _Loading:
    """Seconds that this process spent on getting kernels ready: reading or compiling them."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Within, a kernel gets ready; one that it calls may do so meanwhile."""
        began, self._depth = time.perf_counter(), self._depth + 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self.seconds += time.perf_counter() - began


loading = _Loading()
when_compiling: list[Callable[[], None]] = []
"""Called, once each, when a kernel is about to be compiled because no cache has it."""


def cache_directory() -> Path | None:
    """Where compiled kernels are kept: a folder per state of our sources, for each module.

    None: nowhere, as the cache is not this user's.
    """
    own = own_cache()
    return None if own is None else own / "numba"


@cache
def _digest(module: Path) -> str | None:
    """Of Numba, ``module`` and all that it imports of ours; read at a kernel's first call.

    None: one of them was written after this process began, which may still run what was there
    before: under the digest of what is there now, others would take it for that.
    """
    digest = hashlib.sha256(version() + os.path.relpath(module, _ROOT).encode())
    found, left = {module}, [module]
    while left:
        new = set(_imported(left.pop())) - found
        found |= new
        left += new
    found |= _COMPILING
    if any(_written(path) > _BEGAN for path in found):
        return None
    for path in sorted(found):
        digest.update(_content_digest(path))
    return digest.hexdigest()[:16]


@cache
def _written(path: Path) -> float:
    return path.stat().st_mtime


@cache
def _content(path: Path) -> bytes:
    return path.read_bytes()


@cache
def _content_digest(path: Path) -> bytes:
    return hashlib.sha256(_content(path)).digest()


@cache
def _imported(path: Path) -> list[Path]:
    """The modules of ours that one imports; a name may be a module or something in one."""

    def candidates() -> Iterator[str]:
        for module, names in _IMPORT.findall(_content(path)):
            place = f"{_ROOT}/{module.decode().replace('.', '/')}"
            if _is_package(place):
                yield f"{place}/__init__.py"
                for name in re.findall(rb"\w+", names):
                    yield f"{place}/{name.decode()}.py"
            else:
                yield f"{place}.py"

    # Texts, as to make a path of each takes longer than all the rest.
    return [Path(module) for module in sorted(set(candidates())) if os.path.exists(module)]  # noqa: PTH110


@cache
def _is_package(place: str) -> bool:
    return os.path.isdir(place)  # noqa: PTH112 - likewise


def njit(function: _F) -> _F:
    """Compile ``function`` in nopython mode, kept on disk between runs.

    A ``kernel`` may call it, too, if it gives no array back: said outright, since a callee would
    else allocate nothing where its caller does not.
    """
    return _made(function, cache=True, _nrt=True)


def kernel(function: _F) -> _F:
    """``njit`` for a function that allocates nothing: no reference counts, about 10x as fast
    where many small functions hand arrays to one another.
    """
    return _made(function, cache=True, _nrt=False)


def inline(function: _F) -> _F:
    """``kernel`` for a small function of a hot path: it becomes part of its callers."""
    return _made(function, forceinline=True, _nrt=False)


def _made(function: _F, **options: bool) -> _F:
    if os.environ.get("SLACKWATER_UNCOMPILED") == "1":
        from engine.kernels.uncompiled import uncompiled  # noqa: PLC0415 - needs NumPy

        return uncompiled(function)
    return cast("_F", _Compiled(function, **options))


_plain: ContextVar[bool] = ContextVar("_plain", default=False)


@contextmanager
def plain() -> Iterator[None]:
    """Within, kernels that this thread calls run as plain Python, with the same results.

    Loading Numba and a run's kernels takes half a second, and compiling them where no cache has
    them half a minute; a few events take less as they are.
    """
    before = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(before)


class _Compiled:
    """A function that is Numba's once it is called, or a kernel that calls it is compiled.

    Most of the some 200 kernels are in no run's way, and those that a cached one calls are part of
    it: neither they nor, until the first call, Numba itself cost anything at start-up.
    """

    def __init__(self, function: Callable[..., Any], **options: bool) -> None:
        functools.update_wrapper(self, function)
        self._function = cast("FunctionType", function)
        self._options = options
        self._ready: dict[Any, Callable[..., Any]] = {}

    def __call__(self, *arguments: Any) -> Any:
        if _plain.get():
            return self._uncompiled(*arguments)
        from engine.kernels.kinds import UnknownKindError, kinds_of  # noqa: PLC0415 - needs NumPy

        try:
            kinds = kinds_of(arguments)
        except UnknownKindError:
            return self._dispatcher(*arguments)
        ready = self._ready.get(kinds)
        if ready is None:
            ready = self._ready[kinds] = self._made_ready(kinds, arguments)
        return ready(*arguments)

    def _made_ready(self, kinds: Any, arguments: tuple[Any, ...]) -> Callable[..., Any]:
        """What to call with such arguments: the code from the cache, or else Numba's kernel."""
        made: Callable[..., Any]
        if self._folder is None:
            made = self._dispatcher
            return made
        from engine.kernels import machine_code  # noqa: PLC0415 - only for those who call a kernel
        from engine.kernels.kinds import named  # noqa: PLC0415 - needs NumPy

        with loading.counted():
            file = machine_code.kept_as(self._function, named(kinds))
            if file is None:
                made = self._dispatcher
                return made
            found = machine_code.read(self._function, self._folder / file)
        if found is not None:
            return found
        made = self._dispatcher
        types = tuple(map(self._dispatcher.typeof_pyval, arguments))
        self._dispatcher.compile(types)
        machine_code.keep(self._dispatcher.overloads[types], self._folder / file)
        return made

    @cached_property
    def _folder(self) -> Path | None:
        """Where its machine code is kept; None: nowhere, or where Numba is told to keep it."""
        directory = cache_directory()
        if "cache" not in self._options or directory is None:
            return None
        if any(name.startswith("NUMBA_") for name in os.environ):
            return None
        digest = _digest(Path(self._function.__code__.co_filename).resolve())
        return None if digest is None else directory / digest

    @cached_property
    def _uncompiled(self) -> Callable[..., Any]:
        from engine.kernels.uncompiled import uncompiled  # noqa: PLC0415 - needs NumPy

        return uncompiled(self._function)

    @cached_property
    def _allocates(self) -> bool:
        """Whether it, or one that it calls, counts references: needs Numba's memory runtime."""
        if self._options["_nrt"]:
            return True
        known, names = self._function.__globals__, self._function.__code__.co_names
        found = [known[name] for name in names if name in known]
        modules = [one for one in found if isinstance(one, ModuleType)]
        found += [getattr(module, name) for module in modules for name in names
                  if hasattr(module, name)]  # fmt: skip
        called = (one for one in found if isinstance(one, _Compiled) and one is not self)
        return any(one._allocates for one in called)  # noqa: SLF001 - of its own class

    @property
    def _numba_type_(self) -> Any:
        """What Numba takes this for in a kernel that calls it."""
        return self._part._numba_type_

    @cached_property
    def _part(self) -> Any:
        with loading.counted():
            _numba()
            from engine.kernels.parts import as_part  # noqa: PLC0415 - needs Numba

            options = {key: value for key, value in self._options.items() if key != "cache"}
            made = as_part(self._function, **options)
        made.compile = functools.partial(_timed, made.compile)
        made.get_call_template = functools.partial(_for_any_value, made.get_call_template)
        return made

    @cached_property
    def _dispatcher(self) -> Any:
        with loading.counted():
            made = self._made()
        made.compile = functools.partial(_timed, made.compile)
        return made

    def _made(self) -> Any:
        numba = _numba()
        from engine.kernels.parts import as_whole  # noqa: PLC0415 - needs Numba

        options = dict(self._options)
        folder: Path | None = None
        if not os.environ.get("NUMBA_CACHE_DIR"):
            module = Path(self._function.__code__.co_filename).resolve()
            directory = cache_directory()
            digest = None if directory is None else _digest(module)
            if directory is None or digest is None:
                options["cache"] = False
            else:
                folder = directory / digest
                numba.config.CACHE_DIR = str(folder)
        made = as_whole(self._function, **options)
        if options.get("cache"):
            from engine.kernels.kernel_files import SealedFiles  # noqa: PLC0415 - needs Numba

            # Before it looks into its cache, Numba gets ready to compile, which takes 0.3 s; what
            # is found there runs without, but for the memory runtime if it allocates.
            kept = made._cache  # noqa: SLF001 - there is no public way
            files = kept._cache_file = SealedFiles(kept, folder)  # noqa: SLF001
            load = functools.partial(files.overload, kept._load_overload)  # noqa: SLF001
            if self._allocates:
                load = functools.partial(_with_runtime, load)
            kept.load_overload = functools.partial(_found_or_told, load)
        return made


def _numba() -> ModuleType:
    with left_out("coverage"):  # which Numba would tell of compiled lines
        import numba  # noqa: PLC0415 - 0.2 s, which a command without kernels can do without

        import engine.kernels.by_reference  # noqa: F401, PLC0415 - what Numba takes tuples for
    return cast("ModuleType", numba)


def _timed(compiled: Callable[..., Any], signature: Any) -> Any:
    with loading.counted():
        return compiled(signature)


def _for_any_value(find: Callable[..., Any], types: Any, named: Any) -> Any:
    """What a kernel calls for arguments of these types.

    Numba compiles what is called anew for each number that is written out in a call (``f(x, -1)``),
    and so what that calls: W1's windows were compiled three to four times over. Here one is made
    for all values, and LLVM still sees the number where it puts the called into its caller. Only
    what cannot be typed so, as it picks from a tuple by that number, is made for each.
    """
    from numba.core.errors import TypingError  # noqa: PLC0415 - needs Numba
    from numba.types import unliteral  # noqa: PLC0415 - likewise

    try:
        return find(tuple(map(unliteral, types)), named)
    except TypingError:
        return find(types, named)


def _with_runtime(load: Callable[..., Any], signature: Any, context: Any) -> Any:
    from numba.core.runtime import rtsys  # noqa: PLC0415 - needs Numba

    rtsys.initialize(context)
    return load(signature, context)


def _found_or_told(load: Callable[..., Any], *signature: Any) -> Any:
    found = load(*signature)
    while found is None and when_compiling:
        when_compiling.pop()()
    return found
