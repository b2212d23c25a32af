"""Columns of window results say what the dicts say, as a table and as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.core.released import LATE, Strings
from slackwater.engine.operators.window.output.results import WindowResults
from slackwater.engine.operators.window.output.table import columns_of_windows
from slackwater.engine.operators.window.time_windows import TimeWindows
from slackwater.engine.output.result_kinds import KINDS
from slackwater.engine.output.schema import WINDOW_SCHEMA, WINDOWS
from slackwater.engine.output.typed_columns import TypedColumns
from slackwater.engine.query.plan import Aggregate, Attribute, Drift, WindowPlan
from tests.window.conftest import Event, Stream, batch

V, G = Attribute("v"), Attribute("g")
ASKED = (
    Aggregate("count", None, "n"), Aggregate("sum", V, 'the "sum" ü'), Aggregate("avg", V, "a"),
    Aggregate("max", Attribute("raw_ts"), "last"), Aggregate("stddev", V, "d"),
    Aggregate("quantile", V, "q", 0.3),
)  # fmt: skip


def pieces(events: list[Any], drift: Drift, by_key: bool) -> list[WindowResults]:
    plan = WindowPlan("q", "", ASKED, (), 10, group_by=(G,) if by_key else (), drift=drift)
    made = TimeWindows(plan, site='a "site"')
    stream = Stream(tuple(events), t_a=3, gaps=((0, "s0", 1, 2, 3, 25),))
    found = made.process(batch(stream, Strings()))
    return [*found.pieces, *made.finish(99).pieces]


def lines(table: pa.Table, unit: int = 1, times: Sequence[str] = ()) -> list[str]:
    return [
        str(line) for some in KINDS[WINDOWS].lines(table, unit, times) for line in some.to_pylist()
    ]


EVENT = {
    "ref": st.integers(0, 60), "key": st.sampled_from(["b", "ä\n", None]),
    "unc": st.sampled_from([0, 0, 2]), "status": st.sampled_from([0, 0, LATE]),
    "v": st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3) | st.none(),
}  # fmt: skip


@given(data=st.data(), drift=st.sampled_from(Drift), by_key=st.booleans(), floats=st.booleans())
@settings(max_examples=20)
def test_columns_say_what_the_dicts_say(
    data: st.DataObject, drift: Drift, by_key: bool, floats: bool
) -> None:
    events = data.draw(st.lists(st.builds(Event, **EVENT), max_size=10))
    if floats:
        events = [replace(e, v=None if e.v is None else e.v / 3) for e in events]
    if not by_key:
        events = [replace(e, key=None) for e in events]
    for piece in pieces(events, drift, by_key):
        table, dicts = columns_of_windows(piece), list(piece)
        from_dicts = KINDS[WINDOWS].rows(range(len(dicts)), dicts)
        assert table.schema.names == WINDOW_SCHEMA.names
        assert lines(table) == lines(from_dicts)
        shown = [
            {name: value for name, value in one.items()
             if value is not None or name not in ("drift", "bounds")}
            for one in dicts
        ]  # fmt: skip
        emitted = [json.loads(line) for line in lines(table)]
        assert emitted == shown
        for line, one in zip(lines(table), emitted, strict=True):
            assert json.dumps(one, ensure_ascii=False) + "\n" == line


def test_times_among_the_aggregates_are_in_the_unit_asked_for() -> None:
    events = [Event(7_012, unc=900, v=7_000), Event(7_999, v=5)]
    plan = WindowPlan("q", "", ASKED, (), 1_000)
    made = TimeWindows(plan)
    found = made.process(batch(Stream(tuple(events)), Strings()))
    tables = [columns_of_windows(piece) for piece in (*found.pieces, *made.finish(9_100).pieces)]
    first, second = [json.loads(line) for table in tables for line in lines(table, 10, ["last"])]
    assert (first["window"], first["value"]["last"]) == ({"start": 600, "end": 700}, None)
    assert first["bounds"]["last"] == [701.2, 701.2]
    assert second["at"] == 910
    assert (second["value"]["last"], second["value"]["n"]) == (799.9, 2)
    assert second["bounds"]["last"] == [799.9, 799.9]
    assert second["value"]["q"] == pytest.approx(5 + 0.3 * 6_995)


def test_a_sum_beyond_the_range_of_floats_is_null() -> None:
    events = [Event(3, v=1.7e308), Event(4, v=1.7e308)]
    *_, last = pieces(events, Drift.NONE, by_key=False)
    values = columns_of_windows(last)["value"].to_pylist()
    (value,) = [value for value in values if value["n"] == 2]
    assert value['the "sum" ü'] is None
    assert value["a"] is None


def test_a_bound_beyond_the_range_of_floats_is_null_beside_one_that_is_not() -> None:
    plan = WindowPlan("q", "", (Aggregate("sum", V, "s"),), (), 10)
    # The first window closes, and is emitted, before the second.
    events = (Event(5, v=1.7e308), Event(9, unc=2, v=1.7e308), Event(14, v=1.0))
    made = TimeWindows(plan)
    found = made.process(batch(Stream(events), Strings()))
    results = [*found.pieces, *made.finish(99).pieces]
    columns = TypedColumns(WINDOW_SCHEMA, "windows")
    tables = [columns_of_windows(piece) for piece in results]
    for table in tables:
        columns.learn(table)
    emitted = [row["bounds"]["s"] for table in tables for row in columns.typed(table).to_pylist()]
    assert emitted == [one["bounds"]["s"] for piece in results for one in piece]
    assert [1.7e308, None] in emitted
