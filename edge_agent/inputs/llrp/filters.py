"""Reads that are left out by choice: ghosts, and tags that stay before an antenna.

Both count per tag and antenna, on the reads' own times. A read passes the ghost filter when there
are enough reads in the window that ends with it; the first to pass has the time of the oldest of
them, which is when the tag was first seen. A read that passed hides those after it for a while.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Final

TAGS_MAX: Final = 16_384
"""Tags and antennas that are remembered; the one heard least recently is forgotten first."""
READS_MAX: Final = 20
"""Most reads that a ghost filter asks for."""

Key = tuple[str, int | None]


class _Tag:
    __slots__ = ("passed_ns", "reads")

    def __init__(self) -> None:
        self.reads: deque[tuple[int, int]] = deque()
        """Time and count of those in the window."""
        self.passed_ns: int | None = None


class ReadFilter:
    """Says of each read whether it becomes an event, and of which time."""

    def __init__(self, same_ns: int, ghost_reads: int, ghost_ns: int) -> None:
        """``same_ns`` 0: every read passes; ``ghost_reads`` 1: one is enough."""
        self.counts: Counter[str] = Counter()
        """Reads left out: ``duplicates``, ``ghosts``; ``forgotten`` tags."""
        self._same_ns = same_ns
        self._reads = ghost_reads
        self._ghost_ns = ghost_ns
        self._tags: dict[Key, _Tag] = {}

    def passes(self, key: Key, ts: int, count: int) -> int | None:
        """The event's time [ns]; None: the read is left out.

        Args:
            key: tag and antenna.
            ts: of the read [ns].
            count: how often the tag was seen for it.
        """
        if not self._same_ns and self._reads <= 1:
            return ts
        tag = self._tags.pop(key, None) or _Tag()
        self._tags[key] = tag
        if len(self._tags) > TAGS_MAX:
            del self._tags[next(iter(self._tags))]
            self.counts["forgotten"] += 1
        since = self._since(tag, ts, count)
        if since is None:
            self.counts["ghosts"] += 1
            return None
        # A clock that was set back by more than that hides nothing.
        if tag.passed_ns is not None and abs(ts - tag.passed_ns) < self._same_ns:
            self.counts["duplicates"] += 1
            return None
        first = tag.passed_ns is None or tag.passed_ns < since
        tag.passed_ns = ts
        return since if first else ts

    def _since(self, tag: _Tag, ts: int, count: int) -> int | None:
        """The oldest read of the window that ends at ``ts``; None: they are too few."""
        if self._reads <= 1:
            return ts
        tag.reads.append((ts, max(count, 1)))
        # Each counts one at least: the newest are as many as can be needed.
        while len(tag.reads) > self._reads or abs(ts - tag.reads[0][0]) >= self._ghost_ns > 0:
            tag.reads.popleft()
        return tag.reads[0][0] if sum(n for _, n in tag.reads) >= self._reads else None
