"""A clock that is unknown for a while: before its first sync, or after a start that could not
compare it. Windows that no event of that while may be in are as certain as ever; nothing that is
not unknown depends on where those events were (SPEC 2, Unknown clocks).
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.core.clocks.choice import ClockChoice, UpcomingClocks
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query.analysis.cascade import read_statements
from tests.clocks.test_shifted_clocks import lanes, standing
from tests.order.conftest import frame

Record = dict[str, Any]
SELECT = "SELECT count(*) AS n, sum(v) AS s {}WINDOW {}"
WINDOWS = {
    "tumbling": SELECT.format("", "TUMBLING 10 ns"),
    "sliding": SELECT.format("GROUP BY k ", "SLIDING 20 ns EVERY 10 ns"),
    "R19": SELECT.format("", "TUMBLING 10 ns DRIFT EACH"),
    "rows": SELECT.format("", "ROWS 2"),
    "rows apart": SELECT.format("GROUP BY k ", "ROWS 3 EVERY 2"),
    "session": SELECT.format("", "SESSION 4 ns"),
    "early": SELECT.format("", "TUMBLING 10 ns") + " EMIT ON CHANGE",
}


def sync(source: str, arrival: int, offset: int = 0, **more: Any) -> Record:
    """At a stated time; the offset errs by nothing."""
    return {"kind": "sync", "source": source, "ts": arrival - offset, "arrival": arrival,
            "offset": offset, "delay": 0, "skew_error_ppb": 0} | more  # fmt: skip


def lost(source: str, arrival: int) -> Record:
    """It started again, and could not compare its clock."""
    return {"kind": "sync", "source": source, "arrival": arrival, "precision": 1}


def event(source: str, ts: int, arrival: int, **more: Any) -> Record:
    return {"source": source, "type": "A", "ts": ts, "arrival": arrival,
            "attrs": {"v": ts, "k": 1}} | more  # fmt: skip


def numbered(records: list[Record]) -> list[Record]:
    seqs = {source: itertools.count() for source in "abc"}
    return [each if "kind" in each else each | {"seq": next(seqs[each["source"]])}
            for each in records]  # fmt: skip


def changes(
    text: str, records: list[Record], *cuts: int, clock: ClockChoice | None = None,
    order: str = "kslack:4ns", guard: int | None = 10**6,
) -> list[Record]:  # fmt: skip
    """Insertions and retractions; the chain is restored at each of ``cuts``."""
    plans, _ = read_statements([text])
    chosen = ChainSettings(
        parse_order(order), plans, guards=Guards(guard), clock=clock or ClockChoice(exact=False)
    )
    chain, made = Chain(chosen, "main"), list[Record]()
    for start, end in itertools.pairwise([0, *sorted(cuts), len(records)]):
        if start < end:
            output = chain.process([frame(records[start:end])])
            made += [each for some in output.results for each in some]
        chain = Chain.restored(chosen, "main", chain.to_bytes())
    return made + [each for some in chain.finish().results for each in some]


def found(text: str, records: list[Record], *cuts: int, **more: Any) -> list[Record]:
    """What stands at the end, as ``changes`` has it."""
    return standing(changes(text, records, *cuts, **more))


def steady(first: int, last: int) -> list[Record]:
    """Events of a and b, every 5 ns."""
    return [event("ab"[n % 2], ts, ts + 1) for n, ts in enumerate(range(first, last, 5))]


LATE_SYNC = numbered([sync("a", 1), *steady(2, 40), sync("b", 41), *steady(42, 100)])
STARTED_AGAIN = numbered(
    [sync("a", 1), sync("b", 1), *steady(2, 30), lost("b", 30), *steady(32, 50), sync("b", 51),
     *steady(52, 120)]
)  # fmt: skip


def unknown_starts(results: list[Record]) -> set[int]:
    return {each["window"]["start"] for each in results if each.get("certainty") == "unknown"}


@pytest.mark.parametrize("form", WINDOWS)
@pytest.mark.parametrize("order", ["kslack:4ns", "none", "sequence"])
def test_windows_after_a_late_first_sync_are_certain(form: str, order: str) -> None:
    results = found(WINDOWS[form], LATE_SYNC, order=order)
    unknown = unknown_starts(results)
    assert unknown, "the first ones may have any of the events of b"
    assert max(unknown) <= 62
    as_ever = [each | ({"arrival": 1, "ts": 1} if each.get("kind") == "sync" else {})
               for each in LATE_SYNC]  # fmt: skip
    as_ever.sort(key=lambda each: each["arrival"])
    later = [each for each in results if each["window"]["start"] > 62]
    assert later
    assert later == [each for each in found(WINDOWS[form], as_ever, order=order)
                     if each["window"]["start"] > 62]  # fmt: skip


@pytest.mark.parametrize("form", WINDOWS)
def test_windows_around_a_start_without_a_sync_are_unknown_and_no_others(form: str) -> None:
    unknown = unknown_starts(found(WINDOWS[form], STARTED_AGAIN))
    assert unknown
    assert min(unknown) >= 10
    assert max(unknown) <= 62


def test_of_a_file_windows_before_are_unknown_too_and_those_after_are_not() -> None:
    names = {("a", "A"), ("b", "A")}
    clock = ClockChoice(False, (), (UpcomingClocks("main", lanes(names), ("a",)),))
    unknown = unknown_starts(found(WINDOWS["tumbling"], LATE_SYNC, clock=clock))
    assert unknown == {0, 10, 20, 30, 40}


def test_a_clock_that_the_query_does_not_read_may_stay_unknown() -> None:
    records = sorted(
        [*LATE_SYNC, *(event("c", ts, ts + 1, seq=ts) for ts in range(3, 100, 5))],
        key=lambda each: each["arrival"],
    )
    text = SELECT.format("WHERE source <> 'c' ", "TUMBLING 10 ns")
    assert unknown_starts(found(text, records)) == {0, 10, 20, 30, 40}
    every = unknown_starts(found(WINDOWS["tumbling"], records))
    assert every == set(range(0, 100, 10))


def test_without_arrivals_windows_stay_unknown() -> None:
    unknown = unknown_starts(found(WINDOWS["tumbling"], LATE_SYNC, guard=None))
    assert unknown == set(range(0, 100, 10))


def test_an_event_that_its_clock_puts_far_ahead_may_be_of_no_window_up_to_there() -> None:
    """Nominally at 71, where it was not."""
    records = numbered([sync("a", 1), event("a", 2, 3), event("b", 71, 11), sync("b", 20, -60),
                        *(event("a", ts, ts + 1) for ts in range(22, 120, 5))])  # fmt: skip
    assert max(unknown_starts(found(WINDOWS["tumbling"], records, order="none"))) == 70


def test_the_same_report_makes_a_clock_known_again() -> None:
    """A sync that says not when it was measured, with the offset that there was."""
    records = [
        {name: value for name, value in each.items() if each.get("kind") != "sync" or name != "ts"}
        for each in STARTED_AGAIN
    ]
    assert max(unknown_starts(found(WINDOWS["tumbling"], records))) == 50


@st.composite
def worlds(draw: st.DrawFn) -> list[Record]:
    """What three sources send, of which b and c are unknown for a while. ``was``: when each event
    happened, no two at once. A clock is right but for its offset, which a start may have changed.
    """
    records, late = [sync("a", 0)], draw(st.booleans())
    offset = {"a": 0, "b": draw(st.integers(0, 25)), "c": draw(st.integers(0, 5))}
    is_known = {"a": True, "b": not late, "c": True}
    records += [sync(source, 0, offset[source]) for source in "bc" if is_known[source]]
    now, last, times = 1, dict.fromkeys("abc", 0), set[int]()
    for n in range(draw(st.integers(6, 24))):
        now += draw(st.integers(0, 6))
        source = draw(st.sampled_from("abbc"))
        if source != "a" and draw(st.integers(0, 4)) == 0:
            last[source] = now
            if is_known[source]:
                records.append(lost(source, now))
                offset[source] -= draw(st.sampled_from([0, 0, 15]))
            else:
                records.append(sync(source, now, offset[source]))
            is_known[source] = not is_known[source]
            continue
        was = max(last[source], now - draw(st.integers(0, 6)))
        if was in times:
            continue
        times.add(was)
        last[source] = was
        records.append(
            event(source, was - offset[source], now, was=was,
                  attrs={"v": 2**n, "k": draw(st.integers(1, 2))})
        )  # fmt: skip
    known_again = [sync(each, now + 1, offset[each]) for each in "bc" if not is_known[each]]
    later = [event("a", at, at, was=at) for at in range(now + 2, now + 80, 9)]
    return numbered([*records, *known_again, *later])


def said(results: list[Record], form: str) -> set[str]:
    """What is compared: of ROWS not where they start and end, which is as measured."""
    names = ("group", "value") if form.startswith("rows") else ("window", "group", "value")
    return {str([each[name] for name in names if name in each]) for each in results}


@pytest.mark.parametrize("order", ["kslack:8ns", "none", "sequence"])
@pytest.mark.parametrize("form", ["tumbling", "sliding", "rows", "rows apart", "session"])
@settings(max_examples=10, deadline=None)
@given(records=worlds(), cut=st.integers(0, 30))
def test_what_is_certain_is_so_wherever_events_of_unknown_clocks_were(
    form: str, order: str, records: list[Record], cut: int
) -> None:
    read = [{name: value for name, value in each.items() if name != "was"} for each in records]
    results = found(WINDOWS[form], read, order=order)
    assert results == found(WINDOWS[form], read, min(cut, len(read)), order=order)
    happened = [was | {"ts": each["was"]} for was, each in zip(read, records, strict=True)
                if "was" in each]  # fmt: skip
    exact = said(found(WINDOWS[form], happened, clock=ClockChoice(), order=order), form)
    known = [
        each for each in results
        if each.get("certainty", "confirmed") == "confirmed"
        and not each["ambiguous"] and not each["missing"]
    ]  # fmt: skip
    assert known, "those of the end are"
    assert said(known, form) <= exact


LATE_DEVICE = numbered(
    [
        sync("a", 1),
        *(event("a", ts, ts + 1) for ts in range(2, 62, 5)),
        event("b", 45, 62),
        *(event("a", ts, ts + 1) for ts in range(62, 90, 5)),
    ]
)
"""The first event of an unknown clock is put into a window that has been emitted."""  # fmt: skip


@pytest.mark.parametrize("form", WINDOWS)
@pytest.mark.parametrize("cuts", [(), (8, 13, 14, 20)])
def test_a_late_event_of_an_unknown_clock_makes_what_it_corrects_unknown(
    form: str, cuts: tuple[int, ...]
) -> None:
    log = changes(WINDOWS[form], LATE_DEVICE, *cuts)
    standing_now: list[Record] = []
    for each in log:
        said = {name: value for name, value in each.items() if name not in ("op", "at")}
        if each["op"] == "+":
            standing_now.append(said)
            unknown = each["at"] >= 62
            assert (each.get("certainty") == "unknown") == unknown, each
        else:
            standing_now.remove(said)  # a retraction repeats what it takes back
    assert any(each["op"] == "-" and each["at"] == 62 for each in log)


SECOND_DEVICE = numbered(
    [*(event("a", ts, ts + 1) for ts in range(2, 62, 5)),
     *(event("ab"[ts % 2], ts, ts + 1) for ts in range(62, 120, 5))]
)  # fmt: skip
"""Until 67 there is one clock, so its results are certain; then there are two, both unknown."""


EARLY = {
    f"{name}{emit}": WINDOWS[name] + emit
    for name in ("tumbling", "sliding", "rows", "rows apart", "session")
    for emit in (" EMIT EARLY EVERY 7 ns", " EMIT ON CHANGE")
}


@pytest.mark.parametrize("text", [*WINDOWS.values(), *EARLY.values()], ids=[*WINDOWS, *EARLY])
def test_what_was_emitted_before_a_second_clock_came_is_emitted_again_as_unknown(
    text: str,
) -> None:
    log = changes(text, SECOND_DEVICE)
    assert any(each.get("certainty") != "unknown" for each in log if each["op"] == "+")
    assert all(each.get("certainty") == "unknown" for each in standing(log))
    for cut in range(0, len(SECOND_DEVICE), 3):
        assert changes(text, SECOND_DEVICE, cut, cut + 1) == log


@pytest.mark.parametrize("form", WINDOWS)
def test_a_window_that_ended_before_a_known_clock_was_lost_keeps_its_certainty(form: str) -> None:
    log = numbered(
        [sync("a", 1), sync("b", 1), *steady(2, 50), lost("b", 51), *steady(52, 120)]
    )  # fmt: skip
    known = [each for each in found(WINDOWS[form], log) if each.get("certainty") != "unknown"]
    assert min(each["window"]["start"] for each in known) <= 2
    assert max(each["window"]["end"] for each in known) <= 47, "the last event of b before"


FROM_RESULTS = {
    "windows": "SELECT count(*) AS n GROUP BY source WINDOW TUMBLING 5 ns",
    "matches": "EVENT SEQ(A x, A y) WHERE x.source = y.source WITHIN 12 ns",
}


@pytest.mark.parametrize("form", FROM_RESULTS)
def test_results_of_a_second_clock_make_windows_of_earlier_results_unknown(form: str) -> None:
    """Each result is of one clock, so it is certain; what reads them compares the clocks."""
    text = (
        f"CREATE STREAM each AS {FROM_RESULTS[form]};"
        "SELECT count(*) AS n FROM each WINDOW TUMBLING 10 ns"
    )

    def of_windows(*cuts: int) -> list[Record]:
        return [each for each in changes(text, SECOND_DEVICE, *cuts) if each["query"] == "q2"]

    log = of_windows()
    assert any(each.get("certainty") != "unknown" for each in log)
    made = standing(log)
    assert min(each["window"]["start"] for each in made) == 0
    assert all(each.get("certainty") == "unknown" for each in made)
    for cut in range(0, len(SECOND_DEVICE), 3):
        assert of_windows(cut, cut + 1) == log
