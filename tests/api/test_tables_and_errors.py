"""Tables go in and come out; what is wrong is said as on the command line; nothing is left."""

from __future__ import annotations

import gc
import inspect
import json
import re
import warnings
from pathlib import Path
from typing import Any, get_type_hints

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import slackwater
from slackwater.engine.cli.app import run
from slackwater.engine.cli.options import BadLineOptions, InputOptions
from slackwater.engine.core import errors
from slackwater.translate_options import in_python

ROWS = [
    {"source": "a", "seq": 0, "type": "A", "ts": 10, "arrival": 11, "tag": "x", "v": 1.5},
    {"source": "a", "seq": 2, "type": "B", "ts": 30, "arrival": 31, "tag": "x", "v": None},
    {"source": "a", "seq": 1, "type": "A", "ts": 20, "arrival": 32, "tag": "y", "v": 2.5},
]
QUERY = "EVENT SEQ(A a, B b) WITHIN 50"


def columns() -> dict[str, list[Any]]:
    return {name: [row[name] for row in ROWS] for name in ROWS[0]}


class Foreign:
    """Some other library's table, with the kind of texts that such like to have."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        table = pa.table(columns())
        texts = table["tag"].cast(pa.string_view())
        table = table.set_column(table.schema.get_field_index("tag"), "tag", texts)
        return table.__arrow_c_stream__(requested_schema)


def tables() -> dict[str, Any]:
    table = pa.table(columns())
    frame = pd.DataFrame(columns())
    return {
        "arrow": table,
        "dictionary": table.set_column(5, "tag", table["tag"].dictionary_encode()),
        "dictionary of numbers": table.set_column(6, "v", table["v"].dictionary_encode()),
        "run ends": table.set_column(0, "source", pc.run_end_encode(table["source"])),
        "decimals": table.set_column(1, "seq", table["seq"].cast(pa.decimal128(38))),
        "batch": table.to_batches()[0],
        "columns": columns(),
        "foreign": Foreign(),
        "views": table.set_column(5, "tag", table["tag"].cast(pa.string_view())),
        "pandas": frame,
        "pandas, filtered": pd.concat([frame.head(1), frame])[1:],
        "pandas, indexed": frame.set_index("ts"),
        "pandas, categories": frame.astype(dict.fromkeys(("tag", "type", "v"), "category")),
    }


@pytest.mark.parametrize("name", tables())
def test_a_table_is_as_good_as_a_trace(name: str, trace: Any) -> None:
    found = slackwater.order(tables()[name])
    assert list(found) == list(slackwater.order(trace(ROWS)))
    assert [event["ts"] for event in found] == [10, 20, 30]
    assert [event["attrs"] for event in found] == [
        {"tag": "x", "v": 1.5}, {"tag": "y", "v": 2.5}, {"tag": "x"},
    ]  # fmt: skip


def test_times_of_pandas_are_times() -> None:
    frame = pd.DataFrame({"ts": pd.to_datetime(["2026-11-22T08:00:00Z", "2026-11-22T08:00:01Z"])})
    found = slackwater.order(slackwater.read(frame, time_unit="ms"))
    assert [event["ts"] for event in found] == [1795334400000, 1795334401000]


def test_results_with_lengths_of_time_go_in_again() -> None:
    times = pd.to_datetime(["2026-03-01 08:00:00.0", "2026-03-01 08:00:02.5"])
    events = {"ts": times, "type": ["A", "B"]}
    found = slackwater.query(events, "EVENT SEQ(A a, B b) WITHIN 5 s RETURN b.ts - a.ts AS gap")
    again = slackwater.query(
        found.to_arrow(flat=True), 'SELECT "value.gap" AS gap', mapping={"ts": "event2.ts"}
    )
    assert [row["value"] for row in again] == [{"gap": 2_500_000_000}]


def test_results_come_out_as_tables(trace: Any) -> None:
    found = slackwater.query(trace(ROWS), QUERY)
    assert len(found) == 2
    table = found.to_arrow()
    assert table.num_rows == 2
    assert table["events"].to_pylist()[0][0]["attrs"] == {"tag": "x", "v": 1.5}
    frame = found.to_pandas(flat=True)
    assert frame["event1.ts"].tolist() == [10, 20]
    assert frame["event1.attrs.tag"].tolist() == ["x", "y"]
    assert found.to_pandas()["op"].tolist() == ["+", "+"]
    ordered = slackwater.order(trace(ROWS)).to_pandas()
    assert ordered[["ts", "late"]].to_numpy().tolist() == [[10, False], [20, False], [30, False]]


def test_polars_in_and_out(trace: Any) -> None:
    name = trace(ROWS)
    frame = pl.DataFrame(columns())
    assert list(slackwater.order(frame)) == list(slackwater.order(name))
    found = slackwater.query(name, QUERY)
    assert found.to_polars(flat=True)["event1.ts"].to_list() == [10, 20]
    assert slackwater.compare(name, "none").to_polars()["order"].to_list() == ["none"]


@pytest.mark.parametrize("package", ["polars", "pandas"])
def test_a_library_that_is_not_there(
    package: str, trace: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = slackwater.order(trace(ROWS))
    monkeypatch.setattr(errors.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(
        slackwater.SlackwaterError, match=f"needs {package}; type: pip install {package}"
    ):
        getattr(found, f"to_{package}")()


def test_a_bad_query_has_a_caret(trace: Any) -> None:
    with pytest.raises(slackwater.UserError) as caught:
        slackwater.query(trace(ROWS), "EVENT SEQ(A a, B b) WHERE a.taag = b.tag WITHIN 5")
    text = str(caught.value)
    assert re.search(r"^ *\^+", text, re.MULTILINE), text
    assert "did you mean 'tag'" in text


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: slackwater.order("none.jsonl"), "none.jsonl"),
        (lambda: slackwater.order([1, 2]), "a list of dicts, not list"),  # type: ignore[arg-type]
        (lambda: slackwater.order({"ts": ["x", 1]}), "Arrow cannot hold it"),
        (lambda: slackwater.order({"v": [1]}), 'no column is "ts"'),
        (lambda: slackwater.order({"ts": [1]}, "best"), "order 'best'"),
        (lambda: slackwater.order({"ts": [1, None]}), "table:2:"),
        (lambda: slackwater.read({"ts": [1]}, time_unit="fortnight"), "fortnight"),
        (lambda: slackwater.query({"ts": [1]}, []), "no query"),
        (lambda: slackwater.query({"ts": [1]}, "EXPLAIN EVENT SEQ(A, B) WITHIN 5"), "EXPLAIN"),
        (lambda: slackwater.query({"ts": [1]}, "EVENT SEQ(A, B) WITHIN 5", guard="x"), "guard x"),
        (lambda: slackwater.compare({"ts": [1]}, "none", complete=2), "complete 2"),
        (lambda: slackwater.run("tennis"), "no scenario 'tennis'"),
        (lambda: slackwater.run("soccer", {"pitch": 3}), "pitch"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(call: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(slackwater.UserError, match=re.escape(said)):
        call()
    assert not list((tmp_path / "temporary").iterdir())


def test_bad_rows_are_counted(trace: Any, here: Path) -> None:
    name = trace([ROWS[0], {"type": "A"}])
    events = slackwater.read(name, on_bad="skip", dead_letter="bad.jsonl")
    assert events.bad_count == 1
    assert json.loads((here / "bad.jsonl").read_text())["line"] == 2


def test_windows_and_matches_have_no_table_in_common(trace: Any) -> None:
    both = slackwater.query(trace(ROWS), [QUERY, "SELECT count(*) WINDOW TUMBLING 50"])
    with pytest.raises(slackwater.UserError, match="different columns"):
        both.to_arrow()
    with pytest.raises(slackwater.UserError, match="different columns"):
        both.write("both.csv")
    assert both.write("both.jsonl") == 3
    assert len(list(both)) == 3


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: slackwater.query(columns(), "EVENT SEQ(A a, !Z z) WITHIN 5"), "no event is of ty"),
        (
            lambda: slackwater.query(
                columns(), "EVENT SEQ(A a, !B c, B b) WITHIN 5", order="none", barrier="punctuation"
            ),
            "nothing in the input promises B",
        ),
        (
            lambda: slackwater.order({"ts": [3, 2, 1]}, "sequence"),
            'kslack:2ns", or see slackwater.compare',
        ),
        (lambda: slackwater.compare({"ts": [3, 2, 1]}, "none"), "no arrival times"),
    ],
)
def test_what_is_in_doubt_is_a_warning_for_the_caller(call: Any, said: str) -> None:
    with pytest.warns(slackwater.SlackwaterWarning, match=said) as caught:
        call()
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("EVENT SEQ(A a, Z z) WITHIN 5", "no event is of type 'Z'; there is A, B"),
        ("SELECT count(*) FROM x WINDOW TUMBLING 5", "no event is of stream 'x'; there is events"),
    ],
)
def test_what_no_event_has_is_an_error(text: str, said: str) -> None:
    with pytest.raises(slackwater.UserError, match=said):
        slackwater.query(columns(), text)


DOUBTFUL = {
    "a join without a key": ["SELECT a.v FROM events a JOIN events b ON a.v < b.v WITHIN 5"],
    "repetition without a bound": ["EVENT SEQ(A+ a[], B b) WITHIN 5"],
    "several": ["EVENT SEQ(A+ a[], B b) WITHIN 5", "EVENT SEQ(A a, !B c, B b) WITHIN 5"],
    "a constraint without room": [
        "EVENT SEQ(A a, D d) UNDER CONSTRAINT flow FOR TRACE BY v AS A, B"
    ],
}  # fmt: skip


@pytest.mark.parametrize("case", DOUBTFUL)
@pytest.mark.parametrize("barrier", ["punctuation", "hold:5"])
def test_python_warns_as_the_command_line_does(
    case: str, barrier: str, trace: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"type": "AB"[n % 2], "ts": n, "attrs": {"v": n}} for n in range(4)]
    name, texts = trace(rows), DOUBTFUL[case]
    assert run(["query", *texts, "--input", name, "--barrier", barrier]) == 0
    lines = capsys.readouterr().err.splitlines()
    reported = [in_python(line[9:]) for line in lines if line.startswith("warning: ")]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        slackwater.query(name, texts, barrier=barrier)
    said = [
        str(one.message).splitlines()[0]
        for one in caught
        if one.category is slackwater.SlackwaterWarning
    ]
    assert reported
    assert [line for line in said if "no event is of type" not in line] == reported


def test_nothing_is_left_in_the_temporary_folder(trace: Any, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    name = trace(ROWS)
    with slackwater.read(name) as events, slackwater.query(events, QUERY) as found:
        assert len(found) == 2
        assert len(list(temporary.iterdir())) == 2
    assert not list(temporary.iterdir())
    with pytest.raises(slackwater.UserError, match="closed"):
        found.to_arrow()
    with pytest.raises(slackwater.UserError, match="closed"):
        list(found)
    with pytest.raises(slackwater.UserError, match="closed"):
        slackwater.order(events)
    found = slackwater.order(name, late=True)
    assert len(list(temporary.iterdir())) == 1
    late = found.late
    del found
    gc.collect()
    assert len(list(temporary.iterdir())) == 1
    assert late is not None
    assert len(late) == 0
    del late
    gc.collect()
    assert not list(temporary.iterdir())


def test_rows_are_read_one_at_a_time(trace: Any) -> None:
    rows = iter(slackwater.order(trace(ROWS)))
    assert next(rows)["ts"] == 10
    assert next(rows)["ts"] == 20


def test_alerts_are_tables_too(tmp_path: Path) -> None:
    """Their list of events has no objects in it, so a reader of chosen columns left it out."""
    events = {"type": ["A", "C", "B", "A"], "ts": [1, 2, 3, 4], "seq": [0, 1, 2, 3], "k": [1] * 4}
    text = "EVENT SEQ(A a, C c, A b) UNDER CONSTRAINT flow FOR TRACE BY k AS A, C, B, (A | C)"
    with slackwater.query(events, text) as found:
        reported = list(found)
        assert found.to_arrow().to_pylist() == reported
        flat = found.to_arrow(flat=True)
        places = [name for name in flat.schema.names if name.endswith(".type")]
        assert places == [f"so_far{place + 1}.type" for place in range(len(places))]
        most = max(len(alert["so_far"] or []) for alert in reported)
        assert len(places) >= most > 0
        found.write(tmp_path / "alerts.csv")
    assert (tmp_path / "alerts.csv").read_text().splitlines()[0].count("so_far") == 4 * len(places)


SAID = {
    "give --time-unit us (or --time-unit ns)": 'give time_unit="us" (or time_unit="ns")',
    "--map attrs.v=v makes it an attribute": 'mapping={"attrs.v": "v"} makes it an attribute',
    "as in --map ts=COLUMN (columns: a)": 'as in mapping={"ts": "COLUMN"} (columns: a)',
    "as in --map 'ts=Phone time' (columns: a)": 'as in mapping={"ts": "Phone time"} (columns: a)',
    """as in --map 'ts=driver'"'"'s "t"' (""": """as in mapping={"ts": "driver's \\"t\\""} (""",
    "say --clock 'left phone=-3.2s±0.1s'; or": 'say clock="left phone=-3.2s±0.1s"; or',
    "--sort arrival puts them so": 'sort="arrival" puts them so',
    "--map, --attrs and --sort are for CSV": "mapping, attrs and sort are for CSV",
    "--spill goes with --purge late[:D] alone": 'spill goes with purge="late[:D]" alone',
    "as in --spill /var/tmp/c,hot=10min": 'as in spill="/var/tmp/c,hot=10min"',
    "can: --order kslack:2s, or see": 'can: order="kslack:2s", or see',
    "or leave out --spark": "or leave out master",
    "on-time -- and a--b stay": "on-time -- and a--b stay",
}


@pytest.mark.parametrize("option", SAID)
def test_options_become_parameters(option: str) -> None:
    assert in_python(option) == SAID[option]


def test_errors_and_doubts_name_no_option(tmp_path: Path) -> None:
    rows = tmp_path / "t.csv"
    rows.write_text("time,v\n1,2\n")
    one = {"ts": [1], "type": ["A"]}
    text = "EVENT SEQ(A a, B b) WITHIN 5"
    calls = {
        'mapping={"ts": "time"}': lambda: slackwater.read(rows),
        "sort": lambda: slackwater.read(one, sort="place"),
        "timezone": lambda: slackwater.read(one, timezone="nowhere"),
        "guard": lambda: slackwater.order(one, guard="soon"),
        "purge": lambda: slackwater.query(one, text, spill=str(tmp_path), purge="promises"),
        "window": lambda: slackwater.query(one, text, window="horizon=1s"),
        "sweep": lambda: slackwater.compare(one, sweep="wide"),
        "settings": lambda: slackwater.run("soccer", {"nosuch": 1}),
    }
    for name, call in calls.items():
        with pytest.raises(slackwater.UserError) as raised:
            call()
        assert name in str(raised.value)
        assert not re.search(r"(?<!\w)--\w", str(raised.value)), str(raised.value)


def test_every_option_of_an_input_is_a_parameter() -> None:
    given = inspect.signature(slackwater.read).parameters
    options = set()
    for group in (InputOptions, BadLineOptions):
        for name, hint in get_type_hints(group, include_extras=True).items():
            option = hint.__metadata__[0]
            named = [text for text in (option.default, *(option.param_decls or ())) if text != ...]
            options |= set(named) or {f"--{name.replace('_', '-')}"}
    assert {"--map", "--time-unit", "--on-bad"} <= options
    assert {in_python(option) for option in options} <= {*given}


def test_a_doubt_is_reported_of_the_line_that_called() -> None:
    backwards = {"ts": list(range(100, 0, -1)), "seq": list(range(100)), "type": ["A"] * 100}
    with pytest.warns(slackwater.SlackwaterWarning) as reported:
        slackwater.query(backwards, "EVENT SEQ(A a, !B b) WITHIN 5")
    assert {each.filename for each in reported} == {__file__}
    assert not any("--" in str(each.message) for each in reported)
