"""LOOKUP in a query's text, tables as files have them, and what is refused of both."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.engine.core.errors import UserError
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.hosts.chain.identity import identity_of
from slackwater.engine.hosts.options import named_tables, read_tables
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import check_attributes, explain, query
from slackwater.engine.query.analysis.cascade import read_statements
from slackwater.engine.query.plan import Plan
from slackwater.engine.query.render import render
from tests.order.conftest import frame

TAGS = [{"tag": 1, "room": "icu", "floor": 3}, {"tag": 2, "room": "er", "floor": None}]
KNOWN = {"tag": "int", "tags": "int", "name": "str", "v": "float"}


def plan_of(text: str, name: str = "q1") -> Plan:
    return query(text, name=name, tables=read_tables({"tags": TAGS}))


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(UserError) as error:
        call()
    return str(error.value)


QUERIES = """
EVENT SEQ(A a, B b) LOOKUP tags ON a.tag = tags.tag WHERE tags.room = 'icu' WITHIN 5 s

EVENT SEQ(A a, B b) LOOKUP tags AS t ON t.tag = b.tag WHERE b.t.floor > a.v WITHIN 5 s

EVENT SEQ(A a, B b) LOOKUP tags ON tag = tags.tag WHERE a.tags.room = b.tags.room WITHIN 5 s
RETURN a.tags.room, b.v - b.tags.floor AS d

EVENT SEQ(A a, B+ b[]) LOOKUP tags ON b.tag = tags.tag WHERE b[i].tags.room = 'er' AND
max(b.tags.floor) < 3 WITHIN 5 s

EVENT SEQ(A a, !N n, B b) LOOKUP tags ON n.tag = tags.tag WHERE tags.room = 'er' WITHIN 1 s

EVENT SEQ(A a, B b) LOOKUP tags ON tag = tags.tag WHERE a.tags.room = 'er' UNDER CONSTRAINT c
FOR TRACE BY tag AS A[tags.floor = 3], B

EVENT SEQ(A a OVERLAP B b) LOOKUP tags ON a.tag = tags.tag WHERE tags.room = 'er' WITHIN 1 s

EVENT SEQ(A a, B b) WITHIN 5 s HISTORY BY tags.room CHECK few (past_count(1 h) < 3) LOOKUP
tags ON a.tag = tags.tag

SELECT avg(v), max(tags.floor) AS f FROM r AS x LOOKUP tags ON x.tag = tags.tag WHERE
tags.room <> 'er' GROUP BY tags.room HAVING max(tags.floor) > 1 WINDOW TUMBLING 5 s

SELECT count(*) LOOKUP tags ON source = tags.room WINDOW TUMBLING 5 s

SELECT v, tags.room LOOKUP tags ON tag = tags.tag EMIT AT MOST 1 EVERY 1 h BY tags.room

SELECT sum(tags) LOOKUP tags ON tags = tags.tag WINDOW TUMBLING 5 s

SELECT v, tags.room AS r LOOKUP tags ON tag = tags.tag WHERE tags.tag IS NULL

SELECT a.v, tags.room FROM r a LEFT JOIN s b ON a.tag = b.tag LOOKUP tags ON b.tag = tags.tag
WITHIN 5 s

