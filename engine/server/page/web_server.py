"""The page's HTTP server, in the event loop of the gateway: its routes, from start to stop."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import ssl
from collections import Counter
from collections.abc import Callable
from importlib import resources
from typing import Any, Final
from urllib.parse import parse_qs

from aiohttp import web
from aiohttp.http import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware
from prometheus_client import CollectorRegistry, exposition
from prometheus_client.core import Metric

from slackwater.edge_agent.listening import names_this_machine
from slackwater.engine.core.errors import UserError
from slackwater.engine.gateway.settings import place_of
from slackwater.engine.server.overview import Overview, ResultFeed
from slackwater.engine.server.page import view
from slackwater.engine.server.page.metrics import GatewayCollector
from slackwater.engine.server.page.view import LiveStreams
from slackwater.engine.server.site_file import PageSettings
from slackwater.engine.server.tcp_host import Acceptor, open_files, page_connections_within

# Connections of the page: clients without a complete request cannot block others.
#
# When all places are taken, a new connection replaces the one that has waited longest for a request
# or the rest of one. So containers that request ``/healthz`` are served whatever others hold.


HEADER_S: Final = 10.0
"""Time for a first request to arrive; later ones, and answers, have longer."""
_IDLE_S: Final = 60.0


class PageConnections:
    """At most ``most`` connections."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: dict[asyncio.BaseTransport, asyncio.TimerHandle] = {}
        """Waiting connections, the oldest first."""
        self._answered: set[asyncio.BaseTransport] = set()

    def opened(self, transport: asyncio.BaseTransport) -> None:
        """A connection was opened; it, or another one, is closed if there are too many."""
        self._forget_closed()
        if len(self._waiting) + len(self._answered) >= self._most:
            if not self._waiting:
                _abort(transport)
                return
            self._close(self._least_wanted())
        self._wait(transport, HEADER_S)

    def begins(self, transport: asyncio.BaseTransport | None) -> None:
        """A whole request has arrived and is being answered."""
        if transport in self._waiting:
            self._waiting.pop(transport).cancel()
            self._answered.add(transport)

    def ends(self, transport: asyncio.BaseTransport | None) -> None:
        """It is answered; another request may follow."""
        if transport in self._answered:
            self._answered.discard(transport)
            self._wait(transport, _IDLE_S)

    def _least_wanted(self) -> asyncio.BaseTransport:
        """The oldest waiting connection of the address that has most of them."""
        places = {transport: _place(transport) for transport in self._waiting}
        most, _ = Counter(places.values()).most_common(1)[0]
        return next(transport for transport, place in places.items() if place == most)

    def _wait(self, transport: asyncio.BaseTransport, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._waiting[transport] = loop.call_later(seconds, self._close, transport)

    def _close(self, transport: asyncio.BaseTransport) -> None:
        self._waiting.pop(transport).cancel()
        _abort(transport)

    def _forget_closed(self) -> None:
        for transport in [each for each in self._waiting if each.is_closing()]:
            self._close(transport)
        self._answered = {each for each in self._answered if not each.is_closing()}


def _abort(transport: asyncio.BaseTransport) -> None:
    assert isinstance(transport, asyncio.WriteTransport)
    transport.abort()


def _place(transport: asyncio.BaseTransport) -> str:
    name = transport.get_extra_info("peername")
    return place_of(str(name[0]) if name else "")


# Access to the page: with the token or, if there is none, from this machine only.
#
# A browser sends the token once, from the form, and keeps a cookie that is derived from it;
# programs send ``Authorization: Bearer TOKEN``. Without a token the page answers only to names of
# this machine (``Host``), so that no web site can read it through a name that resolves to this
# address (DNS rebinding). Nothing is loaded from elsewhere, and no other page may show this one in
# a frame.


POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Server": "slackwater",
}
OPEN: Final = {
    "/", "/page.css", "/page.js", "/clocks.js", "/icon.svg", "/login", "/healthz", "/readyz",
}  # fmt: skip
"""Paths that reveal nothing about the site; no token is needed."""
WRONG_TOKEN_S: Final = 0.5
"""Delay of the answer to a wrong token or cookie, to slow guessing."""
GUESSES_MAX: Final = 4
LOCAL_GUESSES_MAX: Final = 32
"""Guesses of this machine, which may include a proxy in front of the page."""
_MONTH_S: Final = 30 * 86_400
_SALT: Final = b"slackwater page"


