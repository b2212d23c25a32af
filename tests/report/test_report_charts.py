"""A scenario's own charts, and the barriers of its passes, on the page."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.apps.report.numbers import TimeLine, plain
from slackwater.engine.apps.report.page.figures import ONE_BOX, Figure
from slackwater.engine.apps.report.page.result_figures import chart_figures
from slackwater.engine.apps.report.write import write_report
from slackwater.engine.scenario import Chart, Series


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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('<a href="//e.org">x</a>', '&lt;a href="//e.org"&gt;x&lt;/a&gt;'),
        ("<b>&lt;1 & 2", "&lt;b&gt;&amp;lt;1 &amp; 2"),
        ("two\nlines", "two<br>lines"),
        (f"<i>%{{y}}{ONE_BOX}", f"&lt;i&gt;%{{y}}{ONE_BOX}"),
        (f"{ONE_BOX}x", "&lt;extra&gt;&lt;/extra&gt;x"),
    ],
)
def test_attack2_labels_are_shown_as_they_are(text: str, shown: str) -> None:
    data = [{"name": text, "text": [text, (text,)], "y": [1, None, text], "hovertemplate": text}]
    layout = {"title": {"text": text}, "annotations": [{"text": text, "x": 0.5}]}
    assert Figure("f", text, text, data, layout).spec() == {
        "name": "f",
        "data": [{"name": shown, "text": [shown, [shown]], "y": [1, None, shown],
                  "hovertemplate": shown}],
        "layout": {"title": {"text": shown}, "annotations": [{"text": shown, "x": 0.5}]},
    }  # fmt: skip


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


SECOND = 10**9
START_NS = 1_767_225_600 * SECOND


@pytest.mark.parametrize(
    ("span", "unit", "place"),
    [
        (60, "s", 60.0),
        (1800, "s", 1800.0),
        (3600, "min", 60.0),
        (10 * 86400, "h", 240.0),
        (100 * 86400, "d", 100.0),
        (90 * 31_557_600, "years", 90.0),
    ],
)
def test_time_lines_choose_their_unit(span: int, unit: str, place: float) -> None:
    time = TimeLine.of(START_NS, START_NS + span * SECOND)
    assert (time.unit, time.place(START_NS + span * SECOND)) == (unit, place)
    assert time.place(START_NS - SECOND) < 0


@pytest.mark.parametrize(
    ("origin", "date"),
    [
        ("2026-03-01T10:00:00", "\n0 is 2026-03-01 10:00:00 UTC"),
        ("2026-03-01T10:00:00.250000", "\n0 is 2026-03-01 10:00:00.250 UTC"),
        ("2026-03-01T10:00:00.000001", "\n0 is 2026-03-01 10:00:00.000 UTC"),
        ("1970-01-01T00:00:05", ""),  # times that count from another beginning
        ("1969-12-31T23:59:00", ""),
    ],
)
def test_axes_of_time_say_the_date_of_their_zero(origin: str, date: str) -> None:
    since = datetime.fromisoformat(f"{origin}+00:00") - datetime(1970, 1, 1, tzinfo=UTC)
    first = since // timedelta(microseconds=1) * 1000
    title = TimeLine.of(first, first + SECOND, "event").title
    assert title == f"time since the first event [s]{date}"
