"""Windows behind orders and barriers: when they close, what they count as lost, until when."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.cli.app import run as command
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.released import IN_ORDER, LATE, Strings
from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.hosts.chain.operators import windows_of
from slackwater.engine.operators.window.settings import parse_window
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import explain, query
from tests.window.conftest import Event, Stream, batch
from tests.window.window_results import Result, chain_results, results_of, standing

COUNT = "SELECT count(*) AS n WINDOW TUMBLING 10"
KINDS = ("TUMBLING 10", "SLIDING 10 EVERY 5", "SESSION 10", "ROWS 2")


def event(ts: int, arrival: int, seq: int, source: str = "a") -> Result:
    return {"source": source, "seq": seq, "ts": ts, "arrival": arrival}


def events(times: list[int]) -> list[Result]:
    return [event(ts, 100 + n, n) for n, ts in enumerate(times)]


def brief(results: list[Result]) -> list[tuple[Any, ...]]:
    return [(r["op"], r["at"], r["window"]["start"], r["value"]["n"]) for r in results]


@pytest.mark.parametrize(
    ("order", "times", "at"),
    [
        ("kslack:5", [8, 14, 15, 40], 102),  # 15 - 5 = 10; 14 goes out with 40 only
        ("kslack-chain:5,20", [8, 14, 15, 40], 102),
        ("mp-kslack", [8, 3, 9, 14, 16, 40], 104),  # K = 6: 16 - 6
        ("aq-kslack:error=0.01", [8, 3, 9, 14, 16, 40], 104),
        ("ldop:0,window=5", [8, 14, 15, 40], 102),
        ("none", [8, 9, 10, 40], 102),
    ],
)
def test_spec_4_4_behind_a_slack_a_window_closes_when_the_slack_says(
    order: str, times: list[int], at: int
) -> None:
    first = chain_results(events(times), COUNT, order)[0]
    assert (first["window"]["start"], first["at"]) == (0, at)


LATE_ONE = events([1, 4, 12, 7, 14, 16, 19, 22, 31])
CORRECTED = [("+", 102, 0, 2), ("-", 103, 0, 2), ("+", 103, 0, 3)]


@pytest.mark.parametrize(
    ("barrier", "first"),
    [
        (None, CORRECTED), ("immediate", CORRECTED), ("bounded:2", CORRECTED),
        ("hold:0", CORRECTED),
        ("bounded:4", [("+", 104, 0, 3)]), ("hold:3", [("+", 105, 0, 3)]),
        ("hold:1", [("+", 103, 0, 3)]),  # records go first at one instant
        ("punctuation", [("+", 108, 0, 3)]),
    ],
)  # fmt: skip
def test_a_barrier_waits_so_that_less_is_corrected(
    barrier: str | None, first: list[tuple[Any, ...]]
) -> None:
    found = chain_results(LATE_ONE, COUNT, barrier=barrier)
    assert brief([r for r in found if r["window"]["start"] == 0]) == first


def test_promises_of_all_types_and_sources_close_windows_in_no_order() -> None:
    def pog(ts: int, arrival: int, source: str, **more: Any) -> Result:
        return {"kind": "pog", "ts": ts, "arrival": arrival, "source": source, **more}

    records = [
        event(1, 100, 0), event(2, 101, 0, "b"), pog(10, 102, "a"), pog(30, 103, "b", type="E"),
        pog(12, 104, "b"), event(9, 105, 1), event(40, 106, 2),
    ]  # fmt: skip
    assert brief(chain_results(records, COUNT, barrier="punctuation")) == [
        ("+", 104, 0, 2), ("-", 105, 0, 2), ("+", 105, 0, 3), ("+", 106, 40, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("order", "barrier", "at"),
    [
        ("sequence", None, 110), ("sequence", "punctuation", 110), ("none", "punctuation", 110),
        ("sequence", "hold:10", 120),
    ],
)  # fmt: skip
def test_an_idle_site_is_emitted_by_a_promise_and_under_hold_by_the_arrival_clock(
    order: str, barrier: str | None, at: int
) -> None:
    idle = [event(1, 100, 0), {"kind": "pog", "ts": 50, "arrival": 110, "source": "a"}]
    ticks = [{"kind": "tick", "arrival": at} for at in (115, 121, 130)]
    assert brief(chain_results([*idle, *ticks], COUNT, order, barrier)) == [("+", at, 0, 1)]


def test_adaptive_is_refused_with_a_remedy() -> None:
    message = (
        "barrier adaptive is not of windows, which q1 has: it goes by how many matches are taken "
        "back, and a window emits once, when it closes; use immediate, punctuation, bounded:K, "
        "hold:H, or ask for patterns in a call of their own"
    )
    with pytest.raises(UserError) as error:
        chain_results(LATE_ONE, COUNT, barrier="adaptive")
    assert str(error.value) == message
    with pytest.raises(UserError) as error:
        explain(query(COUNT), parse_barrier("adaptive,ordered"))
    assert str(error.value) == message
    pattern = query("EVENT SEQ(A a, B b) WITHIN 5")
    ChainSettings(parse_order("none"), (pattern,), barrier=parse_barrier("adaptive"))


def test_count_bounds_of_one_synchronised_source() -> None:
    sync = {"kind": "sync", "source": "a", "offset": 0, "delay": 4, "arrival": 99}
    text = "SELECT count(*) WINDOW TUMBLING 100"
    found = chain_results([sync, *events([100, 150, 199])], text)
    of_100 = [r for r in found if r["window"]["start"] == 100]
    assert (of_100[-1]["ambiguous"], of_100[-1]["bounds"]["count(*)"]) == (2, [2, 3])


@pytest.mark.parametrize(
    ("horizon", "times", "count"),
    [("25", [5, 34, 7], 2), ("25", [5, 35, 7], 1), ("0", [5, 10, 7], 1)],
)
def test_a_window_is_corrected_as_long_as_the_horizon_says(
    horizon: str, times: list[int], count: int
) -> None:
    found = chain_results(events(times), COUNT, horizon=horizon)
    last = [r for r in found if r["window"]["start"] == 0 and r["op"] == "+"][-1]
    assert last["value"]["n"] == count


def test_the_command_takes_the_horizon_and_tells_times_in_its_unit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, out = tmp_path / "t.jsonl", tmp_path / "o.jsonl"
    trace.write_text("".join(json.dumps(r) + "\n" for r in events([5, 12, 23, 7])))
    text = "SELECT min(raw_ts), max(ts), count(ts) WINDOW TUMBLING 10 ms"
    shared = ["query", text, "--input", str(trace), "--order", "none", "--time-unit", "ms",
              "--guard", "off", "--quiet", "--out", str(out)]  # fmt: skip
    for horizon, values in (
        ("horizon=20", {"min(raw_ts)": 5, "max(ts)": 7, "count(ts)": 2}),
        ("horizon=10ms", {"min(raw_ts)": 5, "max(ts)": 5, "count(ts)": 1}),
    ):
        assert command([*shared, "--window", horizon]) == 0
        emitted = [json.loads(line) for line in out.read_text().splitlines()]
        of_0 = [one for one in emitted if one["window"] == {"start": 0, "end": 10}]
        assert of_0[-1]["value"] == of_0[-1]["middle"] == values
        assert of_0[-1]["bounds"]["min(raw_ts)"] == [5, 5]
    assert command([*shared, "--window", "forever"]) == 2
    assert "use horizon=DURATION" in capsys.readouterr().err
    pattern = "EVENT SEQ(A a, B b) WITHIN 5"
    assert command(["query", pattern, "--input", str(trace), "--window", "horizon=1s"]) == 2
    assert "--window is for SELECT" in capsys.readouterr().err
    for bad, said in (("horizons=5", "use horizon=DURATION"), ("horizon=40000 d", "at most")):
        with pytest.raises(UserError, match=said):
            parse_window(bad)


# ---- progress closes windows, not their group's next event --------------------------------------
@pytest.mark.parametrize("kind", KINDS)
def test_an_idle_group_is_emitted_by_anothers_event_by_a_promise_or_by_the_end(kind: str) -> None:
    idle = (Event(1, key=0, release=1), Event(2, key=0, release=2))

    def emitted(stream: Stream, finish_at: int | None = None) -> list[tuple[Any, ...]]:
        operator = windows_of(query(f"SELECT count(*) GROUP BY g WINDOW {kind}"))
        found = list(operator.process(batch(stream, Strings())))
        found = found if finish_at is None else list(operator.finish(finish_at))
        return [(r["at"], r["key"]["g"], r["value"]["count(*)"]) for r in found]

    by_event = emitted(Stream((*idle, Event(40, key=1, release=7))))
    assert by_event
    assert emitted(Stream(idle, steps=((2, 40, 7),))) == by_event
    # ROWS is full with its second event; where clocks are right nothing may overtake it then.
    at = 2 if kind == "ROWS 2" else 7
    assert {(when, key) for when, key, _ in by_event} == {(at, 0)}
    assert by_event[-1][2] == 2
    by_end = emitted(Stream((Event(1, unc=2), Event(2, unc=2))), 99)
    assert {when for when, *_ in by_end} == {99}
    assert by_end[-1][2] == 2


# ---- what is lost is counted --------------------------------------------------------------------
@st.composite
def lossy(draw: st.DrawFn) -> tuple[Stream, tuple[int, ...]]:
    """A source's numbered events, of which runs are lost; some of the lost come late."""
    n = draw(st.integers(4, 16))
    refs = [10 * i + draw(st.integers(0, 9)) for i in range(n)]
    lost = draw(st.lists(st.integers(1, n - 2), unique=True, max_size=n // 2))
    there = [i for i in range(n) if i not in lost]
    gaps = tuple(
        (row, "s0", before + 1, after - before - 1, refs[before], refs[after])
        for row, (before, after) in enumerate(pairwise(there), 1)
        if after - before > 1
    )
    come = draw(st.lists(st.sampled_from(lost), unique=True)) if lost else []
    events = [Event(refs[i], seq=i, status=IN_ORDER) for i in there]
    events += [Event(refs[i], seq=i, status=LATE) for i in come]
    cuts = tuple(draw(st.lists(st.integers(0, len(events)), max_size=3)))
    return Stream(tuple(events), gaps=gaps), cuts


@given(case=lossy())
@settings(max_examples=20)
def test_counts_add_up_to_what_was_released_and_one_window_misses_all_that_is_lost(
    case: tuple[Stream, tuple[int, ...]],
) -> None:
    stream, cuts = case

    def net(window: str) -> list[Result]:
        return standing(results_of(f"SELECT count(*) WINDOW {window}", stream, cuts, 10**6))

    lost = sum(gap[3] for gap in stream.gaps) - sum(e.status == LATE for e in stream.events)
    assert sum(r["value"]["count(*)"] for r in net("TUMBLING 20")) == len(stream.events)
    for window in ("TUMBLING 1000", "SESSION 100", f"ROWS {len(stream.events)}"):
        (one,) = net(window)
        assert (one["value"]["count(*)"], one["missing"]) == (len(stream.events), lost)


@st.composite
def records(draw: st.DrawFn) -> list[Result]:
    """Of two sources, by number; some never come, and the others come late by some places."""
    found = []
    for source in ("a", "b"):
        ts = 0
        for seq in range(draw(st.integers(1, 14))):
            ts += draw(st.integers(0, 9))
            if seq and not draw(st.integers(0, 3)):
                continue
            late = draw(st.sampled_from((0, 0, 0, 3, 8, 30))) if seq else 0
            found.append(((ts + late, seq, source), event(ts, 0, seq, source)))
    found.sort(key=lambda one: one[0])
    return [{**one, "arrival": 100 + 2 * at} for at, (_, one) in enumerate(found)]


@given(given_=records())
@settings(max_examples=20)
def test_missing_sums_to_the_numbers_that_are_lost(given_: list[Result]) -> None:
    """A number lies between its neighbours, so it counts once in each window that reaches there."""
    order = "sequence:timeout=fixed:40,late=pass"
    found = standing(chain_results(given_, COUNT, order, horizon="600s"))
    assert sum(result["value"]["n"] for result in found) == len(given_)
    expected = 0
    for source in ("a", "b"):
        times = {each["seq"]: each["ts"] for each in given_ if each["source"] == source}
        for first, following in pairwise(sorted(times)):
            reached = {at // 10 for at in range(times[first], times[following] + 1)}
            expected += (following - first - 1) * len(reached)
    assert sum(result["missing"] for result in found) == expected
