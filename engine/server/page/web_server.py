"""The page's own HTTP server, in the loop of the gateway: its routes, from start to stop."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from importlib import resources
from typing import Any, Final
from urllib.parse import parse_qs

from aiohttp import web
from aiohttp.http import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware
from prometheus_client import CollectorRegistry, exposition
from prometheus_client.core import Metric

from slackwater.engine.core.errors import UserError
from slackwater.engine.server.page import view
from slackwater.engine.server.page.access import Access, PageConnections, put_headers
from slackwater.engine.server.page.live import LiveStreams
from slackwater.engine.server.page.metrics import GatewayCollector
from slackwater.engine.server.result_feed import ResultFeed
from slackwater.engine.server.site_file import PageSettings
from slackwater.engine.server.tcp_host import Acceptor, open_files, page_connections_within
from slackwater.engine.server.watch.overview import Overview

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
    """Serves what ``overview`` and ``feed`` know."""

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
        """Answers from now on; gives the URL.

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
        """Ends all streams and closes all connections."""
        if self._acceptor is not None:
            self._acceptor.close()
        await self.streams.close()
        if self._runner is not None:
            await self._runner.cleanup()

    def _placed(self) -> Middleware:
        """Notes which connections wait for a request; one with a body has not come whole."""

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

    # --- what is asked for

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
        # Values are read here, between messages; their text is made beside the loop.
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
        # One device must not take the gateway out of service for all others; and names, like
        # reasons, are for those who have the token.
        failed = len(answers.failed)
        more = f"{failed} queries of sites have failed and are set aside: see /state\n"
        return web.Response(text="ready\n" + (more if failed else ""))


def _logger() -> logging.Logger:
    """For faults of the program: bytes that are no request cause no traceback."""

    def is_fault(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError)

    made = logging.getLogger("slackwater.page")
    made.filters[:] = []
    made.addFilter(is_fault)
    return made


class _Families:
    """A collector of what was collected before."""

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
