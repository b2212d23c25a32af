"""``slackwater query "EXPLAIN ..."``: plans instead of answers, without any input."""

from __future__ import annotations

from typing import Any

from engine.barrier.registry import parse_barrier
from engine.query import explain, query

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
