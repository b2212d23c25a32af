"""The events that may still be part of a match, as columns; one copy for all steps."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from engine.columns import VALID_PREFIX
from engine.frame import ATTR_PREFIX
from engine.pattern.certainty import Clock
from engine.query.expression import View
from engine.released import Released, Strings

FIELDS: Final = (
    "ref", "unc", "epoch", "ts", "te", "arrival", "release", "seq", "source", "stream", "type",
)  # fmt: skip
ORDER: Final = "order"
"""Number of the row in the released stream: what was released earlier."""
EXPIRES: Final = "expires"
"""The last frontier at which the event may still be part of a new match."""
MEMBER: Final = "member"
"""Bit k: the event satisfies step k's own conditions."""
FRONTIER: Final = "frontier"
"""Progress at the event; held for plans with negated steps only, like ``T_A``."""
T_A: Final = "t_a"
"""The site's T_a in force at the event."""


class Store:
    """``columns``: ``FIELDS``, those of the constants above, attributes, each with a mask."""

    def __init__(self) -> None:
        self.columns: dict[str, np.ndarray] = {}
        self.attr_types: dict[str, str] = {}
        self.n = 0

    def append(
        self, released: Released, rows: np.ndarray, attributes: set[str] | None,
        more: dict[str, np.ndarray],
    ) -> None:  # fmt: skip
        """Add ``rows`` of a batch.

        Args:
            released: the batch.
            rows: which of its rows.
            attributes: own attributes to keep; None = all.
            more: ``order expires member`` (and ``frontier t_a``) of those rows.
        """
        fresh = {name: released.columns[name][rows] for name in FIELDS} | more
        for attr, kind in released.attr_types.items():
            name = ATTR_PREFIX + attr
            if name not in released.columns or (attributes is not None and attr not in attributes):
                continue
            valid = released.columns.get(VALID_PREFIX + attr)
            fresh[name] = released.columns[name][rows]
            fresh[VALID_PREFIX + attr] = (
                np.ones(len(rows), np.bool_) if valid is None else valid[rows]
            )
            self.attr_types[attr] = kind
        for name in fresh.keys() | self.columns.keys():
            self.columns[name] = _joined(self.columns.get(name), self.n, fresh.get(name), len(rows))
        self.n += len(rows)

    def keep(self, wanted: np.ndarray) -> None:
        """Drop every event but those marked in ``wanted``."""
        self.columns = {name: column[wanted] for name, column in self.columns.items()}
        self.n = int(wanted.sum())

    def clock(self, rows: np.ndarray) -> Clock:
        """What is known of the times of ``rows``."""
        c = self.columns
        return Clock(c["ref"], c["unc"], c["epoch"], c["source"]).take(rows)

    def view(self, rows: np.ndarray, names: set[str], strings: Strings) -> View:
        """The columns ``names`` of ``rows``, for predicates."""
        found = {name: self.columns[name][rows] for name in names if name in self.columns}
        return View.of(found, self.attr_types, strings)

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        columns = {name: column.copy() for name, column in self.columns.items()}
        return {"columns": columns, "attr_types": dict(self.attr_types), "n": self.n}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        self.columns = {name: column.copy() for name, column in state["columns"].items()}
        self.attr_types, self.n = dict(state["attr_types"]), state["n"]


def _joined(old: np.ndarray | None, old_n: int, new: np.ndarray | None, new_n: int) -> np.ndarray:
    """An attribute that one side lacks is zero there; its mask, also lacking, says null."""
    known = old if new is None else new
    assert known is not None
    parts = (
        np.zeros(old_n, known.dtype) if old is None else old,
        np.zeros(new_n, known.dtype) if new is None else new,
    )
    return np.concatenate(parts)
