"""What the language says: DESIGN's examples, R19's queries, and how WHERE is split."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.core.errors import UserError
from slackwater.engine.query import query, to_text
from slackwater.engine.query.analysis.cascade import read_statements
from slackwater.engine.query.fields import needed_attributes, released_columns
from slackwater.engine.query.language.mistakes import MAX_QUERY_CHARS
from slackwater.engine.query.language.parse import parse
from slackwater.engine.query.language.syntax import (
    EndpointChain,
    EventQuery,
    GroupNode,
    IseqNode,
    SelectQuery,
)
from slackwater.engine.query.plan import (
    Aggregate,
    Arithmetic,
    Attribute,
    Comparison,
    Constant,
    Drift,
    Logic,
    Membership,
    SeqPlan,
    Step,
    WindowPlan,
)
from slackwater.engine.query.render import render
from slackwater.engine.query.schema import check_attributes

DESIGN = [
    "EVENT SEQ(SHELF s, !CHECKOUT c, EXIT e) WHERE s.tag = e.tag AND c.tag = s.tag WITHIN 5 h",
    "EVENT ISEQ[A.ts < B.te < C.te](A, B, C) WITHIN 30 s",
    "EVENT SEQ(A BEFORE PAL(B, C, D) OVERLAP E) WHERE B.price < C.price WITHIN 6 days REALTIME 1",
    "SELECT avg(v), count(*) FROM soccer WHERE sid IN (4, 8) GROUP BY sid WINDOW TUMBLING 10 s",
    "SELECT avg(v), count(*) FROM soccer WINDOW TUMBLING 10 s DRIFT each",
    "SELECT avg(v), count(*) FROM soccer WINDOW TUMBLING 10 s DRIFT together",
    "SELECT avg(v), count(*) FROM soccer WINDOW SLIDING 10 s EVERY 1 s DRIFT each",
    "SELECT avg(v * 3.6), count(*) AS n HAVING n > 5 AND avg(v*3.6) < 9 WINDOW TUMBLING 2 s",
    "SELECT avg(v), count(*) FROM soccer WINDOW ROWS 100",
    "SELECT avg(v), count(*) FROM soccer WINDOW ROWS 100 EVERY 10",
    "SELECT avg(v), count(*) FROM soccer WINDOW SESSION 5 s",
    "SELECT count(*) FROM a JOIN b ON a.id = b.id WINDOW TUMBLING 10 s",
]


def seq(text: str) -> SeqPlan:
    """The plan of a pattern."""
    plan = query(text)
    assert isinstance(plan, SeqPlan)
    return plan


def select(text: str) -> WindowPlan:
    plan = query(text)
    assert isinstance(plan, WindowPlan)
    return plan


def attributes(*names: str) -> tuple[Attribute, ...]:
    return tuple(Attribute(n.split(".", 1)[1], n.split(".", 1)[0]) for n in names)


@pytest.mark.parametrize("text", DESIGN)
@pytest.mark.parametrize("change", [str.lower, str.upper])
def test_design_examples_parse_in_any_case(text: str, change: type[str]) -> None:
    parsed = parse(change(text))
    assert isinstance(parsed, EventQuery if text.startswith("EVENT") else SelectQuery)


def test_design_theft() -> None:
    assert seq(DESIGN[0]) == SeqPlan(
        "q1",
        DESIGN[0],
        (Step("s", "SHELF"), Step("c", "CHECKOUT", negated=True), Step("e", "EXIT")),
        (attributes("s.tag", "c.tag", "e.tag"),),
        within_ns=5 * 3600 * 10**9,
    )


def test_design_window() -> None:
    assert query(DESIGN[3] + " DRIFT EACH", name="speed") == WindowPlan(
        "speed",
        DESIGN[3] + " DRIFT EACH",
        (Aggregate("avg", Attribute("v"), "avg(v)"), Aggregate("count", None, "count(*)")),
        ("soccer",),
        10 * 10**9,
        Membership(Attribute("sid"), (Constant(4), Constant(8))),
        (Attribute("sid"),),
        Drift.EACH,
    )


def test_design_intervals_and_trees_are_read_whole() -> None:
    iseq = parse(DESIGN[1])
    assert isinstance(iseq, EventQuery)
    assert isinstance(iseq.pattern, IseqNode)
    chain = iseq.pattern.restrictions[0]
    assert isinstance(chain, EndpointChain)
    assert [(end.step.text, end.end) for end in chain.ends] == [
        ("A", "ts"), ("B", "te"), ("C", "te"),
    ]  # fmt: skip
    assert chain.ops == ("<", "<")
    tree = parse(DESIGN[2])
    assert isinstance(tree, EventQuery)
    assert isinstance(tree.pattern, GroupNode)
    assert [relation.word for relation in tree.pattern.relations] == ["BEFORE", "OVERLAP"]


def test_r19_query_5_6_and_5_7() -> None:
    plain = select("SELECT avg(v_abs) AS AvgVelocity FROM inputStream WINDOW TUMBLING 10 sec")
    assert plain.aggregates == (Aggregate("avg", Attribute("v_abs"), "AvgVelocity"),)
    assert (plain.size_ns, plain.drift) == (10 * 10**9, Drift.NONE)
    mean = select(
        "SELECT avg(v_abs) AS avgVelocity FROM inputStream WINDOW TUMBLING 10 sec DRIFT TOGETHER"
    )
    assert mean.drift is Drift.TOGETHER


R19_5_8 = """
EVENT SEQ(position e1, position e2)
WHERE e1.source = '0' AND (e1.x > 29880 OR e1.x < 22560) AND e1.y > -33968 AND e1.y < 33965
  AND e1.sid IN (4, 12, 10, 8)
  AND e2.source = '1' AND e2.x <= 29898 AND e2.x > 22579 AND e2.y <= -33968 AND e2.z < 2440
  AND e2.a_abs >= 55000 AND e2.sid IN (4, 12, 10, 8)
