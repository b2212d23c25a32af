"""What is still known of sources that were forgotten: how many they were, and their counters."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from msgspec import Struct, field

from engine.order.sequence.state import COUNTERS, PROGRESS


class Forgotten(Struct):
    """How many sources were forgotten, and what became of their events."""

    sources: int = 0
    may_have_returned: int = 0
    """Sources that began without an announcement, and not at number 0, since the first went."""
    _sums: Counter[str] = field(default_factory=Counter)

    def add(self, sources: int, lanes: np.ndarray) -> None:
        """So many sources, whose lanes were these, are forgotten."""
        self.sources += sources
        for name in (*COUNTERS, *PROGRESS):
            self._sums[name] += int(lanes[name].sum())

    def lanes(self, names: tuple[str, ...], others: tuple[str, ...]) -> list[dict[str, Any]]:
        """As one lane of no source, so that events add up."""
        sums = {name: self._sums[name] for name in names} | dict.fromkeys(others, 0)
        return [
            {
                "source": None, "stream": None, **sums, "newest_ts": None, "last_arrival": None,
                "ended": True, "idle": False,
            }
        ]  # fmt: skip

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {"counts": (self.sources, self.may_have_returned), "sums": dict(self._sums)}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self.sources, self.may_have_returned = state["counts"]
        self._sums = Counter(state["sums"])
