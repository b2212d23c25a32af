"""The stream of a page: state, results, coming back, readers that are slow or too many."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest

from engine.server.page import live, view
from tests.page.conftest import Site, a_result, events_of

Run = Callable[..., Any]


def test_state_comes_again_and_again(site: Site, run: Run) -> None:
    async def ask() -> None:
        async with site.client() as client:
            answer = await client.get("/live")
            assert answer.content_type == "text/event-stream"
            (first,) = await events_of(answer, 1, "state")
            assert first["rows"] == []
            site.source("door")
            later = await events_of(answer, 3, "state")
            assert [row["source"] for row in later[-1]["rows"]] == ["door"]
            assert later[0]["id"] is None
            answer.close()

    run(ask())


def test_who_comes_back_gets_what_it_missed(site: Site, run: Run) -> None:
    async def ask() -> None:
        async with site.client() as client:
            site.feed.publish([a_result(n) for n in range(3)])
            answer = await client.get("/live")
            (told,) = await events_of(answer, 1, "results")
            assert (told["id"], told["skipped"], len(told["results"])) == ("3", 0, 3)
            answer.close()
            site.feed.publish([a_result(1, "-"), a_result(9)])
            again = await client.get("/live?after=1", headers={"Last-Event-ID": "3"})
            (told,) = await events_of(again, 1, "results")
            assert (told["id"], told["skipped"]) == ("5", 0)
            assert [each["op"] for each in told["results"]] == ["-", "+"]
            site.feed.publish([a_result(10)])
            (told,) = await events_of(again, 1, "results")
            assert (told["id"], len(told["results"])) == ("6", 1)
            again.close()
            bad = await client.get("/live", headers={"Last-Event-ID": "x"})
            assert bad.status == 400

    run(ask())


def test_the_last_results_are_sent_before_the_end(site: Site, run: Run) -> None:
    async def ask() -> None:
        async with site.client() as client:
            answer = await client.get("/live")
            await events_of(answer, 1, "state")
            site.feed.publish([a_result(1)])
            closing = asyncio.create_task(site.page.streams.close())
            (told,) = await events_of(answer, 1, "results")
            assert (told["end"], len(told["results"])) == (1, 1)
            rest = await answer.content.read()
            assert rest.strip() == b""
            await closing
            assert len(site.page.streams) == 0

    run(ask())


def test_a_number_of_an_earlier_start_begins_anew(site: Site, run: Run) -> None:
    async def ask() -> None:
        async with site.client() as client:
            site.feed.publish([a_result(1)])
            answer = await client.get("/live", headers={"Last-Event-ID": "4000"})
            (told,) = await events_of(answer, 1, "results")
            assert (told["end"], len(told["results"])) == (1, 1)
            answer.close()

    run(ask())


def test_a_flood_of_results_is_left_out_and_told(site: Site, run: Run) -> None:
    async def ask() -> None:
        async with site.client() as client:
            site.feed.publish([a_result(n) for n in range(5000)])
            answer = await client.get("/live")
            (told,) = await events_of(answer, 1, "results")
            assert told["end"] == 5000
            assert told["skipped"] == 5000 - view.RESULTS
            assert len(told["results"]) == view.RESULTS
            answer.close()

    run(ask())


def test_a_reader_that_takes_nothing_is_dropped(
    site: Site, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "STATE_EVERY_S", 0.0)
    monkeypatch.setattr(live, "RESULTS_EVERY_S", 0.001)

    async def ask() -> None:
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

    run(ask())


def test_so_many_pages_and_no_more(site: Site, run: Run) -> None:
    async def ask() -> None:
        async with site.client() as client:
            answers = [await client.get("/live") for _ in range(live.STREAMS_MAX)]
            for answer in answers:
                await events_of(answer, 1, "state")
            full = await client.get("/live")
            assert full.status == 503
            assert full.headers["Retry-After"] == "10"
            answers.pop().close()
            async with asyncio.timeout(20):
                while len(site.page.streams) == live.STREAMS_MAX:
                    await asyncio.sleep(0.05)
            again = await client.get("/live")
            assert again.status == 200
            for answer in (*answers, again):
                answer.close()

    run(ask())


def test_the_end_of_the_server_ends_streams(site: Site, run: Run) -> None:
    async def ask() -> None:
        async with site.client() as client:
            answer = await client.get("/live")
            await events_of(answer, 1, "state")
            await asyncio.wait_for(site.page.streams.close(), 5)
            assert len(site.page.streams) == 0
            answer.close()

    run(ask())
