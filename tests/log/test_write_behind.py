"""``write_behind``: order, errors of either side, and that nothing is left unwritten."""

from __future__ import annotations

import threading

import pytest

from engine.log.files.write_behind import write_behind


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


def test_an_error_of_the_writer_comes_out_and_ends_the_writing() -> None:
    seen: list[int] = []

    def full(each: int) -> None:
        seen.append(each)
        raise OSError(28, "No space left on device")

    def all_of_them() -> None:
        with write_behind(full) as write:
            for each in range(10):
                write(each)

    with pytest.raises(OSError, match="No space"):
        all_of_them()
    assert seen == [0]

    def only_one() -> None:
        with write_behind(full) as write:
            write(7)

    with pytest.raises(OSError, match="No space"):
        only_one()


def test_an_error_of_the_maker_comes_out_once_what_was_begun_is_written() -> None:
    seen: list[int] = []

    def made() -> None:
        with write_behind(seen.append) as write:
            write(1)
            raise KeyError("no such column")

    with pytest.raises(KeyError, match="no such column"):
        made()
    assert seen == [1]
