"""Read the next thing while the present one is worked on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def read_ahead(jobs: Iterable[Callable[[], T]]) -> Iterator[T]:
    """What each of ``jobs`` gives, in their order; one is run ahead, in a thread of its own.

    The first begins at once, not when it is asked for. Worth it for jobs that let go of the
    interpreter lock, as reading Parquet does. An error of a job is raised where its result would
    have come.
    """
    pool = ThreadPoolExecutor(1, thread_name_prefix="read-ahead")
    waiting = (pool.submit(job) for job in jobs)
    return _each(pool, next(waiting, None), waiting)


def _each(
    pool: ThreadPoolExecutor, ahead: Future[T] | None, waiting: Iterator[Future[T]]
) -> Iterator[T]:
    with pool:
        for following in waiting:
            assert ahead is not None
            yield ahead.result()
            ahead = following
        if ahead is not None:
            yield ahead.result()
