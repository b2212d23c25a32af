"""The matches that a batch is about and those that the barrier holds, each with a number.

A match with repeated steps has any number of events, so a barrier knows it by its number here,
where the barriers of other patterns know the places of its events.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from engine.kernels.hashing import mixed
from engine.kernels.jit import kernel
from engine.kernels.records import numbers_of, record
from engine.kernels.table import numbered, places_of
from engine.repetition.records import EVENT_OF

NAME: Final = record("size", "one", "two")
"""What tells a match from others: how many events, and two hashes of what they are."""


@kernel
def _named(
    start: np.ndarray, size: np.ndarray, path: np.ndarray, order: np.ndarray, by_step: bool,
    name: np.ndarray,
) -> None:  # fmt: skip
    for m in range(len(start)):
        one, two = 1, 2
        for i in range(start[m], start[m] + size[m]):
            step = path[i].step if by_step else 0
            one = mixed(mixed(one, order[path[i].row]), step)
            two = mixed(mixed(two, step + 7), order[path[i].row])
        name[m].size, name[m].one, name[m].two = size[m], one, two


class MatchTable:
    """``start``, ``size``: where the events of each match lie in ``path`` (EVENT_OF); ``name``:
    what tells it from others.

    Args:
        by_step: whether matches of the same events as other steps are others.
    """

    def __init__(self, *, by_step: bool) -> None:
        self._by_step = by_step
        self.start = self.size = np.empty(0, np.int64)
        self.name = np.empty((0, 3), np.int64)
        self.path = np.empty(0, EVENT_OF)

    def __len__(self) -> int:
        return len(self.start)

    def numbers(
        self, start: np.ndarray, size: np.ndarray, path: np.ndarray, order: np.ndarray
    ) -> np.ndarray:
        """The numbers of some matches; those that are not here are put in.

        Args:
            start: where the events of each begin in ``path``; the same match may come twice.
            size: how many it has.
            path: EVENT_OF.
            order: of each row of the store, its number in the stream.
        """
        names = np.empty(len(start), NAME)
        _named(start, size, path, order, self._by_step, names)
        name = numbers_of(names)
        which = numbered(name)
        highest = np.maximum.accumulate(which)
        once = np.flatnonzero(np.diff(highest, prepend=-1))
        found = places_of(self.name, name[once])
        new = once[found < 0]
        found[found < 0] = len(self) + np.arange(len(new))
        self.start = np.concatenate((self.start, start[new] + len(self.path)))
        self.size = np.concatenate((self.size, size[new]))
        self.name = np.concatenate((self.name, name[new]))
        self.path = np.concatenate((self.path, path))
        return np.asarray(found[which])

    def events(self, matches: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of ``matches`` all EVENT_OF one behind the other, and where each one's begin and end."""
        size = self.size[matches]
        ends = np.concatenate(([0], np.cumsum(size)))
        within = np.arange(ends[-1]) - np.repeat(ends[:-1], size)
        return self.path[np.repeat(self.start[matches], size) + within], ends

    def keep(self, held: np.ndarray) -> np.ndarray:
        """Forgets all but ``held``; gives the new number of each, -1 of those that are gone."""
        kept = np.unique(held)
        number = np.full(len(self), -1)
        number[kept] = np.arange(len(kept))
        self.path, ends = self.events(kept)
        self.start, self.size, self.name = ends[:-1], self.size[kept], self.name[kept]
        return number

    def renumber(self, number: np.ndarray) -> None:
        """Row i of the store is now called ``number[i]``."""
        self.path["row"] = number[self.path["row"]]

    def snapshot(self) -> list[np.ndarray]:
        """Plain data."""
        return [part.copy() for part in (self.start, self.size, self.name, self.path)]

    def restore(self, state: Any) -> None:
        """Takes over a snapshot."""
        self.start, self.size, self.name, self.path = (part.copy() for part in state)
