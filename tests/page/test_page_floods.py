"""Who sends half a request, rubbish or guesses keeps nobody else from the page; on real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from slackwater.engine.server.page import web_server
from slackwater.engine.server.page.web_server import PageServer
from slackwater.engine.server.site_file import PageSettings
from tests.page.conftest import Site

TOKEN = "correct horse battery"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def served(site: Site, **settings: Any) -> AsyncIterator[int]:
    """The page at a port of its own, as the gateway serves it."""
    server = PageServer(PageSettings(port=0, **settings), site.overview, site.feed)
    url = await server.start()
    try:
        yield int(url.rstrip("/").rpartition(":")[2])
    finally:
        await server.stop()


async def answer(port: int, request: bytes, seconds: float = 5) -> bytes:
    """All that comes until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        with contextlib.suppress(ConnectionError):
            return await asyncio.wait_for(reader.read(), seconds)
        return b""
    finally:
        writer.close()


def get(path: str, *headers: bytes) -> bytes:
    lines = [f"GET {path} HTTP/1.1".encode(), b"Host: localhost", b"Connection: close", *headers]
    return b"\r\n".join([*lines, b"", b""])


def status(said: bytes) -> int:
    return int(said.split(b" ", 2)[1])


HALVES = {
    "half a request": b"GET /state HTTP/1.1\r\nHost: local",
    "nothing": b"",
    "half a form": b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\n\r\ntoken=",
    "another": b"GET /icon.svg HTTP/1.1\r\nHost: localhost\r\n\r\nGET /icon",
}


@pytest.mark.parametrize("half", HALVES.values(), ids=HALVES.keys())
async def test_half_sent_requests_hold_no_place(site: Site, half: bytes) -> None:
    """Two hundred held all 128 places, and health could not be asked."""
    async with served(site, token=TOKEN) as port:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
        for _, writer in held:
            writer.write(half)
        await asyncio.sleep(0.3)
        begun = time.monotonic()
        for path in ("/healthz", "/readyz", "/healthz"):
            assert status(await answer(port, get(path))) == 200
        said = await answer(port, get("/state", f"Authorization: Bearer {TOKEN}".encode()))
        assert status(said) == 200
        assert time.monotonic() - begun < 3
        for _, writer in held:
            writer.close()


async def test_a_request_that_does_not_come_is_cut_off(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_server, "HEADER_S", 0.2)
    async with served(site) as port:
        begun = time.monotonic()
        assert await answer(port, b"GET / HTTP/1.1\r\nHost: ") == b""
        assert await answer(port, b"") == b""
        assert 0.3 < time.monotonic() - begun < 3


async def test_streams_are_no_one_s_places_to_take(site: Site) -> None:
    """Pages that are open stay so while others come and go."""
    async with served(site) as port:
        stream = await asyncio.open_connection("127.0.0.1", port)
        stream[1].write(get("/live").replace(b"Connection: close\r\n", b""))
        assert b"200 OK" in await stream[0].readuntil(b"\r\n")
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
        await stream[0].readuntil(b"event: state")
        assert not stream[0].at_eof()
        for _, writer in (*held, stream):
            writer.close()


HOSTILE = {
    "bearer": [b"Authorization: Bearer \xff\xfe"],
    "cookie": [b"Cookie: slackwater_1=\xff; slackwater_PORT=\xe9\xff"],
    "bad cookie": [b'Cookie: =;;slackwater_PORT="\\377; ='],
    "host": [b"Host: \xff\xff"],
    "after": [b"Last-Event-ID: \xff"],
    "accept": [b"Accept: \xff/\xff;q=x;version=\xff"],
    "length": [b"Content-Length: -1"],
    "chunks": [b"Transfer-Encoding: \xff"],
    "upgrade": [b"Connection: Upgrade", b"Upgrade: \xff"],
}


