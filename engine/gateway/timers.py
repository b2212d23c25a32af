"""What is due when: one heap for all sites and connections, so that waking costs what is due.

Most deadlines move on with every message and are seldom reached. So an entry of the heap stays
where it is when its deadline moves on, and is put right when it comes up.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from itertools import count


class Timers:
    """Deadlines by key; of equal ones the first to be set comes first."""

    def __init__(self) -> None:
        self._due: dict[Hashable, int] = {}
        self._queued: dict[Hashable, int] = {}
        """Of each key the earliest entry in the heap."""
        self._heap: list[tuple[int, int, Hashable]] = []
        self._order = count()
        self.sooner = False
        """Whether ``next_due`` may be earlier than when it was last asked."""

    def __len__(self) -> int:
        return len(self._due)

    def set(self, key: Hashable, due: int | None) -> None:
        """``key`` is due at ``due``; None: no more."""
        if due == self._due.get(key):
            return
        if due is None:
            del self._due[key]
            return
        self._due[key] = due
        self._queue(key, due)

    def _queue(self, key: Hashable, due: int) -> None:
        queued = self._queued.get(key)
        if queued is None or due < queued:
            self._queued[key] = due
            self.sooner = True
            heapq.heappush(self._heap, (due, next(self._order), key))

    def is_set(self, key: Hashable) -> bool:
        """Whether ``key`` will be due."""
        return key in self._due

    def next_due(self) -> int | None:
        """The earliest deadline."""
        found = None
        while self._heap:
            entry, _, key = self._heap[0]
            due = self._due.get(key)
            if due == entry:
                found = entry
                break
            heapq.heappop(self._heap)
            if self._queued.get(key) == entry:
                del self._queued[key]
                if due is not None:
                    self._queue(key, due)
        self.sooner = False
        return found

    def pop_due(self, now: int) -> Hashable | None:
        """The key that is due first, and no longer set then; None: nothing is due by ``now``."""
        due = self.next_due()
        if due is None or due > now:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._due[key], self._queued[key]
        return key
