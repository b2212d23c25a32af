"""A scenario's own charts, and the barriers of its passes, on the page."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.report.page.charts import chart_figures
from engine.report.plain import plain
from engine.report.write import write_report
from engine.scenario import Chart, Series


def chart(*series: Series) -> Any:
    return plain(Chart("Trade-off", "Lower is better.", "delay [ms]", "false alarms", series))


def test_points_keep_their_names_and_order() -> None:
    (made,) = chart_figures(
        [chart(Series("hold", (1.0, 2.0), (5.0, 0.0), ("1 ms", "2 ms"), joined=True),
               Series("immediate", (0.5,), (7.0,), ("immediate",)))]
    )  # fmt: skip
    first, second = made.data
    assert (first["x"], first["y"], first["text"]) == ([1.0, 2.0], [5.0, 0.0], ["1 ms", "2 ms"])
    assert first["mode"].startswith("lines")
    assert not second["mode"].startswith("lines")
    assert made.layout["xaxis"]["title"]["text"] == "delay [ms]"
    low, high = made.layout["yaxis"]["range"]
    assert low < 0 < 7 < high, "names of the points have room"


def test_an_axis_over_decades_is_logarithmic_unless_it_reaches_zero() -> None:
    (made,) = chart_figures([chart(Series("s", (1.0, 1000.0), (0.0, 1000.0), ("a", "b")))])
    assert made.layout["xaxis"]["type"] == "log"
    assert "type" not in made.layout["yaxis"]


def test_charts_without_points_are_left_out() -> None:
    assert chart_figures([chart(), chart(Series("s", (), (), ()))]) == []
    (made,) = chart_figures([chart(Series("s", (), (), ()), Series("t", (0.0,), (0.0,), ("0",)))])
    assert [each["name"] for each in made.data] == ["t"]


def test_the_page_shows_charts_and_barriers(rich_run: Any, tmp_path: Path) -> None:
    series = Series("hold", (1.0,), (5.0,), ("1 ms",))
    charts = (Chart("Trade-off", "Lower is better.", "delay [ms]", "false alarms", (series,)),)
    first, second = rich_run.passes
    passes = (replace(first, barrier="hold:1ms"), second)
    write_report(
        rich_run.directory, "T", "what", {}, passes, replace(rich_run.score, charts=charts), {}
    )
    report = json.loads((rich_run.directory / "report.json").read_text())
    assert [each["barrier"] for each in report["run"]["passes"]] == ["hold:1ms", None]
    assert report["charts"][0]["series"][0]["names"] == ["1 ms"]
    page = (rich_run.directory / "report.html").read_text()
    assert 'id="plot-chart-0"' in page
    assert "hold:1ms" in page
