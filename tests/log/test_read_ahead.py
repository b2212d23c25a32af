"""``read_ahead``: the first job begins at once, results keep their order, and one runs ahead."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from engine.log.files.read_ahead import read_ahead


def test_the_first_begins_before_anything_is_asked_for() -> None:
    begun = threading.Event()
    found = read_ahead([lambda: begun.set() or 1])
    assert begun.wait(60)
    assert list(found) == [1]


def test_one_is_run_ahead_and_no_more() -> None:
    ran: list[int] = []
    done = [threading.Event() for _ in range(4)]

    def job(number: int) -> Callable[[], int]:
        def run() -> int:
            ran.append(number)
            done[number].set()
            return number

        return run

    found = read_ahead(map(job, range(4)))
    assert done[0].wait(60)
    assert ran == [0]
    assert next(found) == 0
    assert done[1].wait(60)
    assert ran == [0, 1]
    assert list(found) == [1, 2, 3]


def test_an_error_comes_where_the_result_would_have() -> None:
    def broken() -> int:
        raise OSError(5, "Input/output error")

    found = read_ahead([lambda: 1, broken, lambda: 3])
    assert next(found) == 1
    with pytest.raises(OSError, match="Input/output"):
        next(found)


def test_without_jobs_there_is_nothing() -> None:
    assert list(read_ahead([])) == []
