"""What flows from statement to statement beside values: certainty, ``missing``, names, counters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import slackwater
from slackwater.engine.cli.app import run
from slackwater.engine.core.errors import UserError
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.hosts.live.questions import Questions
from slackwater.engine.operators.window.settings import parse_window
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import check_attributes
from slackwater.engine.query.analysis.cascade import read_statements
from slackwater.engine.query.explain import cascade_lines
from tests.cascade.composed import cascade, net
from tests.order.conftest import frame

MEANS = "CREATE STREAM w AS SELECT avg(v) AS v FROM s GROUP BY k WINDOW TUMBLING 10 s;\n"

HEAT = MEANS.replace("STREAM w", "STREAM heat")


def clocks(*sources: str, delay: int = 4) -> list[dict[str, Any]]:
    return [{"kind": "sync", "source": source, "offset": 0, "delay": delay, "arrival": 1}
            for source in sources]  # fmt: skip


def events(*times: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"source": source, "seq": n, "ts": ts, "type": source.upper(), "arrival": 100 + n,
             "attrs": {"v": n}} for n, (source, ts) in enumerate(times)]  # fmt: skip


def test_uncertain_matches_are_ambiguous_in_windows_with_bounds_with_and_without_them() -> None:
    records = [*clocks("a", "b"), *events(("a", 10), ("b", 11), ("a", 60), ("b", 70), ("b", 99))]
    text = (
        "CREATE STREAM m AS EVENT SEQ(A a, B b) WITHIN 20 RETURN a.v AS x;"
        "SELECT count(*) AS n FROM m WINDOW TUMBLING 50"
    )
    found = {r["window"]["start"]: r for r in net(cascade(text, records)["q2"])}
    first, second = found[0], found[50]
    assert (first["certain"], first["ambiguous"], first["bounds"]["n"]) == (0, 1, [0, 1])
    assert (second["certain"], second["ambiguous"], second["bounds"]["n"]) == (1, 0, [1, 1])


def test_a_match_is_as_probable_as_its_uncertain_events_together() -> None:
    records = [*clocks("a", "b"), *events(("a", 10), ("b", 11), ("a", 60), ("b", 61), ("a", 99))]
    text = (
        "CREATE STREAM m AS EVENT SEQ(A a, B b) WITHIN 20 RETURN a.v AS x;"
        "EVENT SEQ(m p, m q) WITHIN 80"
    )
    found = cascade(text, records)
    first, second = net(found["m"])
    (pair,) = net(found["q2"])
    assert first["certainty"] == second["certainty"] == pair["certainty"] == "uncertain"
    assert pair["probability"] == first["probability"] * second["probability"] < 1
    assert pair["events"][0]["attrs"]["probability"] == first["probability"]


def test_of_windows_that_clocks_leave_open_nobody_knows_the_probability() -> None:
    records = [*clocks("a"), *events(("a", 5), ("a", 19), ("a", 25), ("a", 35), ("a", 75))]
    text = (
        "CREATE STREAM w AS SELECT count(*) AS n WINDOW TUMBLING 10;"
        "EVENT SEQ(w x, w y) WITHIN 25 RETURN x.ambiguous AS p, y.ambiguous AS q"
    )
    found = net(cascade(text, records)["q2"])
    emitted = {(r["certainty"], r["probability"], max(r["value"].values()) > 0) for r in found}
    assert emitted == {("uncertain", None, True)}


def test_missing_events_are_counted_once_in_windows_of_windows() -> None:
    records = [
        {"source": "a", "seq": seq, "ts": ts, "arrival": 100 + ts, "attrs": {"k": seq % 2, "v": 1}}
        for seq, ts in ((0, 1), (1, 2), (4, 3), (5, 4), (6, 31), (7, 65))
    ]
    text = (
        "CREATE STREAM w AS SELECT count(*) AS n GROUP BY k WINDOW TUMBLING 10;"
        "SELECT sum(n) AS n WINDOW TUMBLING 30"
    ).replace("SELECT sum(n) AS n", "SELECT sum(n) AS n FROM w")
    found = cascade(text, records, order="sequence:timeout=fixed:10,latency=10")
    last = {r["window"]["start"]: r for r in net(found["q2"])}
    assert {start: (r["value"]["n"], r["missing"]) for start, r in last.items()} == {
        0: (4, 2), 30: (1, 0), 60: (1, 0),
    }  # fmt: skip


def test_corrections_too_far_back_are_counted_and_change_nothing() -> None:
    times = [*range(0, 4000, 10), 5, 4000]
    records = [{"source": "a", "seq": n, "ts": ts, "arrival": 100 + n, "attrs": {"v": 1}}
               for n, ts in enumerate(times)]  # fmt: skip
    text = (
        "CREATE STREAM m AS EVENT SEQ(x a, x b) WITHIN 10 RETURN a.v AS v;"
        "SELECT count(*) AS n FROM m WINDOW TUMBLING 100"
    )
    plans, _ = read_statements([text])
    for record in records:
        record["type"] = "x"
    chosen = ChainSettings(
        parse_order("none"), plans, guards=Guards(None), window=parse_window("horizon=0")
    )
    chain = Chain(chosen, "main")
    found = list(chain.process([frame(records)]).results[1]) + list(chain.finish().results[1])
    first = next(r for r in net(found) if r["window"]["start"] == 0)
    counts = chain.counters()["queries"]["q2"]
    assert counts["results_corrected"] + counts["results_too_late"] == 2
    # The event of 5 makes two matches, of 0 and 10; a pattern keeps its events for a minute.
    assert first["value"]["n"] == 9 + 2 * (counts["results_corrected"] == 2)


@pytest.mark.parametrize("clause", ["", " EMIT AT MOST 1 EVERY 500", " WITHIN 500"])
def test_what_may_be_hidden_is_not_kept_for_ever_where_no_clock_errs(clause: str) -> None:
    """Windows that HAVING may hide: those of the last 500 may bear on each other, no others."""
    text = (
        "CREATE STREAM t AS SELECT count(*) AS n FROM events HAVING n > 0 WINDOW TUMBLING 10;"
        f"EVENT {'SEQ(t p, !t r)' if 'WITHIN' in clause else 't p'}{clause}"
    )
    plans, _ = read_statements([text])
    chosen = ChainSettings(
        parse_order("none"), plans, guards=Guards(None), window=parse_window("horizon=0")
    )
    chain = Chain(chosen, "main")
    for start in range(0, 20_000, 1_000):
        records = [{"source": "a", "seq": n, "ts": 10 * n, "arrival": 10 * n}
                   for n in range(start, start + 1_000)]  # fmt: skip
        chain.process([frame(records)])
    counts = chain.counters()["queries"]["q2"]
    assert counts["results_read"] > 19_000
    assert counts["results_kept"] < 1_500


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAT + "SELECT count(*) FROM haet WINDOW TUMBLING 10 s", "no statement makes a stream"),
        (MEANS + "SELECT max(w) FROM w WINDOW TUMBLING 10 s", "have no column 'w'"),
        (MEANS + "EVENT SEQ(w a, w b) WHERE a.temp > 1 WITHIN 5 s", "have no column 'temp'"),
        (MEANS + "EVENT SEQ(w a, shelf b) WITHIN 5 s", "is the stream of a statement"),
        (MEANS + MEANS, "there are two streams named 'w'"),
        (MEANS.replace("FROM s", "FROM w"), "'w' reads its own results"),
        (
            MEANS.replace("FROM s", "FROM x") + MEANS.replace("STREAM w", "STREAM x")
            .replace("FROM s", "FROM w"), "a circle: ",
        ),
        ("CREATE w AS SELECT count(*) WINDOW TUMBLING 1 s", "CREATE needs STREAM, a name and AS"),
        (MEANS + "SELECT max(v) FROM w WINDOW TUMBLING 1 min DRIFT EACH", "DRIFT is of sources"),
        (
            MEANS.replace("10 s;", "10 s DRIFT EACH;") + "SELECT max(v) FROM w WINDOW TUMBLING 1 h",
            "three results of each window",
        ),
        (MEANS + "EXPLAIN SELECT max(v) FROM w WINDOW TUMBLING 1 min", "EXPLAIN is in the"),
        ('CREATE STREAM "../x" AS SELECT count(*) WINDOW TUMBLING 1 s', "is no name for a stream"),
        (MEANS.replace("STREAM w", "STREAM q2") + "SELECT count(*) WINDOW TUMBLING 1 s", "named"),
    ],
)  # fmt: skip
def test_mistakes_are_reported_with_their_place(text: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        read_statements([text])
    assert message in str(error.value)
    assert "^" in str(error.value)


def test_a_mistake_in_the_window_clause_is_shown_there_not_at_a_column() -> None:
    with pytest.raises(UserError) as error:
        read_statements(
            [MEANS + "SELECT max(v) AS drift_window FROM w WINDOW TUMBLING 1 min DRIFT EACH"]
        )
    _, line, caret, *_ = str(error.value).splitlines()
    assert line[caret.index("^") :].startswith("DRIFT EACH")


def test_the_place_of_a_mistake_is_that_in_the_whole_text() -> None:
    with pytest.raises(UserError) as error:
        read_statements([HEAT + "SELECT count(*) FROM haet WINDOW TUMBLING 10 s"])
    assert str(error.value) == (
        "query line 2, column 22: no statement makes a stream 'haet'\n"
        "  SELECT count(*) FROM haet WINDOW TUMBLING 10 s\n"
        "                       ^^^^\n"
        "  there is heat; did you mean 'heat'?"
    )


def test_types_of_columns_are_checked_against_the_log() -> None:
    text = (
        "CREATE STREAM w AS SELECT first(name) AS n WINDOW TUMBLING 1 s;"
        "SELECT sum(n) FROM w WINDOW TUMBLING 1 min"
    )
    plans, _ = read_statements([text])
    check_attributes(plans[1], {"name": "float"})
    with pytest.raises(UserError, match="'n' is text, and sum takes numbers"):
        check_attributes(plans[1], {"name": "str"})


def test_statements_may_stand_in_any_order_and_be_read_by_nobody() -> None:
    records = events(("a", 5), ("a", 15), ("a", 25))
    upside_down = (
        "SELECT sum(n) AS t FROM w WINDOW TUMBLING 100;"
        "CREATE STREAM w AS SELECT count(*) AS n WINDOW TUMBLING 10;"
        "CREATE STREAM unread AS SELECT count(*) AS n WINDOW TUMBLING 100"
    )
    found = cascade(upside_down, records)
    assert [r["value"] for r in net(found["q1"])] == [{"t": 3}]
    assert [r["value"] for r in net(found["unread"])] == [{"n": 3}]


def test_explain_shows_the_cascade() -> None:
    plans, explained = read_statements(
        ["EXPLAIN " + MEANS + "EVENT SEQ(w a, w b) WHERE a.v < b.v WITHIN 1 min"]
    )
    assert explained
    (emitted,) = cascade_lines(plans)
    assert "w           reads the log" in emitted
    assert "columns ambiguous, certain, k, missing, v" in emitted
    assert "q2          reads w" in emitted


def test_a_site_asks_statements_by_names() -> None:
    text = "CREATE STREAM w AS SELECT count(*) AS n WINDOW TUMBLING 1 s"
    of = "SELECT max(n) FROM w WINDOW TUMBLING 1 min"
    asked = Questions(queries=(("counts", text), ("most", of)))
    assert [plan.name for plan in asked.plans()] == ["w", "most"]
    assert asked.folders == ("w", "most")
    # Answers are others when what they are made of is.
    other = Questions(queries=(("counts", text.replace("1 s", "2 s")), ("most", of)))
    assert asked.of_each()["most"] != other.of_each()["most"]


def test_the_command_and_python_answer_alike(tmp_path: Path) -> None:
    trace, out = tmp_path / "t.jsonl", tmp_path / "o.jsonl"
    records = events(*(("a", ts) for ts in (5, 12, 23, 7, 48, 66, 70)))
    trace.write_text("".join(json.dumps(record) + "\n" for record in records))
    text = (
        "CREATE STREAM w AS SELECT sum(v) AS s WINDOW TUMBLING 10 ms; -- a comment; and more\n"
        "SELECT sum(s) AS t, count(*) AS n FROM w WHERE s > 0 WINDOW TUMBLING 50 ms;"
    )
    shared = ["--input", str(trace), "--order", "none", "--time-unit", "ms", "--guard", "off"]
    assert run(["query", text, *shared, "--quiet", "--out", str(out)]) == 0
    emitted = [json.loads(line) for line in out.read_text().splitlines()]
    log = slackwater.read(trace, time_unit="ms")
    assert list(slackwater.query(log, text, order="none", guard="off")) == emitted
    assert {result["query"] for result in emitted} == {"w", "q2"}


def test_what_an_alert_does_not_say_is_null_for_the_next_statement() -> None:
    kinds = [("A", 1), ("B", 1), ("B", 2), ("A", 2), ("C", 3), ("C", 3), ("A", 4), ("A", 5)]
    records = [
        {"source": "a", "seq": n, "ts": 10 * n + 1, "type": kind, "arrival": 100 + n,
         "attrs": {"id": trace}}
        for n, (kind, trace) in enumerate(kinds)
    ]  # fmt: skip
    text = (
        "CREATE STREAM al AS EVENT SEQ(A a, B b) UNDER CONSTRAINT c FOR TRACE BY id AS A, B;"
        "SELECT count(*) AS n, count(allowed) AS allowed FROM al WINDOW TUMBLING 1000"
    )
    found = cascade(text, records)
    (window,) = net(found["q2"])
    assert window["value"] == {"n": 4, "allowed": 1}
    assert [r["allowed"] for r in net(found["al"])].count(None) == 3
