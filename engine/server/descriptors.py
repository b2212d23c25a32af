"""How many connections a server may hold, of the files that its process may have open."""

from __future__ import annotations

import resource
from typing import Final

_OTHERS: Final = 320
"""Files of the log, answers and engine, the page's connections, and some to spare."""
_PAGE: Final = 128


def open_files(wanted: int) -> int:
    """How many files this process may have open, once it has raised that for ``wanted``
    connections as far as it may.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted + _OTHERS
    if soft < wanted + _OTHERS:
        most = wanted + _OTHERS if hard == resource.RLIM_INFINITY else hard
        soft = max(min(wanted + _OTHERS, most), soft)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft


def connections_within(files: int) -> int:
    """Connections that leave enough of ``files`` for all else.

    >>> connections_within(4416), connections_within(1024), connections_within(48)
    (4096, 704, 24)
    """
    return max(files - _OTHERS, files // 2)


def page_connections_within(files: int) -> int:
    """Those of the page, which are few.

    >>> page_connections_within(1024), page_connections_within(256), page_connections_within(48)
    (128, 32, 6)
    """
    return min(_PAGE, files // 8)