RETURN e2.source, e2.ts, e2.raw_ts, e1.ts, e1.raw_ts
"""


def test_r19_query_5_8() -> None:
    plan = seq(R19_5_8)
    assert [step.type for step in plan.steps] == ["position", "position"]
    first, second = (step.where for step in plan.steps)
    assert isinstance(first, Logic)
    assert isinstance(second, Logic)
    assert (len(first.terms), len(second.terms)) == (5, 7)
    assert first.terms[1] == Logic(
        "or",
        (
            Comparison(">", Attribute("x", "e1"), Constant(29880)),
            Comparison("<", Attribute("x", "e1"), Constant(22560)),
        ),
    )
    assert first.terms[2] == Comparison(">", Attribute("y", "e1"), Constant(-33968))
    assert (plan.equalities, plan.others, plan.within_ns) == ((), (), None)
    assert plan.returns == attributes("e2.source", "e2.ts", "e2.raw_ts", "e1.ts", "e1.raw_ts")
    assert needed_attributes(plan) == {"x", "y", "z", "sid", "a_abs"}


def test_a_negated_step_does_not_make_others_equal() -> None:
    # L09's theft query: without s.id = e.id, only the checkouts are filtered.
    plan = seq("EVENT SEQ(S s, !C c, E e) WHERE s.id = c.id AND c.id = e.id")
    assert plan.equalities == (attributes("s.id", "c.id"),)
    assert plan.others == (Comparison("=", *attributes("c.id", "e.id")),)
    closed = seq("EVENT SEQ(S s, !C c, E e) WHERE s.id = c.id AND c.id = e.id AND s.id = e.id")
    assert closed.equalities == (attributes("s.id", "c.id", "e.id"),)
    assert closed.others == ()


def test_aliases_default_to_the_type() -> None:
    plan = seq('EVENT SEQ(A, B b, SEQ(A a2, "C d")) WHERE A.x = a2.x AND "C d"."y z" = 1')
    assert [step.alias for step in plan.steps] == ["A", "b", "a2", "C d"]
    assert plan.steps[3].where == Comparison("=", Attribute("y z", "C d"), Constant(1))


def test_one_step_needs_no_qualification() -> None:
    plan = seq("EVENT SEQ(A a) WHERE x = 1 AND attrs.ts > 2 AND ts > 3 RETURN x")
    assert isinstance(plan.steps[0].where, Logic)
    names = [term.left for term in plan.steps[0].where.terms if isinstance(term, Comparison)]
    assert names == list(attributes("a.x", "a.attrs.ts", "a.ts"))
    assert plan.returns == attributes("a.x")


def test_durations_and_units() -> None:
    plan = seq("EVENT SEQ(A a, B b) WHERE b.ts - a.ts < 1.5 s AND b.x > 2 ms WITHIN 90 min")
    assert plan.within_ns == 90 * 60 * 10**9
    assert plan.others[0] == Comparison(
        "<", Arithmetic("-", *attributes("b.ts", "a.ts")), Constant(1_500_000_000)
    )
    bare = query("EVENT SEQ(A a, B b) WITHIN 20", time_unit="ms")
    assert isinstance(bare, SeqPlan)
    assert bare.within_ns == 20_000_000


def test_literals() -> None:
    plan = seq(
        "EVENT SEQ(A) WHERE s = 'it''s' AND b = TRUE AND f = -1.5e-3 AND i > -9223372036854775808"
    )
    assert isinstance(plan.steps[0].where, Logic)
    values = [t.right.value for t in plan.steps[0].where.terms]  # type: ignore[union-attr]
    assert values == ["it's", True, -0.0015, -(2**63)]


def test_several_streams_and_all_aggregates() -> None:
    plan = select(
        "SELECT s, count(v), sum(v), min(v), max(v), stddev(v), quantile(v, 0.9) AS q90"
        " FROM a, b GROUP BY s WINDOW TUMBLING 5 ms"
    )
    assert plan.streams == ("a", "b")
    assert [a.label for a in plan.aggregates] == [
        "count(v)", "sum(v)", "min(v)", "max(v)", "stddev(v)", "q90",
    ]  # fmt: skip
    assert plan.aggregates[-1].parameter == 0.9
    assert select("SELECT count(*) WINDOW TUMBLING 5").streams == ()
    assert select("SELECT avg(a.v) FROM a WINDOW TUMBLING 5").aggregates[0].label == "avg(v)"


def test_needed_attributes_and_columns() -> None:
    assert needed_attributes(seq("EVENT SEQ(A a, B b) WHERE a.x = b.y")) is None
    plan = select(
        "SELECT avg(v) WHERE ts > 5 AND attrs.ts < 3 GROUP BY source, k WINDOW TUMBLING 5"
    )
    assert needed_attributes(plan) == {"v", "ts", "k"}
    assert released_columns([Attribute("te"), Attribute("v"), Attribute("source")]) == {
        "te", "ref", "ts", "attrs.v", "valid.v", "source",
    }  # fmt: skip


KNOWN = {"tag": "str", "price": "float", "n": "int", "on": "bool"}


def test_a_plan_from_python_has_no_caret() -> None:
    plan = WindowPlan("speed", "", (Aggregate("avg", Attribute("prize"), "mean"),), (), 5)
    with pytest.raises(UserError) as error:
        check_attributes(plan, KNOWN)
    assert str(error.value) == (
        "query speed, prize: no event has an attribute 'prize'\n"
        "  there is n, on, price, tag; did you mean 'price'?"
    )


# ---- nothing but UserError --------------------------------------------------------------------
PIECES = r"""
EVENT SEQ ( ) , ! A a B b . x = < 5 s 'text' "q" WHERE AND OR NOT IN WITHIN SELECT avg count * + - /
FROM GROUP BY WINDOW TUMBLING 10 DRIFT each REALTIME 1 RETURN ISEQ [ ] PAL BEFORE JOIN ON AS TRUE ;
' " ` 1e9 99999999999999999999 0 1.5 \u00e4 \u017felect
"""
WORDS = st.sampled_from(PIECES.encode().decode("unicode_escape").split())
WORDY = st.lists(WORDS, max_size=25).map(" ".join)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A good query with a piece cut out, doubled or replaced."""
    text = draw(st.sampled_from([*DESIGN, R19_5_8]))
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 12)))
    middle = draw(st.just("") | st.just(text[start:end] * 2) | WORDS | st.text(max_size=3))
    return text[:start] + middle + text[end:]


