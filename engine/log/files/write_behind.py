"""Make the next thing while the last one is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def write_behind(write: Callable[[T], object]) -> Iterator[Callable[[T], None]]:
    """What takes things and hands them to ``write`` in their order, in a thread of its own.

    Worth it where ``write`` lets go of the interpreter lock, as writing Parquet does. One thing is
    being written while the next is made, so memory holds two. All are written at the end of the
    block, however it ends; an error of ``write`` is raised by the next call, or there.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="write-behind") as pool:
        last: Future[object] | None = None

        def take(thing: T) -> None:
            nonlocal last
            if last is not None:
                last.result()
            last = pool.submit(write, thing)

        yield take
        if last is not None:
            last.result()
