"""``njit`` with a compiled cache that is never stale and also works in Spark's workers.

Numba's own cache looks only at the file of the outermost kernel, so a change in a kernel that
it calls would go unnoticed; and installs may be read-only. Hence one cache directory per state
of our sources. ``SLACKWATER_CACHE`` moves it (default: the user's cache directory); the Spark
host hands it to executors.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

from engine.cache_home import cache_home

_F = TypeVar("_F", bound=Callable[..., Any])


def cache_directory() -> Path:
    """Where compiled kernels of exactly these sources are kept."""
    return cache_home() / "slackwater" / "numba" / _digest()


@cache
def _digest() -> str:
    """Of the sources and of Numba; read once, as every kernel asks when it is first called."""
    import numba  # noqa: PLC0415 - only for those who call a kernel

    digest = hashlib.sha256(f"{numba.__version__}".encode())
    root = Path(__file__).parent
    folders = ("barrier", "order", "pattern", "window")
    kernels = [path for folder in folders for path in root.glob(f"{folder}/*.py")]
    for path in sorted([*kernels, Path(__file__)]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def njit(function: _F) -> _F:
    """Compile ``function`` in nopython mode, kept on disk between runs."""
    return cast("_F", _Compiled(function, cache=True))


def kernel(function: _F) -> _F:
    """``njit`` for a function that allocates nothing: no reference counts, about 10x as fast
    where many small functions hand arrays to one another.
    """
    return cast("_F", _Compiled(function, cache=True, _nrt=False))


def inline(function: _F) -> _F:
    """``kernel`` for a small function of a hot path: it becomes part of its callers."""
    return cast("_F", _Compiled(function, forceinline=True, _nrt=False))


class _Compiled:
    """A function that is Numba's once it is called, or a kernel that calls it is compiled.

    Most of the some 200 kernels are in no run's way, and those that a cached one calls are part of
    it: neither they nor, until the first call, Numba itself cost anything at start-up.
    """

    def __init__(self, function: Callable[..., Any], **options: bool) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._options = options

    def __call__(self, *arguments: Any) -> Any:
        return self._dispatcher(*arguments)

    @property
    def _numba_type_(self) -> Any:
        """What Numba takes this for in a kernel that calls it."""
        return self._dispatcher._numba_type_

    @cached_property
    def _dispatcher(self) -> Any:
        import numba  # noqa: PLC0415 - takes 0.2 s, which a command without kernels can do without

        if not os.environ.get("NUMBA_CACHE_DIR"):
            numba.config.CACHE_DIR = str(cache_directory())
        made = numba.njit(error_model="numpy", **self._options)(self._function)
        if self._options.get("cache") and not self._options.get("_nrt", True):
            # Before it looks into its cache, Numba gets ready to compile, which takes 0.2 s; what
            # is found there runs without, unless it counts references.
            kept = made._cache  # noqa: SLF001 - there is no public way
            kept.load_overload = kept._load_overload  # noqa: SLF001
        return made