@settings(max_examples=60, deadline=None)
@given(WORDY | damaged() | st.text() | WORDY.map(lambda text: "EVENT SEQ(A a) WHERE " + text))
def test_any_text_gives_a_plan_or_a_user_error(text: str) -> None:
    try:
        plan = query(text)
    except UserError as error:
        lines = str(error).split("\n")
        assert all(line.isprintable() for line in lines)
        if len(lines) > 1:
            assert "^" in lines[2]
        return
    assert render(plan)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 20_000,
        "EVENT SEQ(A a) WHERE " + "NOT " * 10_000 + "x = 1",
        "EVENT SEQ(A a) WHERE x = " + "-" * 20_000 + "1",
        "EVENT SEQ(A a) WHERE x = 1" + " + 1" * 10_000,
        "EVENT " + "SEQ(" * 10_000 + "A" + ")" * 10_000,
        "EVENT SEQ(" + "!(" * 10_000 + "A" + ")" * 10_000 + ")",
        "EVENT SEQ(A a) WHERE x = " + "9" * 10_000,
        "EVENT SEQ(A a) WITHIN " + "9" * 10_000 + " s",
        "EVENT SEQ(A a) WHERE x = 1e999",
        "SELECT quantile(v, " + "9" * 10_000 + ") WINDOW TUMBLING 5",
        "SELECT quantile(v, 1e999) WINDOW TUMBLING 5",
        "EVENT SEQ(A a) REALTIME " + "9" * 10_000,
        "E" * (MAX_QUERY_CHARS + 1),
        "",
        " \n\t ",
        "\x00",
        "EVENT SEQ(\ud800)",
    ],
)  # fmt: skip
def test_hostile_text_is_refused(text: str) -> None:
    with pytest.raises(UserError) as error:
        query(text)
    assert len(str(error.value)) < 600


