"""Sums that grow one value at a time, per cell: exact for integers, compensated for floats.

Integer sums are kept in two words (128 bits in effect), so they are exact. Float sums carry the
rounding error along (Neumaier 1974, "Rundungsfehleranalyse"), the deviation's moments follow
Welford 1962 and are joined by Chan, Golub & LeVeque 1979. All are strictly sequential per cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from engine.jit import njit
from engine.window.cells import Cells
from engine.window.drift import AMBIGUOUS

_HALF_WORD: Final = 32
_EMPTY: Final[np.ndarray] = np.empty(0, np.bool_)


@njit
def _add_ints(
    row: np.ndarray, cell: np.ndarray, values: np.ndarray, valid: np.ndarray,
    n: np.ndarray, sums: np.ndarray,
) -> None:  # fmt: skip
    """``sums`` per cell: high word, low word, smallest, largest."""
    for j in range(len(row)):
        if len(valid) > 0 and not valid[row[j]]:
            continue
        x, c = values[row[j]], cell[j]
        if n[c] == 0:
            sums[c, 0] = x >> 32
            sums[c, 1] = x & 0xFFFFFFFF
            sums[c, 2] = x
            sums[c, 3] = x
        else:
            sums[c, 0] += x >> 32
            sums[c, 1] += x & 0xFFFFFFFF
            sums[c, 2] = min(sums[c, 2], x)
            sums[c, 3] = max(sums[c, 3], x)
        n[c] += 1


@njit
def _add_floats(
    row: np.ndarray, cell: np.ndarray, values: np.ndarray, valid: np.ndarray,
    n: np.ndarray, sums: np.ndarray,
) -> None:  # fmt: skip
    """``sums`` per cell: sum, its rounding error, smallest, largest. NaN counts as null."""
    for j in range(len(row)):
        x, c = values[row[j]], cell[j]
        if x != x or (len(valid) > 0 and not valid[row[j]]):  # noqa: PLR0124 - NaN
            continue
        if n[c] == 0:
            sums[c, 0] = x
            sums[c, 1] = 0.0
            sums[c, 2] = x
            sums[c, 3] = x
        else:
            before = sums[c, 0]
            after = before + x
            shifted = after - before
            sums[c, 0] = after
            sums[c, 1] += (before - (after - shifted)) + (x - shifted)
            sums[c, 2] = min(sums[c, 2], x)
            sums[c, 3] = max(sums[c, 3], x)
        n[c] += 1


@njit
def _add_moments(
    row: np.ndarray, cell: np.ndarray, values: np.ndarray, valid: np.ndarray,
    n: np.ndarray, moments: np.ndarray,
) -> None:  # fmt: skip
    """``moments`` per cell: count, mean, sum of squared deviations. ``n``: before these rows."""
    for j in range(len(row)):
        x, c = float(values[row[j]]), cell[j]
        if x != x or (len(valid) > 0 and not valid[row[j]]):  # noqa: PLR0124 - NaN
            continue
        if n[c] == 0:
            moments[c, 0] = 0.0
            moments[c, 1] = 0.0
            moments[c, 2] = 0.0
        n[c] += 1
        moments[c, 0] += 1.0
        delta = x - moments[c, 1]
        moments[c, 1] += delta / moments[c, 0]
        moments[c, 2] += delta * (x - moments[c, 1])


@njit
def _merge_ints(
    cells: np.ndarray, starts: np.ndarray, ends: np.ndarray, wanted: np.ndarray,
    n: np.ndarray, sums: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """(counts, sums) per group."""
    count = np.zeros(len(starts), np.int64)
    total = np.zeros((len(starts), 4), np.int64)
    for g in range(len(starts)):
        for j in range(starts[g], ends[g]):
            c = cells[j]
            if not wanted[j] or n[c] == 0:
                continue
            total[g, 0] += sums[c, 0]
            total[g, 1] += sums[c, 1]
            total[g, 2] = sums[c, 2] if count[g] == 0 else min(total[g, 2], sums[c, 2])
            total[g, 3] = sums[c, 3] if count[g] == 0 else max(total[g, 3], sums[c, 3])
            count[g] += n[c]
    return count, total


@njit
def _merge_floats(
    cells: np.ndarray, starts: np.ndarray, ends: np.ndarray, wanted: np.ndarray,
    n: np.ndarray, sums: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """(counts, sums) per group; an infinity leaves no NaN as rounding error."""
    count = np.zeros(len(starts), np.int64)
    total = np.zeros((len(starts), 4), np.float64)
    for g in range(len(starts)):
        for j in range(starts[g], ends[g]):
            c = cells[j]
            if not wanted[j] or n[c] == 0:
                continue
            x, before = sums[c, 0], total[g, 0]
            after = before + x
            shifted = after - before
            total[g, 0] = after
            total[g, 1] += sums[c, 1] + ((before - (after - shifted)) + (x - shifted))
            total[g, 2] = sums[c, 2] if count[g] == 0 else min(total[g, 2], sums[c, 2])
            total[g, 3] = sums[c, 3] if count[g] == 0 else max(total[g, 3], sums[c, 3])
            count[g] += n[c]
        if not np.isfinite(total[g, 1]):
            total[g, 1] = 0.0
    return count, total


@njit
def _merge_moments(
    cells: np.ndarray, starts: np.ndarray, ends: np.ndarray, wanted: np.ndarray,
    n: np.ndarray, moments: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Count, mean and sum of squared deviations per group."""
    total = np.zeros((len(starts), 3), np.float64)
    for g in range(len(starts)):
        for j in range(starts[g], ends[g]):
            c = cells[j]
            if not wanted[j] or n[c] == 0:
                continue
            delta = moments[c, 1] - total[g, 1]
            both = total[g, 0] + moments[c, 0]
            total[g, 2] += moments[c, 2] + delta * delta * total[g, 0] * moments[c, 0] / both
            total[g, 1] += delta * moments[c, 0] / both
            total[g, 0] = both
    return total