SELECT a.v, s.room FROM r a JOIN s b ON a.tag = b.tag LOOKUP tags s ON a.tag = s.tag LOOKUP
tags t ON b.tag = t.tag WHERE s.room = t.room WITHIN 5 s
"""


@pytest.mark.parametrize("text", QUERIES.strip().split("\n\n"))
def test_a_plan_with_a_lookup_is_read_back_from_its_text(text: str) -> None:
    plan = plan_of(text)
    check_attributes(plan, KNOWN)
    again = plan_of(render(plan))
    assert render(again) == render(plan)
    assert [each.types for each in again.lookups] == [each.types for each in plan.lookups]


def test_a_name_like_the_word_is_a_name_still() -> None:
    plan = query("EVENT SEQ(A lookup, B b) WHERE lookup.lookup = b.lookup WITHIN 5 s")
    assert query(render(plan)) == query(render(query(render(plan))))
    assert [step.alias for step in plan.steps] == ["lookup", "b"]


SELECT = "SELECT count(*) LOOKUP {} WINDOW TUMBLING 1 s"


@pytest.mark.parametrize(
    ("text", "marked", "message", "hint"),
    [
        (SELECT.format("tagz ON tag = tagz.tag"), "tagz", "no table 'tagz'", "mean 'tags'?"),
        (SELECT.format("x ON tag = x.tag"), "x", "no table 'x'", "--table x=x.csv"),
        (SELECT.format("tags ON tag = tags.tg"), "tg", "no column 'tg'", "did you mean 'tag'?"),
        (SELECT.format("tags ON tag = tag"), "tag = tag", "which attribute", "ON tag = tags.tag"),
        (SELECT.format("tags ON tag > tags.tag"), "tag > tags.tag", "which attribute", "as in ON"),
        (SELECT.format("tags ON ts = tags.tag"), "ts", "'ts' is a time", "source, stream"),
        ("SELECT v FROM r, s LOOKUP tags ON r.tag = tags.tag", "r", "are read as one",
         "leave out r."),
        (SELECT.format("tags ON z.tag = tags.tag"), "z", "no step or stream", "leave it out"),
        (SELECT.format("tags ON tag = tags.tag LOOKUP tags ON v = tags.tag"), "tags", "something",
         "LOOKUP tags AS tags2 ON ... = tags2.key"),
        ("SELECT sum(tags.flor) LOOKUP tags ON tag = tags.tag WINDOW TUMBLING 1 s", "flor",
         "no column 'flor'", "did you mean 'floor'?"),
        ("EVENT SEQ(A a, B b) LOOKUP tags ON a.tag = tags.tag WHERE b.tags.room = 'er' WITHIN 1 s",
         "b.tags.room", "looked up for 'a'", "LOOKUP tags AS tags2 ON b.tag = tags2.tag"),
        ("EVENT SEQ(A a, B b) LOOKUP tags ON tag = tags.tag WHERE tags.room = 'er' WITHIN 1 s",
         "tags.room", "which step's", "a.tags.room or b.tags.room"),
        ("EVENT SEQ(A a, B b) LOOKUP tags ON c.tag = tags.tag WITHIN 1 s", "c", "no step",
         "a and b"),
    ],
)  # fmt: skip
def test_a_mistake_is_shown_where_it_is(text: str, marked: str, message: str, hint: str) -> None:
    first, _, carets, said = refusal(lambda: plan_of(text)).split("\n")
    start, length = carets.index("^") - 2, carets.count("^")
    assert text[start : start + length] == marked
    assert message in first
    assert hint in said


@pytest.mark.parametrize(
    ("text", "known", "marked", "message"),
    [
        (SELECT.format("tags ON tagg = tags.tag"), KNOWN, "tagg", "no event has an attribute"),
        (SELECT.format("tags ON name = tags.tag"), KNOWN, "name",
         "'name' is text, and table tags has a number in 'tag'"),
        (SELECT.format("tags ON tag = tags.tag"), {**KNOWN, "tags.room": "str"}, "tag",
         "attribute 'tags.room' of their own"),
        ("SELECT sum(tags.room) LOOKUP tags ON tag = tags.tag WINDOW TUMBLING 1 s", KNOWN,
         "tags.room", "'tags.room' is text, and sum takes numbers"),
        ("EVENT A a LOOKUP tags ON a.tag = tags.tag WHERE tags.floor = 'er'", KNOWN, "tags.floor",
         "a number is compared with text"),
    ],
)  # fmt: skip
def test_what_events_are_seen_to_have_is_checked(
    text: str, known: dict[str, str], marked: str, message: str
) -> None:
    plan = plan_of(text)
    first, _, carets, _ = refusal(lambda: check_attributes(plan, known)).split("\n")
    start, length = carets.index("^") - 2, carets.count("^")
    assert text[start : start + length] == marked
    assert message in first


def test_a_statement_over_results_looks_up_nothing() -> None:
    text = (
        "CREATE STREAM m AS SELECT tag, v FROM r; "
        "SELECT count(*) FROM m LOOKUP tags ON tag = tags.tag WINDOW TUMBLING 1 s"
    )
    said = refusal(lambda: read_statements([text], tables=read_tables({"tags": TAGS})))
    assert "this statement reads results" in said
    first = (
        "CREATE STREAM m AS SELECT v, tags.floor AS floor LOOKUP tags ON tag = tags.tag; "
        "SELECT max(floor) FROM m WINDOW TUMBLING 1 s"
    )
    plans, _ = read_statements([first], tables=read_tables({"tags": TAGS}))
    for plan in plans:
        check_attributes(plan, KNOWN)


def test_queries_of_one_pass_mean_the_same_by_one_name() -> None:
    one = plan_of("EVENT A a LOOKUP tags ON a.tag = tags.tag", "one")
    two = plan_of("EVENT A a LOOKUP tags ON a.v = tags.tag WHERE tags.room = 'er'", "two")
    said = refusal(lambda: ChainSettings(parse_order("none"), (one, two)))
    assert "queries 'one' and 'two' look up different things as 'tags'" in said
    other = plan_of(
        "EVENT A a LOOKUP tags AS tags2 ON a.v = tags2.tag WHERE tags2.room = 'er'", "two"
    )
    assert len(ChainSettings(parse_order("none"), (one, other)).lookups) == 2


def test_a_state_is_of_a_table_with_its_content() -> None:
    text = "EVENT A a LOOKUP tags ON a.tag = tags.tag"

    def known_by(rows: list[dict[str, object]]) -> str:
        plan = query(text, tables=read_tables({"tags": rows}))
        return identity_of(ChainSettings(parse_order("none"), (plan,)))

    assert known_by(TAGS) == known_by([dict(row) for row in TAGS])
    assert known_by(TAGS) != known_by([TAGS[0], {**TAGS[1], "room": "lab"}])


def test_explain_says_what_is_looked_up() -> None:
    said = explain(plan_of("EVENT A a LOOKUP tags ON a.tag = tags.tag WHERE tags.room = 'er'"))
    assert "lookup      a gets tags.room and tags.floor of table tags (2 rows)" in said


# Files.


FILES = {
    "t.csv": "# made by hand\ntag;room;floor\n1;icu;3\n\n2;er;\n",
    "t.jsonl": "\n".join(json.dumps({k: v for k, v in row.items() if v is not None})
                         for row in TAGS),
    "t.json": json.dumps(TAGS, indent=1),
}  # fmt: skip


@pytest.mark.parametrize("name", [*FILES, "t.parquet"])
def test_a_table_is_read_from_a_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name in FILES:
        path.write_text(FILES[name])
    else:
        pq.write_table(pa.Table.from_pylist(TAGS), path)
    table = read_tables(named_tables([f"tags={path}"]))["tags"]
    assert {name: column.to_pylist() for name, column in table.columns.items()} == {
        "tag": [1, 2], "room": ["icu", "er"], "floor": [3, None],
    }  # fmt: skip
    assert table == read_tables({"tags": TAGS})["tags"]
    assert table.rows_of("room", pa.array(["er", "lab", None])).tolist() == [1, -1, -1]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", "tag,room\n1,icu\n\n2,er\n1,x\n", "lines 2 and 5 have the same tag 1, "),
        ("t.csv", "tag,room\n1,icu\n2\n", "t.csv:3: "),
        ("t.jsonl", '{"tag": "x"}\n{"tag": "y"}\n{"tag": "x"}\n',
         "lines 1 and 3 have the same tag 'x', "),
        ("t.jsonl", '{"tag": 1}\n[1]\n', "t.jsonl:2: is no object"),
        ("t.jsonl", '{"tag": 1}\n{"tag": \n', "t.jsonl:2: "),
        ("t.jsonl", '{"tag": 1}\n{"tag": "x"}\n', '"tag" mixes types'),
        ("t.jsonl", '{"tag": [1, 2]}\n', "a table has numbers, text and truth values"),
        ("t.jsonl", "", "the file is empty"),
        ("no.csv", None, "no.csv: cannot be read: No such file"),
        ("t.parquet", "PAR1 no", "t.parquet: damaged Parquet file"),
        ("t.csv", "tag,room\n1e999,icu\n", 't.csv:2: column "tag"'),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_used_is_refused(
    name: str, content: str | None, said: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)

    def use() -> None:
        query(SELECT.format("tags ON tag = tags.tag"), tables=read_tables({"tags": path}))

    assert said in refusal(use)


def test_a_table_has_a_greatest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slackwater.engine.hosts.options.ROWS_MAX", 1)
    assert "table tags: a table has at most 1 rows" in refusal(lambda: read_tables({"tags": TAGS}))


@pytest.mark.parametrize("word", ["tags", "=t.csv", "tags="])
def test_a_word_that_names_no_table_is_refused(word: str) -> None:
    assert "write NAME=FILE, as in --table tags=tags.csv" in refusal(lambda: named_tables([word]))


def test_a_table_is_named_once() -> None:
    said = refusal(lambda: named_tables(["tags=a.csv", "tags=b.csv"]))
    assert '"tags" is "a.csv" already' in said


# Events that a live engine has not seen before.


def test_a_key_of_another_type_than_the_table_s_fails_its_own_query_alone() -> None:
    plans = (
        plan_of("EVENT A a LOOKUP tags ON a.tag = tags.tag WHERE tags.room = 'icu'", "looks"),
        plan_of("EVENT A a WHERE a.tag = 'x'", "other"),
    )
    asked = ChainSettings(parse_order("none"), plans, guards=Guards(None), isolate_failures=True)
    chain = Chain(asked, "main")
    record = {"source": "s", "seq": 0, "ts": 0, "arrival": 0, "type": "A", "attrs": {"tag": "x"}}
    found = chain.process([frame([record])])
    assert [each.query for each in found.failures] == ["looks"]
    assert "'tag' is text, and table tags has a number in 'tag'" in str(found.failures[0])
    assert [len(list(pieces)) for pieces in found.results] == [0, 1]


def test_events_without_the_key_are_neither_found_nor_missed() -> None:
    asked = ChainSettings(
        parse_order("none"),
        (plan_of("EVENT A a LOOKUP tags ON a.tag = tags.tag WHERE tags.room IS NULL"),),
        guards=Guards(None),
    )
    chain = Chain(asked, "main")
    for seq, attrs in enumerate([{}, {"tag": 7}, {"tag": 1}]):
        record = {"source": "s", "seq": seq, "ts": seq, "arrival": seq, "type": "A", "attrs": attrs}
        found = chain.process([frame([record])])
        assert sum(map(len, found.results)) == (seq < 2)
    assert chain.counters()["lookup_missed"] == {"tags": 1}


@pytest.mark.parametrize("field", ["source", "stream", "type", "site"])
def test_record_fields_are_keys(field: str) -> None:
    value = {"source": "s", "stream": "events", "type": "A", "site": "main"}[field]
    tables = read_tables({"d": [{"k": "other", "x": 1}, {"k": value, "x": 2}]})
    plan = query(f"SELECT d.x LOOKUP d ON {field} = d.k", tables=tables)
    check_attributes(plan, {})
    chain = Chain(ChainSettings(parse_order("none"), (plan,), guards=Guards(None)), "main")
    record = {"source": "s", "seq": 0, "ts": 0, "arrival": 0, "type": "A"}
    (result,) = chain.process([frame([record])]).results[0]
    assert result["value"] == {"d.x": 2}


def test_a_query_sees_nothing_of_another_one_s_tables() -> None:
    plans = (
        plan_of("EVENT A a LOOKUP tags ON a.tag = tags.tag", "looks"), plan_of("EVENT A a", "not")
    )  # fmt: skip
    asked = ChainSettings(parse_order("none"), plans, guards=Guards(None), ordered="full")
    record = {"source": "s", "seq": 0, "ts": 0, "arrival": 0, "type": "A", "attrs": {"tag": 1}}
    found = Chain(asked, "main").process([frame([record])])
    (mine,), (other,) = map(list, found.results)
    assert mine["events"][0]["attrs"] == {"tag": 1, "tags.floor": 3, "tags.room": "icu"}
    assert other["events"][0]["attrs"] == {"tag": 1}
    assert found.ordered[0].attr_types == {"tag": "int"}
