"""Cases of clocks that several syncs are known of: what is certain, and what is possible."""

from __future__ import annotations

from typing import Any

import pytest

from slackwater.engine.core.clocks.choice import ClockChoice
from slackwater.engine.core.errors import UserError
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.operators.window.settings import WindowSettings
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from slackwater.engine.query.monitor_plan import MonitorSettings
from slackwater.engine.query.pattern_settings import PatternSettings
from tests.order.conftest import frame

Record = dict[str, Any]


def sync(source: str, ts: int, offset: int = 0, **more: Any) -> Record:
    return {"kind": "sync", "source": source, "ts": ts, "offset": offset, "delay": 0,
            "skew_error_ppb": 0, "arrival": 0} | more  # fmt: skip


def event(source: str, type_: str, ts: int, **more: Any) -> Record:
    return {"source": source, "type": type_, "ts": ts, **more}


def changes(
    text: str, records: list[Record], order: str = "none", guard: int | None = None, *,
    at_once: bool = False, **settings: Any,
) -> list[Record]:  # fmt: skip
    """What a trace gives, whose chain is restored behind each record unless it has all at once."""
    chosen = ChainSettings(parse_order(order), (query(text),), guards=Guards(guard), **settings)
    chain, found, numbers, last = Chain(chosen, "main"), list[Record](), dict[str, int](), 0
    rows = list[Record]()
    for each in records:
        last = max(last, each.get("arrival", last + 1))
        numbered = each
        if "type" in each and "seq" not in each:
            numbers[each["source"]] = numbers.get(each["source"], -1) + 1
            numbered = each | {"seq": numbers[each["source"]]}
        rows.append(numbered | {"arrival": last})
    for frames in [rows] if at_once else [[row] for row in rows]:
        found += chain.process([frame(frames)]).results[0]
        chain = Chain.restored(chosen, "main", chain.to_bytes())
    return [*found, *chain.finish().results[0]]


def answers(text: str, records: list[Record], *order: str, **settings: Any) -> list[Record]:
    """What stands at the end of a trace."""
    standing = list[Record]()
    for result in changes(text, records, *order, **settings):
        same = {name: value for name, value in result.items() if name not in ("op", "at")}
        if result["op"] == "+":
            standing.append(same)
        else:
            standing.remove(same)
    return standing


def matches(text: str, records: list[Record], **settings: Any) -> dict[tuple[Any, ...], str]:
    """Certainty by the events' types and times."""
    return {
        tuple((event["type"], event["ts"]) for event in each["events"]): each["certainty"]
        for each in answers(text, records, **settings)
    }


def test_clock_01_doubts_of_two_steps_add_up() -> None:
    syncs = [
        sync("z", 0), sync("q", 0), sync("z", 10, 8, arrival=18), sync("z", 20, 13, arrival=33)
    ]  # fmt: skip
    events = [event("z", "A", 7, arrival=40), *(event("q", "B", ts) for ts in (5, 9, 14, 16, 22))]
    # A happened at 7, 15 or 20: before the first step, between them, or after both.
    for order in ("none", "kslack:0"):
        found = matches("EVENT SEQ(A a, B b) WITHIN 100", [*syncs, *events], order=order)
        certainty = {b: certainty for (_, (_, b)), certainty in found.items()}
        assert {certainty.get(b) for b in (9, 14, 16)} == {"uncertain"}
        assert 22 in certainty


def test_clock_01_a_sync_within_the_doubt_of_a_step_does_not_end_it() -> None:
    # Set back by 8 at 10, its stamps up to 18 may be from before; the third sync knows no more.
    syncs = [sync("z", 0), sync("q", 0), sync("z", 10, 8, arrival=18), sync("z", 12, 8, arrival=20)]
    events = [event("z", "A", 15, arrival=40), event("q", "B", 20)]
    found = matches("EVENT SEQ(A a, B b) WITHIN 100", [*syncs, *events])
    assert found == {(("A", 15), ("B", 20)): "uncertain"}  # A happened at 15 or at 23


