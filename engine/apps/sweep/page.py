"""sweep.html and sweep.json: where each threshold holds, as figures and numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Final

from slackwater.engine.apps.report.numbers import Kpi, plain, versions, with_unit
from slackwater.engine.apps.report.page.document import CHAPTER, write_page
from slackwater.engine.apps.report.page.figures import BAD, GOOD, ONE_BOX, Figure
from slackwater.engine.apps.sweep.cells import CELLS, Axis, Cell, CellAnswer, size_of
from slackwater.engine.core.units import number
from slackwater.engine.scenario import Claim, Table

# Findings of a sweep: where all thresholds hold, and the least change that makes them hold.


_T_95: Final = (
    12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13,
    2.12, 2.11, 2.10, 2.09, 2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05, 2.04,
)  # fmt: skip
"""Student's t for 95 % (two-sided) by degrees of freedom from 1; 1.96 beyond."""

NOT_RUN: Final = "not run"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A metric over seeds: its mean, and half the width of the mean's 95 % confidence interval."""

    mean: float
    half: float | None
    """None: unknown for one seed."""

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
        axes: the swept settings.
        thresholds: their texts.
        holding: threshold -> cell -> share of the seeds with which it holds.
        details: threshold -> cell -> its value; with several seeds, the mean and the worst.
        metrics: cell -> query -> metric -> estimate over the seeds.
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
                outcomes = [each.claims[text].holds for each in ran]
                holding[text][cell] = sum(outcomes) / len(all_seeds)
                details[text][cell] = _measured(text, ran) if ran else NOT_RUN
            metrics[cell] = _spreads(ran)
        return cls(axes, tuple(texts), holding, details, metrics, errors)

    def all_hold(self, cell: Cell) -> bool:
        """Whether every threshold holds in ``cell`` with every seed."""
        return cell not in self.errors and all(
            self.holding[text][cell] == 1 for text in self.thresholds
        )

    def least_change(self, file_cell: Cell) -> Cell | None:
        """The cell nearest to ``file_cell`` in which all thresholds hold; None: there is none.

        Nearest: the fewest settings changed, then the fewest steps along the axes.
        """
        places = [{value: at for at, value in enumerate(axis.values)} for axis in self.axes]

        def distance(cell: Cell) -> tuple[int, float, Cell]:
            steps = [
                abs(of[value] - of[mine]) / max(len(of) - 1, 1)
                for of, value, mine in zip(places, cell, file_cell, strict=True)
            ]
            return sum(step > 0 for step in steps), sum(steps), cell

        good = [cell for cell in self.metrics if self.all_hold(cell)]
        return min(good, key=distance) if good else None


def _measured(text: str, seeds: Sequence[CellAnswer]) -> str:
    """The threshold's value: with several seeds, its mean and the worst."""
    answers = [each.claims[text] for each in seeds]
    known = [each.value for each in answers if each.value is not None]
    metric, bound = answers[0].metric, answers[0].bound
    if len(answers) == 1 or not known:
        return answers[0].detail
    failing = [each.value for each in answers if each.value is not None and not each.holds]
    if len(known) < len(answers):
        worst = "none"
    elif bound[0] == "=":
        worst = with_unit(metric, (failing or known)[0])
    else:
        worst = with_unit(metric, max(known) if bound[0] == "<" else min(known))
    return f"mean {with_unit(metric, mean(known))}, worst {worst}"


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


HTML: Final = "sweep.html"
JSON: Final = "sweep.json"
ALL: Final = "all thresholds together"
FACETS_MAX: Final = 24
"""Most maps drawn per threshold; the table has all cells."""
_WORDED: Final = 12
"""Up to this many columns a map's cells show their values,"""
_NARROW: Final = 6
"""and up to this many on a phone. The table has all values."""
_CHAPTERS: Final = {"verdict": "Verdict", "maps": "Maps", "cells": "Cells", **CHAPTER}
_SOME: Final = "#e9c46a"
_SCALE: Final = [[0, BAD], [0.5, _SOME], [1, GOOD]]


