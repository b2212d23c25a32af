"""A plan's text gives the plan back: of queries worked out by hand, and of any name and value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.query import query
from slackwater.engine.query.plan import Arithmetic, Attribute, Comparison, Constant, SeqPlan
from slackwater.engine.query.render import quote, render, render_duration, render_expression
from tests.hand_worked.cases import cases

WORKED_OUT = [case.query for case in cases() if ";" not in case.query]


def shown(plan: Any) -> str:
    """All of it but its text."""
    return repr(plan).replace(repr(plan.text), "")


@pytest.mark.parametrize("text", WORKED_OUT)
def test_a_query_worked_out_by_hand_comes_back(text: str) -> None:
    plan = query(text, time_unit="s")
    written = render(plan)
    again = query(written)
    assert shown(again) == shown(plan)
    assert render(again) == written


NAMES = (
    st.sampled_from(["v", "Tag", "_u", "a1", "select", "Within", "SEQ", "before", "window", "in"])
    | st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=4)
).filter(lambda name: name != "attrs" and not name.startswith("attrs."))
VALUES = (
    st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9) | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)  # fmt: skip


@given(NAMES, NAMES, NAMES.filter(lambda name: name not in {"ts", "te"}), VALUES)
def test_any_name_and_value_come_back(alias: str, kind: str, name: str, value: Any) -> None:
    said = render_expression(Constant(value))
    text = f"EVENT SEQ({quote(kind)} {quote(alias)}) WHERE {quote(alias)}.{quote(name)} = {said}"
    plan = query(text)
    assert isinstance(plan, SeqPlan)
    (step,) = plan.steps
    assert (step.alias, step.type) == (alias, kind)
    assert step.where == Comparison("=", Attribute(name, alias), Constant(value))
    assert shown(query(render(plan))) == shown(plan)


CANONICAL = {
    "event seq(SHELF s, EXIT e) where e.n>3 and s.tag==e.tag and s.n*2<e.n within 300 min": """
    EVENT SEQ(SHELF s, EXIT e) WHERE e.n > 3 AND s.tag = e.tag AND s.n * 2 < e.n WITHIN 5 h
    """,
    "SELECT avg(v) AS mean, count(*) FROM soccer GROUP BY sid WINDOW TUMBLING 10000 ms": """
    SELECT avg(v) AS mean, count(*) FROM soccer GROUP BY sid WINDOW TUMBLING 10 s
    """,
    "select max(`|v|`) WHERE NOT(x NOT IN (1, 2) OR (y = 1 AND z = 'o''k')) WINDOW TUMBLING 1s": """
    SELECT max("|v|") WHERE NOT (NOT (x IN (1, 2)) OR (y = 1 AND z = 'o''k')) WINDOW TUMBLING 1 s
    """,
    "EVENT SEQ(A) WHERE attrs.ts = 1 AND ts > 5 s REALTIME 1 RETURN ts": """
    EVENT SEQ(A) WHERE A.attrs.ts = 1 AND A.ts > 5000000000 REALTIME 1 RETURN A.ts
    """,
    "event seq(A a,and(B b,seq(C c)),!or(M m,N n),D d) return a.x-b.x,a.x as v,d.x within 1s": """
    EVENT SEQ(A a, AND(B b, C c), !M m, !N n, D d) WITHIN 1 s RETURN d.x, a.x - b.x, a.x AS v
    """,
    "event or(seq(A a,or(B b,C c)),D d) where (a.x=1 or a.y=2) and b.k=a.k and a.k=c.k": """
    EVENT OR(SEQ(A a, OR(B b, C c)), D d) WHERE (a.x = 1 OR a.y = 2) AND b.k = a.k AND a.k = c.k
    """,
    "select *, s.v*2, attrs.ts as t, `a b` from s where s.v>3 and (s.x=1 or y=2);": """
    SELECT *, v * 2, attrs.ts AS t, "a b" FROM s WHERE v > 3 AND (x = 1 OR y = 2)
    """,
    "select t.v as w, te - ts from soccer as t": "SELECT v AS w, te - ts FROM soccer t",
    "select source, v from a, b check few (v < 3) drop": """
    SELECT source, v FROM a, b CHECK few (v < 3) DROP
    """,
    "select * where v is not null": "SELECT * WHERE v IS NOT NULL",
    "SELECT min(v) FROM a, b WINDOW TUMBLING 90 min DRIFT together;": """
    SELECT min(v) FROM a, b WINDOW TUMBLING 90 min DRIFT TOGETHER
    """,
}


@pytest.mark.parametrize("text", CANONICAL)
def test_canonical_text(text: str) -> None:
    plan = query(text)
    assert render(plan) == CANONICAL[text].strip()
    assert shown(query(render(plan))) == shown(plan)


def test_parentheses_only_where_grouping_needs_them() -> None:
    a, b, c = (Attribute(name) for name in "abc")
    assert render_expression(Arithmetic("-", Arithmetic("-", a, b), c)) == "a - b - c"
    assert render_expression(Arithmetic("-", a, Arithmetic("-", b, c))) == "a - (b - c)"
    assert render_expression(Arithmetic("*", Arithmetic("+", a, b), c)) == "(a + b) * c"
    assert render_expression(Arithmetic("/", a, Arithmetic("*", b, c))) == "a / (b * c)"
    assert render_expression(Arithmetic("-", a, Constant(-5))) == "a - -5"


def test_durations_and_names() -> None:
    assert [render_duration(n) for n in (1, 1500, 10**6, 90 * 60 * 10**9, 86400 * 10**9)] == [
        "1 ns", "1500 ns", "1 ms", "90 min", "1 d",
    ]  # fmt: skip
    assert [quote(n) for n in ("tag", "Select", 'a"b', "1x", "start")] == [
        "tag", '"Select"', '"a""b"', '"1x"', '"start"',
    ]  # fmt: skip
