"""Who sees the page: whoever has the token, or, without one, this machine's own user.

A browser shows the token once, at the form, and keeps a cookie that is derived from it; programs
send ``Authorization: Bearer TOKEN``. Without a token the page answers only to names of this machine
(``Host``), so that no site on the web can read it through a name that it points here (DNS
rebinding). Nothing is loaded from elsewhere, and no other page may show this one in a frame.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from edge_agent.listening import names_this_machine
from engine.server.page.settings import PageSettings

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
"""What says nothing of the site: it is given without a token."""
_MONTH_S: Final = 30 * 86_400
_SALT: Final = b"slackwater page"


class Access:
    """Checks every request of one server."""

    def __init__(self, settings: PageSettings, *, secure: bool) -> None:
        """``secure``: the server speaks TLS."""
        self._token = settings.token.encode()
        self._cookie = hmac.new(self._token, _SALT, hashlib.sha256).hexdigest()
        self._secure = secure

    @property
    def open(self) -> bool:
        """Whether no token is needed."""
        return not self._token

    def middleware(self) -> Middleware:
        """To be put around every handler."""

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            if self.open and not names_this_machine(request.headers.get("Host", "")):
                raise web.HTTPForbidden(text="this page has no token: it answers to localhost\n")
            if request.path not in OPEN and not self.admits(request):
                raise web.HTTPUnauthorized(
                    text="the token is missing or wrong\n", headers={"WWW-Authenticate": "Bearer"}
                )
            return await handler(request)

        return check

    def admits(self, request: web.Request) -> bool:
        """Whether the request has the token, or its cookie."""
        if self.open:
            return True
        kind, _, given = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return hmac.compare_digest(given.strip().encode(), self._token)
        cookie = request.cookies.get(_cookie_name(request), "")
        return hmac.compare_digest(cookie.encode(), self._cookie.encode())

    def let_in(self, request: web.Request, token: str, answer: web.Response) -> bool:
        """Puts the cookie on ``answer`` if the token is right."""
        if self.open or not hmac.compare_digest(token.encode(), self._token):
            return False
        answer.set_cookie(
            _cookie_name(request), self._cookie, max_age=_MONTH_S, httponly=True,
            samesite="Strict", secure=self._secure, path="/",
        )  # fmt: skip
        return True


async def put_headers(_request: web.Request, response: web.StreamResponse) -> None:
    """On every answer, also on refusals."""
    response.headers.update(HEADERS)


def _cookie_name(request: web.Request) -> str:
    """Cookies know no ports: gateways on one machine must not share theirs."""
    socket = request.transport.get_extra_info("sockname") if request.transport else None
    return f"slackwater_{socket[1] if socket else 0}"
