"""``kernel``, ``njit``, ``inline``: functions that Numba compiles when they are first called.

Machine code is cached on disk under a digest of its inputs (``engine.kernels.kernel_cache``) in
``SLACKWATER_CACHE`` (default: the user's cache directory); the Spark host passes this setting to
executors. ``SLACKWATER_UNCOMPILED=1`` runs kernels as plain Python (``engine.kernels.uncompiled``)
for a debugger. ``SLACKWATER_COMPILED=1`` compiles them from ``FEW`` events on, instead of
``FEW_UNCOMPILED``. ``SLACKWATER_PLAIN_NUMBA=1`` compiles them with Numba's public interfaces only.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from enum import Enum, auto
from functools import cache, cached_property
from pathlib import Path
from types import FunctionType
from typing import Any, Final, TypeVar, cast

from slackwater.engine.cache_home import NotCached, own_cache

_F = TypeVar("_F", bound=Callable[..., Any])


class _TimeSpent:
    """Seconds that this process spends on one activity."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.seconds = 0.0
        self._clock = clock
        self._depth = 0

    @property
    def is_on(self) -> bool:
        """Whether the activity runs now."""
        return self._depth > 0

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Add the time of the ``with`` block; only the outermost of nested blocks counts."""
        began, self._depth = self._clock(), self._depth + 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self.seconds += self._clock() - began


loading = _TimeSpent()
"""Time to read or compile kernels."""
uncompiled_time = _TimeSpent(time.thread_time)
"""Processor time of kernels that run as plain Python because they are not cached."""
when_compiling: list[Callable[[], None]] = []
"""Callbacks, called once each, before a kernel that is not cached is compiled."""
when_ready: list[Callable[[], None]] = []
"""Callbacks, called whenever a kernel has been read from the cache or compiled."""


def cache_directory() -> Path | None:
    """Return the folder of compiled kernels; None: no cache, as it belongs to another user."""
    cache = own_cache()
    return None if cache is None else cache / "kernels"


def njit(function: _F) -> _F:
    """Compile ``function``, which may allocate arrays.

    A ``kernel`` may call it if it returns no array.
    """
    return _made(function, allocates=True, inline=False)


def kernel(function: _F) -> _F:
    """Compile ``function``, which allocates nothing.

    It has no reference counts, which is about 10x as fast if many small functions pass arrays on.
    """
    return _made(function, allocates=False, inline=False)


def inline(function: _F) -> _F:
    """Compile ``function`` as a ``kernel`` that is inlined into its callers, for hot paths."""
    return _made(function, allocates=False, inline=True)


def _made(function: _F, **options: bool) -> _F:
    if os.environ.get("SLACKWATER_UNCOMPILED") == "1":
        from slackwater.engine.kernels.uncompiled import uncompiled  # noqa: PLC0415 - for debuggers

        return uncompiled(function)
    return cast("_F", _Compiled(function, **options))


class _Way(Enum):
    """How this thread runs kernels; the results are equal."""

    COMPILED = auto()
    CACHED = auto()
    """Compiled if the machine code is cached, else as plain Python."""
    PLAIN = auto()


_way: ContextVar[_Way] = ContextVar("_way", default=_Way.COMPILED)
FEW: Final = 128
"""Up to so many events, kernels run as plain Python, and Numba is not loaded."""
FEW_UNCOMPILED: Final = 20_000
"""Up to so many events, kernels that are not cached run as plain Python, 0.3 to 0.6 ms each."""
_PATIENCE_S: Final = 15.0
"""Time of uncached kernels as plain Python, after which the process compiles them."""


def may_run_uncompiled(rows: int) -> bool:
    """Return whether kernels that are not cached run as plain Python for ``rows`` events."""
    return rows <= FEW_UNCOMPILED and os.environ.get("SLACKWATER_COMPILED") != "1"


@contextmanager
def for_rows(rows: int) -> Iterator[None]:
    """Run this thread's kernels in the fastest way for ``rows`` events, within the block.

    It takes about a second to load Numba and the kernels of a run, and a minute to compile them if
    they are not cached.
    """
    way = _way.get()
    if rows <= FEW:
        way = _Way.PLAIN
    elif may_run_uncompiled(rows):
        way = _Way.CACHED
    before = _way.set(way)
    try:
        yield
    finally:
        _way.reset(before)


def plain() -> AbstractContextManager[None]:
    """Run this thread's kernels as plain Python within the block, with equal results."""
    return for_rows(0)