def write_sweep(
    findings: SweepFindings, title: str, file_cell: Cell, command: str, out: Path, seeds: int
) -> dict[str, Any]:
    """Write ``sweep.json`` and ``sweep.html`` into the folder ``out``.

    Args:
        findings: of the sweep.
        title: of the scenario.
        file_cell: the cell nearest to the file's own settings.
        command: command line that repeats the sweep.
        out: the folder.
        seeds: number of seeds per cell.

    Returns:
        The content of ``sweep.json``.
    """
    found: dict[str, Any] = plain(_plain(findings, title, file_cell, command, seeds))
    everywhere = [text for text, shares in findings.holding.items() if min(shares.values()) == 1]
    maps, flat = (
        [figure for text in texts for figure in _maps(findings, text, file_cell)]
        for texts in ([ALL, *(text for text in findings.thresholds if text not in everywhere)],
                      everywhere)
    )  # fmt: skip
    write_page(
        out, Path(HTML), f"Sweep: {title}", _CHAPTERS, found, command=command, beside=(CELLS,),
        maps=maps, flat=flat, everywhere=everywhere, tables={"cells": _table(findings)},
        shown=FACETS_MAX, kpis=plain(_kpis(findings, file_cell)),
    )  # fmt: skip
    return found


def assess(findings: SweepFindings, file_cell: Cell) -> tuple[bool, str]:
    """Whether the file's own cell is good enough, with its margins or the change that is needed."""
    if not findings.thresholds:
        return True, "The file has no thresholds: nothing is judged, the numbers are below."
    if findings.all_hold(file_cell):
        sentence = f"All thresholds hold at {_named(findings, file_cell)}"
        return True, f"{sentence}: {'; '.join(_limits(findings, file_cell))}."
    best = findings.least_change(file_cell)
    if best is None:
        nowhere = [text for text, shares in findings.holding.items() if max(shares.values()) < 1]
        why = f"nowhere {', '.join(nowhere)}" if nowhere else "each holds somewhere, but not all"
        return False, f"In no cell do all thresholds hold: {why}."
    changes = [
        f"{axis.path} = {value} (from {mine})"
        for axis, value, mine in zip(findings.axes, best, file_cell, strict=True)
        if value != mine
    ]
    return False, (
        f"At {_named(findings, file_cell)} {_failing(findings, file_cell)}. The least change with "
        f"which all thresholds hold: {', '.join(changes)}; "
        f"then {'; '.join(_limits(findings, best))}."
    )


def checks_at(findings: SweepFindings, file_cell: Cell) -> list[Claim]:
    """Each threshold at the file's own cell, for CI."""
    if file_cell in findings.errors:
        return [Claim(_named(findings, file_cell), False, findings.errors[file_cell])]
    return [
        Claim(
            text,
            shares[file_cell] == 1,
            f"{findings.details[text][file_cell]} at {_named(findings, file_cell)}",
        )
        for text, shares in findings.holding.items()
    ]


def _limits(findings: SweepFindings, at: Cell) -> list[str]:
    """Per axis the range of values around ``at`` in which all thresholds hold, and its ends."""
    said = []
    for number_of, axis in enumerate(findings.axes):
        line = [(*at[:number_of], value, *at[number_of + 1 :]) for value in axis.values]
        holds = [findings.all_hold(cell) for cell in line]
        first = last = axis.values.index(at[number_of])
        if None in map(size_of, axis.values):  # names have no order
            good = [value for value, all_hold in zip(axis.values, holds, strict=True) if all_hold]
            beyond = [place for place, all_hold in enumerate(holds) if not all_hold]
            text = f"with {axis.path} = {' or '.join(good)}"
        else:
            while first and holds[first - 1]:
                first -= 1
            while last + 1 < len(holds) and holds[last + 1]:
                last += 1
            beyond = [place for place in (first - 1, last + 1) if 0 <= place < len(holds)]
            low, high = axis.values[first], axis.values[last]
            if first == 0:
                text = f"up to {high} of {axis.path}"
            elif last + 1 == len(holds):
                text = f"from {low} of {axis.path} on"
            else:
                text = f"from {low} to {high} of {axis.path}"
            if not beyond:
                text = f"at every {axis.path} from {low} to {high}"
        ends = [f"at {axis.values[place]} {_failing(findings, line[place])}" for place in beyond]
        said.append(f"{text}{' (' + ', '.join(ends) + ')' if ends else ''}")
    return said


_WORDS: Final = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven"}


def _failing(findings: SweepFindings, cell: Cell) -> str:
    if cell in findings.errors:
        return "it could not be run"
    count = sum(findings.holding[text][cell] < 1 for text in findings.thresholds)
    if count == 1:
        return "one threshold fails"
    return f"{_WORDS.get(count, str(count))} thresholds fail"


