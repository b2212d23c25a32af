"""A chart's lines with a band about them, on linear axes."""

from __future__ import annotations

from typing import Any

from engine.report.page.charts import chart_figures
from engine.report.plain import plain
from engine.scenario import Chart, Series


def of(*series: Series) -> Any:
    (made,) = chart_figures([plain(Chart("t", "c", "x [s]", "y", series))])
    return made


def test_a_line_has_its_band_and_no_marks() -> None:
    made = of(
        Series("a", (1.0, 2.0), (3.0, 4.0), (), joined=True, low=(2.5, 3.5), high=(3.0, 5.0)),
        Series("truth", (1.0, 2.0), (3.0, 4.5), (), joined=True),
    )
    low, high, line, truth = made.data
    assert (low["y"], high["y"], high["fill"]) == ([2.5, 3.5], [3.0, 5.0], "tonexty")
    assert (line["mode"], line["line"]["dash"], truth["line"]["dash"]) == ("lines", "solid", "dot")
    assert low["line"]["color"] == line["line"]["color"] != truth["line"]["color"]


def test_lines_have_no_logarithmic_axes_and_fill_the_width() -> None:
    made = of(Series("a", (1.0, 1000.0), (1.0, 900.0), (), low=(0.5, 800.0), high=(2.0, 1000.0)))
    x, y = made.layout["xaxis"], made.layout["yaxis"]
    assert x["range"] == [1.0, 1000.0]
    assert "type" not in x
    assert "type" not in y
    assert y["range"][0] <= 0.5
    assert y["range"][1] >= 1000.0
