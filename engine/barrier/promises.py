"""What punctuations promise per type, in a stream that is in no order (SPEC 4.2).

A POG names a type, a source, or both; without a source it speaks for all, without a type for all
of its source's types. A type is covered up to the least promise of its sources: those that have
sent an event of it or a promise that names it, or, while there are none, every source of the site
so far. A source that turns up later and sends something older breaks a promise, which is counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.barrier.timeline import LONG_AGO, Steps
from engine.released import Promises, Released

_ANY = -1


class PromiseBook:
    """Who has promised what.

    Args:
        types: of the query's steps.
    """

    def __init__(self, types: frozenset[str]) -> None:
        self._types = sorted(types)
        # Least ref of later records, by (type or "", source code or -1).
        self._said: dict[tuple[str, int], int] = {}
        self._sources: set[int] = set()
        self._senders: dict[str, set[int]] = {kind: set() for kind in self._types}
        self._covered = dict.fromkeys(self._types, LONG_AGO)

    def steps(self, released: Released, promises: Promises, first: int) -> dict[str, Steps]:
        """Per type, how far it is covered; ``first``: number of the batch's first row."""
        before = dict(self._covered)
        grown: dict[str, list[tuple[int, int, int]]] = {kind: [] for kind in self._types}
        happens = [
            *((row, 0, number) for number, row in enumerate(promises.row.tolist())),
            *((row, 1, row) for row in self._first_rows(released)),
        ]
        for row, is_event, number in sorted(happens):
            if is_event:
                self._seen(
                    released.strings.text(int(released.columns["type"][number])),
                    int(released.columns["source"][number]),
                )
                continue
            kind = released.strings.text(int(promises.type[number]))
            self._promise(kind, int(promises.source[number]), int(promises.ref[number]))
            for covered in self._types:
                value = max(self._covered[covered], self._coverage(covered))
                if value > self._covered[covered]:
                    self._covered[covered] = value
                    grown[covered].append((value, int(promises.at[number]), 2 * (first + row)))
        found = {}
        for kind, moves in grown.items():
            table = np.array(moves, np.int64).reshape(-1, 3)
            found[kind] = Steps.of(table[:, 0], table[:, 1], table[:, 2], before[kind])
        return found

    def _first_rows(self, released: Released) -> list[int]:
        """The first row of each type and source."""
        if not released.n:
            return []
        columns = released.columns
        both = columns["source"].astype(np.int64) << 32 | (columns["type"].astype(np.int64) + 1)
        return sorted(np.unique(both, return_index=True)[1].tolist())

    def _seen(self, kind: str | None, source: int) -> None:
        self._sources.add(source)
        if kind in self._senders:
            self._senders[kind].add(source)

    def _promise(self, kind: str | None, source: int, ref: int) -> None:
        if source != _ANY:
            self._seen(kind, source)
        key = (kind or "", source)
        self._said[key] = max(self._said.get(key, LONG_AGO), ref)

    def _coverage(self, kind: str) -> int:
        def said(source: int) -> int:
            of_type = self._said.get((kind, source), LONG_AGO)
            return max(of_type, self._said.get(("", source), LONG_AGO))

        sources = self._senders[kind] or self._sources
        return max(said(_ANY), min(map(said, sources), default=LONG_AGO))

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "said": dict(self._said),
            "sources": set(self._sources),
            "senders": {kind: set(sources) for kind, sources in self._senders.items()},
            "covered": dict(self._covered),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        self._said, self._sources = dict(state["said"]), set(state["sources"])
        self._senders = {kind: set(sources) for kind, sources in state["senders"].items()}
        self._covered = dict(state["covered"])
