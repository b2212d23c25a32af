"""Chains that a worker process has just fed, so that their next batch need not restore them.

Spark hands a batch's task to any worker, and may run it again. What holds is the state store:
beside each snapshot stands its digest, and a chain is used here only where that digest is of the
snapshot taken from it last. To read a digest costs nothing; a snapshot of 20 MB takes longer to
come from the JVM than its events to be matched.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from typing import Final

from engine.chain import Chain

_BYTES: Final = 1 << 28
"""Of packed snapshots; their chains take several times as much."""
LEAST: Final = 1 << 17
"""What the smallest chain counts for: it takes 80 KB, whose snapshot packs to 7 KB or less."""


def digest_of(snapshot: bytes) -> bytes:
    """What tells snapshots apart."""
    return blake2b(snapshot, digest_size=16).digest()


class LiveChains:
    """At most ``limit`` bytes of chains, those fed last.

    Args:
        limit: measured by their packed snapshots; ``LEAST`` for one that is smaller.
    """

    def __init__(self, limit: int = _BYTES) -> None:
        self._limit = limit
        self._chains: OrderedDict[tuple[str, str], tuple[bytes, int, Chain]] = OrderedDict()
        self._bytes = 0

    def take(self, run: str, site: str, digest: bytes) -> Chain | None:
        """The chain as it was at the snapshot of that digest; whoever takes it owns it.

        Args:
            run: tells apart what is run: settings and log.
            site: whose chain.
            digest: of the snapshot that holds.
        """
        known, size, chain = self._chains.pop((run, site), (b"", 0, None))
        self._bytes -= size
        return chain if known == digest else None

    def forget(self, run: str, site: str) -> None:
        """The chain is to be fed without its state."""
        self.take(run, site, b"")

    def keep(self, run: str, chain: Chain, digest: bytes, size: int) -> None:
        """``chain`` was at a snapshot of ``size`` bytes and has not been fed since."""
        self.take(run, chain.site, digest)
        counted = max(size, LEAST)
        self._chains[run, chain.site] = (digest, counted, chain)
        self._bytes += counted
        while self._bytes > self._limit:
            _, (_, gone, _) = self._chains.popitem(last=False)
            self._bytes -= gone


LIVE: Final = LiveChains()
"""Of this process."""
