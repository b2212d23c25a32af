"""Second copies of numbered events: dropped and counted behind every order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.engine.core.frame import Frame
from slackwater.engine.hosts.chain import Chain
from slackwater.engine.order.duplicates import BLOCKS_MAX, HORIZON, LANE, LANES_MAX, Duplicates
from tests.order.conftest import frame, released
from tests.order.slow_duplicates import SlowDuplicates
from tests.order.test_order_cuts import ORDERS, chain_over, cut, setting

Record = dict[str, Any]
UNNUMBERED = tuple(order for order in ORDERS if not order.startswith("sequence"))
MODERATE = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def _counters(chain: Chain) -> Record:
    (lane,) = chain.counters()["lanes"]
    return dict(lane)


NUMBERS = st.builds(
    lambda base, step: base + step,
    st.sampled_from([0, 60, 130, 700, 31_990, 32_060, 64_000, 65_530, 10**6, 2**62]),
    st.integers(0, 12),
)
LANES = st.tuples(st.integers(-1, 3), st.integers(0, 1), st.sampled_from([0, 1, 7 << 40]))


@settings(max_examples=100, deadline=None)
@given(
    events=st.lists(st.tuples(LANES, st.just(-1) | NUMBERS), min_size=1, max_size=80),
    restart=st.sets(st.integers(0, 80)),
    data=st.data(),
)
def test_numbers_anywhere_cut_anywhere_give_what_the_twin_gives(
    events: list[tuple[tuple[int, int, int], int]], restart: set[int], data: st.DataObject
) -> None:
    twin = SlowDuplicates()
    expected = [twin.is_copy(lane, number) for lane, number in events]
    cuts = data.draw(st.lists(st.integers(0, len(events)), max_size=6).map(sorted))
    found: list[bool] = []
    memory = Duplicates()
    for start, end in zip([0, *cuts], [*cuts, len(events)], strict=True):
        part = events[start:end]
        if start in restart:
            saved, memory = memory.snapshot(), Duplicates()
            memory.restore(saved)
        lanes = np.array([lane for lane, _ in part], np.int64).reshape(len(part), 3)
        columns = {
            "source": lanes[:, 0].astype(np.int32), "stream": lanes[:, 1].astype(np.int32),
            "incarnation": lanes[:, 2], "seq": np.array([n for _, n in part], np.int64),
        }  # fmt: skip
        copies = memory.among(columns, 0)
        assert copies is not None
        found += copies.tolist()
    assert found == expected


def _asked(memory: Duplicates, sources: np.ndarray, seq: np.ndarray) -> np.ndarray:
    copies = memory.among({"source": sources.astype(np.int32), "seq": seq.astype(np.int64)}, 0)
    assert copies is not None
    return copies


def test_memory_is_bounded_when_sources_come_and_go() -> None:
    memory, once = Duplicates(), Duplicates()
    sources = np.arange(3 * LANES_MAX)
    for part in np.split(sources, 32):
        assert not _asked(memory, part, np.zeros(len(part))).any()
        # The last ones heard are known, whatever came before.
        assert _asked(memory, part[-2_000:], np.zeros(2_000)).all()
        saved, memory = memory.snapshot(), Duplicates()
        memory.restore(saved)
        assert all(len(lanes) <= LANES_MAX for lanes, _ in saved.values())
    assert not _asked(once, sources, np.zeros(len(sources))).any()
    assert _asked(once, sources[-LANES_MAX:], np.zeros(LANES_MAX)).all()
    assert not _asked(once, sources[:10], np.zeros(10)).any()  # forgotten, so no copies


def test_memory_is_bounded_when_many_sources_send_much() -> None:
    memory = Duplicates()
    steps = np.arange(0, 2 * HORIZON, 63)
    for source in range(3_000):
        _asked(memory, np.full(len(steps), source), steps)
    saved = memory.snapshot()
    assert all(len(bits) <= BLOCKS_MAX for _, bits in saved.values())
    most = 2 * (BLOCKS_MAX * 8 + LANES_MAX * LANE.itemsize)
    assert sum(lanes.nbytes + bits.nbytes for lanes, bits in saved.values()) <= most
    assert _asked(memory, np.arange(1_000, 3_000), np.full(2_000, steps[-1])).all()


def test_counters_that_wrap_at_16_bits_go_on() -> None:
    memory = Duplicates()
    numbers = np.arange(200_000) % 65_536
    assert not _asked(memory, np.zeros(len(numbers)), numbers).any()


COPIED = st.lists(
    st.tuples(
        st.sampled_from("ab"), st.sampled_from(["events", "x"]), st.integers(0, 1),
        st.integers(0, 9), st.integers(0, 4), st.sampled_from([0, 1, 1, 3]),
        st.sampled_from(["A", "B"]),
    ),
    min_size=1, max_size=40,
)  # fmt: skip


def _trace(events: list[tuple[Any, ...]]) -> tuple[list[Record], list[Record]]:
    """Records, many with a number that came before; and the same with ticks for the copies."""
    now, seen = 10, set()
    given: list[Record] = []
    once: list[Record] = []
    for source, stream, incarnation, seq, late, step, kind in events:
        now += step
        given.append(
            {"source": source, "stream": stream, "incarnation": incarnation, "seq": seq,
             "ts": now - late, "arrival": now, "type": kind, "attrs": {"tag": "x", "v": seq}}
        )  # fmt: skip
        key = (source, stream, incarnation, seq)
        once.append({"kind": "tick", "arrival": now} if key in seen else given[-1])
        seen.add(key)
    return given, once


@MODERATE
@given(events=COPIED, order=st.sampled_from(UNNUMBERED), data=st.data())
def test_copies_change_nothing_in_any_order_cut_and_restarted_anywhere(
    frame_of: Callable[..., Frame],
    events: list[tuple[Any, ...]],
    order: str,
    data: st.DataObject,
) -> None:
    trace, once = _trace(events)
    frames = cut(frame_of(trace), data.draw(st.lists(st.integers(0, len(trace))).map(sorted)))
    resumed = data.draw(st.sets(st.integers(0, len(frames))))
    emitted = chain_over([[each] for each in frames], order, list(resumed))
    other = chain_over([[frame_of(once)]], order)
    assert repr(emitted.ordered) == repr(other.ordered)
    assert repr(emitted.results) == repr(other.results)
    assert repr(emitted.late) == repr(other.late)
    copies = sum(record.get("kind") == "tick" for record in once)
    lanes = emitted.counters["lanes"]
    assert sum(lane["duplicate"] for lane in lanes) == copies == len(emitted.quarantined)
    for lane in lanes:
        parts = ("in_order", "late_passed", "late_dropped", "duplicate", "quarantined_future")
        assert lane["arrived"] == sum(lane.get(part, 0) for part in parts)


def test_a_copy_of_an_event_from_the_future_is_a_copy() -> None:
    """The first one is quarantined; neither moves the clock."""
    chain = Chain(setting("kslack:4"), "main")

    future = {"source": "a", "seq": 1, "ts": 999, "arrival": 2, "type": "A", "attrs": {"v": 1}}
    first = {"source": "a", "seq": 0, "ts": 1, "arrival": 1, "type": "A", "attrs": {"v": 1}}
    chain.process([frame([first, future, future, first])])
    lane = _counters(chain)
    assert (lane["quarantined_future"], lane["duplicate"]) == (1, 2)


def test_copies_pass_when_asked() -> None:
    event = {"source": "a", "seq": 0, "ts": 1, "arrival": 1}
    for order in ("kslack:2,duplicates=pass", "none:duplicates=pass"):
        rows, _ = released(order, [event, event])
        assert len(rows) == 2


@pytest.mark.parametrize("starts", [(1, 0, 0), (5, 2, 2, 3, 3)])
def test_sequence_takes_a_copy_of_an_earlier_starts_event_for_a_copy(starts: list[int]) -> None:
    events = [
        {"source": "a", "seq": 0, "incarnation": start, "ts": now, "arrival": now}
        for now, start in enumerate(starts)
    ]
    _, chain = released("sequence:timeout=fixed:3", events, [2])
    assert _counters(chain)["duplicate"] == len(starts) - len(set(starts))