def _kpis(findings: SweepFindings, file_cell: Cell) -> list[Kpi]:
    """Key numbers: cells in which all thresholds hold, and each one; coloured by ``file_cell``."""
    cells = list(findings.metrics)
    made = [Kpi("cells", len(cells), "count", number(len(cells)), _axes(findings))]
    if not findings.thresholds:
        return made
    rows = [("all thresholds hold", [cell for cell in cells if findings.all_hold(cell)])]
    rows += [
        (text, [cell for cell in cells if findings.holding[text][cell] == 1])
        for text in findings.thresholds
    ]
    return made + [
        Kpi(
            name, len(good_cells) / len(cells), "share", f"{len(good_cells)} of {len(cells)}",
            f"cells; {'holds' if file_cell in good_cells else 'fails'} with the file's settings",
            "more", holds=file_cell in good_cells,
        )
        for name, good_cells in rows
    ]  # fmt: skip


def _axes(findings: SweepFindings) -> str:
    return " x ".join(f"{len(axis.values)} of {axis.path}" for axis in findings.axes)


def _named(findings: SweepFindings, cell: Cell) -> str:
    pairs = zip(findings.axes, cell, strict=True)
    return ", ".join(f"{axis.path} = {value}" for axis, value in pairs)


def _plain(
    findings: SweepFindings, title: str, file_cell: Cell, command: str, seeds: int
) -> dict[str, Any]:
    holds, headline = assess(findings, file_cell)
    return {
        "title": title,
        "command": command,
        "made_with": versions(),
        "seeds": seeds,
        "axes": [{"path": axis.path, "values": list(axis.values)} for axis in findings.axes],
        "thresholds": list(findings.thresholds),
        "verdict": {"holds": holds, "headline": headline, "own": list(file_cell)},
        "cells": [
            {
                "cell": list(cell),
                "all_hold": findings.all_hold(cell),
                "holding": {text: findings.holding[text][cell] for text in findings.thresholds},
                "measured": {text: findings.details[text][cell] for text in findings.thresholds},
                "metrics": {
                    query: {
                        name: {"mean": spread.mean, "half_95": spread.half}
                        for name, spread in of.items()
                    }
                    for query, of in metrics.items()
                },
                "error": findings.errors.get(cell),
            }
            for cell, metrics in findings.metrics.items()
        ],
    }


def _share(findings: SweepFindings, text: str, cell: Cell) -> float:
    """Share of the seeds with which the threshold, or all of them, hold."""
    if text != ALL:
        return findings.holding[text][cell]
    return min((findings.holding[each][cell] for each in findings.thresholds), default=1.0)


def _maps(findings: SweepFindings, text: str, file_cell: Cell) -> list[Figure]:
    """A map per combination of the axes after the second."""
    if not findings.thresholds:
        return []
    rest = findings.axes[2:]
    combinations = list(product(*(axis.values for axis in rest)))[:FACETS_MAX]
    return [_map(findings, text, file_cell, list(others)) for others in combinations]


