"""Which rows a window's WHERE takes for sure, and which perhaps: its times err as clocks do.

``ts``, ``te`` and ``ref`` are known up to the error of the event's clock, so a condition on them
may hold under some errors only (SPEC 4.3). As one error moves all three alike, WHERE is a function
of it, and so are the instants at which the event counts: where its true time may lie while WHERE
holds. Each comparison changes once as the error grows (``=`` twice); where, is found by halving,
with the very evaluation that answers for times that are certain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from engine.query.clocked import is_clocked
from engine.query.expression import mask
from engine.query.plan import Comparison, Logic, Membership, Predicate
from engine.stream.ends import ends_of
from engine.stream.released import Released
from engine.window.drift import LIKELY, SURE, UNLIKELY


@dataclass(frozen=True, slots=True)
class Chosen:
    """Of n rows: ``taken`` (bool), surely or perhaps; ``how`` (int8): ``SURE``, ``LIKELY`` or
    ``UNLIKELY``; ``low``, ``high`` (int64 ns): ends of where a taken row's true time may lie.
    """

    taken: np.ndarray
    how: np.ndarray
    low: np.ndarray
    high: np.ndarray


def chosen(where: Predicate, released: Released, unc_max: int) -> Chosen | None:
    """What ``where`` takes of ``released``; None: no clock error changes what it says.

    Args:
        where: of a plan with windows.
        released: rows with ``ref`` and ``unc``.
        unc_max: larger uncertainties count as this one, as they do for windows [ns].
    """
    ref, unc = ends_of(released), np.minimum(released.columns["unc"], unc_max)
    if not unc.any() or not is_clocked(where):
        return None
    rows = _Rows(released, np.arange(released.n))
    taken = rows.hold(where, np.zeros(released.n, np.int64))
    found = Chosen(taken, np.zeros(released.n, np.int8), ref - unc, ref + unc)
    changes = [_changes(each, rows, unc) for each in _one_way(where)]
    moved = np.flatnonzero(np.any([before < unc for before in changes], axis=0))
    if not len(moved):
        return found
    few, limit = _Rows(released, moved), unc[moved]
    errors = [-limit, limit, np.zeros(len(moved), np.int64)]
    for before in changes:
        errors += [before[moved], np.minimum(before[moved] + 1, limit)]
    holds = np.array([few.hold(where, error) for error in errors])
    low = np.where(holds, errors, unc_max + 1).min(axis=0)
    high = np.where(holds, errors, -unc_max - 1).max(axis=0)
    nominal = taken[moved]
    how = np.where(holds.all(axis=0), SURE, np.where(nominal, LIKELY, UNLIKELY))
    taken[moved] = holds.any(axis=0)
    found.how[moved] = np.where(taken[moved], how, SURE)
    found.low[moved] = ref[moved] + low
    found.high[moved] = ref[moved] + high
    return found


class _Rows:
    """Some rows, whose clocks may be asked to err."""

    def __init__(self, released: Released, rows: np.ndarray) -> None:
        self._columns = {name: column[rows] for name, column in released.columns.items()}
        self._released = released

    def hold(self, predicate: Predicate, error: np.ndarray) -> np.ndarray:
        """Where it is true if each row's clock errs by ``error`` [ns]; bool (n,)."""
        columns = self._columns | {"ref": self._columns["ref"] + error}
        of = self._released
        return mask(
            predicate, columns, lambda name: columns.get(f"valid.{name}"), of.attr_types, of.strings
        )


def _one_way(predicate: Predicate) -> Iterator[Comparison]:
    """Comparisons that change once each, between whose changes ``predicate`` does not."""
    match predicate:
        case Logic(terms=terms):
            for term in terms:
                yield from _one_way(term)
        case Membership(item=item, options=options):
            for option in options:
                yield from _one_way(Comparison("=", item, option))
        case Comparison(left=left, right=right):
            if is_clocked(predicate):
                yield Comparison("<", left, right)
                yield Comparison("<=", left, right)


def _changes(comparison: Comparison, rows: _Rows, unc: np.ndarray) -> np.ndarray:
    """The last error in [-unc, unc] up to which it says what it says at -unc; int64 (n,)."""
    before, behind = -unc, unc.copy()
    first = rows.hold(comparison, before)
    same = rows.hold(comparison, behind) == first
    before = np.where(same, unc, before)
    while (left := behind - before > 1).any():
        middle = before + (behind - before) // 2
        on = left & (rows.hold(comparison, middle) == first)
        before = np.where(on, middle, before)
        behind = np.where(left & ~on, middle, behind)
    return before
