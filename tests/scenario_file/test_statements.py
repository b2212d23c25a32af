"""Scenario files whose queries read one another: metrics of results of results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slackwater.engine.cli.app import run as command
from slackwater.engine.core.errors import UserError
from slackwater.scenarios.from_file import FromFile
from tests.scenario_file.test_runs import BASE, metrics, ran

LOSSY = """[link]
loss = 0.15
reliable = false
delay = { model = "exponential", min = "5 ms", mean = "80 ms" }
[clock]
offset_spread = "40 ms"
skew_ppm_spread = 100
"""
QUERIES = """[queries]
stays = '''CREATE STREAM stay AS
  EVENT SEQ(ENTRY i, EXIT o) WHERE i.who = o.who WITHIN 1 min RETURN i.who, o.ts - i.ts AS lasts'''
again = "EVENT stay x RETURN x.who"
lasting = "EVENT stay x RETURN x.lasts"
short = '''CREATE STREAM short AS
  SELECT count(*) AS n FROM visitors GROUP BY source WINDOW TUMBLING 1 s'''
shown = "EVENT short x RETURN x.n, x.source"
rises = "EVENT SEQ(short a, short b) WHERE a.source = b.source AND b.n > a.n WITHIN 3 s RETURN b.n"
long = "SELECT sum(n) AS n FROM short WINDOW TUMBLING 5 s"
"""
AT = BASE.index("[queries]")
TEXT = BASE[:AT] + QUERIES + BASE[BASE.index("[engine]") :]
SHARES = ("recall", "precision", "results")
NAMES = ("stay", "again", "lasting", "short", "shown", "rises", "long")


def test_a_perfect_world_is_answered_perfectly(tmp_path: Path) -> None:
    with ran(tmp_path / "perfect.toml", TEXT) as done:
        found, true = metrics(done), done.score.facts["true_results"]
        assert set(NAMES) == true.keys() == found.keys() - {"events"}
        for name in NAMES:
            assert found[name]["recall"] == found[name]["precision"] == 1, name
            assert found[name]["results"] == true[name] > 3
            assert found[name]["wrong"] == 0
        assert true["stay"] == true["again"]
        assert true["short"] == true["shown"]


@pytest.mark.slow
def test_a_copy_of_results_is_as_right_as_they_are(tmp_path: Path) -> None:
    """With losses and clocks that err: times of results are others than the true ones."""
    lossy = TEXT.replace("count = 2", "count = 2\nresend = false") + LOSSY
    with ran(tmp_path / "lossy.toml", lossy) as done:
        found = metrics(done)
    for one, other in (("stay", "again"), ("stay", "lasting"), ("short", "shown")):
        for share in SHARES:
            assert found[one][share] == found[other][share], (one, other, share)
    assert 0.3 < found["stay"]["recall"] < 0.95
    assert found["stay"]["precision"] > 0.95
    assert 0.05 < found["short"]["recall"] < 0.95
    assert found["long"]["recall"] < found["short"]["recall"]
    assert 0 < found["rises"]["recall"] < 1
    assert 0 < found["rises"]["precision"] < 1


def test_thresholds_go_by_the_names_of_statements(tmp_path: Path) -> None:
    path = tmp_path / "named.toml"
    path.write_text(TEXT.replace('"recall >= 99 %"', '"stay: recall >= 99 %"'))
    assert FromFile(path).what == "named.toml: 2 sources, 7 queries."
    path.write_text(TEXT.replace('"recall >= 99 %"', '"stays: recall >= 99 %"'))
    with pytest.raises(UserError, match="no query 'stays'"):
        FromFile(path)


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        (
            "RETURN x.n, x.source",
            "RETURN x.m",
            "shown =",
            "the results of 'short' have no column 'm'",
        ),
        ("SELECT sum(n)", "SELECT sum(m)", "long =", "the results of 'short' have no column 'm'"),
        ("x.who", "x.", "again =", "the query ends too early"),
        ("STREAM short", "STREAM stay", "short =", "two streams named 'stay'"),
        ("i.who = o.who", "i.whom = o.who", "stays =", "no event has an attribute 'whom'"),
    ],
)
def test_a_mistake_is_reported_with_its_query(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, line: str, message: str
) -> None:
    path = tmp_path / "wrong.toml"
    assert old in TEXT
    text = TEXT.replace(old, new, 1)
    path.write_text(text)
    assert command(["check", str(path)]) == 2
    said = capsys.readouterr().err
    number = next(n for n, each in enumerate(text.splitlines(), 1) if each.startswith(line))
    assert f"wrong.toml:{number}: queries.{line.split(maxsplit=1)[0]}: " in said
    assert message in said


@pytest.mark.slow
def test_attributes_that_no_event_came_with_make_no_results(tmp_path: Path) -> None:
    """A source has them and is silent; who reads what is made of them has nothing to read."""
    silent = """[[sources]]
name = "rare"
[sources.workload]
model = "periodic"
period = "1 h"
phase = "59 min"
type = "RARE"
attrs.deep = 1
"""
    text = TEXT.replace("[[machines]]", silent + "[[machines]]").replace(
        "[queries]",
        "[queries]\n"
        "deep = 'CREATE STREAM deep AS EVENT RARE r WHERE r.deep > 0 RETURN r.deep'\n"
        "deeper = 'SELECT max(deep) FROM deep WINDOW TUMBLING 5 s'",
    )
    with ran(tmp_path / "silent.toml", text) as done:
        found, true = metrics(done), done.score.facts["true_results"]
    assert true["deep"] == true["deeper"] == found["deep"]["results"] == 0
    assert found["deeper"]["results"] == 0
    assert found["again"]["recall"] == 1
    assert true["again"] > 3


ROOMS = """[tables]
rooms = "rooms.csv"
"""


def test_a_scenario_s_queries_look_up_tables_beside_it(tmp_path: Path) -> None:
    """The perfect world looks up the same; the table's content makes it another scenario."""
    queries = """[queries]
room = '''SELECT count(*) AS n FROM visitors LOOKUP rooms ON source = rooms.source
  GROUP BY rooms.room WINDOW TUMBLING 1 s'''
"""
    text = BASE[:AT] + queries + ROOMS + BASE[BASE.index("[engine]") :]
    path, table = tmp_path / "rooms.toml", tmp_path / "rooms.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=r"rooms\.toml:\d+: tables: .*rooms\.csv: cannot be read"):
        FromFile(path)
    table.write_text("source,room\nnobody,cellar\n")
    before = FromFile(path).content([])
    table.write_text("source,room\ndoor-1,hall\ndoor-2,yard\n")
    assert FromFile(path).content([]) != before
    with ran(path, text) as done:
        found = metrics(done)["room"]
        lines = (done.folder / "results.jsonl").read_text().splitlines()
        keys = {result["key"]["rooms.room"] for result in map(json.loads, lines)}
    assert found["recall"] == found["precision"] == 1
    assert found["wrong"] == 0
    assert found["results"] > 3
    assert keys == {"hall", "yard"}
