"""What a sweep says: where every threshold holds, and the least change that makes them hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Final

from engine.sweep.cells import Axis, Cell, CellAnswer

_T_95: Final = (
    12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13,
    2.12, 2.11, 2.10, 2.09, 2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05, 2.04,
)  # fmt: skip
"""Student's t: 95 % of it lies within this, by degrees of freedom from 1 on; 1.96 beyond."""

NOT_RUN: Final = "not run"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A metric over seeds: its mean, and half the width of the mean's 95 % confidence interval."""

    mean: float
    half: float | None
    """None: of one seed nothing is known."""

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """Of one or more values.

        >>> Estimate.of([1.0, 2.0, 3.0])
        Estimate(mean=2.0, half=2.4826...)
        """
        if len(values) < 2:
            return cls(values[0], None)
        free = len(values) - 2
        t = _T_95[free] if free < len(_T_95) else 1.96
        return cls(mean(values), t * stdev(values) / math.sqrt(len(values)))


@dataclass(frozen=True, slots=True)
class SweepFindings:
    """A sweep's answers, by cell.

    Attributes:
        axes: what was swept.
        thresholds: their texts.
        holding: threshold -> cell -> share of the seeds with which it holds.
        details: threshold -> cell -> what it was with the first seed.
        metrics: cell -> query -> metric -> its spread over the seeds.
        errors: cell -> why it could not be run.
    """

    axes: tuple[Axis, ...]
    thresholds: tuple[str, ...]
    holding: Mapping[str, Mapping[Cell, float]]
    details: Mapping[str, Mapping[Cell, str]]
    metrics: Mapping[Cell, Mapping[str, Mapping[str, Estimate]]]
    errors: Mapping[Cell, str]

    @classmethod
    def of(cls, axes: tuple[Axis, ...], answers: Sequence[CellAnswer]) -> SweepFindings:
        """Of all answers of a sweep."""
        by_cell: dict[Cell, list[CellAnswer]] = {}
        for answer in answers:
            by_cell.setdefault(answer.cell, []).append(answer)
        texts = dict.fromkeys(text for answer in answers for text in answer.claims)
        holding: dict[str, dict[Cell, float]] = {text: {} for text in texts}
        details: dict[str, dict[Cell, str]] = {text: {} for text in texts}
        metrics, errors = {}, {}
        for cell, all_seeds in by_cell.items():
            ran = [each for each in all_seeds if each.error is None]
            if len(ran) < len(all_seeds):
                errors[cell] = next(each.error for each in all_seeds if each.error) or ""
            for text in texts:
                held = [each.claims[text][0] for each in ran]
                holding[text][cell] = sum(held) / len(all_seeds)
                details[text][cell] = ran[0].claims[text][1] if ran else NOT_RUN
            metrics[cell] = _spreads(ran)
        return cls(axes, tuple(texts), holding, details, metrics, errors)

    def all_hold(self, cell: Cell) -> bool:
        """Whether every threshold holds there with every seed."""
        return cell not in self.errors and all(
            self.holding[text][cell] == 1 for text in self.thresholds
        )

    def least_change(self, own: Cell) -> Cell | None:
        """The cell nearest to ``own`` in which all thresholds hold; None: there is none.

        Nearest: the fewest settings changed, then the fewest steps along the axes.
        """
        places = [{value: at for at, value in enumerate(axis.values)} for axis in self.axes]

        def distance(cell: Cell) -> tuple[int, float, Cell]:
            steps = [
                abs(of[value] - of[mine]) / max(len(of) - 1, 1)
                for of, value, mine in zip(places, cell, own, strict=True)
            ]
            return sum(step > 0 for step in steps), sum(steps), cell

        good = [cell for cell in self.metrics if self.all_hold(cell)]
        return min(good, key=distance) if good else None


def _spreads(answers: Sequence[CellAnswer]) -> dict[str, dict[str, Estimate]]:
    found: dict[str, dict[str, Estimate]] = {}
    for query in dict.fromkeys(query for each in answers for query in each.metrics):
        names = dict.fromkeys(name for each in answers for name in each.metrics[query])
        found[query] = {
            name: Estimate.of(
                [each.metrics[query][name] for each in answers if name in each.metrics[query]]
            )
            for name in names
        }
    return found
