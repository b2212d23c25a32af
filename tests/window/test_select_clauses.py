"""HAVING, ORDER BY with LIMIT, arithmetic of aggregates, and aggregates that no result shows."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.released import IN_ORDER, LATE
from slackwater.engine.hosts.chain.operators import windows_of
from slackwater.engine.operators.window.settings import WindowSettings
from slackwater.engine.query import query, to_text
from slackwater.engine.query.results_as_events import time_labels
from tests.window.conftest import Event, Stream, run
from tests.window.window_results import Result, chain_results, results_of

BARRIERS = ("immediate", "punctuation", "bounded:5", "hold:3", "hold:20", "bounded:5,ordered")
ORDERS = ("none", "sequence:timeout=fixed:5,latency=9", "kslack:4", "mp-kslack")


def in_rows(*events: tuple[int, Any]) -> list[Result]:
    """Records of one source from (time, v)."""
    return [
        {"source": "a", "seq": n, "ts": ts, "arrival": 100 + n, "attrs": {"v": v, "w": 7}}
        for n, (ts, v) in enumerate(events)
    ]


# ---- ORDER BY ... LIMIT
def ranked(text: str, stream: Stream, cuts: tuple[int, ...] = ()) -> list[tuple[Any, ...]]:
    found = results_of(text, stream, cuts)
    return [(r["op"], r["at"], r["key"]["g"], *r["value"].values()) for r in found]


def test_the_largest_groups_come_first_and_equal_ones_by_key() -> None:
    events = tuple(
        Event(at, v=v, key=key)
        for at, (key, v) in enumerate([("b", 5), ("a", 5), ("c", 7), ("d", None), ("e", 1)])
    )
    text = "SELECT sum(v) GROUP BY g ORDER BY sum(v) DESC LIMIT 2 WINDOW TUMBLING 100"
    assert ranked(text, Stream(events)) == [("+", 10**6, "c", 7), ("+", 10**6, "a", 5)]
    text = (
        "SELECT sum(v) AS s, count(*) GROUP BY g ORDER BY count(*), s LIMIT 9 WINDOW TUMBLING 100"
    )
    assert [r["key"]["g"] for r in results_of(text, Stream(events))] == ["e", "a", "b", "c", "d"]
    text = "SELECT first(source) AS f GROUP BY g ORDER BY f DESC LIMIT 1 WINDOW TUMBLING 100"
    by_text = tuple(Event(at, key=at, source=name) for at, name in enumerate(["x", "z", "y"]))
    assert ranked(text, Stream(by_text)) == [("+", 10**6, 1, "z")]


def test_a_correction_moves_another_group_out_and_in_again() -> None:
    events = (
        Event(1, v=5, key="a"), Event(2, v=3, key="b"), Event(12, v=0, key="a"),
        Event(3, v=4, key="b", status=LATE), Event(4, v=-9, key="b", status=LATE),
        Event(5, v=1, key="c", status=LATE),
    )  # fmt: skip
    text = "SELECT sum(v) GROUP BY g ORDER BY sum(v) DESC LIMIT 1 WINDOW TUMBLING 10"
    assert ranked(text, Stream(events)) == [
        ("+", 2, "a", 5), ("-", 3, "a", 5), ("+", 3, "b", 7), ("-", 4, "b", 7), ("+", 4, "a", 5),
        ("+", 10**6, "a", 0),
    ]  # fmt: skip


def test_what_is_corrected_no_more_is_forgotten() -> None:
    text = "SELECT count(*) GROUP BY g ORDER BY count(*) LIMIT 1 WINDOW TUMBLING 10"
    operator = windows_of(query(text), WindowSettings(correction_horizon_ns=20))
    stream = Stream(tuple(Event(at, key=at % 3) for at in range(0, 1000, 4)))
    run(lambda: operator, stream)  # type: ignore[arg-type, return-value]
    assert 0 < len(operator.snapshot()["_ranked"]["_results"]) <= 4


def test_in_order_nothing_is_taken_back() -> None:
    stream = Stream(tuple(Event(at, v=at * 7 % 11, key=at % 5) for at in range(300)))
    text = "SELECT avg(v) GROUP BY g ORDER BY avg(v) LIMIT 2 WINDOW TUMBLING 20"
    found = results_of(text, stream, (50, 123))
    assert len(found) == 30
    assert {r["op"] for r in found} == {"+"}
    assert {event.status for event in stream.events} == {IN_ORDER}


# ---- arithmetic of aggregates
SYNC = {"kind": "sync", "source": "a", "offset": 0, "delay": 4, "arrival": 1}


def test_bounds_hold_whichever_window_an_event_is_in() -> None:
    inside, doubtful = [(13, 2.0), (15, 5.0)], (19, 9.0)
    text = (
        "SELECT max(v) - min(v) AS d, sum(v) / count(*) AS m, 1 / (sum(v) - 7) AS x, median(v) + 1 "
        "WINDOW TUMBLING 10"
    )
    (emitted,) = [
        one for one in chain_results([SYNC, *in_rows(*inside, doubtful)], text)
        if one["window"]["start"] == 10
    ]  # fmt: skip
    assert emitted["ambiguous"] == 1
    assert emitted["value"] == {
        "d": 7.0, "m": pytest.approx(16 / 3), "x": pytest.approx(1 / 9), "median(v) + 1": 6.0,
    }  # fmt: skip
    bounds = emitted["bounds"]
    assert bounds.keys() == {"d", "m", "x"}
    for some in (inside, [*inside, doubtful]):
        values = [v for _, v in some]
        assert bounds["d"][0] <= max(values) - min(values) <= bounds["d"][1]
        assert bounds["m"][0] <= sum(values) / len(values) <= bounds["m"][1]
    assert bounds["x"] == [None, None]  # without the event it is divided by zero


def test_what_stays_as_it_was_is_not_emitted_again() -> None:
    text = "SELECT max(v) - min(v) AS d WINDOW TUMBLING 10 EMIT ON CHANGE"
    emitted = chain_results(in_rows((10, 1.0), (11, 4.0), (12, 2.0)), text)
    # The third event changes no number that is worked out; counts of events are emitted with it.
    assert [(one["op"], one["value"]["d"], one["certain"]) for one in emitted] == [
        ("+", 0.0, 1), ("-", 0.0, 1), ("+", 3.0, 2), ("-", 3.0, 2), ("+", 3.0, 3),
    ]  # fmt: skip
    for one, other in itertools.pairwise(emitted):
        assert {**one, "op": "", "at": 0} != {**other, "op": "", "at": 0} or one["op"] == "+"


def test_a_span_of_times_is_one_in_results() -> None:
    plan = query(
        "SELECT max(ts) - min(ts) AS span, max(ts) / count(*) AS w, var(ts) * 2 AS q "
        "WINDOW TUMBLING 9"
    )
    assert time_labels([plan]) == {"q1": {"span", "w"}}


# ---- what HAVING and ORDER BY name and no result shows
PARTS = ("value", "low", "middle", "high", "bounds")


WINDOWS = (
    "TUMBLING 10", "TUMBLING 10 DRIFT EACH", "TUMBLING 10 DRIFT TOGETHER", "SLIDING 10 EVERY 4",
    "SLIDING 9 EVERY 3 EMIT ON CHANGE", "TUMBLING 10 EMIT EARLY EVERY 3", "SESSION 6",
    "SESSION 6 EMIT ON CHANGE", "ROWS 2", "ROWS 3 EVERY 1", "ROWS 3 EVERY 2 EMIT EARLY EVERY 4",
)  # fmt: skip


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
    results that are emitted together, which are takings, then gifts.
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
    case=logs((1, 1, 2, 3), (1.0, 1.0, 2.0, 3.0, 2.5)), order=st.sampled_from(ORDERS),
    barrier=st.sampled_from(BARRIERS),
    having=st.sampled_from(("", "HAVING sum(v) > 2 AND count(*) < 6", "HAVING sum(v) % 3 < 2")),
    ranked=st.booleans(),
)  # fmt: skip
@settings(max_examples=5)
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
        found = chain_results(records, hidden, order, barrier)
        every = chain_results(records, selected, order, barrier)
        assert found == without(every, {"sum(v)", "count(*)", "min(v)"})
        assert chain_results(records, hidden, order, barrier, cuts) == found


@pytest.mark.parametrize("window", WINDOWS)
@given(case=logs((1, 2, 3, 2.5)), barrier=st.sampled_from(BARRIERS), hides=st.booleans())
@settings(max_examples=4)
def test_whole_numbers_may_become_fractions(
    window: str, case: tuple[list[Result], tuple[int, ...]], barrier: str, hides: bool
) -> None:
    """What stands may be emitted again as 1.0 where it was 1, so that ``-`` repeats ``+`` to the
    letter; what stands in the end are the same numbers.
    """
    records, cuts = case
    having = "HAVING sum(v) > 2 AND count(*) < 6" if hides else ""
    text = f"SELECT max(v), min(v) - max(v) AS d GROUP BY source {having} WINDOW {window}"
    stand = []
    for cut in ((), cuts):
        standing: Counter[str] = Counter()
        for result in chain_results(records, text, "none", barrier, cut):
            content = json.dumps({n: of for n, of in result.items() if n not in ("op", "at")})
            assert result["op"] == "+" or standing[content], content
            standing[content] += 1 if result["op"] == "+" else -1
        stand.append([json.loads(content) for content in standing.elements()])
    assert all(one in stand[1] for one in stand[0])
    assert len(stand[0]) == len(stand[1])


def test_what_is_taken_back_does_not_hang_on_what_else_is_emitted() -> None:
    """A difference of whole numbers stays one where fractions are emitted in the same breath."""
    records = in_rows((0, 1), (0, 1), (0, 2.5))
    text = "SELECT max(v) - min(v) AS d WINDOW TUMBLING 10 EMIT ON CHANGE"
    found = chain_results(records, text, barrier="immediate", cuts=(2,))
    emitted = [(r["op"], json.dumps(r["value"]["d"])) for r in found]
    assert emitted == [("+", "0"), ("-", "0"), ("+", "0"), ("-", "0"), ("+", "1.5")]


def test_what_was_shown_is_taken_back_where_its_number_no_longer_fits() -> None:
    """2**53 + 1 is larger than 2**53, unless it is judged as a fraction among fractions."""
    records = in_rows((0, 2**53 + 1), (0, 2.5))
    text = f"SELECT max(v) HAVING max(v) > {2**53} WINDOW TUMBLING 10 EMIT ON CHANGE"
    found = chain_results(records, text, barrier="immediate", cuts=(1,))
    assert [(r["op"], r["value"]["max(v)"]) for r in found] == [("+", 2**53 + 1), ("-", 2**53 + 1)]


def test_no_correction_where_only_what_is_hidden_changed() -> None:
    """The late event at 3 takes the second of 4 out: of what is shown, nothing is another."""
    records = in_rows((1, 0), (4, 1), (4, 2), (3, 3))
    text = "SELECT max(w) HAVING {} < 9 WINDOW ROWS 3"
    assert [(r["op"], r["value"]) for r in chain_results(records, text.format("sum(v)"))] == [
        ("+", {"max(w)": 7})
    ]
    selected = chain_results(records, text.format("sum(v)").replace("max(w)", "max(w),sum(v)"))
    assert [(r["op"], r["value"]["sum(v)"]) for r in selected] == [("+", 3), ("-", 3), ("+", 4)]
    # Where the condition no longer holds, the result is taken back.
    gone = chain_results(records, text.format("3 * max(v)"))
    assert [r["op"] for r in gone] == ["+", "-"]


def test_what_was_not_shown_between_is_emitted_again() -> None:
    """Two corrections at two instants: by the first it leaves, by the second it comes back."""
    records = in_rows((1, 0), (9, 0), (9, 5), (5, 9), (4, 0), (3, 5))
    text = "SELECT max(w) HAVING sum(v) < 9 WINDOW ROWS 3"
    found = chain_results(records, text)
    assert found == without(
        chain_results(records, text.replace("max(w)", "max(w), sum(v)", 1)), {"sum(v)"}
    )
    for cut in range(1, len(records)):
        assert chain_results(records, text, cuts=(cut,)) == found
    for one, other in itertools.pairwise(found):
        assert one["op"] != other["op"]


# ---- texts
@pytest.mark.parametrize(
    "text",
    [
        """SELECT avg(v) FROM s GROUP BY k WINDOW TUMBLING 1 s HAVING count(*) > 10
        ORDER BY max(v) DESC LIMIT 3""",
        """SELECT avg(v) AS m, max(v) - min(v) AS d GROUP BY k HAVING max(v) - count(DISTINCT v) >
        10 AND first(t) = '"1"' AND m > 3 ORDER BY quantile(v, 0.3), d LIMIT 3 WINDOW TUMBLING 1 s
        """,
        """SELECT avg(v) AS "count(*)" HAVING "count(*)" > 3 AND sum(v) < 9 WINDOW ROWS 5""",
        """SELECT abs(max(v) - min(v)), max(v) AS hi, (sum(v) + 1) / count(*) AS m
        WINDOW ROWS 3 EVERY 1""",
    ],
)
def test_its_text_says_the_same(text: str) -> None:
    plan = query(text)
    again = query(to_text(plan))
    assert to_text(again) == to_text(plan)
    for name in ("aggregates", "hidden", "having", "ranking"):
        assert getattr(again, name) == getattr(plan, name)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("avg(v) + v", "'v' is beside aggregates"), ("abs(v)", "this abs is not aggregated"),
        ("v + 1", "this is not aggregated"), ("upper(first(v))", "this is text"),
        ("avg(v) GROUP BY g ORDER BY nosuch(v) LIMIT 2", "unknown aggregate"),
        ("avg(v) GROUP BY g ORDER BY avg(v)", "LIMIT"),
    ],
)  # fmt: skip
def test_what_is_refused(text: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        query(f"SELECT {text} WINDOW TUMBLING 10")
