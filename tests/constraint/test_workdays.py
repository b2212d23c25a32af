"""``TIMEOUT n workdays``: the deadline against plain dates, traces against their definition, and
what is confirmed against the errors that clocks allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from functools import cache
from itertools import product
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import slackwater
from slackwater.engine.core.errors import UserError
from slackwater.engine.operators.constraint.monitor import MonitorOperator
from slackwater.engine.operators.constraint.step import deadline
from slackwater.engine.operators.constraint.traces import TraceTables
from slackwater.engine.query import query
from slackwater.engine.query.monitor_plan import MonitorPlan, MonitorSettings
from slackwater.engine.query.render import render
from tests.constraint.slow_traces import FIRST, NOTHING, Seq, derivative, flow, nullable, read
from tests.constraint.slow_traces import letters_of as letters_in
from tests.constraint.slow_traces import verdict as verdict_of
from tests.constraint.test_monitor import FLOWS, SEQS
from tests.constraint.test_rewrite import as_released, net
from tests.pattern.conftest import Event, run

SECOND = 10**9
HOUR = 3_600 * SECOND
DAY = 24 * HOUR
EPOCH = datetime(1970, 1, 1, tzinfo=ZoneInfo("UTC"))
ZONES = (
    "UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Africa/Cairo", "Pacific/Apia",
)  # fmt: skip


def at(text: str, zone: str = "Europe/Berlin") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()) * SECOND


def over_after(time: int, number: int, zone: str) -> int:
    """By dates: so many workdays later, as long after the day began."""

    def begins(of: date) -> int:
        return int(datetime(of.year, of.month, of.day, tzinfo=ZoneInfo(zone)).timestamp()) * SECOND

    def later(of: date) -> date:
        """The next workday that the zone did not leave out."""
        of += timedelta(1)
        while of.weekday() > 4 or begins(of) == begins(of + timedelta(1)):
            of += timedelta(1)
        return of

    day = (EPOCH + timedelta(seconds=time // SECOND)).astimezone(ZoneInfo(zone)).date()
    since = time - begins(day)
    if day.weekday() > 4:
        day, since = later(day), 0
    for _ in range(number):
        day = later(day)
    return min(begins(day) + since, begins(day + timedelta(1)))


def plan_of(seq: Seq, expression: str, number: int, zone: str = "Europe/Berlin") -> MonitorPlan:
    found = query(
        f"{seq.text()} UNDER CONSTRAINT flow FOR TRACE BY id "
        f"TIMEOUT {number} workdays TIMEZONE '{zone}' AS {expression}"
    )
    assert isinstance(found, MonitorPlan)
    return found


@cache
def deadlines(zone: str) -> TraceTables:
    return MonitorOperator(plan_of(SEQS[1], FLOWS[1], 1, zone), "main")._tables


@settings(max_examples=400, deadline=None)
@given(
    st.integers(-4_611_686_018, 4_611_686_018) | st.integers(1_700_000_000, 1_800_000_000),
    st.integers(1, 12), st.sampled_from(ZONES),
)  # fmt: skip
@example(1_325_100_000, 1, "Pacific/Apia")  # 2011-12-30 was left out, a Friday
@example(1_776_979_800, 1, "Africa/Cairo")  # Thursday 23:30: the next day has 23 hours
@example(1_777_100_000, 4, "Africa/Cairo")  # Friday 2026-04-24 begins at 1:00
def test_a_deadline_is_that_of_the_dates(seconds: int, number: int, zone: str) -> None:
    tables, time = deadlines(zone), seconds * SECOND + 7
    found = deadline(time, number, tables)
    assert found == over_after(time, number, zone)
    assert found <= deadline(time + 1, number, tables) <= deadline(time + HOUR, number, tables)


def test_a_deadline_of_days_that_people_know() -> None:
    tables = deadlines("Europe/Berlin")
    for begin, number, end in (
        ("2026-06-01 10:00", 6, "2026-06-09 10:00"),  # Monday to Tuesday
        ("2026-06-05 17:00", 1, "2026-06-08 17:00"),  # Friday to Monday
        ("2026-06-05 17:00", 6, "2026-06-15 17:00"),
        ("2026-06-06 12:00", 1, "2026-06-09 00:00"),  # Saturday: Monday is the one
        ("2026-03-27 10:00", 1, "2026-03-30 10:00"),  # clocks go forward in between
        ("1969-12-31 10:00", 2, "1970-01-02 10:00"),
    ):
        assert deadline(at(begin), number, tables) == at(end)
    latest = deadline(2**62 + 2**58, 9_392, tables)
    assert tables.day_starts[-1] <= latest <= tables.day_ends[-1]


def test_six_workdays_last_eight_to_ten_days() -> None:
    """What a duration, which has no workdays, is refused with."""
    tables, week = deadlines("UTC"), range(at("2026-06-01", "UTC"), at("2026-06-08", "UTC"), HOUR)
    lengths = [deadline(time, 6, tables) - time for time in week]
    assert (min(lengths), max(lengths)) == (8 * DAY, 10 * DAY)
    with pytest.raises(UserError, match="as in 10 d, the most that six workdays last"):
        query("EVENT SEQ(A a, B b) WHERE b.ts - a.ts < 6 workdays")


def by_definition(
    events: Sequence[Event], seq: Seq, expression: str, number: int, zone: str
) -> Iterator[tuple[str, int, int | None, int]]:
    """(alert, trace, seq, ts) of every result, of exact clocks."""
    whole = flow(expression)
    named = letters_in(whole) | seq.letters
    letters = "".join(sorted(named))
    traces: dict[int, Any] = {}

    def silent(now: int) -> Iterator[tuple[str, int, None, int]]:
        for trace, (rest, _, known, last) in list(traces.items()):
            end = over_after(last, number, zone)
            if now > end:
                del traces[trace]
                if rest != NOTHING and (known == "open" or not nullable(rest)):
                    yield "cleared" if nullable(rest) else "violation", trace, None, end

    for row, event in enumerate(events):
        yield from silent(event.ref)
        if event.type not in named:
            continue
        trace = event.attrs["id"]
        rest, begun, known, _ = traces.get(trace, (whole, FIRST, "open", 0))
        fresh = trace not in traces
        after = derivative(rest, event.type) if rest != NOTHING else NOTHING
        begun = None if begun is None else read(seq, begun, event.type)
        if after == NOTHING and rest != NOTHING:
            yield "violation", trace, row, event.ref
        now = "satisfiable" if begun is None else "open"
        if after != NOTHING:
            now = verdict_of(after, begun, seq, letters)
        if now != "open" and (fresh or now != known):
            kind = {"satisfiable": "alert", "unsatisfiable": "cleared"}[now]
            yield kind, trace, row, event.ref
        traces[trace] = (after, begun, now, event.ref)
        if after != NOTHING and all(derivative(after, each) == NOTHING for each in letters):
            del traces[trace]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("ABCX"), st.sampled_from([1, 2]), st.integers(1, 100)),
        max_size=24,
    ),
    st.sampled_from(SEQS), st.sampled_from(FLOWS), st.integers(1, 3), st.sampled_from(ZONES),
    st.lists(st.integers(0, 24)), st.lists(st.integers(0, 200), max_size=7),
    st.sampled_from([0, at("2026-10-20 09:30"), -(10**18)]),
)  # fmt: skip
def test_traces_end_by_their_definition_in_order_or_not(
    drawn: list[tuple[str, int, int]], seq: Seq, expression: str, number: int, zone: str,
    cuts: list[int], late: list[int], begin: int,
) -> None:  # fmt: skip
    refs = begin + np.cumsum([hours * HOUR for _, _, hours in drawn], dtype=np.int64)
    events = [
        Event(letter, int(ref), attrs={"id": trace}, seq=row)
        for row, ((letter, trace, _), ref) in enumerate(zip(drawn, refs, strict=True))
    ]
    plan = plan_of(seq, expression, number, zone)
    found = run(lambda: MonitorOperator(plan, "main"), events, cuts)
    results = [(r["alert"], int(r["trace"]), r["seq"], r["ts"]) for r in found]
    expected = by_definition(events, seq, expression, number, zone)
    assert sorted(results, key=repr) == sorted(expected, key=repr)
    assert {r["certainty"] for r in found} <= {"confirmed"}
    # A late event rewrites its trace, to the same results at last.
    order = sorted(
        events,
        key=lambda e: (e.ref + (late[e.seq % len(late)] * HOUR if late else 0), e.seq),  # type: ignore[operator]
    )
    made = MonitorSettings(horizon_ns=10**4 * HOUR)
    rewritten = run(lambda: MonitorOperator(plan, "main", made), as_released(order), cuts)
    assert net(rewritten) == net(found)


def lateness(first: int, second: int, number: int) -> bool:
    return second > over_after(first, number, "Europe/Berlin")


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, 14 * 24), st.integers(-3, 3), st.integers(0, 30), st.integers(0, 30),
    st.integers(1, 3), st.sampled_from([-1, 5]),
)  # fmt: skip
@example(4 * 24 + 23, 0, 2, 2, 1, 5)  # one clock: whether it begins on Friday is open
def test_a_silence_is_uncertain_where_errors_decide_it(
    begin: int, beyond: int, err: int, other: int, number: int, epoch: int
) -> None:
    """Errors of whole hours: those that turn a deadline lie at the ends or where days begin."""
    first = at("2026-06-01 00:00") + begin * HOUR
    second = over_after(first, number, "Europe/Berlin") + beyond * HOUR
    of_one = epoch >= 0
    other = err if of_one else other
    events = [
        Event("A", first, err * HOUR, "p", epoch, attrs={"id": 1}),
        Event("B", second, other * HOUR, "p" if of_one else "q", epoch, attrs={"id": 1}),
    ]
    plan = plan_of(Seq((("A",), ("B",)), ("",)), "A, (B | C)", number)
    found = run(lambda: MonitorOperator(plan, "main"), events)
    assert found[0]["alert"] == ("violation" if lateness(first, second, number) else "alert")
    errors = [-err * HOUR, *range(-err * HOUR, err * HOUR + 1, HOUR), err * HOUR]
    pairs = (
        zip(errors, errors, strict=True)
        if of_one
        else product(errors, (-other * HOUR, other * HOUR))
    )
    ways = {lateness(first + a, second + b, number) for a, b in pairs}
    if found[0]["certainty"] == "confirmed":
        assert len(ways) == 1
    elif not of_one and first + err * HOUR < second - other * HOUR:
        assert len(ways) == 2


def test_a_plan_is_read_back_and_the_zone_is_utc_without_one() -> None:
    for text in ("1 workday", "6 workdays TIMEZONE 'Europe/Berlin'"):
        plan = query(
            f"EVENT SEQ(A a, B b) UNDER CONSTRAINT c FOR TRACE BY id TIMEOUT {text} AS A, B"
        )
        assert isinstance(plan, MonitorPlan)
        assert plan.timeout_ns is None
        again = query(render(plan))
        assert isinstance(again, MonitorPlan)
        assert again.workdays == plan.workdays
        assert str(plan.workdays) == " ".join(text.split()[:2])
        assert plan.workdays is not None
        assert plan.workdays.zone == ("Europe/Berlin" if "'" in text else "UTC")


@pytest.mark.parametrize(
    ("text", "marked", "message"),
    [
        ("1.5 workdays", "1.5 workdays", "a whole number of workdays, up to 36 years"),
        ("0 workdays", "0 workdays", "a whole number of workdays"),
        ("-2 workdays", "-2 workdays", "a whole number of workdays"),
        ("9393 workdays", "9393 workdays", "up to 36 years"),
        ("1 workday 3 h", "1 workday 3 h", "a whole number of workdays"),
        ("6 d TIMEZONE 'UTC'", "6 d", "a whole number of workdays"),
        ("6 workdays TIMEZONE 'Europe/Berlinn'", "'Europe/Berlinn'", "did you mean"),
        ("6 months", "months", "'months' have no fixed length"),
    ],
)  # fmt: skip
def test_another_calendar_is_refused_where_it_stands(text: str, marked: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        query(f"EVENT SEQ(A a, B b) UNDER CONSTRAINT c FOR TRACE BY id TIMEOUT {text} AS A, B")
    first, shown, carets, hint = (str(error.value) + "\n").split("\n")[:4]
    assert shown[carets.index("^") : carets.rindex("^") + 1] == marked
    assert message in first
    assert (
        "TIMEOUT 6 workdays TIMEZONE 'Europe/Berlin'" in hint or "'" in marked or marked == "months"
    )


def test_an_answer_that_is_due_in_six_workdays() -> None:
    def event(kind: str, order: int, time: str) -> dict[str, Any]:
        ts = at(time)
        return {"type": kind, "ts": ts, "arrival": ts, "attrs": {"order": order}}

    events = [
        event("ASK", 1, "2026-06-01 10:00"), event("ASK", 2, "2026-06-05 10:00"),
        event("ANSWER", 1, "2026-06-09 10:01"), event("ANSWER", 2, "2026-06-15 10:00"),
    ]  # fmt: skip
    found = slackwater.query(
        events,
        "EVENT SEQ(ASK a, ANSWER b) UNDER CONSTRAINT due FOR TRACE BY order "
        "TIMEOUT 6 workdays TIMEZONE 'Europe/Berlin' AS ASK, (ANSWER | ASK)",
        clock="exact",
    ).changes()
    assert [(r["alert"], r["trace"], r["ts"]) for r in found] == [
        ("violation", "1", at("2026-06-09 10:00")),
        ("violation", "1", at("2026-06-09 10:01")),
        ("alert", "2", at("2026-06-15 10:00")),
    ]
