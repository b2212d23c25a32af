"""``slackwater query``: the goldens of SPEC 4.1, 4.3 and 4.4 from the outside, and its options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.query import explain, query

Record = dict[str, Any]

QUIET = ("--in-process", "--quiet")
SEQ_AB = "EVENT SEQ(A a, B b) WITHIN 50"


def stream(text: str) -> list[Record]:
    """``a3 c5`` as events A at 3 and C at 5, arriving one after another."""
    return [
        {"type": word[0].upper(), "ts": int(word[1:]), "arrival": at}
        for at, word in enumerate(text.split())
    ]


def times(ran: Any) -> list[list[int]]:
    return [[event["ts"] for event in match["events"]] for match in ran.lines]


# --- SPEC 4.1: matches

LI = stream("a3 c5 b6 a7 d10 b11 c13 d15")
"""The stream of L10 Fig 4.2, W = 10."""


def test_spec_4_1_seq_over_the_stream_of_l10(cli: Any, trace: Any) -> None:
    ran = cli("query", "EVENT SEQ(A a, B b, D d) WITHIN 10", "--input", trace(*LI), "--in-process")
    assert (ran.code, ran.err, ran.left) == (0, "8 events in process\n", {})
    assert times(ran) == [[3, 6, 10], [7, 11, 15]]
    assert [(each["op"], each["at"], each["known_at"]) for each in ran.lines] == [
        ("+", 4, 4), ("+", 7, 7),
    ]  # fmt: skip


@pytest.mark.parametrize(("within", "want"), [(7, [[3, 10]]), (6, [])])
def test_spec_4_1_within_holds_its_last_instant(
    within: int, want: list[list[int]], cli: Any, trace: Any
) -> None:
    name = trace(*stream("a3 d10"))
    assert times(cli("query", f"EVENT SEQ(A, D) WITHIN {within}", "--input", name, *QUIET)) == want


def test_spec_4_1_steps_are_strictly_later(cli: Any, trace: Any) -> None:
    ran = cli("query", SEQ_AB, "--input", trace(*stream("a3 b3 b4")), *QUIET)
    assert times(ran) == [[3, 4]]


def test_design_results_fields_of_a_match(cli: Any, trace: Any) -> None:
    records = [
        {"site": "shop", "type": "A", "ts": 1, "te": 2, "source": "x", "attrs": {"tag": "k"}},
        {"site": "shop", "type": "B", "ts": 5, "source": "y", "stream": "r", "seq": 7},
    ]
    given = ("--input", trace(*records), "--clock", "exact", *QUIET)
    ran = cli("query", "EVENT SEQ(A, B) WITHIN 9", *given)
    shop = {"site": "shop"}
    a = {"stream": "events", "source": "x", "seq": 0, "type": "A", "ts": 1, "te": 2, "ref": 1}
    b = {"stream": "r", "source": "y", "seq": 7, "type": "B", "ts": 5, "te": 5, "ref": 5}
    match = {"at": 2, "known_at": 2, "certainty": "confirmed", "probability": 1.0}
    events = [shop | a | {"attrs": {"tag": "k"}}, shop | b | {"attrs": {}}]
    want = {"op": "+", "query": "q1", **shop, **match, "events": events}
    assert ran.out == json.dumps(want) + "\n"


# --- SPEC 4.3: certainty. s is known to within 10, t to within 3; T_a is 20.

CLOCKS: list[Record] = [
    {"kind": "sync", "source": "s", "offset": 0, "delay": 20, "arrival": 0},
    {"kind": "sync", "source": "t", "offset": 5, "delay": 6, "arrival": 0},
    {"type": "A", "ts": 100, "source": "s", "arrival": 1},
    {"type": "B", "ts": 105, "source": "s", "arrival": 2},
    {"type": "B", "ts": 103, "source": "t", "arrival": 3},
    {"type": "B", "ts": 113, "source": "t", "arrival": 4},
]


@pytest.mark.parametrize(
    ("rule", "want"),
    [
        # One source between syncs shares a clock; 8 lies below 10 + 3, and 18 above it.
        ("pairwise", {105: "confirmed", 103: "uncertain", 113: "confirmed"}),
        # 5, 8 and 18 lie within T_a = 20, and one source is no exemption.
        ("max-delay", {105: "uncertain", 103: "uncertain", 113: "uncertain"}),
    ],
)
def test_spec_4_3_pairwise_and_max_delay(
    rule: str, want: dict[int, str], cli: Any, trace: Any
) -> None:
    ran = cli("query", SEQ_AB, "--input", trace(*CLOCKS), "--certainty", rule, *QUIET)
    assert {each["events"][1]["ts"]: each["certainty"] for each in ran.lines} == want
    for each in ran.lines:
        assert (each["probability"] == 1) == (each["certainty"] == "confirmed")


def test_spec_4_3_an_order_that_only_reordering_gives_is_uncertain(cli: Any, trace: Any) -> None:
    records = [*CLOCKS[:3], {"type": "B", "ts": 90, "source": "t", "arrival": 3}]
    ran = cli("query", SEQ_AB, "--input", trace(*records), "--order", "none", *QUIET)
    # B at 95 +- 3 against A at 100 +- 10: true where A lies in [90, 98] and before B.
    assert [(each["certainty"], times(ran)) for each in ran.lines] == [("uncertain", [[100, 90]])]
    assert 0 < ran.lines[0]["probability"] < 0.5


# --- SPEC 4.4: windows. T_a is 4, so LOW is [-2, 8), MIDDLE [0, 10), HIGH [2, 12).

WINDOWED: list[Record] = [
    {"kind": "sync", "source": "s", "offset": 0, "delay": 4, "arrival": 0},
    *({"ts": ts, "source": "s", "arrival": ts + 1, "attrs": {"v": ts}} for ts in (1, 3, 9, 11, 30)),
]
SELECT = "SELECT avg(v), count(*) FROM events WINDOW TUMBLING 10"


def test_spec_4_4_low_middle_high_and_their_mean(cli: Any, trace: Any) -> None:
    ran = cli("query", f"{SELECT} DRIFT together", "--input", trace(*WINDOWED), *QUIET)
    first = next(each for each in ran.lines if each["window"] == {"start": 0, "end": 10})
    assert first["low"] == {"avg(v)": 2.0, "count(*)": 2}  # 1, 3
    assert first["middle"] == {"avg(v)": pytest.approx(13 / 3), "count(*)": 3}  # 1, 3, 9
    assert first["high"] == {"avg(v)": pytest.approx(23 / 3), "count(*)": 3}  # 3, 9, 11
    assert first["value"] == {"avg(v)": pytest.approx(14 / 3), "count(*)": pytest.approx(8 / 3)}
    # Known to within 2: 3 is surely inside; 1, 9 and 11 may be on either side.
    assert (first["certain"], first["ambiguous"]) == (1, 3)
    # They share one clock: at -2 and -1 all but the first or the last, at +1 and +2 the first two.
    assert first["bounds"]["count(*)"] == [2, 3]


def test_spec_4_4_each_gives_the_three_as_they_close(cli: Any, trace: Any) -> None:
    ran = cli("query", f"{SELECT} DRIFT each", "--input", trace(*WINDOWED), *QUIET)
    of_first = [each for each in ran.lines if each["window"]["start"] == 0]
    values = [(each["drift"], each["at"], each["value"]["count(*)"]) for each in of_first]
    # 9 passes LOW's end 8, 11 passes 10, and 30 passes 12.
    assert values == [("low", 10, 2), ("middle", 12, 3), ("high", 31, 3)]


def test_spec_4_4_a_window_not_longer_than_t_a_is_an_error(cli: Any, trace: Any) -> None:
    text = "SELECT avg(v) FROM events WINDOW TUMBLING 4 DRIFT each"
    ran = cli("query", text, "--input", trace(*WINDOWED), "--out", "o.jsonl", *QUIET)
    assert (ran.code, ran.out, ran.left) == (2, "", {})
    assert "WINDOW TUMBLING 4 ns is not longer than the site's largest delay T_a = 4 ns" in ran.err


def test_spec_4_4_windows_align_to_multiples_of_their_size_in_ref(cli: Any, trace: Any) -> None:
    records = [
        {"kind": "sync", "source": "s", "offset": -5, "delay": 0, "arrival": 0},
        *({"ts": ts, "source": "s", "arrival": 1, "attrs": {"v": 1}} for ts in (4, 5, 14, 15)),
    ]
    ran = cli("query", SELECT, "--input", trace(*records), *QUIET)
    found = {each["window"]["start"]: each["value"]["count(*)"] for each in ran.lines}
    assert found == {-10: 1, 0: 2, 10: 1}


def test_spec_4_4_missing_counts_what_may_belong_to_the_window(cli: Any, trace: Any) -> None:
    records = [
        {"ts": ts, "seq": seq, "arrival": at, "attrs": {"v": 1}}
        for ts, seq, at in ((1, 0, 1), (4, 3, 2), (12, 4, 100), (25, 5, 101))
    ]
    ran = cli("query", SELECT, "--input", trace(*records), "--order",
              "sequence:timeout=fixed:10", *QUIET)  # fmt: skip
    assert [(each["window"]["start"], each["missing"]) for each in ran.lines] == [
        (0, 2), (10, 0), (20, 0),
    ]  # fmt: skip


def test_group_by_and_text(cli: Any, trace: Any) -> None:
    rows = (("x", 1), ("é", 2), ("x", 4), (None, 8))
    records = [
        {"ts": 1, "attrs": {"v": v} | ({} if who is None else {"who": who})} for who, v in rows
    ]
    text = "select sum(v) as total from events group by who window tumbling 10"
    ran = cli("query", text, "--input", trace(*records), *QUIET)
    found = {each["key"]["who"]: each["value"]["total"] for each in ran.lines}
    assert found == {"x": 5, "é": 2, None: 8}
    assert '"é"' in ran.out  # text stays text


# --- options


def test_a_query_from_a_file(cli: Any, trace: Any) -> None:
    name = trace(*LI)
    direct = cli("query", "EVENT SEQ(A a, D d) WITHIN 9", "--input", name, *QUIET)
    Path("q.txt").write_bytes("\ufeffEVENT SEQ(A a,\r\n  D d)\r\nWITHIN 9\r\n".encode())
    ran = cli("query", "@q.txt", "--input", name, *QUIET)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == direct.out
    assert times(ran) == [[3, 10], [7, 10], [7, 15]]


@pytest.mark.parametrize("unit", ["ns", "ms", "h"])
def test_bare_numbers_of_a_query_are_in_the_unit_of_the_trace(
    unit: str, cli: Any, trace: Any
) -> None:
    name = trace(*LI)
    given = ("--input", name, "--time-unit", unit, "--guard", "off", *QUIET)
    ran = cli("query", "EVENT SEQ(A, D) WITHIN 7", *given)
    assert times(ran) == [[3, 10], [7, 10]]
    counts = cli("query", "SELECT count(*) FROM events WINDOW TUMBLING 10", *given)
    found = [(each["window"], each["value"]["count(*)"]) for each in counts.lines]
    assert found == [({"start": 0, "end": 10}, 4), ({"start": 10, "end": 20}, 4)]


def test_order_changes_when_a_result_is_known(cli: Any, trace: Any) -> None:
    rows = (("A", 1, 0, 0), ("B", 9, 2, 3), ("C", 5, 1, 8))
    name = trace(*({"type": t, "ts": ts, "seq": seq, "arrival": at} for t, ts, seq, at in rows))
    at = {}
    for order in ("none", "sequence:timeout=fixed:100", "sequence:timeout=fixed:2"):
        ran = cli("query", SEQ_AB, "--input", name, "--order", order, *QUIET)
        at[order] = [each["at"] for each in ran.lines]
    assert at == {"none": [3], "sequence:timeout=fixed:100": [8], "sequence:timeout=fixed:2": [5]}


def test_guard(cli: Any, trace: Any) -> None:
    name = trace({"type": "A", "ts": 1, "arrival": 5}, {"type": "B", "ts": 40, "arrival": 6})
    for guard, matches in (("33", 0), ("34", 1), ("off", 1)):
        ran = cli("query", SEQ_AB, "--input", name, "--guard", guard, *QUIET)
        assert len(ran.lines) == matches


@pytest.mark.parametrize(
    ("text", "matches"),
    [(SEQ_AB, 2), ("EVENT SEQ(B b, A a) WITHIN 50", 0), (SELECT.replace("avg(v), ", ""), 1)],
)
def test_out_files_hold_what_standard_output_would(
    text: str, matches: int, cli: Any, trace: Any
) -> None:
    name = trace(*stream("a1 b2 b3"))
    shown = cli("query", text, "--input", name, *QUIET)
    for out in ("o.jsonl", "o.parquet"):
        ran = cli("query", text, "--input", name, "--out", out, "--in-process")
        assert (ran.code, ran.out, set(ran.left)) == (0, "", {out})
        assert ran.err.endswith("3 events in process\n")
    assert Path("o.jsonl").read_text() == shown.out
    table = pq.read_table("o.parquet")
    assert table.num_rows == len(shown.lines) == matches
    own = "window" if text.startswith("SELECT") else "events"
    assert {"op", "query", "site", "at", own} < set(table.column_names)
    assert table.column("at").to_pylist() == [each["at"] for each in shown.lines]


def test_an_older_file_of_bad_lines_stays_as_it_is(cli: Any, trace: Any, here: Path) -> None:
    old = here / "t.jsonl.bad.jsonl"
    old.write_text("of a run that took an hour\n")
    skip = ("--input", "t.jsonl", "--on-bad", "skip", "--order", "none")
    trace({"type": "A", "ts": 1})
    assert cli("order", *skip).left == {}
    trace({"type": "A", "ts": 1}, "nope")
    ran = cli("order", *skip)
    assert "kept in t.jsonl.2.bad.jsonl" in ran.err
    assert list(ran.left) == ["t.jsonl.2.bad.jsonl"]
    again = cli("log", "import", "t.jsonl", "--out", "t.jsonl.log", "--on-bad", "skip")
    assert "t.jsonl.log.bad.jsonl" in again.left
    assert old.read_text() == "of a run that took an hour\n"


def test_a_work_folder_answers_another_query_of_the_same_input(cli: Any, trace: Any) -> None:
    name = trace(*LI)
    both = [SEQ_AB, "SELECT count(*) FROM events WINDOW TUMBLING 5", SEQ_AB]
    apart = [cli("query", text, "--input", name, *QUIET).out for text in both]
    found = [cli("query", text, "--input", name, "--work", "w", *QUIET).out for text in both]
    assert found == apart


def test_a_stream_that_no_event_is_of_is_refused(cli: Any, trace: Any) -> None:
    name = trace({"ts": 1, "stream": "doors"}, {"ts": 2})
    ran = cli("query", "SELECT count(*) FROM door WINDOW TUMBLING 5", "--input", name)
    assert ran.code == 2
    assert ran.err == (
        "slackwater: q1, line 1, column 22: no event is of stream 'door'; there is doors, events; "
        "did you mean 'doors'?\n"
    )


# --- final results

OPEN = "EVENT SEQ(DOOR d, !BADGE b) WHERE b.room = d.room WITHIN 5"
DOORS = [
    {"type": kind, "ts": ts, "arrival": at, "attrs": {"room": room}}
    for at, (kind, ts, room) in enumerate(
        [("DOOR", 10, "x"), ("DOOR", 1, "y"), ("BADGE", 12, "x"), ("DOOR", 30, "x")], 1
    )
]


def test_a_finite_input_gives_each_result_once_in_order_of_time(cli: Any, trace: Any) -> None:
    given = ("--input", trace(*DOORS), "--order", "none", "--in-process")
    ran = cli("query", OPEN, *given)
    assert [(each["op"], *times_of(each)) for each in ran.lines] == [("+", 1), ("+", 30)]
    assert ran.err == ("4 events in process\n2 results; retracted on the way (see --changes): 1\n")
    log = cli("query", OPEN, *given, "--changes")
    assert [(each["op"], *times_of(each)) for each in log.lines] == [
        ("+", 10), ("+", 1), ("-", 10), ("+", 30),
    ]  # fmt: skip
    for out in ("o.jsonl", "o.parquet", "o.csv"):
        assert cli("query", OPEN, *given, "--out", out).code == 0
    assert Path("o.jsonl").read_text() == ran.out
    assert pq.read_table("o.parquet").num_rows == 2
    assert len(Path("o.csv").read_text().splitlines()) == 1 + 2


def test_a_log_gives_changes_unless_final_results_are_asked_for(cli: Any, trace: Any) -> None:
    name = trace(*DOORS)
    assert cli("log", "import", name, "--out", "doors.log").code == 0
    given = ("--input", "doors.log", "--order", "none", *QUIET)
    file = ("--input", name, "--order", "none", *QUIET)
    assert cli("query", OPEN, *given).out == cli("query", OPEN, *file, "--changes").out
    assert cli("query", OPEN, *given, "--final").out == cli("query", OPEN, *file).out


FIRST_OF = "WITHIN {} PARTITION BY k CONTIGUITY NEXT SKIP PAST LAST EVENT RETURN count({}) AS n"


def test_case_18_esper_every_distinct(cli: Any, trace: Any) -> None:
    scans = [
        {"type": "SCAN", "ts": ts, "arrival": ts, "k": "x"}
        for ts in (0, 600, 1200, 1800, 2400, 9000)
    ]
    text = f"EVENT SEQ(SCAN+ s[], !SCAN n) {FIRST_OF.format('999 ms', 's')}"
    ran = cli("query", text, "--input", trace(*scans), "--time-unit", "ms", *QUIET)
    assert [times_of(each)[0] for each in ran.lines] == [0, 1200, 2400, 9000]


def test_case_17_an_alarm_at_most_once_an_hour(cli: Any, trace: Any) -> None:
    high = [
        {"type": "V", "ts": 60 * m, "arrival": 60 * m, "k": "s1", "v": 60 if 10 <= m <= 200 else 20}
        for m in range(203)
    ]
    alarm = (
        "CREATE STREAM alarm AS EVENT SEQ(V a, !V b) WHERE a.v > 50 AND b.v <= 50 AND b.k = a.k "
        "WITHIN 30 s RETURN a.k AS k"
    )
    text = f"{alarm}; EVENT SEQ(alarm+ a[], !alarm n) {FIRST_OF.format('59 min', 'a')}"
    ran = cli("query", text, "--input", trace(*high), "--time-unit", "s", *QUIET)
    shown = [times_of(each)[0] / 60 for each in ran.lines if each["query"] == "q2"]
    assert shown == [10, 70, 130, 190]


def times_of(match: Record) -> list[int]:
    return [event["ts"] for event in match["events"]]


# --- several queries in one pass


def test_several_queries_each_read_after_their_own_slack(cli: Any, trace: Any) -> None:
    count = "SELECT count(*) WINDOW TUMBLING 5"
    name = trace(*stream("a3 b9 a6 a16"))
    ran = cli("query", count, count, SEQ_AB, "--input", name, "--order", "kslack-chain:0,5", *QUIET)
    windows = [
        (each["query"], each["window"]["start"], each["at"])
        for each in ran.lines
        if "window" in each
    ]
    assert windows == [
        ("q1", 0, 1), ("q1", 5, 3), ("q1", 15, 3), ("q2", 0, 3), ("q2", 5, 3), ("q2", 15, 3),
    ]  # fmt: skip
    assert [each["query"] for each in ran.lines if "events" in each] == ["q3", "q3"]


def test_windows_and_matches_do_not_go_into_one_parquet_file(cli: Any, trace: Any) -> None:
    name = trace(*stream("a3 b9"))
    count = "SELECT count(*) WINDOW TUMBLING 5"
    ran = cli("query", count, SEQ_AB, "--input", name, "--out", "x.parquet", *QUIET)
    assert (ran.code, ran.err) == (
        2, "slackwater: x.parquet: windows and matches have different columns; write .jsonl\n",
    )  # fmt: skip


SEQ = "EVENT SEQ(A a, !N n, B b) WHERE a.id = b.id WITHIN 5"
COUNT = "SELECT count(*) WINDOW TUMBLING 10"


def test_plans_one_after_another(cli: Any) -> None:
    ran = cli("query", f"EXPLAIN {SEQ}", f"explain {COUNT}", "--time-unit", "s")
    first = explain(query(SEQ, "s", "q1"))
    assert (ran.code, ran.err, ran.left) == (0, "", {})
    assert ran.out == first + "\n" + explain(query(COUNT, "s", "q2"))
    assert "within      5 s at most" in ran.out


def test_the_barrier_of_the_command(cli: Any) -> None:
    ran = cli("query", f"EXPLAIN {SEQ}", "--barrier", "bounded:2", "--time-unit", "s")
    assert ran.out == explain(query(SEQ, "s"), parse_barrier("bounded:2s"))
    assert "closed once the largest time yet lies 2 s beyond b" in ran.out


def test_a_file_with_the_question(cli: Any, here: Any) -> None:
    (here / "q.txt").write_text(f"EXPLAIN\n{SEQ};\n", "utf-8")
    assert cli("query", "@q.txt").out == explain(query(SEQ))


def test_what_does_not_go_together(cli: Any) -> None:
    both = cli("query", SEQ, f"EXPLAIN {COUNT}", "--input", "-")
    assert (both.code, both.out) == (2, "")
    assert "ask for plans and for answers in two calls" in both.err
    out = cli("query", f"EXPLAIN {COUNT}", "--out", "plan.jsonl")
    assert (out.code, out.left) == (2, {})
    assert "EXPLAIN writes to standard output" in out.err


def test_answers_need_an_input(cli: Any) -> None:
    ran = cli("query", SEQ)
    assert (ran.code, ran.out) == (2, "")
    assert "--input is missing: name a trace, CSV, Parquet or arrival log" in ran.err


def test_a_mistake_behind_explain_is_shown_in_its_place(cli: Any) -> None:
    ran = cli("query", "EXPLAIN EVENT SEQ(A a) WHERE a.x > 5 AND a.x < 3")
    assert ran.code == 2
    assert "column 42: this can never be true" in ran.err


def test_too_many_matches_end_the_command_with_a_word(cli: Any, trace: Any) -> None:
    events = trace(*stream(" ".join(f"a{at}" for at in range(40))))
    ran = cli("query", "EVENT A+ a[] WITHIN 90", "--input", events, *QUIET, "--matches-max", "99")
    assert ran.code == 2
    assert "query 'q1': one event completes or changes more than 99 matches" in ran.err
    assert "--matches-max 198" in ran.err