@cache
def _is_any_cached() -> bool:
    """Return whether any kernel is cached; if none is, Numba need not be loaded to look for one."""
    directory = cache_directory()
    return directory is not None and directory.is_dir() and any(directory.iterdir())


class _Compiled:
    """A function that is compiled when it is called, or when a kernel that calls it is compiled."""

    def __init__(self, function: Callable[..., Any], **options: bool) -> None:
        functools.update_wrapper(self, function)
        self.function = cast("FunctionType", function)
        self.options = options

    def __call__(self, *arguments: Any) -> Any:
        way = _way.get()
        if way is _Way.PLAIN:
            return self._uncompiled(*arguments)
        if way is _Way.COMPILED or uncompiled_time.seconds > _PATIENCE_S:
            return self._entry(*arguments)
        if "_entry" in vars(self) or _is_any_cached():
            try:
                return self._entry(*arguments)
            except NotCached:
                pass  # raised before compilation: nothing has run
        with uncompiled_time.measure(), plain():
            return self._uncompiled(*arguments)

    @cached_property
    def _uncompiled(self) -> Callable[..., Any]:
        from slackwater.engine.kernels.uncompiled import uncompiled  # noqa: PLC0415 - for few events

        return uncompiled(self.function)

    @property
    def _numba_type_(self) -> Any:
        """The Numba type of this function in kernels that call it."""
        return self._callee._numba_type_

    @cached_property
    def _callee(self) -> Any:
        with loading.measure():
            _prepare()
            from slackwater.engine.kernels.compile_once import as_callee  # noqa: PLC0415 - loads Numba

            return as_callee(self.function, **self.options)

    @cached_property
    def _entry(self) -> Any:
        with loading.measure():
            _prepare()
            from slackwater.engine.kernels.compile_once import as_entry  # noqa: PLC0415 - loads Numba

            made = as_entry(self.function, allocates=self.options["allocates"])
            directory, compiled = cache_directory(), made.compile
            if directory is not None:
                from slackwater.engine.kernels import kernel_cache  # noqa: PLC0415 - loads Numba
                from slackwater.engine.kernels.kernel_cache import digest_of  # noqa: PLC0415 - needs NumPy

                folder = directory / digest_of(self)
                if kernel_cache.enable(made, folder):
                    compiled = functools.partial(
                        kernel_cache.load_or_compile, made, made.compile, folder, compiles
                    )
            made.compile = functools.partial(_timed, compiled)
        return made


def _timed(compiled: Callable[..., Any], signature: Any) -> Any:
    with loading.measure():
        made = compiled(signature)
    for each in when_ready:
        each()
    return made


def compiles() -> bool:
    """Return whether a kernel that is not cached is compiled now."""
    return _way.get() is _Way.COMPILED or uncompiled_time.seconds > _PATIENCE_S


@cache
def _prepare() -> None:
    """Load Numba, the types of named tuples, and the callbacks for compilation."""
    from numba.core import event  # noqa: PLC0415 - loads Numba

    import slackwater.engine.kernels.compile_once  # noqa: F401, PLC0415 - likewise

    class Notice(event.Listener):  # type: ignore[misc]  # numba is not checked here
        """Calls ``when_compiling``."""

        def on_start(self, _event: Any) -> None:
            while when_compiling:
                when_compiling.pop()()

        def on_end(self, _event: Any) -> None:
            """Do nothing."""

    event.register("numba:compile", Notice())