@pytest.mark.parametrize("headers", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("token", ["", TOKEN])
async def test_no_header_is_an_error_of_the_server(
    site: Site, headers: list[bytes], token: str, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(web_server, "WRONG_TOKEN_S", 0.01)
    async with served(site, token=token) as port:
        mine = [header.replace(b"PORT", b"%d" % port) for header in headers]
        for path in ("/state", "/metrics", "/healthz", "/state?find=%ff&sort=%80"):
            assert 200 <= status(await answer(port, get(path, *mine))) < 500
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


FORMS = {
    "charset": (b"application/x-www-form-urlencoded; charset=none", b"token=a"),
    "utf-8": (b"application/x-www-form-urlencoded", b"token=\xff\xfe"),
    "utf-16": (b"application/x-www-form-urlencoded; charset=utf-16", b"token"),
    "multipart": (b"multipart/form-data", b"token"),
    "boundary": (b"multipart/form-data; boundary=b", b"--b\r\n\r\n\xff\r\n--b--"),
    "half": (b"multipart/form-data; boundary=b", b"--b\r\nContent-Disposition: \xff"),
    "file": (
        b"multipart/form-data; boundary=b",
        b'--b\r\nContent-Disposition: form-data; name="token"; filename="f"\r\n\r\nx\r\n--b--\r\n',
    ),
    "json": (b"application/json", b"{"),
}


@pytest.mark.parametrize(("kind", "body"), FORMS.values(), ids=FORMS.keys())
async def test_no_form_is_an_error_of_the_server(
    site: Site, kind: bytes, body: bytes, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(web_server, "WRONG_TOKEN_S", 0.01)
    async with served(site, token=TOKEN) as port:
        head = get("/login", b"Content-Type: " + kind, b"Content-Length: %d" % len(body))
        said = await answer(port, head.replace(b"GET", b"POST", 1) + body)
        assert 400 <= status(said) < 500
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


@given(rubbish=st.lists(st.binary(max_size=60), max_size=6))
@hypothesis_settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_bytes_are_an_error_of_the_server(
    rubbish: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()

    async def run() -> None:
        site = Site()
        async with served(site, token=TOKEN) as port:
            for request in (b"".join(rubbish), get("/state", *rubbish), get("/login", *rubbish)):
                said = await answer(port, request + b"\r\n\r\n", 0.2) if request else b""
                assert not said or status(said) < 500

    with contextlib.suppress(TimeoutError):
        asyncio.run(run())
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


Ask = Callable[[int, bytes], bytes]
GUESSES: dict[str, Ask] = {
    "bearer": lambda _, token: get("/state", b"Authorization: Bearer " + token),
    "cookie": lambda port, token: get("/state", b"Cookie: slackwater_%d=" % port + token),
    "form": lambda _, token: get(
        "/login", b"Content-Type: application/x-www-form-urlencoded",
        b"Content-Length: %d" % (6 + len(token)),
    ).replace(b"GET", b"POST", 1) + b"token=" + token,
}  # fmt: skip


@pytest.mark.parametrize("ask", GUESSES.values(), ids=GUESSES.keys())
@pytest.mark.parametrize("local", [True, False])
async def test_an_address_has_few_guesses_at_a_time_whatever_the_way(
    site: Site, ask: Ask, local: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guess is slow, and no more are looked at meanwhile; other addresses come in."""
    place = "" if local else "10.0.0.7"
    monkeypatch.setattr(web_server, "place_of", lambda _: place)
    most = web_server.LOCAL_GUESSES_MAX if local else web_server.GUESSES_MAX
    async with served(site, token=TOKEN) as port:
        begun = time.monotonic()
        guesses = [
            asyncio.create_task(answer(port, ask(port, b"wrong%d" % number)))
            for number in range(most + 8)
        ]
        await asyncio.sleep(0.2)
        right = get("/state", f"Authorization: Bearer {TOKEN}".encode())
        assert status(await answer(port, right)) == 429
        place = "10.0.0.8"
        assert status(await answer(port, right)) == 200
        assert status(await answer(port, get("/state"))) == 401
        assert time.monotonic() - begun < 0.5
        found = [status(await guess) for guess in guesses]
        assert found.count(429) == 8
        assert time.monotonic() - begun >= 0.5
        place = "" if local else "10.0.0.7"
        assert status(await answer(port, right)) == 200
