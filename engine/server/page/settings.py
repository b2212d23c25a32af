"""``[page]`` of a site's settings: where the page listens, and whom it is shown to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from edge_agent.settings_file import Table
from engine.gateway.settings import is_loopback

PORT: Final = 9751
TOKEN_LEAST: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSettings:
    """Without a token only this machine sees it. ``port`` 0: any that is free.

    ``metrics_sources_max``: so many sources have series of their own in /metrics.
    """

    listen: str = "127.0.0.1"
    port: int = PORT
    token: str = field(default="", repr=False)
    tls: bool = False
    metrics_sources_max: int = 500


def read_page(table: Table, *, given: bool, has_tls: bool) -> PageSettings | None:
    """The settings in ``table``; None: the file has no such table, so there is no page.

    Raises:
        SettingsError: an address of others without a token, a token that can be guessed, TLS
            without a certificate.
    """
    if not given:
        return None
    listen = table.text("listen", "127.0.0.1")
    token = table.text("token", "", secret=True)
    if token and len(token) < TOKEN_LEAST:
        raise table.wrong("token", f"can be guessed: at least {TOKEN_LEAST} characters")
    if not token and not is_loopback(listen):
        raise table.wrong(
            "token", f"must be given, as others can reach {listen}; or listen at 127.0.0.1"
        )
    tls = table.flag("tls", False)
    if tls and not has_tls:
        raise table.wrong("tls", "needs the certificate and key of [tls]")
    return PageSettings(
        listen=listen,
        port=table.integer("port", PORT, 0, 65_535),
        token=token,
        tls=tls,
        metrics_sources_max=table.integer("metrics_sources_max", 500, 0, 100_000),
    )
