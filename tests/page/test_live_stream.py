"""The stream of a page: state, the ring of newest results, readers that are slow or too many."""

from __future__ import annotations

import asyncio
import json
import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.server import overview
from slackwater.engine.server.overview import LINE_MAX, ResultFeed
from slackwater.engine.server.page import view
from tests.page.conftest import Site, a_result, events_of


async def test_state_comes_again_and_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "RESULTS_EVERY_S", 0.02)
    monkeypatch.setattr(view, "STATE_EVERY_S", 0.1)
    monkeypatch.setattr(overview, "AGE_LEAST_S", 0.05)
    async with site.client() as client:
        answer = await client.get("/live")
        assert answer.content_type == "text/event-stream"
        (first,) = await events_of(answer, 1, "state")
        assert first["rows"] == []
        site.source("door")
        later = await events_of(answer, 2, "state")
        assert [row["source"] for row in later[-1]["rows"]] == ["door"]
        assert later[0]["id"] is None
        answer.close()


async def test_who_comes_back_gets_what_it_missed(site: Site) -> None:
    async with site.client() as client:
        site.feed.publish([a_result(n) for n in range(3)])
        answer = await client.get("/live")
        (reported,) = await events_of(answer, 1, "results")
        assert (reported["id"], reported["skipped"], len(reported["results"])) == ("3", 0, 3)
        answer.close()
        site.feed.publish([a_result(1, "-"), a_result(9)])
        again = await client.get("/live?after=1", headers={"Last-Event-ID": "3"})
        (reported,) = await events_of(again, 1, "results")
        assert (reported["id"], reported["skipped"]) == ("5", 0)
        assert [each["op"] for each in reported["results"]] == ["-", "+"]
        site.feed.publish([a_result(10)])
        (reported,) = await events_of(again, 1, "results")
        assert (reported["id"], len(reported["results"])) == ("6", 1)
        again.close()
        bad = await client.get("/live", headers={"Last-Event-ID": "x"})
        assert bad.status == 400


async def test_the_last_results_are_sent_before_the_end(site: Site) -> None:
    async with site.client() as client:
        answer = await client.get("/live")
        await events_of(answer, 1, "state")
        site.feed.publish([a_result(1)])
        closing = asyncio.create_task(site.page.streams.close())
        (reported,) = await events_of(answer, 1, "results")
        assert (reported["end"], len(reported["results"])) == (1, 1)
        rest = await answer.content.read()
        assert rest.strip() == b""
        await closing
        assert len(site.page.streams) == 0


async def test_a_flood_of_results_is_left_out_and_reported(site: Site) -> None:
    async with site.client() as client:
        site.feed.publish([a_result(n) for n in range(5000)])
        answer = await client.get("/live")
        (reported,) = await events_of(answer, 1, "results")
        assert reported["end"] == 5000
        assert reported["skipped"] == 5000 - view.RESULTS
        assert len(reported["results"]) == view.RESULTS
        answer.close()


async def test_a_reader_that_takes_nothing_is_dropped(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "STATE_EVERY_S", 0.0)
    monkeypatch.setattr(view, "RESULTS_EVERY_S", 0.001)
    for number in range(60):
        site.source(f"source-{number:02}" + "x" * 200)
    async with site.client() as client:
        site.page.streams._slow_s = 0.3
        with socket.create_connection(("127.0.0.1", client.port)) as lazy:
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            lazy.sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            async with asyncio.timeout(60):
                while not site.page.streams.dropped:
                    await asyncio.sleep(0.02)
            assert len(site.page.streams) == 0
        # Others are served meanwhile and afterwards.
        answer = await client.get("/live")
        await events_of(answer, 1, "state")
        answer.close()


async def test_so_many_pages_and_no_more(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "STREAMS_MAX", 4)
    monkeypatch.setattr(view, "STATE_EVERY_S", 0.05)
    monkeypatch.setattr(view, "RESULTS_EVERY_S", 0.02)
    async with site.client() as client:
        answers = [await client.get("/live") for _ in range(view.STREAMS_MAX)]
        for answer in answers:
            await events_of(answer, 1, "state")
        full = await client.get("/live")
        assert full.status == 503
        assert full.headers["Retry-After"] == "10"
        answers.pop().close()
        async with asyncio.timeout(20):
            while len(site.page.streams) == view.STREAMS_MAX:
                await asyncio.sleep(0.05)
        again = await client.get("/live")
        assert again.status == 200
        for answer in (*answers, again):
            answer.close()


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


def test_a_very_long_line_is_kept_short() -> None:
    feed = ResultFeed()
    event = json.loads(a_result(1))["events"][0]
    feed.publish([a_result(1, events=[event] * 5000, value={"text": "y" * 10**6})])
    (line,) = feed.since(0, 10).lines
    assert len(line) < LINE_MAX
    reported = json.loads(line)
    assert reported["events_left_out"] + len(reported["events"]) == 5000
    assert reported["op"] == "+"


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
