"""Events that results are, as columns with their attributes' types: joined, cut, put in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from engine.cascade.derived_events import CONTENT
from engine.stream.columns import Columns, join
from engine.stream.ends import REF_END
from engine.stream.frame import ATTR_PREFIX
from engine.stream.value_rules import joined_type

CODED: Final = ("source", "clock", "stream", "type")
"""Columns of codes of texts, besides attributes that are texts."""


@dataclass(slots=True)
class DerivedRows:
    """``n`` events. ``types``: of own attributes that some event has."""

    n: int = 0
    columns: Columns = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[name]

    @property
    def time(self) -> np.ndarray:
        """By which they are put in order: their ends."""
        return self.columns.get(REF_END, np.empty(0, np.int64))

    def take(self, which: np.ndarray) -> DerivedRows:
        """Those of ``which``: places, or a mask."""
        if not self.n:
            return self
        columns = {name: column[which] for name, column in self.columns.items()}
        n = int(which.sum()) if which.dtype == np.bool_ else len(which)
        return DerivedRows(n, columns, self.types) if n else DerivedRows()

    def cut(self, start: int, end: int) -> DerivedRows:
        """Those from place ``start`` to before ``end``: views of these."""
        if end <= start:
            return DerivedRows()
        columns = {name: column[start:end] for name, column in self.columns.items()}
        return DerivedRows(end - start, columns, self.types)

    def having(self, **columns: np.ndarray) -> DerivedRows:
        """The same with these columns."""
        return DerivedRows(self.n, {**self.columns, **columns}, self.types) if self.n else self

    def in_order(self) -> DerivedRows:
        """By their ends, then their starts, then what they are: the same however they came."""
        if self.n < 2:
            return self
        keys = [self.columns[name] for name in (*CONTENT[::-1], "ref", REF_END)]
        return self.take(np.lexsort(keys))

    def contents(self) -> np.ndarray:
        """What they are: int64 (n, 2) (``engine.results.identity``)."""
        if not self.n:
            return np.empty((0, len(CONTENT)), np.int64)
        return np.column_stack([self.columns[name] for name in CONTENT])

    def codes(self) -> np.ndarray:
        """Of texts."""
        if not self.n:
            return np.empty(0, np.int64)
        names = [*CODED, *(ATTR_PREFIX + name for name, of in self.types.items() if of == "str")]
        held = [self.columns[name] for name in names if name in self.columns]
        return np.unique(np.concatenate(held))

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        columns = {name: column.copy() for name, column in self.columns.items()}
        return {"n": self.n, "columns": columns, "types": dict(self.types)}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> DerivedRows:
        """From a snapshot."""
        return cls(state["n"], dict(state["columns"]), dict(state["types"]))


def joined(parts: Sequence[DerivedRows]) -> DerivedRows:
    """One after another; an attribute that was whole somewhere and is not elsewhere is not."""
    some = [part for part in parts if part.n]
    if len(some) < 2:
        return some[0] if some else DerivedRows()
    types: dict[str, str] = {}
    for part in some:
        for name, of in part.types.items():
            both = joined_type(types.get(name), of)
            assert both is not None, f"{name}: {types.get(name)} and {of}"
            types[name] = both
    lengths = [part.n for part in some]
    return DerivedRows(sum(lengths), join([part.columns for part in some], lengths), types)