def _map(findings: SweepFindings, text: str, file_cell: Cell, others: list[str]) -> Figure:
    x_axis = findings.axes[0]
    y_axis = findings.axes[1] if len(findings.axes) > 1 else Axis("", ("",))
    cells = [
        [
            (x, *([y] if len(findings.axes) > 1 else []), *others)
            for x in x_axis.values
        ]
        for y in y_axis.values
    ]  # fmt: skip
    shares = [[_share(findings, text, cell) for cell in row] for row in cells]
    said = [[_said(findings, text, cell).replace(", ", "\n") for cell in row] for row in cells]
    where = ", ".join(
        f"{axis.path} = {value}" for axis, value in zip(findings.axes[2:], others, strict=True)
    )
    number_of = [*findings.thresholds, ALL].index(text)
    facet = "-".join(str(axis.values.index(value))
                     for axis, value in zip(findings.axes[2:], others, strict=True))  # fmt: skip
    places_x, places_y = list(range(len(x_axis.values))), list(range(len(y_axis.values)))
    data: list[dict[str, Any]] = [
        {
            "type": "heatmap", "x": places_x, "y": places_y, "text": said,
            "z": [[_step(share) for share in row] for row in shares], "customdata": shares,
            "texttemplate": "%{text}" if len(places_x) <= _WORDED else "",
            "textfont": {"size": 12}, "meta": {"narrow": _without_words(said)},
            "zmin": 0, "zmax": 1, "colorscale": _SCALE, "xgap": 2, "ygap": 2,
            "showscale": False,
            "hovertemplate": f"%{{text}}\nholds with %{{customdata:.0%}} of the seeds{ONE_BOX}",
        },
        *_legend({share for row in shares for share in row}),
    ]  # fmt: skip
    layout: dict[str, Any] = {
        "xaxis": _ticks(x_axis),
        "yaxis": _ticks(y_axis) if len(findings.axes) > 1 else {"visible": False},
    }
    if list(file_cell[2:]) == others:
        x, y = (
            x_axis.values.index(file_cell[0]),
            y_axis.values.index(file_cell[1]) if len(file_cell) > 1 else 0,
        )
        layout["shapes"] = [
            {
                "type": "rect", "x0": x - 0.47, "x1": x + 0.47, "y0": y - 0.45, "y1": y + 0.45,
                "line": {"color": "#111111", "width": 3},
            }
        ]  # fmt: skip
    return Figure(
        f"map-{number_of}" + (f"-{facet}" if facet else ""),
        text + (f"; {where}" if where else ""),
        "The frame is the cell nearest to the file's own settings."
        + (
            " Two values in a cell: the mean over the seeds, and the worst."
            if any("\n" in each for row in said for each in row)
            else ""
        ),
        data,
        layout,
        height_px=max(180, 60 * len(places_y) + 110),
    )


def _without_words(said: list[list[str]]) -> list[list[str]]:
    """Texts of a map's cells on a phone: values only, if there is room."""
    if len(said[0]) > _NARROW:
        return [[""] * len(row) for row in said]
    return [[each.replace("mean ", "").replace("worst ", "") for each in row] for row in said]


def _step(share: float) -> float:
    """Colour of a share: all seeds, some or none."""
    return share if share in (0, 1) else 0.5


def _legend(shares: set[float]) -> list[dict[str, Any]]:
    """Legend of the colours in a map."""
    some = {share for share in shares if 0 < share < 1}
    named = {"holds": (1.0, GOOD), "fails": (0.0, BAD)}
    known = [(name, colour) for name, (share, colour) in named.items() if share in shares]
    known[1:1] = [("holds with some seeds", _SOME)] if some else []
    return [
        {
            "name": name, "x": [None], "y": [None], "mode": "markers", "showlegend": True,
            "marker": {"symbol": "square", "size": 13, "color": colour},
        }
        for name, colour in known
    ]  # fmt: skip


def _ticks(axis: Axis) -> dict[str, Any]:
    return {
        "title": {"text": axis.path}, "tickmode": "array",
        "tickvals": list(range(len(axis.values))), "ticktext": list(axis.values),
        "zeroline": False, "showgrid": False,
    }  # fmt: skip


def _said(findings: SweepFindings, text: str, cell: Cell) -> str:
    if cell in findings.errors:
        return NOT_RUN
    if text == ALL:
        broken = sum(findings.holding[each][cell] < 1 for each in findings.thresholds)
        return "all hold" if not broken else "1 fails" if broken == 1 else f"{broken} fail"
    return (
        findings.details[text][cell].removeprefix("it is ").partition(":")[0].partition(", of ")[0]
    )


def _table(findings: SweepFindings) -> Table:
    """Every cell with its thresholds: the share of the seeds that hold, and the value."""
    headings = (*(axis.path for axis in findings.axes), "all hold", *findings.thresholds)
    rows: list[tuple[str, ...]] = []
    for cell in findings.metrics:
        answer = "yes" if findings.all_hold(cell) else "no"
        each = [_in_table(findings, text, cell) for text in findings.thresholds]
        rows.append((*cell, answer, *each))
    errors = "".join(
        f" Could not be run: {', '.join(cell)}: {why}." for cell, why in findings.errors.items()
    )
    return Table("", headings, tuple(rows), "With several seeds: the mean and the worst value, "
                 "and the share of the seeds with which it holds. sweep.json has every metric "
                 f"with its mean and 95 % confidence interval.{errors}")  # fmt: skip


def _in_table(findings: SweepFindings, text: str, cell: Cell) -> str:
    share = findings.holding[text][cell]
    mark = "✓" if share == 1 else "✗" if share == 0 else f"holds with {number(100 * share)} %:"
    return f"{mark} {_said(findings, text, cell)}"
