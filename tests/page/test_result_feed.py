"""The ring of newest results against a plain list."""

from __future__ import annotations

import json
import threading

from hypothesis import given
from hypothesis import strategies as st

from engine.server.result_feed import LINE_MAX, ResultFeed
from tests.page.conftest import a_result


@given(
    st.lists(st.lists(st.integers(0, 60), max_size=9), max_size=20),
    st.integers(1, 12), st.integers(1, 300), st.integers(0, 12), st.integers(-3, 200),
)  # fmt: skip
def test_as_a_list_of_all_lines(
    batches: list[list[int]], lines_max: int, bytes_max: int, most: int, number: int
) -> None:
    feed, every = ResultFeed(lines_max, bytes_max), list[bytes]()
    for sizes in batches:
        lines = [b"x" * size for size in sizes]
        feed.publish(lines)
        every += lines
        unread = feed.since(number, most)
        known = number if 0 <= number <= len(every) else 0
        assert unread.end == feed.end == len(every)
        assert len(unread.lines) <= min(most, lines_max)
        assert sum(map(len, unread.lines)) <= bytes_max
        assert unread.skipped + len(unread.lines) == len(every) - known
        assert unread.lines == (every[-len(unread.lines) :] if unread.lines else [])
        # No more is left out than must be.
        if unread.skipped and len(unread.lines) < most:
            kept = every[-len(unread.lines) - 1 :]
            assert len(kept) > lines_max or sum(map(len, kept)) > bytes_max


def test_insertions_and_retractions_are_counted() -> None:
    feed = ResultFeed()
    feed.publish([a_result(1), a_result(2), a_result(1, "-")])
    assert (feed.inserted, feed.retracted) == (2, 1)


def test_a_very_long_line_is_kept_short() -> None:
    feed = ResultFeed()
    event = json.loads(a_result(1))["events"][0]
    feed.publish([a_result(1, events=[event] * 5000, value={"text": "y" * 10**6})])
    (line,) = feed.since(0, 10).lines
    assert len(line) < LINE_MAX
    told = json.loads(line)
    assert told["events_left_out"] + len(told["events"]) == 5000
    assert told["op"] == "+"


def test_threads_publish_and_read() -> None:
    feed, seen, done = ResultFeed(lines_max=50), set[bytes](), threading.Event()

    def publish() -> None:
        for number in range(2000):
            feed.publish([b"%d" % number])
        done.set()

    writers = [threading.Thread(target=publish) for _ in range(3)]
    for each in writers:
        each.start()
    read = skipped = 0
    while not done.is_set() or read < feed.end:
        unread = feed.since(read, 50)
        skipped += unread.skipped
        assert read + unread.skipped + len(unread.lines) == unread.end
        read = unread.end
        seen.update(unread.lines)
    for each in writers:
        each.join()
    assert feed.end == 6000
    assert seen <= {b"%d" % number for number in range(2000)}
