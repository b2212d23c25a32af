"""One thing is read ahead, one written behind: their order, and errors of either side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest

from slackwater.engine.log.log_files import read_ahead, write_behind


def test_all_are_written_in_their_order_by_another_thread() -> None:
    seen: list[tuple[int, int]] = []
    with write_behind(lambda each: seen.append((each, threading.get_ident()))) as write:
        for each in range(100):
            write(each)
    assert [each for each, _ in seen] == list(range(100))
    assert {thread for _, thread in seen} - {threading.get_ident()}


def test_the_next_is_made_while_one_is_written_and_no_more_than_one_waits() -> None:
    """The second may be handed over only when the first is written."""
    may_go, begun = threading.Event(), threading.Event()

    def slow(each: int) -> None:
        begun.set()
        assert may_go.wait(60), each

    with write_behind(slow) as write:
        write(1)
        assert begun.wait(60)  # it is being written, and we are here
        threading.Timer(0.05, may_go.set).start()
        write(2)
        assert may_go.is_set()


@pytest.mark.parametrize("given", [range(10), [0]], ids=["many", "one"])
def test_an_error_of_the_writer_comes_out_and_ends_the_writing(given: Sequence[int]) -> None:
    seen: list[int] = []

    def full(each: int) -> None:
        seen.append(each)
        raise OSError(28, "No space left on device")

    def made() -> None:
        with write_behind(full) as write:
            for each in given:
                write(each)

    with pytest.raises(OSError, match="No space"):
        made()
    assert seen == [0]


def test_an_error_of_the_maker_comes_out_once_what_was_begun_is_written() -> None:
    seen: list[int] = []

    def made() -> None:
        with write_behind(seen.append) as write:
            write(1)
            raise KeyError("no such column")

    with pytest.raises(KeyError, match="no such column"):
        made()
    assert seen == [1]


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
    assert ran == []
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
