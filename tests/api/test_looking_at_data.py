"""What a notebook asks first: how much is there, of whom, which columns, a picture."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import slackwater

ROWS: list[dict[str, Any]] = [
    {"type": "A", "source": "s", "seq": 0, "ts": 10, "arrival": 11, "attrs": {"v": 1.5}},
    {"kind": "sync", "source": "s", "offset": 3, "delay": 2, "first_seq": 1, "arrival": 12},
    {"type": "B", "source": "t", "seq": 0, "ts": 12, "arrival": 15, "attrs": {"tag": "x"}},
]
EVENTS = {"type": ["A", "B", "A", "B"], "ts": [1, 3, 7, 9], "v": [1.0, 2.0, 5.0, 3.0]}
PAIRS = "EVENT SEQ(A a, B b) WITHIN 5"
WINDOWS = "SELECT avg(v), count(*) WINDOW TUMBLING 5"


def test_an_input_says_how_many_events_of_which_sources() -> None:
    events = slackwater.read(ROWS, time_unit="ms")
    assert len(events) == 2  # a sync is no event
    assert events.sources == ["s", "t"]
    assert {"ts", "offset", "attrs.v", "attrs.tag"} <= {*events.schema.names}
    assert events.schema.field("attrs.v").type == pa.float64()


@pytest.mark.parametrize("rows", [0, 1, 2, 5])
def test_the_head_is_the_begin_of_the_table(rows: int) -> None:
    events = slackwater.read(ROWS, time_unit="ms")
    table = events.to_arrow()
    assert table.column("kind").to_pylist() == ["event", "sync", "event"]
    assert table.column("ts").to_pylist() == [10, None, 12]  # as they were given, in ms
    assert events.head(rows).equals(table.slice(0, rows))
    assert isinstance(events.to_pandas(), pd.DataFrame)
    assert isinstance(events.to_polars(), pl.DataFrame)


def test_what_comes_out_goes_in_again() -> None:
    events = slackwater.read(ROWS, time_unit="ms")
    again = slackwater.read(events.to_arrow(), time_unit="ms")
    assert again.to_arrow().equals(events.to_arrow())


def test_rows_as_dicts_may_lack_keys_and_have_attributes_beside_the_fields() -> None:
    rows = [{"type": "A", "ts": 1, "v": 3}, {"type": "B", "ts": 2, "w": "x"}]
    assert [event["attrs"] for event in slackwater.order(rows)] == [{"v": 3}, {"w": "x"}]
    (event,) = slackwater.order([{"ts": datetime(2026, 1, 1, tzinfo=UTC)}])
    assert event["ts"] == 1_767_225_600 * 10**9


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"ts": 1}, 5], "table: row 2: each row must be a dict: 5"),
        ([{"ts": 1, "attrs": 5}], "table: row 1: attrs must be a dict"),
        ([{"ts": 1, "v": 1}, {"ts": 2, "v": "x"}], "table: Arrow cannot hold it"),
        ([{"ts": 1, "v": 2**70}], "table: Arrow cannot hold it"),
        ([{"ts": 1, "v": "\ud800"}], "table: Arrow cannot hold it"),
        ([{1: 2, "ts": 3}], "table: Arrow cannot hold it"),
        ({"ts": 1}, "table: Arrow cannot hold it"),
        (pl.Series("ts", [1, 2]), "table: Arrow cannot hold it"),
        (pd.DataFrame([[1, 2]], columns=["ts", "ts"]), "table: Arrow cannot hold it"),
        (pd.Series([1, 2]), "a list of dicts, not Series"),
        (np.array([1, 2]), "a list of dicts, not ndarray"),
        (pl.LazyFrame({"ts": [1]}), r"not LazyFrame; collect\(\) it first"),
        ([], "a list of dicts, not an empty list"),
        ([7], "a list of dicts, not list"),
        (iter([]), "a list of dicts, not an empty list"),
        (iter([{"ts": 1}, 5]), "table: row 2: each row must be a dict: 5"),
        (
            pl.DataFrame({"ts": [1]}).with_columns(v=pl.lit(1, pl.Int128)),
            "cast such columns first, as to Int64 or Float64",
        ),
    ],
)
def test_rows_that_are_none_are_refused(rows: Any, said: str) -> None:
    with pytest.raises(slackwater.UserError, match=said):
        slackwater.read(rows)


def test_dicts_may_come_from_a_generator() -> None:
    rows = ({"type": "AB"[at % 2], "ts": at, "v": at} for at in range(4))
    (found,) = slackwater.query(rows, "SELECT sum(v) AS v, count(*) AS n WINDOW TUMBLING 5")
    assert found["value"] == {"v": 6, "n": 4}


def test_a_table_is_asked_without_a_read_before() -> None:
    frame = pd.DataFrame({"kind_of": ["A", "B"], "when": [1, 3]})
    columns = {"type": "kind_of", "ts": "when"}
    (match,) = slackwater.query(frame, PAIRS, mapping=columns, time_unit="s")
    assert [event["ref"] for event in match["events"]] == [1, 3]
    assert [each["ts"] for each in slackwater.order(frame, mapping=columns)] == [1, 3]
    with pytest.raises(slackwater.UserError, match="time_unit is for reading, and this was read"):
        slackwater.order(slackwater.read(EVENTS), time_unit="s")


def test_results_have_places() -> None:
    found = slackwater.query(EVENTS, PAIRS)
    listed = list(found)
    assert (found[0], found[-1], found[1:]) == (listed[0], listed[-1], listed[1:])
    assert found[::-1] == listed[::-1]
    assert found[5:] == []
    with pytest.raises(IndexError):
        found[2]


def test_a_plot_has_the_values_of_the_windows() -> None:
    found = slackwater.query(EVENTS, {"mean": WINDOWS}, time_unit="s")
    drawn = found.plot("mean: avg(v)")
    assert [[*each.y] for each in drawn.data if each.mode == "lines+markers"] == [[1.5, 4.0]]
    assert drawn.layout.title.text == "mean: avg(v)"
    with pytest.raises(slackwater.UserError, match=r"choose one, as plot\('mean: avg\(v\)'\)"):
        found.plot()
    with pytest.raises(slackwater.UserError, match="nothing to draw of 'median': there are"):
        found.plot("median")


def test_a_notebook_shows_results_as_a_table() -> None:
    rows = [*ROWS, {"type": "<b>", "source": "t", "seq": 1, "ts": 14, "arrival": 16, "attrs": {}}]
    found = slackwater.query(rows, 'EVENT SEQ("<b>" b) WITHIN 5', time_unit="ms", clock="exact")
    table = found._repr_html_()
    assert "<td>confirmed</td>" in table
    assert "&lt;b&gt; t#1 14" in table
    windows = slackwater.query(EVENTS, WINDOWS, time_unit="s")._repr_html_()
    assert windows.startswith("<table><thead><tr><th>start</th><th>end</th><th>avg(v)</th>")
    assert "<tr><td>0</td><td>5</td><td>1.5</td><td>2</td>" in windows
    many = slackwater.order({"ts": [*range(30)]})._repr_html_()
    assert many.count("<tr>") == 21
    assert many.endswith("<p>... and 10 more</p>")
    assert slackwater.query(EVENTS, "EVENT SEQ(B b, A a) WITHIN 1")._repr_html_() == (
        "<p>no results</p>"
    )


def test_events_are_not_drawn() -> None:
    with pytest.raises(slackwater.UserError, match="events in order are not drawn"):
        slackwater.order(EVENTS).plot()


def test_a_plot_has_a_mark_for_each_match() -> None:
    found = slackwater.query(EVENTS, [PAIRS, "EVENT SEQ(B b, A a) WITHIN 5"], time_unit="s")
    drawn = found.plot("q1")
    assert [[*each.y] for each in drawn.data] == [["confirmed"] * 2]
    assert slackwater.query(EVENTS, PAIRS, time_unit="s").plot().data == drawn.data
    with pytest.raises(slackwater.UserError, match="nothing to draw: there are no results"):
        slackwater.query(EVENTS, "EVENT SEQ(A a, B b) WITHIN 1").plot()