def test_parentheses_may_be_deep() -> None:
    plan = seq("EVENT SEQ(A a) WHERE " + "(" * 20_000 + "x = 1" + ")" * 20_000)
    assert plan.steps[0].where == Comparison("=", Attribute("x", "a"), Constant(1))
    assert seq("EVENT " + "SEQ(" * 90 + "A" + ")" * 90).steps == (Step("A", "A"),)


@pytest.mark.slow
def test_a_query_as_long_as_allowed_is_read() -> None:
    terms = " AND ".join(f"x != {number}" for number in range(4_000))
    plan = seq(f"EVENT SEQ(A a) WHERE {terms}")
    assert isinstance(plan.steps[0].where, Logic)
    assert len(plan.steps[0].where.terms) == 4_000
    options = ", ".join(map(str, range(8_000)))
    seq(f"EVENT SEQ(A a) WHERE x IN ({options})")


@pytest.mark.parametrize("words", ["AFTER MATCH SKIP PAST LAST ROW", "after match skip to next"])
def test_skip_as_match_recognize_says_it(words: str) -> None:
    short = query(f"EVENT SEQ(A+ a[], B b) WITHIN 5 s {words[12:]}")
    for text in (
        f"EVENT SEQ(A+ a[], B b) {words} WITHIN 5 s",
        f"EVENT SEQ(A+ a[], B b) WITHIN 5 s {words}",
    ):
        assert to_text(query(text)) == to_text(short)


def test_many_statements_are_as_long_as_one_may_be() -> None:
    text = ";".join(["EVENT SEQ(A a, B b) WITHIN 3 s"] * 3000)
    with pytest.raises(UserError, match="characters; at most"):
        read_statements([text])
