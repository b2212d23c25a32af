"""``[page]`` of a site's settings: where the page listens, and whom it is shown to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from edge_agent.listening import Listening, read_listening
from edge_agent.settings_file import Table

PORT: Final = 9751


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSettings(Listening):
    """Without a token only this machine sees it. ``port`` 0: any that is free.

    ``metrics_sources_max``: so many sources have series of their own in /metrics.
    """

    port: int = PORT
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
    at = read_listening(table, PORT)
    tls = table.flag("tls", False)
    if tls and not has_tls:
        raise table.wrong("tls", "needs the certificate and key of [tls]")
    return PageSettings(
        listen=at.listen,
        port=at.port,
        token=at.token,
        tls=tls,
        metrics_sources_max=table.integer("metrics_sources_max", 500, 0, 100_000),
    )
