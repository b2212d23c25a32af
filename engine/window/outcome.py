"""What a window says: per key the aggregates of the three drift windows, counts and bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.query.plan import Aggregate, Drift, TumblingPlan
from engine.window.accumulate import Measure, Summary
from engine.window.aggregate import NEEDS_ALL_VALUES, evaluate
from engine.window.bounds import bounds
from engine.window.cells import Cells
from engine.window.closing import LAST
from engine.window.drift import (
    AMBIGUOUS,
    CERTAIN,
    HIGH,
    LOW,
    MIDDLE,
    PART_BITS,
    Values,
    mean_of_three,
)
from engine.window.keys import Code

Content = dict[str, Any]
"""The fields of a result but ``op query site at window key missing``."""
_EMITTED_WITH = {"low": LOW, "middle": LOW | MIDDLE, LAST: LOW | MIDDLE | HIGH}
"""A result exists when some event lies in one of these drift windows."""
_BIT = {"low": LOW, "middle": MIDDLE, "high": HIGH}


@dataclass(slots=True)
class Groups:
    """The cells of one window by key: ``cells`` group after group, each starting at ``starts``."""

    codes: list[Code]
    cells: np.ndarray
    starts: np.ndarray
    part: np.ndarray

    @classmethod
    def of(cls, table: Cells, cells: np.ndarray) -> Groups:
        """Groups ``cells``, at least one; within a group in order of their parts."""
        nulls, part = table.tag[cells] >> PART_BITS, table.tag[cells] & ((1 << PART_BITS) - 1)
        whole = np.column_stack((nulls, table.keys[cells]))
        order = np.lexsort((part, *whole.T[::-1]))
        whole = whole[order]
        changes = (whole[1:] != whole[:-1]).any(axis=1)
        starts = np.concatenate(([0], np.flatnonzero(changes) + 1))
        codes = [tuple(code) for code in whole[starts].tolist()]
        return cls(codes, cells[order], starts, part[order])

    def rows(self, table: Cells, wanted: np.ndarray) -> list[int]:
        """Rows per group in the cells that are ``wanted``."""
        found = np.add.reduceat(np.where(wanted, table.rows[self.cells], 0), self.starts)
        return [int(n) for n in found.tolist()]


class Outcome:
    """Makes the contents of one query's results."""

    def __init__(self, plan: TumblingPlan, measures: dict[str, Measure]) -> None:
        self._plan = plan
        self._measures = measures

    def contents(
        self, table: Cells, window: int, cells: np.ndarray, stage: str
    ) -> dict[Code, Content]:
        """Per key with at least one event, what the result of ``stage`` says.

        Without drift windows only MIDDLE makes a result: an event that is near the window, and
        may belong to it, widens the bounds of a result but does not make one.
        """
        groups = Groups.of(table, cells)
        plain = self._plan.drift is Drift.NONE
        makes = MIDDLE if plain else _EMITTED_WITH[stage]
        present = groups.rows(table, (groups.part & makes) != 0)
        if stage == LAST:
            made = self._last(table, window, groups)
        else:
            values = self._values(table, window, groups, (groups.part & _BIT[stage]) != 0)
            made = [_early(stage, value) for value in values]
        return {
            code: content
            for code, content, rows in zip(groups.codes, made, present, strict=True)
            if rows
        }

    def _last(self, table: Cells, window: int, groups: Groups) -> list[Content]:
        low, middle, high = (
            self._values(table, window, groups, (groups.part & bit) != 0)
            for bit in (LOW, MIDDLE, HIGH)
        )
        sure, maybe = (groups.part & CERTAIN) != 0, (groups.part & AMBIGUOUS) != 0
        edges = self._bounds(table, window, groups, sure, maybe)
        counts = zip(groups.rows(table, sure), groups.rows(table, maybe), edges, strict=True)
        made = []
        for lo, mid, hi, (certain, ambiguous, edge) in zip(low, middle, high, counts, strict=True):
            content: Content = {"value": mid, "low": lo, "middle": mid, "high": hi}
            if self._plan.drift is Drift.TOGETHER:
                content["value"] = mean_of_three(lo, mid, hi)
            elif self._plan.drift is Drift.EACH:
                content = {"drift": "high", "value": hi, "low": lo, "middle": mid, "high": hi}
            content |= {"certain": certain, "ambiguous": ambiguous, "bounds": edge}
            made.append(content)
        return made

    def _values(
        self, table: Cells, window: int, groups: Groups, wanted: np.ndarray
    ) -> list[Values]:
        """Per group the aggregates over its wanted cells."""
        made: list[Values] = [{} for _ in groups.codes]
        rows = groups.rows(table, wanted)
        for aggregate, summaries in self._summaries(groups, wanted):
            if summaries is None:
                for values, n in zip(made, rows, strict=True):
                    values[aggregate.label] = n
                continue
            single: list[Any] = [None] * len(made)
            if aggregate.function in NEEDS_ALL_VALUES:
                single = self._singles(aggregate, window, groups, wanted)
            for values, summary, kept in zip(made, summaries, single, strict=True):
                values[aggregate.label] = evaluate(aggregate, summary, kept)
        return made

    def _bounds(
        self, table: Cells, window: int, groups: Groups, sure: np.ndarray, maybe: np.ndarray
    ) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = [{} for _ in groups.codes]
        certain, ambiguous = groups.rows(table, sure), groups.rows(table, maybe)
        inside, possible = self._summaries(groups, sure), self._summaries(groups, maybe)
        for (aggregate, surely), (_, possibly) in zip(inside, possible, strict=True):
            if surely is None or possibly is None:
                for edge, n, more in zip(made, certain, ambiguous, strict=True):
                    edge[aggregate.label] = [n, n + more]
                continue
            singles = self._singles(aggregate, window, groups, maybe)
            for edge, one, other, kept in zip(made, surely, possibly, singles, strict=True):
                found = bounds(aggregate, one, other.n, kept)
                if found is not None:
                    edge[aggregate.label] = found
        return made

    def _summaries(
        self, groups: Groups, wanted: np.ndarray
    ) -> list[tuple[Aggregate, list[Summary] | None]]:
        """Per aggregate its summaries by group; None for ``count(*)``."""
        by_name = {
            name: measure.summaries(groups.cells, groups.starts, wanted)
            for name, measure in self._measures.items()
        }
        return [
            (aggregate, None if aggregate.attribute is None else by_name[aggregate.attribute.name])
            for aggregate in self._plan.aggregates
        ]

    def _singles(
        self, aggregate: Aggregate, window: int, groups: Groups, wanted: np.ndarray
    ) -> list[np.ndarray]:
        """Per group the kept values of its wanted cells."""
        assert aggregate.attribute is not None
        owner, values = self._measures[aggregate.attribute.name].kept_of(window)
        if not len(values):
            return [values] * len(groups.codes)
        by_cell = np.argsort(groups.cells)
        place = by_cell[
            np.searchsorted(groups.cells, owner, sorter=by_cell).clip(max=len(by_cell) - 1)
        ]
        mine = (groups.cells[place] == owner) & wanted[place]
        group = np.searchsorted(groups.starts, place[mine], side="right") - 1
        order = np.argsort(group, kind="stable")
        cuts = np.searchsorted(group[order], np.arange(1, len(groups.codes)))
        return np.split(values[mine][order], cuts)


def _early(stage: str, values: Values) -> Content:
    """A result of EACH before HIGH closed: what only then is known is None."""
    content: Content = {"drift": stage, "value": values, "low": None, "middle": None, "high": None}
    content[stage] = values
    return content | {"certain": None, "ambiguous": None, "bounds": None}
