"""The worked examples of SPEC 1, 2, 3.1 and 3.2, and the rules that one example shows best."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slackwater.engine.core.released import IN_ORDER, LATE, LATE_DROPPED, RESIDUAL
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from tests.order.conftest import released

Record = dict[str, Any]


def events(seqs: list[int], source: str = "a", at: int = 0, step: int = 1) -> list[Record]:
    """Numbers of one source, arriving ``step`` apart from ``at`` on; event time = 10 * number."""
    return [
        {"source": source, "seq": seq, "ts": 10 * seq, "arrival": at + step * i}
        for i, seq in enumerate(seqs)
    ]


def event(source: str, seq: int, ts: int, arrival: int) -> Record:
    return {"source": source, "seq": seq, "ts": ts, "arrival": arrival}


def started(first_seq: int = 0, source: str = "a", arrival: int = 0) -> Record:
    return {"kind": "sync", "source": source, "first_seq": first_seq, "arrival": arrival}


def tick(arrival: int) -> Record:
    return {"kind": "tick", "arrival": arrival}


def restarted(incarnation: int, records: list[Record]) -> list[Record]:
    return [{**record, "incarnation": incarnation} for record in records]


@pytest.fixture(name="order")
def _order(ordering: Callable[..., Any]) -> Callable[..., Any]:
    def make(text: str, guard: int | None = None, uncertainty: int = 0) -> Any:
        return ordering(parse_order(text), Guards(guard, uncertainty))

    return make


def test_spec_3_1_golden_fixed_10(order: Any) -> None:
    done = order("sequence:timeout=fixed:10").process(events([1, 2, 4, 5, 6, 3, 7])).finish()
    assert done.seqs == [1, 2, 3, 4, 5, 6, 7]
    assert done.releases == [0, 1, 5, 5, 5, 5, 6]  # 4, 5, 6 carry the arrival time of 3
    assert done.gaps == []


def test_spec_3_1_golden_r19(order: Any) -> None:
    numbers = events([0, 1, 3, 4, 5, 2, 6])
    done = order("sequence:timeout=r19").process([started(), *numbers]).finish()
    assert [(row[3], row[8], row[9]) for row in done.released] == [
        (0, 0, IN_ORDER), (1, 1, IN_ORDER),
        (3, 3, IN_ORDER), (4, 3, IN_ORDER),  # t_inter is 1 when 3 arrives
        (5, 4, IN_ORDER),
        (2, 5, LATE_DROPPED),
        (6, 6, IN_ORDER),
    ]  # fmt: skip
    # The gap ends between its neighbours' times, and stands before 3.
    assert done.gaps == [(2, "a", "events", 2, 1, 10, 30)]


A_BLOCKS_B = [event("a", 0, 0, 0), event("b", 0, 5, 1)]
SWAPPED = [event("a", 0, 9, 0), event("b", 0, 5, 1)]
RULES: dict[str, tuple[str, list[Record], str, str, dict[str, int]]] = {
    # rule: (timeout and settings, records, source + number @ release, gaps, counters of the last)
    "release is the deadline, not the moment it was noticed": (
        "10", [*events([0, 2]), tick(1000)], "a0@0, a2@11", "1", {}),
    "at one instant records go before deadlines": (
        "10", [*events([0, 2]), *events([1], at=11)], "a0@0, a1@11, a2@11", "", {}),
    "one tick after the deadline it is late": (
        "10", [*events([0, 2]), *events([1], at=12)], "a0@0, a2@11, a1@12 dropped", "1", {}),
    "a late event may pass at once": (
        "10,late=pass", [*events([0, 2]), *events([1], at=50)], "a0@0, a2@11, a1@50 late", "1", {}),
    "the deadline of a gap is the earliest of the buffer": (  # 5's gives up 1 and 2, and then 4
        "10", [*events([0, 5]), *events([3], at=6), tick(100)], "a0@0, a3@11, a5@11", "1-2, 4", {}),
    "a duplicate of a released event is dropped": (
        "10", events([0, 1, 1, 0, 2]), "a0@0, a1@1, a2@4", "", {"duplicate": 2}),
    "a duplicate of a buffered event is dropped": (
        "10", events([0, 2, 2, 1]), "a0@0, a1@3, a2@3", "", {"duplicate": 1}),
    "a second copy of a late event is a duplicate": (
        "10", [*events([0, 2]), *events([1, 1], at=50)], "a0@0, a2@11, a1@50 dropped", "1",
        {"late_dropped": 1, "duplicate": 1, "missing_total": 1, "missing_filled": 1}),
    "without an announcement numbers start at the first to arrive": (
        "10", events([5, 6, 8, 7]), "a5@0, a6@1, a7@3, a8@3", "", {}),
    "a number below the first to arrive is late, and nobody missed it": (
        "10", events([1, 0, 0, 2]), "a1@0, a0@1 dropped, a2@3", "",
        {"missing_total": 0, "missing_filled": 0, "duplicate": 1}),
    "with an announced first number the first to arrive waits": (
        "10", [started(0), *events([1, 0, 2])], "a0@1, a1@1, a2@2", "", {}),
    "a new incarnation starts when the old one is drained, with neither gap nor duplicate": (
        "10", [*events([7, 9]), *restarted(1, events([0, 1], at=3)), *events([8], at=8)],
        "a7@0, a8@8, a9@8, a0@8 residual, a1@8 residual", "", {"duplicate": 0}),
    "events of a smaller incarnation are late and counted apart": (
        "3", [*restarted(7, events([0, 1])), *events([0, 1], at=5)],
        "a0@0, a1@1, a0@5 dropped, a1@6 dropped", "",
        {"in_order": 2, "late_dropped": 2, "earlier_start": 2}),
    "a straggler of the start before is one of them, and its copies are not": (
        "1", [*restarted(7, events([0, 2])), *restarted(8, events([0, 1], at=5)),
              *restarted(7, events([0, 1], at=9))],
        "a0@0, a2@2, a0@5 residual, a1@6 residual, a1@10 dropped", "1",
        {"late_dropped": 1, "duplicate": 1, "earlier_start": 1}),
    "ties of the merge go by source, then number": (
        "10", [event("b", 0, 5, 0), event("a", 0, 5, 0), event("b", 1, 5, 0), event("a", 1, 5, 0)],
        "b0@0, a0@0, a1@0, b1@0", "", {}),
    "an empty source blocks until its timeout and is then idle": (
        "10", [event("a", 0, 0, 0), event("b", 0, 1, 1), event("b", 1, 20, 2),
               event("b", 2, 21, 30), event("a", 1, 15, 31)],
        "a0@0, b0@10, b1@10, b2@30, a1@31 residual", "", {}),
    "residual disorder is emitted": ("10", SWAPPED, "a0@0, b0@1 residual", "", {"residual": 1}),
    "or dropped": (
        "10,residual=drop", SWAPPED, "a0@0, b0@1 dropped", "", {"residual_dropped": 1}),
    "a punctuation that promises more unblocks at once": (
        "100", [*A_BLOCKS_B, {"kind": "pog", "source": "a", "ts": 6, "arrival": 3}],
        "a0@0, b0@3", "", {}),
    "one that promises less does not": (
        "100", [*A_BLOCKS_B, {"kind": "pog", "source": "a", "ts": 4, "arrival": 3}, tick(50)],
        "a0@0, b0@50", "", {}),
    "an ended source blocks nobody": (
        "100", [*A_BLOCKS_B, {"kind": "eos", "source": "a", "arrival": 3}], "a0@0, b0@3", "", {}),
}  # fmt: skip
SAID = {IN_ORDER: "", RESIDUAL: " residual", LATE: " late", LATE_DROPPED: " dropped"}


@pytest.mark.parametrize("rule", RULES)
def test_spec_3_1_rules_by_hand(order: Any, rule: str) -> None:
    chosen, records, rows, gaps, counts = RULES[rule]
    done = order(f"sequence:timeout=fixed:{chosen}").process(records).finish()
    assert ", ".join(f"{r[0]}{r[3]}@{r[8]}{SAID[r[9]]}" for r in done.released) == rows
    missing = [(gap[3], gap[3] + gap[4] - 1) for gap in done.gaps]
    assert ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in missing) == gaps
    last = done.counters[records[-1].get("source", "a"), "events"]
    assert {name: last[name] for name in counts} == counts


def test_numbers_below_the_first_show_what_is_missing_between(order: Any) -> None:
    """Its source had begun before: a number from which nothing was expected is no first one."""
    text = "sequence:timeout=fixed:10,late=pass"
    done = order(text).process(events([9, 4, 6, 1])).finish()
    assert [gap[1:] for gap in done.gaps] == [
        ("a", "events", 5, 4, 40, 90), ("a", "events", 2, 2, 10, 40),
    ]  # fmt: skip
    (counts,) = done.counters.values()
    assert (counts["missing_total"], counts["missing_filled"]) == (6, 1)
    announced = order(text).process([started(9), *events([9, 4])]).finish()
    assert announced.gaps == []
    far = order(text).process(events([2**18 + 2, 1])).finish()
    assert far.gaps == []


def test_numbers_too_far_ahead_are_counted() -> None:
    """RFC 3550 A.1: the first is refused, its successor starts the sequence again."""
    far = 10**9
    given = events([0, 1, far, 2, far, far + 1])
    _, chain = released("sequence:timeout=fixed:10", given)
    (lane,) = chain.counters()["lanes"]
    assert (lane["quarantined_jump"], lane["arrived"]) == (2, 6)


def test_progress_is_what_every_source_has_promised(order: Any) -> None:
    pog = {"kind": "pog", "source": "a", "arrival": 3}
    done = order("sequence:timeout=fixed:100").process([*A_BLOCKS_B, {**pog, "ts": 4}])
    assert done.progress == [(1, 4, 3)]
    done = order("sequence:timeout=fixed:100").process([*A_BLOCKS_B, {**pog, "ts": 6}])
    assert done.progress == []  # b may still bring what is above 5


def test_spec_2_ref_is_ts_plus_offset(order: Any) -> None:
    hour = 3_600_000_000_000
    trace = [
        {"kind": "sync", "source": "a", "offset": hour, "delay": 10, "arrival": 0, "ts": 0},
        {"kind": "sync", "source": "b", "offset": -5, "delay": 7, "arrival": 0, "precision": 2,
         "ts": 0, "skew_error_ppb": 0},
        {"source": "a", "seq": 0, "ts": 1, "arrival": 1},
        {"source": "b", "seq": 0, "ts": hour, "arrival": 1},
        {"source": "c", "seq": 0, "ts": hour, "arrival": 1},
    ]  # fmt: skip
    done = order("sequence:timeout=fixed:10", uncertainty=3).process(trace).finish()
    found = {row[0]: row[6:8] for row in done.released}
    # Uncertainty: delay/2 rounded up, plus precision; c was never synchronised.
    assert found == {"a": (hour + 1, 5), "b": (hour - 5, 6), "c": (hour, 3)}
    assert done.chain.clocks.t_a == 10


def test_spec_2_an_offset_applies_by_event_time_from_its_measurement_on(order: Any) -> None:
    trace = [
        {"kind": "sync", "source": "a", "offset": 100, "delay": 0, "arrival": 0, "ts": 0,
         "first_seq": 0},
        {"source": "a", "seq": 0, "ts": 10, "arrival": 1},
        {"kind": "sync", "source": "a", "offset": 200, "delay": 0, "arrival": 2, "ts": 50},
        {"source": "a", "seq": 1, "ts": 49, "arrival": 3},  # measured later, stamped before
        {"source": "a", "seq": 2, "ts": 50, "arrival": 4},
    ]  # fmt: skip
    done = order("sequence:timeout=fixed:10").process(trace).finish()
    assert [row[6] for row in done.released] == [110, 149, 250]


def test_spec_2_an_offset_without_a_time_applies_after_everything_seen(order: Any) -> None:
    trace = [
        {"kind": "sync", "source": "a", "offset": 100, "delay": 0, "arrival": 0, "first_seq": 0},
        {"source": "a", "seq": 1, "ts": 50, "arrival": 1},  # seen, but waits for 0
        {"kind": "sync", "source": "a", "offset": 200, "delay": 0, "arrival": 2, "ts": None},
        {"source": "a", "seq": 0, "ts": 10, "arrival": 3},
        {"source": "a", "seq": 2, "ts": 51, "arrival": 4},
    ]
    done = order("sequence:timeout=fixed:10").process(trace).finish()
    assert [row[6] for row in done.released] == [110, 150, 251]


def test_spec_2_uncertainty_grows_with_the_age_of_the_offset(order: Any) -> None:
    second = 10**9
    trace = [
        {"kind": "sync", "source": "a", "offset": 0, "delay": 100, "arrival": 0, "ts": 0,
         "skew_error_ppb": 50_000},
        {"source": "a", "seq": 0, "ts": 0, "arrival": 1},
        {"source": "a", "seq": 1, "ts": 3 * second // 2, "arrival": 2},
    ]  # fmt: skip
    done = order("sequence:timeout=fixed:10").process(trace).finish()
    assert [row[7] for row in done.released] == [50, 50 + 75_000]


def test_spec_1_out_of_order_events_of_one_source_come_out_in_order(order: Any) -> None:
    # c5 arrived before a3: a3 is out of order (an earlier arrival has a larger event time).
    trace = [
        {"source": "s", "seq": 1, "ts": 5, "arrival": 0},
        {"source": "s", "seq": 0, "ts": 3, "arrival": 1},
        {"source": "s", "seq": 2, "ts": 6, "arrival": 2},
    ]
    announced = {"kind": "sync", "source": "s", "first_seq": 0, "arrival": 0}
    done = order("sequence:timeout=fixed:10").process([announced, *trace]).finish()
    assert [row[4] for row in done.released] == [3, 5, 6]
    passed = order("none").process([announced, *trace])
    assert [row[4] for row in passed.released] == [5, 3, 6]


def test_lanes_are_listed_by_source_then_stream(order: Any) -> None:
    """However they came: reports of two runs can be compared line by line."""
    came = [("b", "x"), ("a", "y"), ("b", "events"), ("a", "x")]
    trace = [
        {"source": source, "stream": stream, "seq": 0, "ts": at, "arrival": at}
        for at, (source, stream) in enumerate(came)
    ]
    done = order("sequence:timeout=fixed:10").process(trace)
    assert list(done.counters) == [("a", "x"), ("a", "y"), ("b", "events"), ("b", "x")]
