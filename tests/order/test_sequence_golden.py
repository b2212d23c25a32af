"""The worked examples of SPEC 1, 2, 3.1 and 3.2, and the rules that one example shows best."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine.order.base import Guards
from engine.order.registry import parse_order
from engine.stream.released import IN_ORDER, LATE, LATE_DROPPED, RESIDUAL

Record = dict[str, Any]


def events(seqs: list[int], source: str = "a", at: int = 0, step: int = 1) -> list[Record]:
    """Numbers of one source, arriving ``step`` apart from ``at`` on; event time = 10 * number."""
    return [
        {"source": source, "seq": seq, "ts": 10 * seq, "arrival": at + step * i}
        for i, seq in enumerate(seqs)
    ]


def started(first_seq: int = 0, source: str = "a", arrival: int = 0) -> Record:
    return {"kind": "sync", "source": source, "first_seq": first_seq, "arrival": arrival}


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


def test_release_is_the_deadline_not_the_moment_it_was_noticed(order: Any) -> None:
    trace = [*events([0, 2]), {"kind": "tick", "arrival": 1000}]
    done = order("sequence:timeout=fixed:10").process(trace).finish()
    assert list(zip(done.seqs, done.releases, strict=True)) == [(0, 0), (2, 11)]


def test_at_one_instant_records_go_before_deadlines(order: Any) -> None:
    # 2 is buffered at 1 with deadline 11: 1 arrives at that very instant, and is in time.
    trace = [*events([0, 2]), *events([1], at=11)]
    done = order("sequence:timeout=fixed:10").process(trace).finish()
    assert done.seqs == [0, 1, 2]
    assert done.gaps == []


def test_one_tick_after_the_deadline_it_is_late(order: Any) -> None:
    trace = [*events([0, 2]), *events([1], at=12)]
    done = order("sequence:timeout=fixed:10").process(trace).finish()
    assert [(row[3], row[8], row[9]) for row in done.released] == [
        (0, 0, IN_ORDER), (2, 11, IN_ORDER), (1, 12, LATE_DROPPED),
    ]  # fmt: skip


def test_the_gap_s_deadline_is_the_earliest_of_the_buffer(order: Any) -> None:
    # 5 comes first, 3 later: 5's deadline gives up 1 and 2 (up to 3), and then 4.
    trace = [*events([0, 5]), *events([3], at=6), {"kind": "tick", "arrival": 100}]
    done = order("sequence:timeout=fixed:10").process(trace).finish()
    assert list(zip(done.seqs, done.releases, strict=True)) == [(0, 0), (3, 11), (5, 11)]
    assert [gap[3:5] for gap in done.gaps] == [(1, 2), (4, 1)]


@pytest.mark.parametrize(("late", "status"), [("drop", LATE_DROPPED), ("pass", LATE)])
def test_a_late_event_is_dropped_or_passed_at_once(order: Any, late: str, status: int) -> None:
    trace = [*events([0, 2]), *events([1], at=50)]
    done = order(f"sequence:timeout=fixed:10,late={late}").process(trace).finish()
    assert done.released[-1][3:] == (1, 10, 50, 10, 0, 50, status)


def test_a_duplicate_of_a_released_event_is_dropped_and_counted(order: Any) -> None:
    done = order("sequence:timeout=fixed:10").process(events([0, 1, 1, 0, 2])).finish()
    assert done.seqs == [0, 1, 2]
    assert done.counters["a", "events"]["duplicate"] == 2


def test_a_duplicate_of_a_buffered_event_is_dropped_and_counted(order: Any) -> None:
    done = order("sequence:timeout=fixed:10").process(events([0, 2, 2, 1])).finish()
    assert done.seqs == [0, 1, 2]
    assert done.counters["a", "events"]["duplicate"] == 1


def test_a_second_copy_of_a_late_event_is_a_duplicate(order: Any) -> None:
    trace = [*events([0, 2]), *events([1, 1], at=50)]
    done = order("sequence:timeout=fixed:10").process(trace).finish()
    counts = done.counters["a", "events"]
    assert (counts["late_dropped"], counts["duplicate"]) == (1, 1)
    assert (counts["missing_total"], counts["missing_filled"]) == (1, 1)


def test_without_an_announcement_numbers_start_at_the_first_to_arrive(order: Any) -> None:
    done = order("sequence:timeout=fixed:10").process(events([5, 6, 8, 7])).finish()
    assert done.seqs == [5, 6, 7, 8]
    assert done.gaps == []


def test_a_number_below_the_first_to_arrive_is_late_since_it_was_never_released(order: Any) -> None:
    done = order("sequence:timeout=fixed:10").process(events([1, 0, 0, 2])).finish()
    assert [(row[3], row[9]) for row in done.released] == [
        (1, IN_ORDER), (0, LATE_DROPPED), (2, IN_ORDER),
    ]  # fmt: skip
    counts = done.counters["a", "events"]
    # Nobody waited for it, so nobody missed it.
    assert (counts["missing_total"], counts["missing_filled"], counts["duplicate"]) == (0, 0, 1)


def test_with_an_announced_first_number_the_first_to_arrive_waits(order: Any) -> None:
    trace = [started(0), *events([1, 0, 2])]
    done = order("sequence:timeout=fixed:10").process(trace).finish()
    assert done.seqs == [0, 1, 2]
    assert done.gaps == []


def test_a_new_incarnation_starts_anew_after_the_old_one_is_drained(order: Any) -> None:
    old, new = events([7, 9]), events([0, 1], at=3)
    for record in new:
        record["incarnation"] = 1
    trace = [*old, *new, *events([8], at=8)]
    done = order("sequence:timeout=fixed:10").process(trace).finish()
    assert [(row[2], row[3], row[8]) for row in done.released] == [
        (0, 7, 0), (0, 8, 8), (0, 9, 8), (1, 0, 8), (1, 1, 8),
    ]  # fmt: skip
    assert done.gaps == []  # neither a gap nor a duplicate
    assert done.counters["a", "events"]["duplicate"] == 0


def test_events_of_a_smaller_incarnation_are_late_and_counted_apart(order: Any) -> None:
    """A log that no gateway guarded: the device lost its counter and began at 0 again."""
    first = [{**one, "incarnation": 7} for one in events([0, 1, 2])]
    second = [{**one, "incarnation": 0} for one in events([0, 1, 2, 3], at=5)]
    done = order("sequence").process([*first, *second]).finish()
    (lane,) = done.counters.values()
    assert (lane["in_order"], lane["late_dropped"], lane["earlier_start"]) == (3, 4, 4)
    # A straggler of the start before is late too, and one of its copies is none of them.
    both = [{**one, "incarnation": 7} for one in events([0, 2])]
    both += [{**one, "incarnation": 8} for one in events([0, 1], at=5)]
    both += [{**one, "incarnation": 7} for one in events([0, 1], at=9)]
    done = order("sequence:timeout=fixed:1").process(both).finish()
    (lane,) = done.counters.values()
    assert (lane["late_dropped"], lane["duplicate"], lane["earlier_start"]) == (1, 1, 1)


def test_merge_ties_go_by_source_then_number(order: Any) -> None:
    trace = [
        {"source": source, "seq": seq, "ts": 5, "arrival": 0}
        for source, seq in [("b", 0), ("a", 0), ("b", 1), ("a", 1)]
    ]
    done = order("sequence:timeout=fixed:10").process(trace).finish()
    # b0 was first and alone; from then on a goes before b.
    assert [(row[0], row[3]) for row in done.released] == [("b", 0), ("a", 0), ("a", 1), ("b", 1)]


def test_an_empty_source_blocks_until_its_timeout_and_is_then_idle(order: Any) -> None:
    trace = [
        {"source": "a", "seq": 0, "ts": 0, "arrival": 0},
        {"source": "b", "seq": 0, "ts": 1, "arrival": 1},
        {"source": "b", "seq": 1, "ts": 20, "arrival": 2},
        {"source": "b", "seq": 2, "ts": 21, "arrival": 30},
        {"source": "a", "seq": 1, "ts": 15, "arrival": 31},
    ]
    done = order("sequence:timeout=fixed:10").process(trace).finish()
    assert [(row[0], row[3], row[8], row[9]) for row in done.released] == [
        ("a", 0, 0, IN_ORDER),
        ("b", 0, 10, IN_ORDER),  # a's last arrival + 10: a is idle from then on
        ("b", 1, 10, IN_ORDER),
        ("b", 2, 30, IN_ORDER),  # skipped: nobody waits for a
        ("a", 1, 31, RESIDUAL),  # below 21, which was released
    ]


@pytest.mark.parametrize(
    ("choice", "status", "count"),
    [("emit", RESIDUAL, "residual"), ("drop", LATE_DROPPED, "residual_dropped")],
)
def test_residual_disorder_is_emitted_or_dropped(
    order: Any, choice: str, status: int, count: str
) -> None:
    trace = [
        {"source": "a", "seq": 0, "ts": 9, "arrival": 0},
        {"source": "b", "seq": 0, "ts": 5, "arrival": 1},
    ]
    done = order(f"sequence:timeout=fixed:10,residual={choice}").process(trace).finish()
    assert [(row[0], row[9]) for row in done.released] == [("a", IN_ORDER), ("b", status)]
    assert done.counters["b", "events"][count] == 1


def test_a_punctuation_that_promises_more_unblocks_at_once(order: Any) -> None:
    trace = [
        {"source": "a", "seq": 0, "ts": 0, "arrival": 0},
        {"source": "b", "seq": 0, "ts": 5, "arrival": 1},
        {"kind": "pog", "source": "a", "ts": 6, "arrival": 3},
    ]
    done = order("sequence:timeout=fixed:100").process(trace)
    assert [(row[0], row[8]) for row in done.released] == [("a", 0), ("b", 3)]
    assert done.progress == []  # b may still bring what is above 5


def test_a_punctuation_that_promises_less_does_not(order: Any) -> None:
    trace = [
        {"source": "a", "seq": 0, "ts": 0, "arrival": 0},
        {"source": "b", "seq": 0, "ts": 5, "arrival": 1},
        {"kind": "pog", "source": "a", "ts": 4, "arrival": 3},
    ]
    done = order("sequence:timeout=fixed:100").process(trace)
    assert [row[0] for row in done.released] == ["a"]
    assert done.progress == [(1, 4, 3)]


def test_an_ended_source_blocks_nobody(order: Any) -> None:
    trace = [
        {"source": "a", "seq": 0, "ts": 0, "arrival": 0},
        {"source": "b", "seq": 0, "ts": 5, "arrival": 1},
        {"kind": "eos", "source": "a", "arrival": 3},
    ]
    done = order("sequence:timeout=fixed:100").process(trace)
    assert [(row[0], row[8]) for row in done.released] == [("a", 0), ("b", 3)]


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
