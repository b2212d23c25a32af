"""Windows of a calendar: where they start against plain dates, and the twin with those borders."""

from __future__ import annotations

import bisect
from dataclasses import replace
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.units import Period, period_lengths, period_starts
from slackwater.engine.hosts.chain.operators import windows_of
from slackwater.engine.operators.window.time_windows import WindowSettings
from slackwater.engine.order.query_defaults import window_of
from slackwater.engine.query import explain, query
from slackwater.engine.query.plan import Drift
from tests.window.conftest import Event, Stream, Twin, run
from tests.window.test_time_windows import COUNT, FIVE, plan, streams

HOUR = 3_600 * 10**9
EPOCH = datetime(1970, 1, 1, tzinfo=ZoneInfo("UTC"))
ZONES = (
    "UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe",
    "America/Sao_Paulo", "America/Havana", "America/Toronto", "Pacific/Apia",
)  # fmt: skip


def shown(ns: int, zone: str) -> datetime:
    """By the clocks of ``zone``, to the second."""
    return (EPOCH + timedelta(seconds=ns // 10**9)).astimezone(ZoneInfo(zone))


def number(day: date, period: Period) -> int:
    """Of the period that holds a day."""
    if period.unit == "month":
        return (12 * day.year + day.month - 1) // period.number
    days = (day - date(1970, 1, 1)).days
    return (days + 3) // 7 // period.number if period.unit == "week" else days // period.number


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    seconds=st.integers(-4_611_686_018, 4_611_686_018) | st.integers(1_700_000_000, 1_800_000_000),
    zone=st.sampled_from(ZONES),
    kind=st.sampled_from([("day", 1), ("day", 3), ("week", 1), ("week", 2), ("month", 1),
                          ("month", 3), ("month", 5), ("month", 12)]),
)  # fmt: skip
def test_a_time_lies_in_the_period_of_its_date_in_the_zone(
    seconds: int, zone: str, kind: tuple[str, int]
) -> None:
    period = Period(kind[1], kind[0], zone)
    starts = period_starts(period)
    place = bisect.bisect_right(starts, seconds * 10**9) - 1
    start, end = starts[place], starts[place + 1]
    mine = number(shown(seconds * 10**9, zone).date(), period)
    assert number(shown(start, zone).date(), period) == mine
    assert number(shown(end, zone).date(), period) > mine
    assert number(shown(start - 10**9, zone).date(), period) < mine
    assert period_lengths(period)[0] <= end - start <= period_lengths(period)[1]


@pytest.mark.slow
def test_days_where_clocks_change() -> None:
    def lengths(zone: str, day: date, days: int = 3) -> list[float]:
        starts = period_starts(Period(1, "day", zone))
        begin = int(datetime(day.year, day.month, day.day, 12, tzinfo=ZoneInfo(zone)).timestamp())
        place = bisect.bisect_right(starts, begin * 10**9) - 1
        return [(starts[i + 1] - starts[i]) / HOUR for i in range(place, place + days)]

    assert lengths("Europe/Berlin", date(2026, 3, 28)) == [24, 23, 24]
    assert lengths("Europe/Berlin", date(2026, 10, 24)) == [24, 25, 24]
    assert lengths("Europe/Berlin", date(1916, 4, 30)) == [23, 24, 24]
    assert lengths("Australia/Lord_Howe", date(2026, 4, 4)) == [24, 24.5, 24]
    assert lengths("America/Sao_Paulo", date(2018, 11, 3)) == [24, 23, 24]  # no midnight
    assert lengths("America/Toronto", date(1919, 3, 30)) == [23.5, 23.5, 24]  # 23:30 is 0:30
    assert lengths("Pacific/Apia", date(2011, 12, 29), 2) == [24, 24]  # the 30th is left out
    assert lengths("Europe/Berlin", date(2050, 3, 26)) == [24, 23, 24]
    leap = period_starts(Period(1, "month", "UTC"))
    place = (
        bisect.bisect_right(
            leap, int(datetime(2024, 2, 9, tzinfo=EPOCH.tzinfo).timestamp()) * 10**9
        )
        - 1
    )
    assert leap[place + 1] - leap[place] == 29 * 24 * HOUR


class CalendarTwin(Twin):
    """With borders by plain dates, 2,000 of them; the one of the ``begin`` is number 0."""

    begin = date(1970, 1, 1)

    def borders(self) -> list[int]:
        if "all" not in self.__dict__:
            period = self.plan.period
            days: list[date] = []
            for k in range(-1000, 1000):
                if period.unit == "month":
                    months = 12 * self.begin.year + self.begin.month - 1 + k * period.number
                    days.append(date(months // 12, months % 12 + 1, 1))
                else:
                    each = 7 if period.unit == "week" else 1
                    days.append(self.begin + timedelta(days=k * period.number * each))
            zone = ZoneInfo(period.zone)
            self.all = [
                int(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()) * 10**9
                for day in days
            ]
        return self.all

    def span(self, k: int) -> tuple[int, int]:
        return self.borders()[k + 1000], self.borders()[k + 1001]

    def near(self, low: int, high: int) -> range:
        first, last = (bisect.bisect_right(self.borders(), each) for each in (low, high))
        return range(first - 1001, last - 1000)


CASES = [
    ("1 day", "Europe/Berlin", date(2026, 3, 28), 3 * HOUR),
    ("1 day", "America/New_York", date(1969, 10, 25), 4 * HOUR),
    ("2 weeks", "UTC", date(2026, 3, 23), 48 * HOUR),
    ("1 month", "Asia/Kolkata", date(1967, 12, 1), 96 * HOUR),
    ("1 month", "Europe/Berlin", date(2024, 2, 1), 144 * HOUR),
    ("1 quarter", "Europe/Berlin", date(2025, 10, 1), 240 * HOUR),
]


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    data=st.data(), case=st.sampled_from(CASES), drift=st.sampled_from(Drift),
    by_key=st.booleans(), horizon=st.sampled_from([0, 7, 1000]),
)  # fmt: skip
def test_equals_windows_by_definition_under_any_cut(
    data: st.DataObject, case: tuple[str, str, date, int], drift: Drift, by_key: bool,
    horizon: int,
) -> None:  # fmt: skip
    """Each event has a clock of its own: the twin tries all errors of shared ones, ns by ns."""
    size, zone, begin, unit = case
    small = data.draw(streams([0, 3, 4]))
    midnight = datetime(begin.year, begin.month, begin.day, tzinfo=ZoneInfo(zone))
    at = int(midnight.timestamp()) * 10**9
    stream = Stream(
        tuple(
            replace(each, ref=at + each.ref * unit, unc=each.unc * unit, epoch=-1, release=row,
                    key=each.key if by_key else None)
            for row, each in enumerate(small.events)
        ),
        tuple((row, at + frontier * unit, when) for row, frontier, when in small.steps),
        tuple((*gap[:4], at + gap[4] * unit, at + gap[5] * unit) for gap in small.gaps),
        small.t_a * unit,
    )  # fmt: skip
    asked = query(f"SELECT count(*) FROM s WINDOW TUMBLING {size} TIMEZONE '{zone}'")
    extent = {"size": asked.size_ns, "period": asked.period}
    made = plan(COUNT, *FIVE, drift=drift, by_key=by_key, **extent)
    kept = WindowSettings(correction_horizon_ns=horizon * unit)
    twin = CalendarTwin(made, stream, horizon * unit)
    twin.begin = begin
    expected = twin.run(1000)
    assert run(lambda: windows_of(made, kept), stream, (), 1000) == expected
    cuts = data.draw(st.lists(st.integers(0, len(stream.events)), max_size=6))
    assert run(lambda: windows_of(made, kept), stream, cuts, 1000) == expected


@pytest.mark.parametrize("drift", ["", " DRIFT together"])
def test_days_in_utc_are_those_of_24_hours(drift: str) -> None:
    events = tuple(
        Event((7 * row % 50 - 20) * 5 * HOUR, v=row, unc=row % 3 * 4 * HOUR) for row in range(60)
    )
    stream = Stream(events, t_a=HOUR)
    kept = WindowSettings(correction_horizon_ns=48 * HOUR)
    calendar, fixed = (
        query(f"SELECT count(*), sum(v), median(v) FROM events WINDOW TUMBLING 1 d{zone}{drift}")
        for zone in (" TIMEZONE 'UTC'", "")
    )
    results = run(lambda: windows_of(calendar, kept), stream, (9, 30), 99)
    assert len(results) > 10
    assert results == run(lambda: windows_of(fixed, kept), stream, (9, 30), 99)


@pytest.mark.parametrize(
    ("written", "means"),
    [
        ("1 month", "1 month TIMEZONE 'UTC'"),
        ("2 Quarters at time zone 'Asia/Kolkata'", "6 months TIMEZONE 'Asia/Kolkata'"),
        ("2 years TIMEZONE 'UTC' DRIFT each", "2 years TIMEZONE 'UTC' DRIFT EACH"),
        ("1 w time zone 'UTC'", "1 week TIMEZONE 'UTC'"),
    ],
)
def test_the_language_reads_back_what_explain_writes(written: str, means: str) -> None:
    asked = query(f"SELECT count(*) FROM s WINDOW TUMBLING {written}")
    text = explain(asked).splitlines()[1].removeprefix("query").strip()
    assert text == f"SELECT count(*) FROM s WINDOW TUMBLING {means}"
    again = query(text)
    assert (again.period, again.size_ns, again.drift) == (asked.period, asked.size_ns, asked.drift)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("TUMBLING 1 d TIMEZONE 'Europe/Berln'", 'is not known; did you mean "Europe/Berlin"'),
        ("TUMBLING 1 h TIMEZONE 'UTC'", "TIMEZONE is for windows of days, weeks, months"),
        ("TUMBLING 1 TIMEZONE 'UTC'", "TIMEZONE is for windows of days, weeks, months"),
        ("TUMBLING 1 month 3 d", "TIMEZONE is for windows of days, weeks, months"),
        ("TUMBLING 1.5 months", "a whole number of its units, up to 36 years"),
        ("TUMBLING 0 months", "a whole number of its units, up to 36 years"),
        ("TUMBLING - 1 month", "a whole number of its units, up to 36 years"),
        ("TUMBLING 37 years", "a whole number of its units, up to 36 years"),
        ("SLIDING 1 month EVERY 1 d", "write it in days, as in 30 d"),
        ("SESSION 1 month", "write it in days, as in 30 d"),
        (
            "TUMBLING 6 workdays",
            "write it in days with weekends, as in 10 d, the most that six workdays last",
        ),
    ],
)
def test_what_no_calendar_has_is_refused(written: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        query(f"SELECT count(*) FROM s WINDOW {written}")


def test_what_needs_windows_of_one_size_refuses_a_calendar() -> None:
    with pytest.raises(UserError, match="a join takes no such window"):
        query("SELECT a.v FROM a JOIN b ON a.k = b.k WINDOW TUMBLING 1 d TIMEZONE 'UTC'")
    asked = query("SELECT count(*) FROM s WINDOW TUMBLING 1 month")
    with pytest.raises(UserError, match="say which counts, as in window=10s"):
        window_of([asked], None, None, None)