class Access:
    """Checks every request to one server."""

    def __init__(self, settings: PageSettings, *, secure: bool) -> None:
        """``secure``: whether the server uses TLS."""
        self._token = settings.token.encode()
        self._cookie = hmac.new(self._token, _SALT, hashlib.sha256).hexdigest()
        self._secure = secure
        self._guesses: Counter[str] = Counter()
        """Wrong tokens that wait for their answers, by address."""

    @property
    def open(self) -> bool:
        """Whether no token is needed."""
        return not self._token

    def middleware(self) -> Middleware:
        """Middleware for every handler."""

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            if self.open and not names_this_machine(request.headers.get("Host", "")):
                raise web.HTTPForbidden(text="this page has no token: it answers to localhost\n")
            if request.path not in OPEN and not await self._slowly(request, self.admits):
                raise web.HTTPUnauthorized(
                    text="the token is missing or wrong\n", headers={"WWW-Authenticate": "Bearer"}
                )
            return await handler(request)

        return check

    async def _slowly(
        self,
        request: web.Request,
        is_right: Callable[[web.Request], bool],
        *,
        has_token: bool = False,
    ) -> bool:
        """Whether the request ``is_right``; the answer to a wrong guess is delayed.

        An address may have few guesses at a time. Further ones are refused unread, as their number
        would otherwise be unlimited.
        """
        place = place_of(request.remote or "")
        is_guess = has_token or bool(
            request.headers.get("Authorization") or _cookie_name(request) in request.cookies
        )
        most = GUESSES_MAX if place else LOCAL_GUESSES_MAX
        if is_guess and not self.open and self._guesses[place] >= most:
            raise web.HTTPTooManyRequests(
                text="too many wrong tokens from this address\n", headers={"Retry-After": "1"}
            )
        if is_right(request):
            return True
        if is_guess:
            self._guesses[place] += 1
            try:
                await asyncio.sleep(WRONG_TOKEN_S)
            finally:
                self._guesses[place] -= 1
                if not self._guesses[place]:
                    del self._guesses[place]
        return False

    def admits(self, request: web.Request) -> bool:
        """Whether the request has the token or its cookie."""
        if self.open:
            return True
        kind, _, bearer = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return hmac.compare_digest(_bytes_of(bearer.strip()), self._token)
        cookie = request.cookies.get(_cookie_name(request), "")
        return hmac.compare_digest(_bytes_of(cookie), self._cookie.encode())

    async def let_in(self, request: web.Request, token: str, answer: web.Response) -> bool:
        """Set the cookie on ``answer`` if the token is right.

        Raises:
            HTTPTooManyRequests: too many wrong tokens of that address wait for their answers.
        """

        def is_right(_: web.Request) -> bool:
            return not self.open and hmac.compare_digest(_bytes_of(token), self._token)

        if not await self._slowly(request, is_right, has_token=True):
            return False
        answer.set_cookie(
            _cookie_name(request), self._cookie, max_age=_MONTH_S, httponly=True,
            samesite="Strict", secure=self._secure, path="/",
        )  # fmt: skip
        return True


def _bytes_of(text: str) -> bytes:
    """Bytes of a header or form; aiohttp returns bytes that are not UTF-8 as lone surrogates."""
    return text.encode("utf-8", "backslashreplace")


async def put_headers(_request: web.Request, response: web.StreamResponse) -> None:
    """Add the security headers to every response, including refusals."""
    response.headers.update(HEADERS)


def _cookie_name(request: web.Request) -> str:
    """Name with the port: cookies ignore ports, and gateways on one machine must not share them."""
    socket = request.transport.get_extra_info("sockname") if request.transport else None
    return f"slackwater_{socket[1] if socket else 0}"


# The page's HTTP server, in the event loop of the gateway: its routes, from start to stop.


_BODY_MAX: Final = 4096
_STOP_S: Final = 1.0
_BODY_S: Final = 5.0
_FILES: Final = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/clocks.js": ("clocks.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}


