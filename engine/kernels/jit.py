"""``kernel``, ``njit``, ``inline``: functions that Numba compiles when they are first called.

What is compiled is kept on disk under a digest of all that it is made of
(``engine.kernels.kernel_cache``) in ``SLACKWATER_CACHE`` (default: the user's cache directory); the
Spark host hands that to executors. ``SLACKWATER_UNCOMPILED=1`` leaves kernels plain Python
(``engine.kernels.uncompiled``) for a debugger; ``SLACKWATER_PLAIN_NUMBA=1`` compiles them by
Numba's public interfaces alone.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, cached_property
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

from slackwater.engine.cache_home import own_cache

_F = TypeVar("_F", bound=Callable[..., Any])


class _Loading:
    """Seconds that this process spent on getting kernels ready: reading or compiling them."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0

    @property
    def is_on(self) -> bool:
        """Whether one gets ready now."""
        return self._depth > 0

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
    """Where compiled kernels are kept; None: nowhere, as the cache is not this user's."""
    own = own_cache()
    return None if own is None else own / "kernels"


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


_plain: ContextVar[bool] = ContextVar("_plain", default=False)


@contextmanager
def plain() -> Iterator[None]:
    """Within, kernels that this thread calls run as plain Python, with the same results.

    Loading Numba and a run's kernels takes about a second, and compiling them where no cache has
    them half a minute; a few events take less as they are.
    """
    before = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(before)


class _Compiled:
    """A function that is Numba's once it is called, or a kernel that calls it is compiled."""

    def __init__(self, function: Callable[..., Any], **options: bool) -> None:
        functools.update_wrapper(self, function)
        self.function = cast("FunctionType", function)
        self.options = options

    def __call__(self, *arguments: Any) -> Any:
        return (self._uncompiled if _plain.get() else self._entry)(*arguments)

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
        with loading.counted():
            _prepare()
            from slackwater.engine.kernels.compile_once import as_callee  # noqa: PLC0415 - loads Numba

            return as_callee(self.function, **self.options)

    @cached_property
    def _entry(self) -> Any:
        with loading.counted():
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
                        kernel_cache.load_or_compile, made, made.compile, folder
                    )
            made.compile = functools.partial(_timed, compiled)
        return made


def _timed(compiled: Callable[..., Any], signature: Any) -> Any:
    with loading.counted():
        return compiled(signature)


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
