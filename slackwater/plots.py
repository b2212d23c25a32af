"""Figures of results, as the report draws them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slackwater.engine.apps.report.measure.results import (
    QueryAnswers,
    measure_matches,
    measure_windows,
    read_answers,
)
from slackwater.engine.apps.report.numbers import TimeLine
from slackwater.engine.apps.report.page.figures import Figure
from slackwater.engine.apps.report.page.result_figures import match_figures, window_figures
from slackwater.engine.core.errors import UserError


def plot_of(lines: Path, query: str | None) -> Any:
    """Plotly figure of one query's results; ``lines``: results of all queries, times in ns.

    Raises:
        UserError: nothing to draw, or several figures and no ``query``.
    """
    found = {figure.title: figure for figure in _figures(lines)}
    chosen = [each for title, each in found.items() if query in {None, title, _query(title)}]
    if not chosen:
        known = f"there are figures of: {', '.join(found)}" if found else "there are no results"
        raise UserError(f"nothing to draw{'' if query is None else f' of {query!r}'}: {known}")
    if len(chosen) > 1:
        names = [repr(each.title) for each in chosen]
        raise UserError(
            f"there are {len(names)} figures: choose one, as plot({names[0]}), of "
            + ", ".join(names)
        )
    (figure,) = chosen
    return figure.alone()


def _figures(lines: Path) -> list[Figure]:
    answers = read_answers(lines)
    time = _time_line([*answers.windows.values(), *answers.matches.values()])
    return [
        *window_figures(measure_windows(answers.windows, {}), time, {}),
        *match_figures(measure_matches(answers.matches, ()), time),
    ]


def _time_line(found: list[QueryAnswers]) -> TimeLine:
    """Time axis from the first to the last instant of the results."""
    results = [each for answers in found for each in answers.standing.values()]
    first = [each["window"]["start"] if "window" in each else each["ref"] for each in results]
    last = [each["window"]["end"] if "window" in each else each["ref"] for each in results]
    return TimeLine.of(min(first, default=None), max(last, default=None), "event")


def _query(title: str) -> str:
    """The query in a figure's title ``query: aggregate``."""
    return title.partition(": ")[0]