def test_a_report_that_comes_once_more_behind_a_newer_one_changes_nothing() -> None:
    """Each stream of a source brings its clock's reports, and may lag behind another one."""
    s = 10**9
    old, new = sync("z", 0), sync("z", 100 * s, -10 * s, arrival=110 * s)
    events = [
        event("z", "B", 200 * s, arrival=200 * s), event("q", "A", 195 * s, arrival=201 * s),
        event("q", "A", 185 * s, arrival=202 * s),
    ]  # fmt: skip
    for stream in ({}, {"stream": "other"}):
        again = old | {"arrival": 120 * s} | stream
        found = matches("EVENT SEQ(A a, B b) WITHIN 1 h", [sync("q", 0), old, new, again, *events])
        assert found == {(("A", 185 * s), ("B", 200 * s)): "confirmed"}  # B happened at 190 s


def test_clock_05_events_of_one_clock_keep_its_order_though_a_sync_comes_between() -> None:
    """Or they are uncertain; emitted the one or the other way round they are at least found."""
    for first, last, offset in ((21, 19, 4), (19, 21, -4), (19, 21, 4), (21, 19, -4)):
        trace = [
            event("p", "A", first, arrival=30), sync("p", 35, offset, arrival=39),
            event("p", "B", last, arrival=43),
        ]  # fmt: skip
        for order in ("none", "kslack:0"):
            found = matches("EVENT SEQ(A a, B b) WITHIN 20", trace, order=order)
            assert found.get((("A", first), ("B", last))) != "confirmed" or first < last
            found = matches("EVENT SEQ(B b, A a) WITHIN 20", trace, order=order)
            assert found.get((("B", last), ("A", first))) != "confirmed" or last < first
            assert last > first or found