@dataclass(frozen=True, slots=True)
class Summary:
    """The sums of some cells together. ``total`` is an exact int, or the nearest float."""

    n: int
    total: int | float
    smallest: int | float
    largest: int | float
    mean: float
    squares: float


class Measure:
    """One aggregated attribute: its sums per cell, and the single values that must be kept.

    Kept are the values of ambiguous events (``keep_ambiguous``, for bounds) or of all events
    (``keep_all``, for quantiles), per window as chunks of (cells, values).
    """

    def __init__(
        self, *, moments: bool, keep_ambiguous: bool, keep_all: bool, counts_only: bool = False
    ) -> None:
        self.counts_only = counts_only
        self.is_float = False
        self.keep_ambiguous = keep_ambiguous
        self.keep_all = keep_all
        self.n = np.zeros(0, np.int64)
        self.sums: np.ndarray = np.zeros((0, 4), np.int64)
        self.moments = np.zeros((0, 3), np.float64) if moments else None
        self.kept: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}

    def grow(self, capacity: int) -> None:
        """Make room for ``capacity`` cells."""
        more = capacity - len(self.n)
        self.n = np.concatenate((self.n, np.zeros(more, np.int64)))
        self.sums = np.concatenate((self.sums, np.zeros((more, 4), self.sums.dtype)))
        if self.moments is not None:
            self.moments = np.concatenate((self.moments, np.zeros((more, 3))))

    def widen(self) -> None:
        """From now on the attribute is a float (an earlier frame had only integers)."""
        total = [(int(high) << _HALF_WORD) + int(low) for high, low, *_ in self.sums]
        rounded = np.array([float(x) for x in total])
        error = np.array([float(x - int(y)) for x, y in zip(total, rounded, strict=True)])
        ends = self.sums[:, 2:].astype(np.float64)
        self.sums = np.column_stack((rounded, error, ends)) if total else np.zeros((0, 4))
        self.is_float = True
        for chunks in self.kept.values():
            chunks[:] = [(cells, values.astype(np.float64)) for cells, values in chunks]

    def add(
        self, cells: Cells, row: np.ndarray, cell: np.ndarray, has_ambiguous: bool,
        values: np.ndarray, valid: np.ndarray | None,
    ) -> None:  # fmt: skip
        """Add ``values[row]`` to the cells ``cell``; ``valid`` marks rows that have a value."""
        if values.dtype == np.float64 and not self.is_float:
            self.widen()
        if self.is_float:
            values = values.astype(np.float64, copy=False)
        mask = _EMPTY if valid is None else valid
        if self.moments is not None:
            _add_moments(row, cell, values, mask, self.n.copy(), self.moments)
        (_add_floats if self.is_float else _add_ints)(row, cell, values, mask, self.n, self.sums)
        if self.keep_all:
            self._keep(cells, row, cell, values, mask)
        elif has_ambiguous and self.keep_ambiguous:
            chosen = (cells.tag[cell] & AMBIGUOUS) != 0
            self._keep(cells, row[chosen], cell[chosen], values, mask)

    def _keep(
        self, cells: Cells, row: np.ndarray, cell: np.ndarray, values: np.ndarray, mask: np.ndarray
    ) -> None:
        found = values[row]
        known = mask[row] if len(mask) else np.ones(len(row), np.bool_)
        if self.is_float:
            known &= ~np.isnan(found)
        cell, found = cell[known], found[known]
        windows = cells.window[cell]
        for window in np.unique(windows):
            inside = windows == window
            self.kept.setdefault(int(window), []).append((cell[inside], found[inside]))

    def kept_of(self, window: int) -> tuple[np.ndarray, np.ndarray]:
        """(cells, values) kept of the window, in row order."""
        chunks = self.kept.get(window)
        if not chunks:
            return np.empty(0, np.int32), np.empty(0, self.sums.dtype)
        if len(chunks) > 1:
            joined = tuple(np.concatenate(part) for part in zip(*chunks, strict=True))
            chunks[:] = [(joined[0], joined[1])]
        return chunks[0]

    def forget(self, window: int, cells: np.ndarray) -> None:
        """Free the window's cells."""
        self.n[cells] = 0
        self.kept.pop(window, None)

    def summaries(self, cells: np.ndarray, starts: np.ndarray, wanted: np.ndarray) -> list[Summary]:
        """Per group of cells, the sums of those of its cells that are ``wanted``.

        Args:
            cells: cell numbers, group after group.
            starts: where each group starts in ``cells``.
            wanted: bool per entry of ``cells``.
        """
        ends = np.append(starts[1:], len(cells))
        merge = _merge_floats if self.is_float else _merge_ints
        n, sums = merge(cells, starts, ends, wanted, self.n, self.sums)
        moments = np.zeros((len(starts), 3))
        if self.moments is not None:
            moments = _merge_moments(cells, starts, ends, wanted, self.n, self.moments)
        return [
            Summary(count, first + second if self.is_float else (first << 32) + second, *rest)
            for count, (first, second, *rest) in zip(
                n.tolist(),
                (
                    (*values, mean, squares)
                    for values, (_, mean, squares) in zip(
                        sums.tolist(), moments.tolist(), strict=True
                    )
                ),
                strict=True,
            )
        ]

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "is_float": self.is_float,
            "n": self.n.copy(),
            "sums": self.sums.copy(),
            "moments": None if self.moments is None else self.moments.copy(),
            "kept": {window: list(chunks) for window, chunks in self.kept.items()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        self.is_float = state["is_float"]
        self.n, self.sums = state["n"].copy(), state["sums"].copy()
        self.moments = None if state["moments"] is None else state["moments"].copy()
        self.kept = {window: list(chunks) for window, chunks in state["kept"].items()}
