"""Aggregates that HAVING and ORDER BY name and no result shows: as if selected, but no column."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.query import explain, query, to_text
from tests.window.test_window_barriers import BARRIERS, ORDERS, answers

Result = dict[str, Any]
PARTS = ("value", "low", "middle", "high", "bounds")
WINDOWS = (
    "TUMBLING 10", "TUMBLING 10 DRIFT EACH", "TUMBLING 10 DRIFT TOGETHER", "SLIDING 10 EVERY 4",
    "SLIDING 9 EVERY 3 EMIT ON CHANGE", "TUMBLING 10 EMIT EARLY EVERY 3", "SESSION 6",
    "SESSION 6 EMIT ON CHANGE", "ROWS 2", "ROWS 3 EVERY 1", "ROWS 3 EVERY 2 EMIT EARLY EVERY 4",
)  # fmt: skip


WHOLE, FRACTIONS = (1, 1, 2, 3), (1.0, 1.0, 2.0, 3.0, 2.5)


@st.composite
def logs(draw: st.DrawFn, *values: tuple[float, ...]) -> tuple[list[Result], tuple[int, ...]]:
    """Three sources of few times, of which some lie far back, with gaps and clocks that err.

    Their ``v`` is out of one of ``values``: where both kinds of numbers are in it, a cut before the
    first fraction decides what numbers results before it have.
    """
    chosen = st.sampled_from(draw(st.sampled_from(values)))
    records: list[Result] = []
    for source in "abc":
        delay = draw(st.sampled_from((None, 0, 6)))
        if delay is not None:
            records.append({"kind": "sync", "source": source, "offset": 0, "delay": delay,
                            "arrival": 1})  # fmt: skip
    arrival, clock, seqs = 100, 0, dict.fromkeys("abc", 0)
    for _ in range(draw(st.integers(1, 20))):
        arrival += draw(st.integers(0, 4))
        clock += draw(st.sampled_from((0, 0, 1, 1, 2, 5)))
        if draw(st.integers(0, 9)) == 0:
            records.append({"kind": "tick", "arrival": arrival})
            continue
        source = draw(st.sampled_from("abc"))
        seqs[source] += draw(st.sampled_from((1, 1, 1, 3)))
        records.append({
            "source": source, "seq": seqs[source] - draw(st.sampled_from((0, 0, 0, 1))),
            "ts": clock - draw(st.sampled_from((0, 0, 1, 2, 3, 9))), "arrival": arrival,
            "attrs": {"v": draw(chosen)},
        })  # fmt: skip
    cuts = tuple(draw(st.lists(st.integers(0, len(records)), max_size=4)))
    return records, cuts


def without(results: list[Result], labels: set[str]) -> list[Result]:
    """The columns ``labels`` left out, and then what is taken back and given again as it was: of
    results that are told together, which are takings, then gifts.
    """
    shown: list[Result] = []
    for r in results:
        shown.append({
            name: {label: of for label, of in part.items() if label not in labels}
            if name in PARTS and part is not None else part
            for name, part in r.items()
        })  # fmt: skip
    left = [True] * len(shown)

    def content(r: Result) -> Result:
        return {name: of for name, of in r.items() if name != "op"}

    for i, one in enumerate(shown):
        if one["op"] == "+" or not left[i]:
            continue
        given_again = False
        for j in range(i + 1, len(shown)):
            other = shown[j]
            together = (other["at"], other["window"]) == (one["at"], one["window"])
            given_again |= other["op"] == "+"
            if not together or (given_again and other["op"] == "-"):
                break
            if other["op"] == "+" and content(other) == content(one):
                left[i] = left[j] = False
                break
    return [r for r, kept in zip(shown, left, strict=True) if kept]


@pytest.mark.parametrize("window", WINDOWS)
@given(
    case=logs(WHOLE, FRACTIONS), order=st.sampled_from(ORDERS), barrier=st.sampled_from(BARRIERS),
    having=st.sampled_from(("", "HAVING sum(v) > 2 AND count(*) < 6", "HAVING sum(v) % 3 < 2")),
    ranked=st.booleans(),
)  # fmt: skip
@settings(max_examples=22, deadline=None)
def test_results_are_those_of_selecting_them_but_for_the_columns(
    window: str, case: tuple[list[Result], tuple[int, ...]], order: str, barrier: str, having: str,
    ranked: bool,
) -> None:  # fmt: skip
    records, cuts = case
    rank = " ORDER BY sum(v) DESC, min(v) LIMIT 2" if ranked and "0" in window else ""
    having, extent = f"{having}{rank}", f"WINDOW {window}"
    for shown in ("max(v)", "max(v) - min(v) AS d"):
        hidden = f"SELECT {shown} GROUP BY source {having} {extent}"
        selected = f"SELECT {shown}, sum(v), count(*), min(v) GROUP BY source {having} {extent}"
        found = answers(records, barrier, order, hidden)
        every = answers(records, barrier, order, selected)
        assert found == without(every, {"sum(v)", "count(*)", "min(v)"})
        assert answers(records, barrier, order, hidden, cuts) == found


@pytest.mark.parametrize("window", WINDOWS)
@given(case=logs((1, 2, 3, 2.5)), barrier=st.sampled_from(BARRIERS), hides=st.booleans())
@settings(max_examples=10, deadline=None)
def test_whole_numbers_may_become_fractions(
    window: str, case: tuple[list[Result], tuple[int, ...]], barrier: str, hides: bool
) -> None:
    """What stands may be told again as 1.0 where it was 1, so that ``-`` repeats ``+`` to the
    letter; what stands in the end are the same numbers.
    """
    records, cuts = case
    having = "HAVING sum(v) > 2 AND count(*) < 6" if hides else ""
    text = f"SELECT max(v), min(v) - max(v) AS d GROUP BY source {having} WINDOW {window}"
    stand = []
    for cut in ((), cuts):
        standing: Counter[str] = Counter()
        for result in answers(records, barrier, "none", text, cut):
            content = json.dumps({n: of for n, of in result.items() if n not in ("op", "at")})
            assert result["op"] == "+" or standing[content], content
            standing[content] += 1 if result["op"] == "+" else -1
        stand.append([json.loads(content) for content in standing.elements()])
    assert all(one in stand[1] for one in stand[0])
    assert len(stand[0]) == len(stand[1])


def test_what_is_taken_back_does_not_hang_on_what_else_is_told() -> None:
    """A difference of whole numbers stays one where fractions are told in the same breath."""
    records = [
        {"source": "a", "seq": n, "ts": 0, "arrival": 100 + n, "attrs": {"v": v}}
        for n, v in enumerate((1, 1, 2.5))
    ]
    text = "SELECT max(v) - min(v) AS d WINDOW TUMBLING 10 EMIT ON CHANGE"
    found = answers(records, "immediate", text=text, cuts=(2,))
    told = [(r["op"], json.dumps(r["value"]["d"])) for r in found]
    assert told == [("+", "0"), ("-", "0"), ("+", "0"), ("-", "0"), ("+", "1.5")]


def test_what_was_shown_is_taken_back_where_its_number_no_longer_fits() -> None:
    """2**53 + 1 is larger than 2**53, unless it is judged as a fraction among fractions."""
    records = [
        {"source": "a", "seq": n, "ts": 0, "arrival": 100 + n, "attrs": {"v": v}}
        for n, v in enumerate((2**53 + 1, 2.5))
    ]
    text = f"SELECT max(v) HAVING max(v) > {2**53} WINDOW TUMBLING 10 EMIT ON CHANGE"
    found = answers(records, "immediate", text=text, cuts=(1,))
    assert [(r["op"], r["value"]["max(v)"]) for r in found] == [("+", 2**53 + 1), ("-", 2**53 + 1)]


def in_rows(*ts: int) -> list[Result]:
    return [
        {"source": "a", "seq": n, "ts": at, "arrival": 100 + n, "attrs": {"v": n, "w": 7}}
        for n, at in enumerate(ts)
    ]


def test_no_correction_where_only_what_is_hidden_changed() -> None:
    """The late event at 3 takes the second of 4 out: of what is shown, nothing is another."""
    records = in_rows(1, 4, 4, 3)
    text = "SELECT max(w) HAVING {} < 9 WINDOW ROWS 3"
    assert [(r["op"], r["value"]) for r in answers(records, None, text=text.format("sum(v)"))] == [
        ("+", {"max(w)": 7})
    ]
    selected = answers(records, None, text=text.format("sum(v)").replace("max(w)", "max(w),sum(v)"))
    assert [(r["op"], r["value"]["sum(v)"]) for r in selected] == [("+", 3), ("-", 3), ("+", 4)]
    # Where the condition no longer holds, the result is taken back.
    gone = answers(records, None, text=text.format("3 * max(v)"))
    assert [r["op"] for r in gone] == ["+", "-"]


def test_what_was_not_shown_between_is_told_again() -> None:
    """Two corrections at two instants: by the first it leaves, by the second it comes back."""
    records = in_rows(1, 9, 9, 5, 4, 3)
    for record, v in zip(records, (0, 0, 5, 9, 0, 5), strict=True):
        record["attrs"]["v"] = v
    text = "SELECT max(w) HAVING sum(v) < 9 WINDOW ROWS 3"
    found = answers(records, None, text=text)
    assert found == without(
        answers(records, None, text=text.replace("max(w)", "max(w), sum(v)", 1)), {"sum(v)"}
    )
    for cut in range(1, len(records)):
        assert answers(records, None, text=text, cuts=(cut,)) == found
    for one, other in itertools.pairwise(found):
        assert one["op"] != other["op"]


TEXTS = (
    """SELECT avg(v) FROM s GROUP BY k WINDOW TUMBLING 1 s HAVING count(*) > 10
    ORDER BY max(v) DESC LIMIT 3""",
    """SELECT avg(v) AS m, max(v) - min(v) AS d GROUP BY k HAVING max(v) - count(DISTINCT v) > 10
    AND first(t) = '"1"' AND m > 3 ORDER BY quantile(v, 0.3), d LIMIT 3 WINDOW TUMBLING 1 s""",
    """SELECT avg(v) AS "count(*)" HAVING "count(*)" > 3 AND sum(v) < 9 WINDOW ROWS 5""",
)


@pytest.mark.parametrize("text", TEXTS)
def test_its_text_says_the_same(text: str) -> None:
    plan = query(text)
    again = query(to_text(plan))
    assert to_text(again) == to_text(plan)
    assert (again.aggregates, again.hidden) == (plan.aggregates, plan.hidden)
    assert (again.having, again.ranking) == (plan.having, plan.ranking)
    assert plan.hidden


def test_explain_says_what_is_not_shown() -> None:
    text = explain(query("SELECT avg(v) GROUP BY k HAVING count(*) > 9 WINDOW TUMBLING 1 s"))
    assert "if count(*) > 9" in text
    assert "not shown" in text
