"""The history of results that a run in this process begins with, and leaves to the next one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from engine.chain import Chain
from engine.check import HistoryFile, KnownOfSite

_NS_PER_H = 3600 * 10**9


class RunHistory:
    """Of one run; ``path``: of the file."""

    def __init__(self, path: Path) -> None:
        self._file = HistoryFile(path)
        self._since: dict[str, int] = {}
        self._known: dict[str, KnownOfSite] = {}

    def begin(self, site: str, chain: Chain, since_ns: int) -> None:
        """``chain`` knows what was known before its log, which begins at ``since_ns``.

        Raises:
            UserError: the file cannot be used, or not with this log.
        """
        self._since[site] = since_ns
        past = self._file.before(site, since_ns)
        if chain.judging is not None:
            chain.judging.begin_with(past)

    def note(self, chains: Mapping[str, Chain]) -> None:
        """What ``chains``, which are at their end, know."""
        for site, chain in chains.items():
            if chain.judging is not None:
                until_ns = chain.counters()["last_arrival"]
                known = chain.judging.known()
                self._known[site] = KnownOfSite(self._since[site], until_ns, known)

    def keep(self) -> None:
        """Writes all of it, or, should that fail, nothing."""
        self._file.keep(self._known)


class KeyHistory(NamedTuple):
    """Results of one key: how many, when the first was known and the last [ns]."""

    site: str
    query: str
    key: str
    results: int
    first_ns: int
    last_ns: int

    @property
    def plain_key(self) -> str:
        """Its values; empty: all results of the query have one history."""
        return ", ".join(map(str, json.loads(self.key)))

    @property
    def per_hour(self) -> float | None:
        """None: there was but one, or all at once."""
        span_ns = self.last_ns - self.first_ns
        return (self.results - 1) * _NS_PER_H / span_ns if span_ns else None


def key_histories(path: Path) -> Iterator[KeyHistory]:
    """Of the file at ``path``, which is not changed.

    Raises:
        UserError: there is no such file, or it is none of a history.
    """
    return (KeyHistory(*row) for row in HistoryFile(path).rows())
