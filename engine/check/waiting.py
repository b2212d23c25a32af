"""Results that are held: when each is due, and what it says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from engine.check.results import NewResults, taken_values
from engine.kernels.integers import INT_MAX
from engine.query.values import Value


class HeldResults(NamedTuple):
    """Columns of int64; ``group`` and ``row``: where the content is."""

    identity: np.ndarray
    at: np.ndarray
    deadline: np.ndarray
    place: np.ndarray
    key: np.ndarray
    group: np.ndarray
    row: np.ndarray

    def taken(self, rows: np.ndarray) -> HeldResults:
        """Those at ``rows``."""
        return HeldResults(*(column[rows] for column in self))


class HeldContent(NamedTuple):
    """Of results that began to be held at once."""

    table: pa.Table
    values: list[Value]


class WaitingResults:
    """The held results of one query."""

    def __init__(self) -> None:
        self.held = HeldResults(*(np.zeros(0, np.int64) for _ in HeldResults._fields))
        self._contents: dict[int, HeldContent] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self.held.at)

    def add(self, new: NewResults, rows: np.ndarray, hold: np.ndarray) -> None:
        """``rows`` of ``new``, each for its ``hold`` [ns]."""
        for table, start, end in zip(new.tables, new.starts, new.starts[1:], strict=False):
            of_table = (rows >= start) & (rows < end)
            mine = rows[of_table]
            if not len(mine):
                continue
            at = new.at[mine]
            told = HeldResults(
                new.identity[mine], at, at + np.minimum(hold[of_table], INT_MAX - at),
                new.place[mine], new.key[mine], np.full(len(mine), self._next),
                np.arange(len(mine)),
            )  # fmt: skip
            self.held = HeldResults(
                *(np.concatenate(pair) for pair in zip(self.held, told, strict=True))
            )  # fmt: skip
            content = table.take(pa.array(mine - start))
            self._contents[self._next] = HeldContent(content, taken_values(new.values, mine))
            self._next += 1

    def contents(self, rows: np.ndarray) -> Iterator[tuple[np.ndarray, HeldContent, np.ndarray]]:
        """(some of ``rows``, where their content is, their rows there)."""
        group = self.held.group[rows]
        for number in np.unique(group).tolist():
            mine = rows[group == number]
            yield mine, self._contents[number], self.held.row[mine]

    def keep(self, rows: np.ndarray) -> None:
        """Those at ``rows`` alone; what has no result left goes."""
        if len(rows) == len(self.held.at):
            return
        self.held = self.held.taken(rows)
        left = set(self.held.group.tolist())
        self._contents = {n: each for n, each in self._contents.items() if n in left}

    def codes(self) -> list[np.ndarray]:
        """Codes of texts among the values."""
        contents = self._contents.values()
        return [v.data for each in contents for v in each.values if v.kind == "str"]

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        contents = {
            number: (each.table, [(v.kind, v.data, v.valid) for v in each.values])
            for number, each in self._contents.items()
        }
        return {"held": tuple(self.held), "contents": contents, "next": self._next}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        self.held = HeldResults(*state["held"])
        self._next = state["next"]
        self._contents = {
            number: HeldContent(table, [Value(*value) for value in values])
            for number, (table, values) in state["contents"].items()
        }
