"""Every mistake with the exact text that the user reads: query => message.

``query_errors.txt``: of a query alone; ``data_errors.txt``: of one whose attributes the data does
not have so; ``habits_of_others.txt``: the last lines, which are the remedy and, where it is plain,
the statement to write, of what who comes from Flink, SQL, Siddhi or Esper writes first. A person
read and approved them; change them only on purpose.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from slackwater.engine.core.errors import UserError
from slackwater.engine.query import query
from slackwater.engine.query.analysis.cascade import read_statements
from slackwater.engine.query.schema import check_attributes


def golden(name: str) -> list[tuple[str, str]]:
    entries = Path(__file__).with_name(name).read_text("utf-8").split("\n\n")
    return [(text, said) for text, said in (e.rstrip("\n").split("\n=>\n") for e in entries)]


def each(name: str) -> pytest.MarkDecorator:
    cases = golden(name)
    return pytest.mark.parametrize(("text", "said"), cases, ids=[text[:60] for text, _ in cases])


def refusal(ask: Callable[[], object]) -> str:
    with pytest.raises(UserError) as error:
        ask()
    return str(error.value)


@each("query_errors.txt")
def test_a_query_alone(text: str, said: str) -> None:
    assert refusal(lambda: query(text)) == said


@each("data_errors.txt")
def test_attributes_that_the_data_does_not_have(text: str, said: str) -> None:
    assert refusal(lambda: check_attributes(query(text), KNOWN)) == said


STATEMENTS = ("  write SELECT ", "  write EVENT ", "  write CREATE ")


@each("habits_of_others.txt")
def test_what_others_write_ends_with_the_remedy(text: str, said: str) -> None:
    lines = [f"  {line}" for line in said.split("\n")]
    assert refusal(lambda: read_statements([text])).split("\n")[-len(lines) :] == lines
    if lines[-1].startswith(STATEMENTS):
        read_statements([lines[-1].removeprefix("  write ")])


KNOWN = {"tag": "str", "price": "float", "n": "int", "on": "bool"}


def test_names_of_objects_within_are_joined() -> None:
    plan = query('SELECT avg("readings.temp") WINDOW TUMBLING 1 s')
    with pytest.raises(UserError, match="the names are joined: readings_temp"):
        check_attributes(plan, {"readings_temp": "float"})


def test_data_without_attributes() -> None:
    with pytest.raises(UserError, match="the events have no attributes; there is ts, te, ref"):
        check_attributes(query("EVENT SEQ(A a) WHERE x = 1"), {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("EVENT SEQ(A{9} a)", "a number of times is whole"),
        ("EVENT SEQ(A a) UNDER CONSTRAINT c FOR TRACE BY v AS A{9}, B", "a number of times is"),
        ("EVENT SEQ(A a, B+ b) LIMIT 9", "LIMIT is a whole number"),
        ("EVENT SEQ(A a OVERLAP[9,0,0,0,0] B b)", "how many events are so related"),
        ("EVENT SEQ(A a, B+ b) WHERE b[i - 9].v > 3", "neighbours are compared"),
        ("EVENT SEQ(A a) WHERE a.v > 9", "this number has too many digits"),
        ("SELECT avg(v) WINDOW ROWS 9", "a window has 1 to"),
        ("SELECT avg(v) GROUP BY k ORDER BY avg(v) LIMIT 9 WINDOW TUMBLING 5", "LIMIT is a whole"),
    ],
)
def test_a_number_of_5000_digits_is_refused(text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        query(text.replace("9", "9" * 5000))


def test_long_lines_are_cut_around_the_place() -> None:
    text = "EVENT SEQ(A a) WHERE " + " AND ".join(f"x != {n}" for n in range(60)) + " AND y.z = 1"
    with pytest.raises(UserError) as error:
        query(text)
    lines = str(error.value).split("\n")
    start = lines[2].index("^")
    assert lines[1][start:].startswith("y.z = 1")
    assert lines[1].startswith("  ...")
    assert len(lines[1]) < 110


def test_wide_and_invisible_signs_keep_the_caret_in_place() -> None:
    text = "EVENT SEQ(\u65e5\u672c a,\tB b) WHERE b.x = '\x07' AND c.x = 1"
    with pytest.raises(UserError) as error:
        query(text)
    assert str(error.value).split("\n")[1:3] == [
        "  EVENT SEQ(\u65e5\u672c a, B b) WHERE b.x = '\ufffd' AND c.x = 1",
        # The line is indented by two, and the two ideographs take two columns each.
        " " * (text.index("c.x") + 2 + 2) + "^",
    ]


def test_an_unknown_time_unit_of_the_trace() -> None:
    with pytest.raises(UserError, match="unknown time unit 'parsec'"):
        query("EVENT SEQ(A a)", time_unit="parsec")
