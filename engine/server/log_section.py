"""``[log]`` of a site's settings: how its files are kept."""

from __future__ import annotations

from typing import Final

from edge_agent.settings_file import Table
from engine.log.retention import Limits
from engine.server.log_keeper import KeepSettings

_AGE_LEAST_NS: Final = 60 * 10**9
_BYTES_LEAST: Final = 1 << 20
_UNREAD: Final = ("keep", "delete")


def read_keep(table: Table) -> KeepSettings:
    """What the table says.

    Raises:
        SettingsError: a mistake in it.
    """
    compact = table.flag("compact", True)
    age_ns = table.duration_ns("keep", 0)
    if 0 < age_ns < _AGE_LEAST_NS:
        raise table.wrong("keep", 'must be at least 1 min; "0 s" keeps all')
    size = table.size("keep_size", 0)
    if 0 < size < _BYTES_LEAST:
        raise table.wrong("keep_size", 'must be at least 1 MiB; "0 B" keeps all')
    unread = table.text("unread", "keep", among=_UNREAD) == "delete"
    return KeepSettings(compact=compact, limits=Limits(age_ns=age_ns, bytes=size, unread=unread))
