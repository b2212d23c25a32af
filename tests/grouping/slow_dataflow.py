"""K18's Algorithms 1 to 3 as they are printed: items one by one, states sent round the cycle.

Links are one queue, so what was emitted first is handled first. A state is an item of its bucket,
right behind the item that made it.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Meta = tuple[int, ...]


@dataclass(frozen=True)
class DataItem:
    """``meta``: (time, source, number); ``state``: sent round the cycle; ``back``: a tombstone."""

    meta: Meta
    payload: Any
    state: bool = False
    back: bool = False

    @property
    def place(self) -> tuple[Any, ...]:
        return (*self.meta, self.state)


class SlowBuckets:
    """Algorithm 2."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.buckets: dict[Any, list[DataItem]] = {}

    def insert(self, item: DataItem, key: Any) -> list[tuple[tuple[DataItem, ...], bool]]:
        """Groups that are emitted, and whether each is a tombstone."""
        bucket = self.buckets.setdefault(key, [])
        if item.back:
            place = next(i for i, each in enumerate(bucket)
                         if (each.place, each.payload) == (item.place, item.payload))  # fmt: skip
            out = [(group, True) for group in self._ending(bucket, place, self.window)]
            del bucket[place]
            return out + [(g, False) for g in self._ending(bucket, place, self.window - 1)]
        place = sum(each.place <= item.place for each in bucket)
        out = [(group, True) for group in self._ending(bucket, place, self.window - 1)]
        bucket.insert(place, item)
        return out + [(group, False) for group in self._ending(bucket, place, self.window)]

    def _ending(self, bucket: list[DataItem], first: int, ends: int) -> list[tuple[DataItem, ...]]:
        """The groups that end at ``first`` or one of the ``ends - 1`` places behind it."""
        last = min(first + ends, len(bucket))
        return [
            tuple(bucket[max(0, end + 1 - self.window) : end + 1]) for end in range(first, last)
        ]


class SlowBarrier:
    """Algorithm 3."""

    def __init__(self) -> None:
        self.buffer: list[tuple[Meta, int, Any]] = []
        self.arrived = 0

    def insert(self, meta: Meta, payload: Any, *, back: bool) -> None:
        self.arrived += 1
        if back:
            at = next(
                i for i, each in enumerate(self.buffer) if (each[0], each[2]) == (meta, payload)
            )
            del self.buffer[at]
        else:
            insort(self.buffer, (meta, self.arrived, payload), key=lambda each: each[:2])

    def punctuation(self, time: int) -> list[Any]:
        passed = [payload for meta, _, payload in self.buffer if meta[0] < time]
        self.buffer = self.buffer[len(passed) :]
        return passed


def slow_grouping(
    items: list[tuple[Meta, Any]], window: int, key: Callable[[Any], Any]
) -> SlowBarrier:
    """Tuples of payloads at the barrier."""
    buckets, barrier = SlowBuckets(window), SlowBarrier()
    for meta, payload in items:
        for group, back in buckets.insert(DataItem(meta, payload), key(payload)):
            barrier.insert(group[-1].meta, tuple(each.payload for each in group), back=back)
    return barrier


def slow_stateful(
    items: list[tuple[Meta, Any]],
    combine: Callable[[Any, Any], tuple[Any, list[Any]]],
    key: Callable[[Any], Any],
) -> SlowBarrier:
    """What ``combine`` gives at the barrier, by grouping of window 2, a map and the cycle."""
    buckets, barrier = SlowBuckets(2), SlowBarrier()
    for meta, payload in items:
        links = deque([(DataItem(meta, payload), key(payload))])
        while links:
            item, of = links.popleft()
            for group, back in buckets.insert(item, of):
                last = group[-1]
                if last.state or (len(group) == 2 and not group[0].state):
                    continue  # the filter: a state that is combined already, or one still to come
                state = group[0].payload if len(group) == 2 else None
                new, outputs = combine(state, last.payload)
                links.append((DataItem(last.meta, new, state=True, back=back), of))
                for output in outputs:
                    barrier.insert(last.meta, output, back=back)
    return barrier