class PageServer:
    """Serves the contents of ``overview`` and ``feed``."""

    def __init__(
        self,
        settings: PageSettings,
        overview: Overview,
        feed: ResultFeed,
        tls: ssl.SSLContext | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.streams = LiveStreams(overview, feed)
        self._settings = settings
        self._overview = overview
        self._feed = feed
        self._tls = tls
        self._tell = tell
        self._access = Access(settings, secure=tls is not None)
        self._collector = GatewayCollector(
            overview, feed, self.streams, settings.metrics_sources_max
        )
        self._runner: web.AppRunner | None = None
        self._acceptor: Acceptor | None = None
        self._connections = PageConnections(page_connections_within(open_files(0)))

    def application(self) -> web.Application:
        """The routes, behind the checks of ``Access``."""
        made = web.Application(
            middlewares=[self._placed(), self._access.middleware()], client_max_size=_BODY_MAX
        )
        made.on_response_prepare.append(put_headers)
        static = resources.files("slackwater.engine.server.page") / "static"
        for path, (name, kind) in _FILES.items():
            made.router.add_get(path, _file((static / name).read_text(encoding="utf-8"), kind))
        made.router.add_get("/live", self.streams.handle)
        made.router.add_get("/state", self._state)
        made.router.add_post("/login", self._login)
        made.router.add_get("/metrics", self._metrics)
        made.router.add_get("/healthz", _healthy)
        made.router.add_get("/readyz", self._ready)
        return made

    async def start(self) -> str:
        """Start answering; return the URL.

        Raises:
            UserError: the address cannot be bound.
        """
        settings = self._settings
        runner = web.AppRunner(
            self.application(),
            access_log=None,
            handle_signals=False,
            shutdown_timeout=_STOP_S,
            logger=_logger(),
        )
        await runner.setup()
        assert runner.server is not None
        try:
            self._acceptor = Acceptor(
                runner.server, self._tls, self._tell, self._connections.opened
            )
            port = await self._acceptor.listen(settings.listen, settings.port)
        except OSError as error:
            await runner.cleanup()
            raise UserError(
                f"[page] port {settings.port} at {settings.listen}: {error.strerror}"
            ) from error
        self._runner = runner
        host = f"[{settings.listen}]" if ":" in settings.listen else settings.listen
        return f"{'http' if self._tls is None else 'https'}://{host}:{port}/"

    async def stop(self) -> None:
        """End all streams and close all connections."""
        if self._acceptor is not None:
            self._acceptor.close()
        await self.streams.close()
        if self._runner is not None:
            await self._runner.cleanup()

    def _placed(self) -> Middleware:
        """Middleware that tracks waiting connections; a request with a body is not complete yet."""

        @web.middleware
        async def place(request: web.Request, handler: Handler) -> web.StreamResponse:
            if request.method not in ("GET", "HEAD"):
                return await handler(request)
            self._connections.begins(request.transport)
            try:
                return await handler(request)
            finally:
                self._connections.ends(request.transport)

        return place

    # --- handlers

    async def _state(self, request: web.Request) -> web.Response:
        try:
            wish = view.wish_of(request.query)
        except UserError as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from error
        answer = view.state(self._overview, self._feed, wish)
        answer["results"] = view.results(self._feed, wish.after)
        return web.json_response(answer)

    async def _login(self, request: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(_BODY_S):
                body = await request.read()
        except TimeoutError as error:
            raise web.HTTPRequestTimeout(text="half a form came\n") from error
        (token, *_) = parse_qs(body.decode("utf-8", "replace")).get("token", [""])
        answer = web.Response(status=204)
        if not await self._access.let_in(request, token, answer):
            raise web.HTTPForbidden(text="not the token\n")
        return answer

    async def _metrics(self, request: web.Request) -> web.Response:
        # Values are read here, between messages; the text is made outside the event loop.
        families = list(self._collector.collect())
        encode, kind = exposition.choose_encoder(request.headers.get("Accept", ""))
        body = await asyncio.to_thread(_encoded, encode, families)
        return web.Response(body=body, headers={"Content-Type": kind})

    async def _ready(self, _request: web.Request) -> web.Response:
        error = self._overview.core.sink_error
        if error is not None:
            raise web.HTTPServiceUnavailable(text="the log cannot be written\n")
        answers = self._overview.answers
        if not answers.running:
            raise web.HTTPServiceUnavailable(text="nobody answers the queries, for now\n")
        # One device must not take the gateway out of service for all others. Names and reasons
        # require the token.
        failed = len(answers.failed)
        more = f"{failed} queries of sites have failed and are set aside: see /state\n"
        return web.Response(text="ready\n" + (more if failed else ""))


def _logger() -> logging.Logger:
    """Logger for errors of the program; requests with invalid bytes cause no traceback."""

    def is_fault(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError)

    made = logging.getLogger("slackwater.page")
    made.filters[:] = []
    made.addFilter(is_fault)
    return made


class _Families:
    """A collector of metrics that were collected before."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families


def _encoded(encode: Callable[[Any], bytes], families: list[Metric]) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(families))
    return encode(registry)


async def _healthy(_request: web.Request) -> web.Response:
    return web.Response(text="alive\n")


def _file(text: str, kind: str) -> Callable[[web.Request], Any]:
    async def give(_request: web.Request) -> web.Response:
        return web.Response(text=text, content_type=kind, charset="utf-8")

    return give
