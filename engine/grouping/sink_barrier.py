"""The one barrier, at the sink: what a watermark has passed can be taken back no more (K18 V.D).

Source: K18 Algorithm 3.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from engine.errors import ContractViolation
from engine.grouping.items import COLUMNS, Items, joined
from engine.kernels.integers import INT_MAX

_PIECES: Final = 64
"""Waiting one by one until tombstones are looked up."""


class SinkBarrier:
    """Holds items until the watermark passes them, and forgets those that are taken back."""

    def __init__(self) -> None:
        self._pieces: list[Items] = []
        self._least = INT_MAX
        self.arrived = 0
        """Items so far, tombstones among them."""
        self.let_go = 0
        """Valid items so far."""

    def insert(self, items: Items) -> None:
        """Take ``items``, tombstones among them, in the order in which they were made."""
        if len(items):
            self.arrived += len(items)
            self._least = min(self._least, int(items.ref.min()))
            self._pieces.append(items)
            if len(self._pieces) > _PIECES:
                self.waiting()

    def punctuation(self, floor: int, rank: np.ndarray) -> Items | None:
        """No item or tombstone with a ref below ``floor`` comes any more: those go out, in order.

        Args:
            floor: the watermark [ns].
            rank: places of the sources in their order.
        """
        if floor <= self._least:
            return None
        items = joined(self._pieces)
        valid = _valid(items)
        times = items.ref[valid]
        if _ascend(times):
            end = int(np.searchsorted(times, floor))
            passed, left = valid[:end], valid[end:]
        else:
            is_passed = times < floor
            passed, left = valid[is_passed], valid[~is_passed]
            passed = passed[_in_order(items, passed, rank)]
        self._hold(items.take(left))
        self.let_go += len(passed)
        return items.take(passed) if len(passed) else None

    def _hold(self, items: Items | None) -> None:
        """``items``, valid ones, and no others."""
        held = items is not None and len(items) > 0
        self._pieces = [items] if items is not None and held else []
        self._least = int(items.ref.min()) if items is not None and held else INT_MAX

    @property
    def held(self) -> int:
        """Valid items that wait."""
        waiting = self.waiting()
        return 0 if waiting is None else len(waiting)

    def waiting(self) -> Items | None:
        """Valid items that wait, in the order in which they came."""
        if len(self._pieces) > 1 or any(each.tombstone.any() for each in self._pieces):
            items = joined(self._pieces)
            self._hold(items.take(_valid(items)))
        return self._pieces[0] if self._pieces else None

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        held = self.waiting()
        columns = None if held is None else [getattr(held, name) for name in COLUMNS]
        return {"held": columns, "counts": (self.arrived, self.let_go)}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        self._hold(None if state["held"] is None else Items(*state["held"]))
        self.arrived, self.let_go = state["counts"]


def _valid(items: Items) -> np.ndarray:
    """Places of the items that are not taken back.

    Raises:
        ContractViolation: a tombstone of an item that is not there.
    """
    if not items.tombstone.any():
        return np.arange(len(items))
    back, regular = items.number[items.tombstone], np.flatnonzero(~items.tombstone)
    # Numbers are given out in order, so they ascend.
    numbers = items.number[regular]
    place = np.searchsorted(numbers, back)
    if (place == len(numbers)).any() or (numbers[place] != back).any():
        raise ContractViolation("a tombstone came of an item that is not at the barrier")
    stands = np.ones(len(regular), np.bool_)
    stands[place] = False
    return regular[stands]


def _in_order(items: Items, chosen: np.ndarray, rank: np.ndarray) -> np.ndarray:
    """Places among ``chosen`` in the order of items."""
    times = items.ref[chosen]
    order = np.argsort(times, kind="stable")
    if _ascend(times[order]):
        return order
    columns = (items.child[chosen], items.seq[chosen], rank[items.source[chosen]], times)
    return np.lexsort(columns)


def _ascend(times: np.ndarray) -> bool:
    """Whether each is later than the one before it."""
    return bool((times[1:] > times[:-1]).all())
