"""Every mistake with the exact text that the user reads: query_errors.txt holds query => message.

The messages were read and approved by a person; change them only on purpose.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import UserError
from engine.query import query
from engine.query.schema import check_attributes

GOLDEN = Path(__file__).with_name("query_errors.txt").read_text("utf-8")
CASES = [tuple(entry.rstrip("\n").split("\n=>\n")) for entry in GOLDEN.split("\n\n")]


@pytest.mark.parametrize(("text", "message"), CASES, ids=[text[:60] for text, _ in CASES])
def test_message_with_line_caret_and_remedy(text: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        query(text)
    assert str(error.value) == message


KNOWN = {"tag": "str", "price": "float", "n": "int", "on": "bool"}
AGAINST_DATA = {
    "EVENT SEQ(A a, B b) WHERE a.tag = b.tag AND b.prize > 5": """
query line 1, column 47: no event has an attribute 'prize'
  EVENT SEQ(A a, B b) WHERE a.tag = b.tag AND b.prize > 5
                                                ^^^^^
  there is n, on, price, tag; did you mean 'price'?""",
    "EVENT SEQ(A a, B b) WHERE a.n = 1\n  AND a.tag = b.n": """
query line 2, column 9: text is compared with a number
    AND a.tag = b.n
          ^^^
  'tag' is text; 'n' is a number; compare text with text, and numbers with numbers""",
    "EVENT SEQ(A a, B b) WHERE a.n < b.tag": """
query line 1, column 29: a number is compared with text
  EVENT SEQ(A a, B b) WHERE a.n < b.tag
                              ^
  'n' is a number; 'tag' is text; compare text with text, and numbers with numbers""",
    "EVENT SEQ(A a) WHERE 5 < tag": """
query line 1, column 26: a number is compared with text
  EVENT SEQ(A a) WHERE 5 < tag
                           ^^^
  'tag' is text; text stands in single quotes: '5'""",
    "EVENT SEQ(A a) WHERE NOT (n IN (1, 2) OR a.price IN ('dear'))": """
query line 1, column 44: a number is compared with text
  EVENT SEQ(A a) WHERE NOT (n IN (1, 2) OR a.price IN ('dear'))
                                             ^^^^^
  'price' is a number; compare text with text, and numbers with numbers""",
    "EVENT SEQ(A a) WHERE n + tag * 2 < 3": """
query line 1, column 26: 'tag' is text, and + - * / % take numbers
  EVENT SEQ(A a) WHERE n + tag * 2 < 3
                           ^^^
  name an attribute that is a number; length(...) is one of a text""",
    "SELECT avg(n), sum(tag) GROUP BY colour WINDOW TUMBLING 1 s": """
query line 1, column 34: no event has an attribute 'colour'
  SELECT avg(n), sum(tag) GROUP BY colour WINDOW TUMBLING 1 s
                                   ^^^^^^
  there is n, on, price, tag""",
    "SELECT avg(n), sum(tag) WINDOW TUMBLING 1 s": """
query line 1, column 20: 'tag' is text, and sum takes numbers
  SELECT avg(n), sum(tag) WINDOW TUMBLING 1 s
                     ^^^
  count(tag) counts its values""",
    "SELECT count(attrs.ts) WHERE ts > 5 WINDOW TUMBLING 1 s": """
query line 1, column 20: no event has an attribute 'ts'
  SELECT count(attrs.ts) WHERE ts > 5 WINDOW TUMBLING 1 s
                     ^^
  there is n, on, price, tag; did you mean 'ts'?""",
    "SELECT sum(n) WHERE n = 'x' WINDOW TUMBLING 1 s": """
query line 1, column 21: a number is compared with text
  SELECT sum(n) WHERE n = 'x' WINDOW TUMBLING 1 s
                      ^
  'n' is a number; compare text with text, and numbers with numbers""",
    "EVENT SEQ(A+ a[], B b) WHERE sum(a.size) > b.n WITHIN 5 s": """
query line 1, column 36: no event has an attribute 'size'
  EVENT SEQ(A+ a[], B b) WHERE sum(a.size) > b.n WITHIN 5 s
                                     ^^^^
  there is n, on, price, tag; did you mean 'site'?""",
    "SELECT sum(n) WHERE upper(n) = 'X' WINDOW TUMBLING 1 s": """
query line 1, column 27: 'n' is a number, and upper takes text
  SELECT sum(n) WHERE upper(n) = 'X' WINDOW TUMBLING 1 s
                            ^
  it takes attributes that are text, such as source or type""",
    "SELECT sum(n) AS total WHERE total > 3 WINDOW TUMBLING 1 s": """
query line 1, column 30: no event has an attribute 'total'
  SELECT sum(n) AS total WHERE total > 3 WINDOW TUMBLING 1 s
                               ^^^^^
  conditions on aggregates stand in HAVING: HAVING total > 3""",
    'SELECT sum(n) WHERE tag = "milk" WINDOW TUMBLING 1 s': """
query line 1, column 27: no event has an attribute 'milk'
  SELECT sum(n) WHERE tag = "milk" WINDOW TUMBLING 1 s
                            ^^^^^^
  text stands in single quotes: 'milk'""",
    "EVENT SEQ(A a, B b) WHERE a.on = b.n": """
query line 1, column 29: a truth value is compared with a number
  EVENT SEQ(A a, B b) WHERE a.on = b.n
                              ^^
  'on' is a truth value; 'n' is a number; a truth value is compared with TRUE or FALSE""",
}


@pytest.mark.parametrize("text", AGAINST_DATA)
def test_attributes_that_the_data_does_not_have(text: str) -> None:
    with pytest.raises(UserError) as error:
        check_attributes(query(text), KNOWN)
    assert "\n" + str(error.value) == AGAINST_DATA[text]


def test_data_without_attributes() -> None:
    with pytest.raises(UserError, match="the events have no attributes; there is ts, te, ref"):
        check_attributes(query("EVENT SEQ(A a) WHERE x = 1"), {})


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