def test_clock_06_a_stated_rate_holds_however_the_frequency_moves_within_it() -> None:
    ms, s = 10**6, 10**9
    syncs = [sync("q", 0)]
    syncs += [sync("p", n * 60 * s, skew_error_ppb=50_000, arrival=n * 60 * s) for n in range(3)]
    trace = [
        *syncs, event("p", "A", 170 * s, arrival=171 * s), event("q", "B", 170 * s + ms),
        sync("p", 180 * s, 3 * ms // 2, skew_error_ppb=50_000),
    ]  # fmt: skip
    text = "EVENT SEQ(A a, B b) WITHIN 1 s"
    assert list(matches(text, trace).values()) == ["uncertain"]
    assert list(matches(text, trace[:-1], order="none:time=fit").values()) == ["confirmed"]
    # The last sync contradicts the fit.
    assert list(matches(text, trace, order="none:time=fit").values()) == ["uncertain"]


def test_clock_08_and_09_max_delay_counts_on_the_largest_uncertainty_of_events_so_far() -> None:
    ms, hour = 10**6, 3600 * 10**9
    trace = [
        sync("q", 0, delay=8), sync("z", 0), event("q", "B", 33, arrival=40),
        sync("q", 45, arrival=45), event("z", "A", 30, arrival=50),
    ]  # fmt: skip
    text = "EVENT SEQ(A a, B b) WITHIN 20"
    assert list(matches(text, trace, certainty="max-delay").values()) == ["uncertain"]
    assert list(matches(text, trace, certainty="max-delay-r19").values()) == ["confirmed"]
    aged = [
        sync("q", 0, skew_error_ppb=50_000), sync("z", 0), event("z", "A", hour),
        event("q", "B", hour + 50 * ms),
    ]  # fmt: skip
    text = "EVENT SEQ(A a, B b) WITHIN 1 s"
    assert list(matches(text, aged, certainty="max-delay").values()) == ["uncertain"]
    reversed_ = [*aged[:2], event("z", "A", hour + 50 * ms), event("q", "B", hour)]
    assert list(matches(text, reversed_, certainty="max-delay").values()) == ["uncertain"]


def test_clock_07_durations_within_one_clock_are_off_by_its_rate() -> None:
    s, ms, hour = 10**9, 10**6, 3600 * 10**9
    clock = sync("q", 0, skew_error_ppb=100_000)
    a, b = event("q", "A", s), event("q", "B", s + 5 * hour)
    forms = (
        "EVENT SEQ(A a, B b) WITHIN 5 h", "EVENT SEQ(A+ a[], B b) WITHIN 5 h",
        "EVENT SEQ(A a, B b) WHERE b.ts - a.ts <= 5 h WITHIN 9 h",
    )  # fmt: skip
    for text in forms:
        for by, wanted in (
            (0, ["uncertain"]), (1799 * ms, ["uncertain"]), (-1799 * ms, ["uncertain"]),
            (-1801 * ms, ["confirmed"]), (1802 * ms, []),
        ):  # fmt: skip
            moved = b | {"ts": b["ts"] + by}
            assert list(matches(text, [clock, a, moved]).values()) == wanted, (text, by)
    for text in ("SELECT count(*) AS n WINDOW SESSION 5 h",):
        for by, wanted in ((0, 2), (-1, 1), (-1799 * ms, 1), (1799 * ms, 2)):
            found = answers(text, [clock, a, b | {"ts": b["ts"] + by}])
            assert [each["value"]["n"] for each in found] == [2 // wanted] * wanted
            assert all(each["certain"] == 0 for each in found), by
        for by, wanted in ((-1801 * ms, 1), (1802 * ms, 2)):
            found = answers(text, [clock, a, b | {"ts": b["ts"] + by}])
            assert [each["certain"] for each in found] == [2 // wanted] * wanted


def test_clock_07_an_interval_lasts_as_long_as_its_clock_says_but_for_its_rate() -> None:
    s, ms, hour = 10**9, 10**6, 3600 * 10**9
    clocks = [sync("q", 0, skew_error_ppb=100_000), sync("p", 0)]
    a = event("q", "A", s, te=s + 5 * hour, arrival=6 * hour)
    inside, after = event("q", "B", 2 * s, te=3 * s), event("q", "B", s + 5 * hour, te=6 * hour)
    for text in ("EVENT ISEQ[A CONTAINS B](A, B)", "EVENT SEQ(A CONTAIN B)"):
        for by, wanted in (
            (0, ["uncertain"]), (1799 * ms, ["uncertain"]), (-1799 * ms, ["uncertain"]),
            (-1801 * ms, ["confirmed"]), (1802 * ms, []),
        ):  # fmt: skip
            found = answers(f"{text} WITHIN 5 h", [*clocks, a | {"te": a["te"] + by}, inside])
            assert [each["certainty"] for each in found] == wanted, (text, by)
            if by == 0:
                assert abs(found[0]["probability"] - 0.5) < 0.01
    # By another clock, an end errs as it is old; of one clock both ends of what meets are one.
    for text, other, wanted in (
        ("ISEQ[A.te < P.ts](A, P)", event("p", "P", a["te"] + s), ["uncertain"]),
        ("ISEQ[A.te < P.ts](A, P)", event("p", "P", a["te"] + 2 * s), ["confirmed"]),
        ("ISEQ[P.ts < A.ts](P, A)", event("p", "P", s - ms), ["confirmed"]),
        ("ISEQ[A MEETS B](A, B)", after, ["confirmed"]),
    ):
        found = answers(f"EVENT {text} WITHIN 9 h", [*clocks, a, other])
        assert [each["certainty"] for each in found] == wanted, text


def test_clock_07_a_condition_on_two_times_of_one_clock_errs_by_its_rate() -> None:
    s, ms, hour = 10**9, 10**6, 3600 * 10**9
    clock = sync("q", 0, skew_error_ppb=100_000)
    a = event("q", "A", s)
    for text in ("SEQ(A a, B b)", "SEQ(A a, B{1,2} b[])", "AND(A a, B b)"):
        last = "last(b.ts)" if "{" in text else "b.ts"
        for by, wanted in (
            (0, ["uncertain"]), (1799 * ms, ["uncertain"]), (-1799 * ms, ["uncertain"]),
            (-1801 * ms, ["confirmed"]), (1802 * ms, []),
        ):  # fmt: skip
            b = event("q", "B", s + 5 * hour + by)
            for where in (f"{last} - a.ts < 5 h", f"{last} < a.ts + 5 h"):
                found = answers(f"EVENT {text} WHERE {where} WITHIN 9 h", [clock, a, b])
                assert [each["certainty"] for each in found] == wanted, (text, where, by)


def test_clock_07_a_condition_on_the_length_of_an_interval_errs_by_its_clocks_rate() -> None:
    s, ms, hour = 10**9, 10**6, 3600 * 10**9
    clocks = [sync("q", 0, skew_error_ppb=100_000), sync("p", 0)]
    b, end = event("p", "B", s + 6 * hour), s + 5 * hour
    later = event("p", "B", s + 6 * hour, te=2 * s + 6 * hour)
    for text, where, rules in (
        ("SEQ(A a, B b)", "a.te - a.ts < 5 h", ("pairwise", "max-delay")),
        ("SEQ(A a, B b)", "a.ts + 5 h > a.te", ("pairwise",)),
        ("SEQ(A a, B b)", "2 * (a.te - a.ts) < 10 h", ("pairwise",)),
        ("SEQ(A a, B b)", "NOT a.te - a.ts >= 5 h", ("pairwise",)),
        ("SEQ(A a, B b)", "a.te - a.ts < 5 h + b.te - b.ts", ("pairwise",)),
        ("SEQ(A{1,2} a[], B b)", "a[i].te - a[i].ts < 5 h", ("pairwise",)),
        ("SEQ(A{1,2} a[], B b)", "last(a.te) - last(a.ts) < 5 h", ("pairwise",)),
        ("AND(A a, B b)", "a.te - a.ts < 5 h", ("pairwise",)),
        ("ISEQ[A.te < B.ts](A, B)", "A.te - A.ts < 5 h", ("pairwise",)),
        ("SEQ(A BEFORE B)", "A.te - A.ts < 5 h", ("pairwise",)),
    ):  # fmt: skip
        for by, wanted in (
            (0, ["uncertain"]), (1799 * ms, ["uncertain"]), (-1799 * ms, ["uncertain"]),
            (-1802 * ms, ["confirmed"]), (1802 * ms, []),
        ):  # fmt: skip
            a = event("q", "A", s, te=end + by, arrival=6 * hour)
            for rule in rules:
                found = answers(
                    f"EVENT {text} WHERE {where} WITHIN 9 h", [*clocks, a, b],
                    pattern=PatternSettings(rule),
                )  # fmt: skip
                said = [each["certainty"] for each in found]
                assert said == wanted or (rule == "max-delay" and wanted == ["confirmed"]), (
                    text, where, by, said,
                )  # fmt: skip
    negated = "EVENT SEQ(B b, !A a, B c) WHERE a.te - a.ts < 5 h WITHIN 9 h"
    for by, wanted in ((0, ["uncertain"]), (-1802 * ms, []), (1802 * ms, ["confirmed"])):
        a = event("q", "A", 10 * s, te=9 * s + end + by, arrival=7 * hour)
        found = answers(negated, [*clocks, event("p", "B", s), a, later])
        assert [each["certainty"] for each in found] == wanted, by


@pytest.mark.parametrize(
    "text",
    [
        "EVENT SEQ(A+ a[] UNTIL {} > 5 h, B b) WITHIN 9 h",
        "EVENT SEQ(A a, B b) WHERE {} > 5 h WITHIN 9 h UNDER CONSTRAINT c FOR TRACE BY k AS A, B",
        "EVENT SEQ(A a, B b) WITHIN 9 h UNDER CONSTRAINT c FOR TRACE BY k AS A[{} > 5 h], B",
    ],
)
def test_a_length_that_clocks_may_err_in_is_refused_where_nothing_is_uncertain(text: str) -> None:
    alias = "" if "[{}" in text else "a."
    with pytest.raises(UserError, match="clocks may err in") as refused:
        query(text.format(f"{alias}te - {alias}ts"))
    assert "raw_ts and raw_te, which are as the clock says them" in str(refused.value)
    query(text.format(f"{alias}raw_te - {alias}raw_ts"))


def test_a_condition_on_a_length_errs_by_all_that_lies_between_its_ends() -> None:
    """By the rate on both sides of a sync; by a step, found before or behind the event."""
    s, ms, hour = 10**9, 10**6, 3600 * 10**9
    half = 5 * hour // 2
    rates = [sync("q", 0, skew_error_ppb=100_000), sync("p", 0)]
    ahead = sync("q", 100 * s, -10 * s, delay=2 * ms, arrival=400 * s)
    steps = [sync("q", 0, delay=2 * ms), sync("p", 0)]
    b, later = (event("p", "B", t, arrival=max(t, 300 * s)) for t in (200 * s, 500 * s))

    def a(ts: int, te: int) -> Record:
        return event("q", "A", ts, te=te, arrival=max(te, 300 * s))

    over, across = a(40 * s, 60 * s), a(95 * s, 115 * s)  # that lasted 20 s or 10 s, and 10 s
    for where, records, wanted in (
        ("< 5 h", [*rates, a(-half, half - 100 * ms), event("p", "B", 3 * hour)], "uncertain"),
        ("< 5 h", [*rates, a(-half, half - 2 * s), event("p", "B", 3 * hour)], "confirmed"),
        ("> 15 s", [*steps, ahead | {"arrival": 110 * s}, over, b], "uncertain"),
        ("> 15 s", [*steps, over, ahead, later], "uncertain"),
        ("> 15 s", [*steps, over, b, ahead, later], "uncertain"),
        ("> 9998 ms", [*steps, ahead | {"arrival": 110 * s}, across, b], "uncertain"),
    ):  # fmt: skip
        for text in ("SEQ(A a, B b)", "ISEQ[a.te < b.ts](A a, B b)", "SEQ(A{1,2} a[], B b)"):
            one = "a[i]" if "{" in text else "a"
            condition = f"WHERE {one}.te - {one}.ts {where}"
            found = answers(f"EVENT {text} {condition} WITHIN 9 h", records)
            assert {each["certainty"] for each in found} == {wanted}, (text, where)


def test_an_event_that_arrives_before_it_happened_refutes_its_clocks_bound() -> None:
    """The clock of p is 495 ms ahead and says it is right within 1 ms; one event proves it."""
    ms = 10**6
    syncs = [sync("p", 0, delay=2 * ms), sync("q", 0, delay=2 * ms)]
    trace = [
        *syncs, event("p", "C", 1000 * ms, arrival=506 * ms),
        event("p", "A", 1600 * ms, arrival=2000 * ms), event("q", "B", 1700 * ms),
        sync("p", 3000 * ms, -495 * ms, arrival=3000 * ms),
        event("p", "A", 4000 * ms, arrival=4000 * ms),
        event("q", "B", 4100 * ms, arrival=4101 * ms),
    ]  # fmt: skip
    text = "EVENT SEQ(A a, B b) WITHIN 1 s"
    for order in ("none", "sequence:timeout=fixed:1s", "kslack:100ms"):
        unguarded = matches(text, trace[:5], order=order, guard=None)
        assert unguarded[("A", 1600 * ms), ("B", 1700 * ms)] == "confirmed"
        found = matches(text, trace, order=order, guard=1000 * ms)
        assert found[("A", 1600 * ms), ("B", 1700 * ms)] == "uncertain"
        # What the next sync measures holds again, for what is stamped from then on.
        assert found[("A", 4000 * ms), ("B", 4100 * ms)] == "confirmed"


def test_a_sync_that_contradicts_the_one_before_takes_back_what_was_confirmed() -> None:
    """Between its syncs p was set back by 500 ms: at 1,600 ms it may have been 2,100 ms."""
    ms = 10**6
    trace = [
        sync("p", 0, delay=2 * ms), sync("q", 0, delay=2 * ms),
        event("p", "A", 1600 * ms, arrival=2200 * ms), event("q", "B", 1700 * ms),
        event("p", "B", 1650 * ms), sync("p", 3000 * ms, 500 * ms, arrival=3500 * ms),
    ]  # fmt: skip
    text = "EVENT SEQ(A a, B b) WITHIN 1 s"
    both = {(("A", 1600 * ms), ("B", 1700 * ms)), (("A", 1600 * ms), ("B", 1650 * ms))}
    for order in ("none", "sequence:timeout=fixed:1ms", "kslack:0", "kslack-chain:0ns,1ns"):
        assert matches(text, trace[:-1], order=order) == dict.fromkeys(both, "confirmed")
        assert matches(text, trace, order=order) == dict.fromkeys(both, "uncertain")
        found = changes(text, trace, order=order)
        assert {each["at"] for each in found if each["op"] == "-"} == {3500 * ms}


def test_clock_02_an_uncertainty_larger_than_a_window_reaches_all_windows() -> None:
    trace = [
        sync("p", 0, delay=12), event("p", "A", 17, arrival=30, attrs={"v": 4}),
        sync("q", 0, arrival=31), event("q", "A", 23, arrival=40, attrs={"v": 1}),
    ]  # fmt: skip
    found = answers("SELECT count(*) AS n, sum(v) AS s WINDOW TUMBLING 3", trace)
    rows = {each["window"]["start"]: (each["bounds"]["n"], each["ambiguous"]) for each in found}
    assert rows == {start: ([0, 1], 1) for start in (9, 12, 15, 18)} | {21: ([1, 2], 1)}


def test_what_may_lie_in_too_many_windows_is_missing_in_all_of_them() -> None:
    trace = [
        sync("p", 0, delay=8000), sync("q", 0), event("p", "A", 5000),
        *(event("q", "A", ts) for ts in (1500, 4990)),
    ]  # fmt: skip
    found = answers("SELECT count(*) AS n WINDOW TUMBLING 3", trace)
    rows = {each["window"]["start"]: each for each in found}
    assert [rows[start]["missing"] for start in (1500, 4989, 9000)] == [1, 1, 1]
    assert 9900 not in rows
    assert rows[4989]["bounds"]["n"] == [1, 2]


def test_clock_10_negated_events_of_one_clock_share_its_error() -> None:
    trace = [
        sync("p", -5000), sync("q", -5000, delay=200), event("p", "A", 0, arrival=1000),
        *(event("q", "C", 50) for _ in range(3)), event("p", "B", 100),
    ]  # fmt: skip
    for text in ("EVENT SEQ(A a, !C c, B b) WITHIN 400 ns", "EVENT SEQ(A a, !C c, B{1,2} b[])"):
        (found,) = answers(text + ("" if "WITHIN" in text else " WITHIN 400 ns"), trace)
        assert found["certainty"] == "uncertain"
        assert abs(found["probability"] - 0.5) < 0.01


def test_clock_03_a_late_event_narrows_where_the_missing_ones_lie() -> None:
    """Number 1 comes late and happened at 1060; number 2 lies between that and 1100."""
    start = sync("p", 0, first_seq=0)
    trace = [
        event("p", "A", 1000, seq=0, arrival=1000), event("p", "A", 1100, seq=3, arrival=1100),
        event("p", "A", 1060, seq=1, arrival=1300),
    ]  # fmt: skip
    horizon = WindowSettings(correction_horizon_ns=5000)

    def missing(text: str, *more: Record, order: str = "sequence:timeout=fixed:30ns") -> Any:
        asked = f"SELECT count(*) AS n {text}"
        found = answers(asked, [start, *trace, *more], order=order, window=horizon)
        return [(each["window"]["start"], each["value"]["n"], each["missing"]) for each in found]

    copy = trace[2] | {"arrival": 1310}
    again = [  # number 1 of another start fills nothing of this one
        event("p", "A", 1200, seq=0, arrival=1320, incarnation=1),
        event("p", "A", 1210, seq=4, arrival=1330, incarnation=1),
        event("p", "A", 1090, seq=2, arrival=1400),
    ]  # fmt: skip
    for late in ("drop", "pass"):
        order = f"sequence:timeout=fixed:30ns,late={late}"
        for more in ((), (copy,)):
            assert sorted(missing("WINDOW TUMBLING 25", *more, order=order)) == [
                (1000, 1, 0), (1050, 1, 1), (1075, 0, 1), (1100, 1, 1),
            ]  # fmt: skip
        found = missing("WINDOW TUMBLING 25", *again, order=order)
        assert sorted(found) == [
            (1000, 1, 0), (1050, 1, 0), (1075, 1, 0), (1100, 1, 0), (1200, 2, 3),
        ]  # fmt: skip
    assert sorted(missing("WINDOW SLIDING 50 EVERY 25")) == [
        (975, 1, 0), (1000, 1, 0), (1025, 1, 1), (1050, 1, 1), (1075, 1, 1), (1100, 1, 1),
    ]  # fmt: skip
    assert sorted(missing("WINDOW SESSION 20")) == [(1000, 1, 0), (1060, 1, 1), (1100, 1, 1)]
    assert missing("WINDOW ROWS 2") == [(1000, 2, 0)]
    for order in ("none", "kslack:0"):
        assert {each[-1] for each in missing("WINDOW TUMBLING 25", order=order)} == {0}


def test_clock_04_what_is_missing_at_the_front_may_lie_anywhere_before() -> None:
    starts = [sync(source, 0, first_seq=0) for source in "pq"]
    trace = [
        *starts, event("q", "A", 1000, seq=0, arrival=1000), event("q", "A", 1020, seq=1),
        event("p", "A", 1100, seq=3, arrival=1100), event("q", "A", 1200, seq=2, arrival=1200),
    ]  # fmt: skip
    found = answers(
        "SELECT count(*) AS n WINDOW TUMBLING 25", trace, order="sequence:timeout=fixed:30ns",
        window=WindowSettings(correction_horizon_ns=5000),
    )  # fmt: skip
    missing = {each["window"]["start"]: each["missing"] for each in found}
    assert missing == dict.fromkeys(range(0, 1125, 25), 3) | {1200: 0}


def test_epochs_of_a_device_that_are_over_for_long_are_forgotten() -> None:
    """Each start of the monitor is a clock; the chain knows 64 of them, and of others nothing."""
    chosen = ChainSettings(
        parse_order("none"), (query("EVENT SEQ(A a, B b) WITHIN 100"),), guards=Guards(None),
        clock=ClockChoice(exact=False),
    )  # fmt: skip
    chain, found, at = Chain(chosen, "main"), list[Record](), 0
    for n in range(300):
        clock, at = f"p/monitor#{n}", n * 1000
        rows = [
            sync("q", 0), sync("p", 0, clock=clock, offset=at, arrival=at + 50),
            event("p", "A", 10, seq=2 * n, clock=clock, arrival=at + 50),
            event("q", "B", at + 20, seq=n, arrival=at + 50),
        ]  # fmt: skip
        for row in rows:
            found += chain.process([frame([row | {"arrival": at + 50}])]).results[0]
        chain = Chain.restored(chosen, "main", chain.to_bytes())
    assert [each["certainty"] for each in found] == ["confirmed"] * 300
    assert len(chain.counters()["clocks"]) <= 66
    for n, certainty in ((299, ["confirmed"]), (240, ["confirmed"]), (0, ["unknown"])):
        late = event("p", "A", 15, seq=1000 + n, clock=f"p/monitor#{n}", arrival=at + 60)
        if certainty == ["unknown"]:  # its offset would be 0
            late["ts"] = at + 15
        last = chain.process([frame([late])]).results[0]
        assert [each["certainty"] for each in last] == certainty, n


def test_alerts_of_traces_that_mix_an_unknown_clock_are_unknown() -> None:
    text = "EVENT SEQ(A a, B b) UNDER CONSTRAINT flow FOR TRACE BY id AS (A | B)*"
    trace = [
        event("p", "A", 1000, attrs={"id": 1}), event("q", "B", 1100, attrs={"id": 1}),
        event("p", "A", 1200, attrs={"id": 2}), event("p", "B", 1300, attrs={"id": 2}),
        event("p", "B", 3010, attrs={"id": 3}), event("q", "A", 3000, attrs={"id": 3}),
    ]  # fmt: skip
    for syncs, exact, of_two in (
        ([], False, "unknown"), ([sync("q", 0)], False, "unknown"),
        ([sync("q", 0), sync("p", 0)], False, "confirmed"), ([], True, "confirmed"),
    ):  # fmt: skip
        clock, monitor = ClockChoice(exact=exact), MonitorSettings(horizon_ns=10_000)
        found = answers(text, [*syncs, *trace], clock=clock, monitor=monitor)
        certainty = {each["trace"]: each["certainty"] for each in found}
        # Any clock may have an event of any trace, as this is not FOR TRACE BY source.
        assert certainty == dict.fromkeys("123", of_two)


@pytest.mark.parametrize("order", ["none", "sequence", "kslack:4ns"])
def test_what_was_stamped_before_the_first_sync_stays_unknown(order: str) -> None:
    """A happened at 37, as the first sync says when both Bs are known."""
    records = [
        sync("q", 0, first_seq=0),
        event("p", "A", 7, seq=0, arrival=38), event("q", "B", 30, seq=0, arrival=39),
        sync("p", 9, 30, arrival=40),
        event("q", "B", 36, seq=1, arrival=41), event("q", "C", 82, seq=2, arrival=83),
    ]  # fmt: skip
    clock = ClockChoice(exact=False)
    found = matches("EVENT SEQ(A a, B b) WITHIN 50", records, order=order, clock=clock)
    assert found == {(("A", 7), ("B", 30)): "unknown", (("A", 7), ("B", 36)): "unknown"}


@pytest.mark.parametrize("text", ["SEQ(A a, B b)", "SEQ(A{1,2} a[], B b)"])
@pytest.mark.parametrize("order", ["none", "sequence"])
@pytest.mark.parametrize("last", [202, 135])
def test_events_of_one_clock_before_and_after_its_first_sync_are_unknown(
    order: str, text: str, last: int
) -> None:
    """A keeps the time 133; B is 69 or 2 after it, and is put 55 after it or 12 before."""
    records = [
        event("q", "A", 133, seq=0, arrival=134), event("q", "C", 134, seq=1, arrival=150),
        sync("q", 134, -14, arrival=170),
        event("q", "B", last, seq=2, arrival=203), event("q", "C", 302, seq=3, arrival=303),
    ]  # fmt: skip
    clock = ClockChoice(exact=False)
    found = matches(f"EVENT {text} WITHIN 60", records, order=order, clock=clock)
    assert found == {(("A", 133), ("B", last)): "unknown"}


@pytest.mark.parametrize(
    ("said", "choice", "certainty"),
    [
        ({"precision": 1}, ClockChoice(exact=False), "unknown"),
        ({"precision": 1}, ClockChoice(exact=True), "confirmed"),
        ({"precision": 1, "clock": "p/monitor"}, ClockChoice(exact=False), "confirmed"),
        ({}, ClockChoice(exact=False), "confirmed"),  # only says where its numbers start
    ],
)
def test_a_start_that_cannot_compare_its_clock_makes_it_unknown(
    said: Record, choice: ClockChoice, certainty: str
) -> None:
    """The clock may have been set since the start before, until a sync says whether it was."""
    new = {"seq": 0, "incarnation": 2}
    again = {"kind": "sync", "source": "p", "first_seq": 0, "incarnation": 2, "ts": 20, **said}
    records = [
        sync("p", 0, 3, first_seq=0, incarnation=1), sync("q", 0, first_seq=0),
        event("p", "A", 7, seq=0, incarnation=1), event("q", "B", 12, seq=0),
        again,
        event("p", "A", 27, **new), event("q", "B", 32, seq=1),
        sync("p", 40, 3, incarnation=2),
        event("p", "A", 47, seq=1, incarnation=2), event("q", "B", 52, seq=2),
    ]  # fmt: skip
    found = matches("EVENT SEQ(A a, B b) WITHIN 5", records, clock=choice)
    assert found == {
        (("A", 7), ("B", 12)): "confirmed",
        (("A", 27), ("B", 32)): certainty,
        (("A", 47), ("B", 52)): "confirmed",
    }
    # Of events that were released before it, a sync that finds a step says how wrong they were.
    for offset, by_then in ((3, certainty), (9, "uncertain")):
        later = [each if each.get("ts") != 40 else each | {"offset": offset} for each in records]
        found = matches("EVENT SEQ(A a, B b) WITHIN 5", later, order="sequence", clock=choice)
        assert found[("A", 27), ("B", 32)] == by_then
