"""``njit`` with a compiled cache that is never stale and also works in Spark's workers.

Numba's own cache looks only at the file of the outermost kernel, so a change in a kernel that
it calls would go unnoticed; and installs may be read-only. Hence one cache directory per state
of our sources. ``SLACKWATER_CACHE`` moves it (default: the user's cache directory); the Spark
host hands it to executors.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import config

from engine.cache_home import cache_home

_F = TypeVar("_F", bound=Callable[..., Any])


def cache_directory() -> Path:
    """Where compiled kernels of exactly these sources are kept."""
    return cache_home() / "slackwater" / "numba" / _digest()


@cache
def _digest() -> str:
    """Of the sources and of Numba; read once, as every kernel asks when it is imported."""
    digest = hashlib.sha256(f"{numba.__version__}".encode())
    root = Path(__file__).parent
    folders = ("barrier", "order", "pattern", "window")
    kernels = [path for folder in folders for path in root.glob(f"{folder}/*.py")]
    for path in sorted([*kernels, Path(__file__)]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def njit(function: _F) -> _F:
    """Compile ``function`` in nopython mode, kept on disk between runs."""
    return _compile(function, cache=True)


def kernel(function: _F) -> _F:
    """``njit`` for a function that allocates nothing: no reference counts, about 10x as fast
    where many small functions hand arrays to one another.
    """
    return _compile(function, cache=True, _nrt=False)


def inline(function: _F) -> _F:
    """``kernel`` for a small function of a hot path: it becomes part of its callers."""
    return _compile(function, forceinline=True, _nrt=False)


def _compile(function: _F, **options: bool) -> _F:
    if not os.environ.get("NUMBA_CACHE_DIR"):
        config.CACHE_DIR = str(cache_directory())
    compiled: _F = numba.njit(error_model="numpy", **options)(function)
    return compiled
