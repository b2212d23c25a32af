"""``kernel``, ``njit``, ``inline``: functions that Numba compiles when they are first called.

What is compiled is kept on disk under a digest of all that it is made of
(``engine.kernels.kernel_cache``) in ``SLACKWATER_CACHE`` (default: the user's cache directory); the
Spark host hands that to executors. ``SLACKWATER_UNCOMPILED=1`` leaves kernels plain Python
(``engine.kernels.uncompiled``) for a debugger; ``SLACKWATER_COMPILED=1`` compiles them also for
few events; ``SLACKWATER_PLAIN_NUMBA=1`` compiles them by Numba's public interfaces alone.
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
        """Add the time of the ``with`` block; of nested blocks only the outermost counts."""
        began, self._depth = self._clock(), self._depth + 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self.seconds += self._clock() - began


loading = _TimeSpent()
"""Getting kernels ready: reading or compiling them."""
uncompiled_time = _TimeSpent(time.thread_time)
"""Running kernels that no cache has as plain Python: time of the processor."""
when_compiling: list[Callable[[], None]] = []
"""Called, once each, when a kernel is about to be compiled because no cache has it."""
when_ready: list[Callable[[], None]] = []
"""Called whenever a kernel has been read from the cache or compiled."""


def cache_directory() -> Path | None:
    """Where compiled kernels are kept; None: nowhere, as the cache is not this user's."""
    cache = own_cache()
    return None if cache is None else cache / "kernels"


def njit(function: _F) -> _F:
    """Compile ``function``, which may allocate arrays.

    A ``kernel`` may call it, too, if it gives no array back.
    """
    return _made(function, allocates=True, inline=False)


def kernel(function: _F) -> _F:
    """``njit`` for a function that allocates nothing: no reference counts, about 10x as fast
    where many small functions hand arrays to one another.
    """
    return _made(function, allocates=False, inline=False)


def inline(function: _F) -> _F:
    """``kernel`` for a small function of a hot path: it becomes part of its callers."""
    return _made(function, allocates=False, inline=True)


def _made(function: _F, **options: bool) -> _F:
    if os.environ.get("SLACKWATER_UNCOMPILED") == "1":
        from slackwater.engine.kernels.uncompiled import uncompiled  # noqa: PLC0415 - for debuggers

        return uncompiled(function)
    return cast("_F", _Compiled(function, **options))


class _Way(Enum):
    """How this thread runs kernels; the results are the same."""

    COMPILED = auto()
    CACHED = auto()
    """Compiled if the cache has the machine code, else as plain Python."""
    PLAIN = auto()


_way: ContextVar[_Way] = ContextVar("_way", default=_Way.COMPILED)
FEW: Final = 128
"""Events that pass as plain Python before Numba and a run's kernels are loaded."""
FEW_UNCOMPILED: Final = 20_000
"""Events that pass as plain Python, 0.3 to 0.6 ms each, before a run's kernels are compiled."""
_PATIENCE_S: Final = 15.0
"""So long kernels that no cache has run as plain Python; a process that goes on compiles them."""


def may_run_uncompiled(rows: int) -> bool:
    """Whether kernels that no cache has run as plain Python for ``rows`` events."""
    return rows <= FEW_UNCOMPILED and os.environ.get("SLACKWATER_COMPILED") != "1"


@contextmanager
def for_rows(rows: int) -> Iterator[None]:
    """Within, this thread's kernels run in the way that gives ``rows`` events their results first.

    Loading Numba and a run's kernels takes about a second, and compiling them where no cache has
    them a minute.
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
    """Within, kernels that this thread calls run as plain Python, with the same results."""
    return for_rows(0)


@cache
def _is_any_cached() -> bool:
    """Whether any kernel is; if none is, there is no need to load Numba to look for one."""
    directory = cache_directory()
    return directory is not None and directory.is_dir() and any(directory.iterdir())


class _Compiled:
    """A function that is Numba's once it is called, or a kernel that calls it is compiled."""

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
                pass  # only compiling raises it: nothing has run
        with uncompiled_time.measure(), plain():
            return self._uncompiled(*arguments)

    @cached_property
    def _uncompiled(self) -> Callable[..., Any]:
        from slackwater.engine.kernels.uncompiled import uncompiled  # noqa: PLC0415 - for few events

        return uncompiled(self.function)

    @property
    def _numba_type_(self) -> Any:
        """What Numba takes this for in a kernel that calls it."""
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
    """Whether a kernel that no cache has is compiled now."""
    return _way.get() is _Way.COMPILED or uncompiled_time.seconds > _PATIENCE_S


@cache
def _prepare() -> None:
    """Loads Numba, what it takes tuples of arrays for, and the notice of compiling."""
    from numba.core import event  # noqa: PLC0415 - loads Numba

    import slackwater.engine.kernels.compile_once  # noqa: F401, PLC0415 - likewise

    class Notice(event.Listener):  # type: ignore[misc]  # numba is not checked here
        """Calls ``when_compiling``."""

        def on_start(self, _event: Any) -> None:
            while when_compiling:
                when_compiling.pop()()

        def on_end(self, _event: Any) -> None:
            """Nothing to say."""

    event.register("numba:compile", Notice())
