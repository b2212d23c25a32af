"""The one barrier, at the sink: what a watermark has passed can be taken back no more (K18 V.D).

Source: K18 Algorithm 3. Instead of a place in a sorted buffer for each item, what waits is sorted
in one go once a quarter of it is new; what is newer lies behind it as it came.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from slackwater.engine.core.errors import ContractViolation
from slackwater.engine.kernels.records import INT_MAX
from slackwater.engine.operators.grouping.items import COLUMNS, Items, joined

_LEAST: Final = 1 << 12
"""So many items may be new without being sorted in."""
_SHARE: Final = 4


class SinkBarrier:
    """Holds items until the watermark passes them, and forgets those that are taken back."""

    def __init__(self) -> None:
        self._sorted: Items | None = None
        self._stands = np.empty(0, np.bool_)
        """Of those sorted: was neither taken back nor let go."""
        self._start = 0
        """Those sorted before it were let go."""
        self._by_number: np.ndarray | None = None
        """Places of those sorted, by their numbers; None: not asked for yet."""
        self._new: list[Items] = []
        self._new_rows = 0
        self._new_least = INT_MAX
        self.arrived = 0
        """Items so far, tombstones among them."""
        self.let_go = 0
        """Valid items so far."""

    def insert(self, items: Items) -> None:
        """Take ``items``, tombstones among them, in the order in which they were made.

        Raises:
            ContractViolation: a tombstone of an item that is not there.
        """
        self.arrived += len(items)
        if items.tombstone.any():
            items = self._without_taken_back(items)
        if len(items):
            self._put(items)

    def _put(self, items: Items) -> None:
        self._new.append(items)
        self._new_rows += len(items)
        self._new_least = min(self._new_least, int(items.ref.min()))

    def _without_taken_back(self, items: Items) -> Items:
        """The regular ones of ``items`` and of those held that stand after their tombstones."""
        back, regular = items.number[items.tombstone], items.take(~items.tombstone)
        here, back = _found(regular.number, back)
        if len(back):
            # Numbers are given out in order, so those of new items ascend.
            held = joined(self._new) if self._new else regular.take(slice(0))
            there, back = _found(held.number, back)
            if len(there):
                self._replace_new(held.take(np.delete(np.arange(len(held)), there)))
        if len(back):
            self._take_back_sorted(back)
        return regular.take(np.delete(np.arange(len(regular)), here))

    def _replace_new(self, items: Items) -> None:
        self._new, self._new_rows, self._new_least = [], 0, INT_MAX
        if len(items):
            self._put(items)

    def _take_back_sorted(self, back: np.ndarray) -> None:
        numbers = np.empty(0, np.int64) if self._sorted is None else self._sorted.number
        if self._by_number is None:
            self._by_number = np.argsort(numbers)
        place, missing = _found(numbers[self._by_number], back)
        found = self._by_number[place]
        if len(missing) or not self._stands[found].all():
            raise ContractViolation("a tombstone came of an item that is not at the barrier")
        self._stands[found] = False

    def punctuation(self, floor: int, rank: np.ndarray) -> Items | None:
        """No item or tombstone with a ref below ``floor`` comes any more: those go out, in order.

        Args:
            floor: the watermark [ns].
            rank: places of the sources in their order.
        """
        if self._new_rows > max(_LEAST, len(self._stands) // _SHARE):
            self._sort_in()
        gone = []
        if self._sorted is not None:
            end = self._start + int(np.searchsorted(self._sorted.ref[self._start :], floor))
            if end > self._start:
                passed = self._start + np.flatnonzero(self._stands[self._start : end])
                self._stands[self._start : end] = False
                gone.append(self._sorted.take(passed))
                self._start = end
        if floor > self._new_least:
            new = joined(self._new)
            is_passed = new.ref < floor
            gone.append(new.take(is_passed))
            self._replace_new(new.take(~is_passed))
        if not sum(map(len, gone)):
            return None
        self.let_go += sum(map(len, gone))
        return _in_order(joined(gone), rank)

    def _sort_in(self) -> None:
        """All that waits is sorted by its time, and nothing is new."""
        pieces = list(self._new)
        if self._sorted is not None:
            pieces.insert(0, self._sorted.take(self._stands))
        self._replace_new(pieces[0].take(slice(0)))
        items = joined(pieces)
        if not _ascend(items.ref):
            items = items.take(np.argsort(items.ref, kind="stable"))
        self._sorted, self._start, self._by_number = items, 0, None
        self._stands = np.ones(len(items), np.bool_)

    @property
    def held(self) -> int:
        """Valid items that wait."""
        return int(self._stands.sum()) + self._new_rows

    def waiting(self) -> Items | None:
        """Valid items that wait, in the order of their numbers."""
        if self._new or self._sorted is not None:
            self._sort_in()
        if self._sorted is None or not len(self._sorted):
            return None
        return self._sorted.take(np.argsort(self._sorted.number))

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        held = self.waiting()
        columns = None if held is None else [getattr(held, name) for name in COLUMNS]
        return {"held": columns, "counts": (self.arrived, self.let_go)}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        if state["held"] is not None:
            self._put(Items(*state["held"]))
        self.arrived, self.let_go = state["counts"]


def _found(ascending: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of those of ``wanted`` that are there, and the others."""
    if not len(ascending):
        return np.empty(0, np.int64), wanted
    place = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    there = ascending[place] == wanted
    return place[there], wanted[~there]


def _in_order(items: Items, rank: np.ndarray) -> Items:
    """``items`` in their own order."""
    if _ascend(items.ref):
        return items
    order = np.argsort(items.ref, kind="stable")
    if not _ascend(items.ref[order]):
        order = np.lexsort(
            (items.child, items.origin, items.seq, rank[items.source], items.ref)
        )  # fmt: skip
    return items.take(order)


def _ascend(times: np.ndarray) -> bool:
    """Whether each is later than the one before it."""
    return bool((times[1:] > times[:-1]).all())
