"""The history of results of an engine over a log that grows, in the file of ``--history``.

A chain's state has all that its rules look into. The file has what was known before the log began,
and, as of each saved state, what is known now: for the log that follows, and for whoever asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from engine.chain import Chain
from engine.check import HistoryFile, KnownOfSite, LogOverlapsError
from engine.errors import UserError


class KeptHistory:
    """``since``: when each site's log began [ns], which is part of the engine's state."""

    def __init__(self, path: Path, tell: Callable[[str], None]) -> None:
        self._file = HistoryFile(path)
        self._tell = tell
        self._waits: dict[str, Chain] = {}
        """What the file lacks, as it could not be written."""
        self.since: dict[str, int] = {}

    def begin(self, site: str, chain: Chain, since_ns: int) -> None:
        """``chain``, whose log begins at ``since_ns``, knows what was known before.

        Where the beginning of the log has been removed, what was known then is told to be gone:
        unlike a run, an engine has no other log to go to.

        Raises:
            UserError: the file cannot be used.
        """
        self.since[site] = since_ns
        if chain.judging is None:
            return
        try:
            past = self._file.before(site, since_ns)
        except LogOverlapsError as error:
            self._tell(f"{error}; nothing is known of before")
            past = {}
        chain.judging.begin_with(past)

    def keep(self, chains: Mapping[str, Chain]) -> None:
        """Writes what ``chains`` know. Where that fails it is told, and tried again next time."""
        waited = bool(self._waits)
        self._waits.update(chains)
        known = {
            site: KnownOfSite(
                self.since[site], chain.counters()["last_arrival"], chain.judging.known()
            )
            for site, chain in self._waits.items()
            if chain.judging is not None
        }
        try:
            self._file.keep(known)
        except UserError as error:
            if not waited:
                self._tell(f"{error}; tried again whenever the state is saved")
            return
        self._waits.clear()
        if waited:
            self._tell(f"{self._file.path}: written again")
