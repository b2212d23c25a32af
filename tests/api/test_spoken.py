"""Errors and doubts of the Python API name parameters as the caller wrote them."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import slackwater
from engine.cli.options import input_options
from slackwater.spoken import in_python

SAID = {
    "give --time-unit us (or --time-unit ns)": 'give time_unit="us" (or time_unit="ns")',
    "--map attrs.v=v makes it an attribute": 'mapping={"attrs.v": "v"} makes it an attribute',
    "as in --map ts=COLUMN (columns: a)": 'as in mapping={"ts": "COLUMN"} (columns: a)',
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
    options = re.findall(r'"(--[a-z-]+)"', inspect.getsource(input_options))
    assert options
    assert {in_python(option) for option in options} <= {*given, "on_bad", "dead_letter"}


def test_a_doubt_is_told_of_the_line_that_called() -> None:
    backwards = {"ts": list(range(100, 0, -1)), "seq": list(range(100)), "type": ["A"] * 100}
    with pytest.warns(slackwater.Doubt) as told:
        slackwater.query(backwards, "EVENT SEQ(A a, B b) WITHIN 5")
    assert {each.filename for each in told} == {__file__}
    assert not any("--" in str(each.message) for each in told)
