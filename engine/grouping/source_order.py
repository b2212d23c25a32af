"""The order of a site's sources, by their names: codes are given out as sources turn up."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from engine.stream.released import Strings


class SourceOrder:
    """Knows the sources of the events that a dataflow holds."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._generation = 0
        self._rank = np.zeros(1, np.int64)

    def rank(
        self, codes: np.ndarray, strings: Strings, held: Callable[[], np.ndarray]
    ) -> np.ndarray:
        """By code its place in the order of names, of ``codes`` and those ``held``."""
        found = np.unique(codes)
        if strings.generation != self._generation:
            self._generation = strings.generation
            found, self._names = np.union1d(found, held()), {}
        new = {code: strings.texts[code] for code in found.tolist() if code not in self._names}
        if new:
            self._names.update(new)
            self._put_in_order()
        return self._rank

    def _put_in_order(self) -> None:
        by_name = sorted(self._names, key=self._names.__getitem__)
        self._rank = np.zeros(max(by_name, default=0) + 1, np.int64)
        self._rank[by_name] = np.arange(len(by_name))

    def strings(self) -> Strings:
        """The names by code, until a batch brings the site's table."""
        texts = [""] * (max(self._names, default=-1) + 1)
        for code, name in self._names.items():
            texts[code] = name
        return Strings(texts)

    def restore(self, names: Mapping[int, str]) -> None:
        """Takes over the sources of what is held."""
        self._names = dict(names)
        self._put_in_order()
