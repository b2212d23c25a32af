"""The kernels against the slow twin: exhaustively where that is few, then at random."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

Record = dict[str, Any]
STARTED = {"kind": "sync", "source": "a", "first_seq": 0, "arrival": 0}


@pytest.mark.parametrize(
    ("most", "kinds"),
    [
        (4, [("fixed", 0), ("fixed", 1), ("fixed", 2), ("fixed", 3), ("r19", 0), ("r19-code", 0)]),
        pytest.param(7, [("fixed", 2), ("r19", 0), ("r19-code", 0)], marks=pytest.mark.deep),
    ],
)
@pytest.mark.parametrize("announced", [True, False])
def test_every_arrival_order_of_a_few_events(
    both: Callable[..., Any], most: int, kinds: list[tuple[str, int]], announced: bool
) -> None:
    for n, (kind, timeout) in itertools.product(range(1, most + 1), kinds):
        for order in itertools.permutations(range(n)):
            trace = [
                {"source": "a", "seq": seq, "ts": seq, "arrival": at}
                for at, seq in enumerate(order)
            ]
            both(timeout=kind, fixed=timeout).agree([STARTED, *trace] if announced else trace)


@pytest.mark.parametrize("late", ["drop", "pass"])
@pytest.mark.parametrize("timeout", [1, 3])
def test_every_interleaving_of_two_sources(
    both: Callable[..., Any], timeout: int, late: str
) -> None:
    """Three events each; a's second is lost, b's first two swap, and their times interlock."""
    first = [("a", 0, 1), ("a", 2, 5), ("a", 3, 7)]
    second = [("b", 1, 4), ("b", 0, 2), ("b", 2, 6)]
    for places in itertools.combinations(range(6), 3):
        left, right = iter(first), iter(second)
        chosen = [next(left) if at in places else next(right) for at in range(6)]
        for step in (1, 2):
            trace = [
                {"source": source, "seq": seq, "ts": ts, "arrival": step * at}
                for at, (source, seq, ts) in enumerate(chosen)
            ]
            both(fixed=timeout, late=late).agree(trace)


SOURCES = st.sampled_from(["a", "b", "c"])
STREAMS = st.sampled_from(["events", "other"])
CLOCKS = st.sampled_from([None, None, None, "a", "wall"])
EVENTS = st.fixed_dictionaries(
    {
        "source": SOURCES,
        "clock": CLOCKS,
        "stream": STREAMS,
        "seq": st.integers(0, 9) | st.integers(0, 9) | st.integers(0, 9) | st.none(),
        "incarnation": st.sampled_from([0, 0, 0, 1, 2]),
        "ts": st.integers(0, 60),
    }
)
MARKERS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["pog", "pog", "eos"]),
        "source": SOURCES,
        "clock": CLOCKS,
        "stream": STREAMS,
        "seq": st.none() | st.integers(0, 12),
        "incarnation": st.sampled_from([0, 0, 1]),
        "ts": st.integers(0, 60),
    }
)
SYNCS = st.fixed_dictionaries(
    {
        "kind": st.just("sync"),
        "source": SOURCES,
        "clock": CLOCKS,
        "stream": STREAMS,
        "ts": st.none() | st.integers(0, 60),
        "incarnation": st.sampled_from([0, 0, 1]),
    },
    optional={
        "first_seq": st.integers(0, 4),
        "offset": st.integers(-20, 20),
        "delay": st.integers(0, 9),
        "precision": st.integers(0, 2),
        "skew_error_ppb": st.sampled_from([0, 10**8]),
    },
)
TICKS = st.just({"kind": "tick"})
WHENS = st.sampled_from([0, 0, 1, 1, 2, 5, 30])


@st.composite
def any_traces(draw: st.DrawFn) -> list[Record]:
    """Anything at all, however senseless."""
    records: list[Record] = []
    now = draw(st.integers(-3, 3))
    kinds = st.one_of(EVENTS, EVENTS, EVENTS, EVENTS, MARKERS, SYNCS, TICKS)
    for record in draw(st.lists(kinds, max_size=40)):
        now += draw(WHENS)
        made = record | {"arrival": now}
        if made.get("kind") == "sync" and "offset" in made:
            made.setdefault("delay", 0)
        records.append(made)
    return records


@st.composite
def networks(draw: st.DrawFn) -> list[Record]:
    """What devices send: increasing times, some events lost, repeated, delayed; some restart."""
    sent: list[tuple[int, Record]] = []
    for source in draw(st.lists(SOURCES, min_size=1, max_size=3, unique=True)):
        now, inc, seq = draw(st.integers(0, 9)), 0, draw(st.integers(0, 3))
        if draw(st.booleans()):
            sent.append((now, {"kind": "sync", "source": source, "first_seq": seq, "ts": 0,
                               "offset": draw(st.integers(-9, 9)), "delay": 4}))  # fmt: skip
        for step in draw(st.lists(st.integers(0, 6), max_size=14)):
            now += step
            what = draw(st.integers(0, 19))
            if what == 0:
                inc, seq = inc + 1, 0
                sent.append((now, {"kind": "sync", "source": source, "first_seq": 0,
                                   "incarnation": inc}))  # fmt: skip
            if what == 1:
                sent.append((now, {"kind": "pog", "source": source, "ts": now, "seq": seq,
                                   "incarnation": inc}))  # fmt: skip
            event = {"source": source, "seq": seq, "ts": now, "incarnation": inc}
            seq += 1
            if what == 4:
                event["seq"] = None
            if what != 2:
                sent.append((now + draw(st.sampled_from([0, 0, 0, 1, 4, 9, 25])), event))
            if what == 3:
                sent.append((now + draw(st.integers(0, 30)), dict(event)))
        if draw(st.booleans()):
            end = {"kind": "eos", "source": source, "seq": seq, "incarnation": inc}
            sent.append((now + draw(st.integers(0, 9)), end))
    sent.sort(key=lambda pair: pair[0])
    return [record | {"arrival": at} for at, record in sent]


OPTIONS = st.fixed_dictionaries(
    {
        "timeout": st.sampled_from(["fixed", "r19", "r19-code", "quantile"]),
        "unit": st.sampled_from(["ms", "ms", "us", "ps"]),
        "fixed": st.sampled_from([0, 1, 3, 10, 40]),
        "latency": st.sampled_from([5, 20, 2000]),
        "tail_ppm": st.sampled_from([1000, 200_000, 500_000]),
        "late": st.sampled_from(["drop", "pass"]),
        "residual": st.sampled_from(["emit", "drop"]),
        "guard": st.none() | st.sampled_from([0, 10, 40]),
        "default_uncertainty": st.sampled_from([0, 3]),
    }
)


OVERTAKEN: list[Record] = [
    {"source": "b", "seq": 0, "ts": 0, "arrival": 0},
    {"kind": "sync", "source": "a", "ts": 11, "offset": 0, "delay": 0, "arrival": 0},
    {"source": "a", "seq": None, "ts": 0, "arrival": 0},
    {"kind": "sync", "source": "a", "ts": 0, "offset": 1, "delay": 0, "skew_error_ppb": 0,
     "arrival": 0},
]  # fmt: skip


def test_a_sync_that_newer_ones_have_overtaken_by_less_than_a_microsecond_changes_nothing(
    both: Callable[..., Any],
) -> None:
    done = both(fixed=0, latency=5, guard=None).agree(OVERTAKEN)
    assert [unc for *_, unc, _, _ in done.kernel.released] == [0, 0]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trace=st.one_of(networks(), any_traces()), options=OPTIONS, data=st.data())
def test_any_records_cut_anywhere_give_what_the_twin_gives(
    both: Callable[..., Any], trace: list[Record], options: dict[str, Any], data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(trace)), max_size=6))
    both(**options).agree(trace, sorted(cuts))


@settings(max_examples=20, deadline=None)
@given(
    steps=st.lists(st.integers(0, 3000), min_size=60, max_size=160),
    delays=st.lists(st.sampled_from([0, 0, 0, 0, 500, 3000, 60_000]), min_size=160, max_size=160),
    timeout=st.sampled_from(["r19", "r19-code", "quantile"]),
    late=st.sampled_from(["drop", "pass"]),
)
def test_timeouts_learn_what_the_twin_learns(
    both: Callable[..., Any], steps: list[int], delays: list[int], timeout: str, late: str
) -> None:
    """Long enough for the sketches to be used, and in us, so that many bins are."""
    sent = list(itertools.accumulate(steps))
    arrivals = sorted(
        (at + delay, seq) for seq, (at, delay) in enumerate(zip(sent, delays, strict=False))
    )
    trace = [{"source": "a", "seq": seq, "ts": sent[seq], "arrival": at} for at, seq in arrivals]
    both(timeout=timeout, tail_ppm=100_000, latency=10**6, late=late).agree(trace)
