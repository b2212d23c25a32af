"""ORDER BY ... LIMIT k: of each window the results of its first groups.

Results that are updated together are ranked once all of them are, so cuts of the stream do not
matter: a correction of one group may remove another one or bring it back. Ranks are those of the
net results; a result that only moves up or down is not emitted again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.query.plan import WindowPlan
from engine.results.schema import decoded
from engine.window.emitted import ResultBuffer
from engine.window.held.content import NUMBERS, VALUE
from engine.window.held.number import NULL, TEXT
from engine.window.keys import GroupKeys
from engine.window.output.computed import numbers

Columns = dict[str, np.ndarray]
"""Those of an ``ResultBuffer`` in words, without its tally."""


class RankedGroups:
    """Net results of each window that may be corrected, and which of them are emitted.

    Args:
        plan: of the query, with all aggregates that it ranks by.
        keys: knows what its codes mean.
        numbers: the places of the numbers that results show: a result that stays among the
            first with equal numbers is not emitted again. None: all of them.
    """

    def __init__(self, plan: WindowPlan, keys: GroupKeys, numbers: np.ndarray | None) -> None:
        self._plan = plan
        self._keys = keys
        self._numbers = numbers
        self._standing: dict[tuple[int, int], tuple[Columns, np.ndarray]] = {}

    def changes(self, outbox: ResultBuffer) -> ResultBuffer:
        """The changes of the emitted first groups due to the first ``outbox.tally`` changes."""
        n = int(outbox.tally[0])
        columns = {name: col[:n] for name, col in outbox._asdict().items() if name != "tally"}
        block = columns["block"]
        starts = np.flatnonzero(np.diff(block, prepend=block[0] - 1))
        pieces = [
            self._of_block({name: column[start:end] for name, column in columns.items()})
            for start, end in zip(starts, [*starts[1:], n], strict=True)
        ]
        made = {name: np.concatenate([one[name] for one in pieces]) for name in columns}
        return ResultBuffer(**made, tally=np.array([len(made["at"])]))

    def forget(self, last: int) -> None:
        """Windows up to ``last`` are corrected no more."""
        self._standing = {at: of for at, of in self._standing.items() if at[0] > last}

    def _of_block(self, changes: Columns) -> Columns:
        place = int(changes["window"][0]), int(changes["stage"][0])
        before, shown = self._standing.get(place, (_rows(changes, np.empty(0, np.int64)), _NONE))
        fresh = _rows(changes, np.flatnonzero(changes["plus"]))
        kept = np.flatnonzero(~_among(before, changes))
        now = {name: np.concatenate((before[name][kept], fresh[name])) for name in fresh}
        first = self._first(now)
        shows = np.zeros(len(now["at"]), np.bool_)
        shows[first] = True
        stood = np.concatenate((shown[kept], np.zeros(len(fresh["at"]), np.bool_)))
        leaves = shown.copy()
        leaves[kept] &= ~shows[: len(kept)]
        gone, come = _rows(before, np.flatnonzero(leaves)), _rows(now, first[~stood[first]])
        if self._numbers is not None and len(gone["at"]) and len(come["at"]):
            stays, stayed = _alike(gone, come, self._numbers)
            gone, come = _rows(gone, ~stays), _rows(come, ~stayed)
        gone["plus"][:], come["plus"][:] = False, True
        found = {name: np.concatenate((gone[name], come[name])) for name in gone}
        found["at"][:] = changes["at"][0]
        if len(now["at"]):
            self._standing[place] = now, shows
        else:
            self._standing.pop(place, None)
        return found

    def _first(self, rows: Columns) -> np.ndarray:
        """The places of the first ones, in order."""
        ranking = self._plan.ranking
        assert ranking is not None
        labels = [one.label for one in self._plan.aggregates]
        by: list[np.ndarray] = []
        for label, descending in zip(ranking.labels, ranking.descending, strict=True):
            j = labels.index(label) * NUMBERS + VALUE
            kinds, words = rows["kinds"][:, j], rows["words"][:, j]
            absent = kinds == NULL
            if (kinds == TEXT).any():
                texts = decoded(words[:, 1], absent, self._keys.text).fill_null("").to_pylist()
                rank = np.unique(texts, return_inverse=True)[1]
            else:
                values = np.where(absent, 0, numbers(kinds, words))
                rank = np.unique(values, return_inverse=True)[1]
            by += [absent, -rank if descending else rank]
        same = np.zeros(len(rows["at"]), np.int64)
        order = self._keys.in_order(rows["nulls"], rows["keys"], same)
        by.append(np.argsort(order))
        return np.asarray(np.lexsort(by[::-1])[: ranking.limit])

    # ---- state ------------------------------------------------------------------------------

    def snapshot(self) -> list[Any]:
        """Plain data."""
        return [
            (place, {name: column.copy() for name, column in rows.items()}, shown.copy())
            for place, (rows, shown) in self._standing.items()
        ]

    def restore(self, state: list[Any]) -> None:
        """Takes over a snapshot."""
        self._standing = {
            tuple(place): ({name: column.copy() for name, column in rows.items()}, shown.copy())
            for place, rows, shown in state
        }


_NONE = np.empty(0, np.bool_)


def _rows(columns: Columns, places: np.ndarray) -> Columns:
    return {name: column[places] for name, column in columns.items()}


def _alike(gone: Columns, come: Columns, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which of ``gone`` are among ``come`` but for numbers other than these, and which of them."""
    both = []
    for rows in (gone, come):
        n = len(rows["at"])
        parts = (rows["nulls"], rows["keys"], rows["counts"], rows["kinds"][:, numbers],
                 rows["words"][:, numbers])  # fmt: skip
        both.append(np.concatenate([part.reshape(n, -1) for part in parts], axis=1, dtype=np.int64))
    which = np.unique(np.concatenate(both), axis=0, return_inverse=True)[1].reshape(-1)
    old, new = which[: len(both[0])], which[len(both[0]) :]
    return np.isin(old, new), np.isin(new, old)


def _among(rows: Columns, changes: Columns) -> np.ndarray:
    """Which of ``rows`` have a key that one of ``changes`` has."""
    both = [np.column_stack((of["nulls"], of["keys"])) for of in (rows, changes)]
    which = np.unique(np.concatenate(both), axis=0, return_inverse=True)[1].reshape(-1)
    n = len(both[0])
    return np.isin(which[:n], which[n:])
