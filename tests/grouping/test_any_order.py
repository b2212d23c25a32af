"""Whatever the order of arrival, the cuts and the restarts: what is let go is what order gives."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.hosts.chain.state_bytes import from_bytes, to_bytes
from slackwater.engine.operators.grouping.dataflow import Dataflow, RunningDataflow
from slackwater.engine.operators.grouping.items import Items
from slackwater.engine.operators.grouping.maps import (
    Combine,
    PythonCombine,
    PythonTupleMap,
    TupleMap,
)
from slackwater.engine.operators.grouping.operations import Grouping, Map, Stateful
from tests.grouping.slow_dataflow import slow_grouping, slow_stateful


def _chained(state: int | None, value: int) -> tuple[int, list[tuple[int, int]]]:
    """Does not commute."""
    new = ((state or 0) * 31 + value) % 1009
    return new, [(value, new)] * (new % 3)


def _listed(state: tuple[Any, ...] | None, value: Any) -> tuple[tuple[Any, ...], list[Any]]:
    new = (*(state or ()), value)
    return new, [new]


def by_third(value: int) -> int:
    return value % 3


FLOWS: dict[str, Dataflow] = {
    "window 1": Dataflow((Grouping(1, key=by_third),)),
    "window 2": Dataflow((Grouping(2, key=by_third),)),
    "window 3": Dataflow((Grouping(3, key=by_third, hash=lambda third: third // 2),)),
    "window 9": Dataflow((Grouping(9),)),
    "stateful": Dataflow((Stateful(PythonCombine(_chained), key=by_third),)),
    "three stages": Dataflow(
        (
            Map(lambda value: [value, value + 1], most=2),
            Stateful(PythonCombine(_chained), key=by_third),
            Grouping(2, key=lambda pair: pair[1] % 2),
            Stateful(PythonCombine(_listed), key=len),
        )
    ),
}
SEVEN = [(10 * i if i != 4 else 30, i % 2, i) for i in range(7)]
"""(time, source, value); two of one time."""


def send(run: RunningDataflow, events: list[tuple[int, int, int]]) -> Items:
    times, sources, values = zip(*events, strict=True) if events else ((), (), ())
    return run.send(times, values, source=np.array(sources, np.int64), seq=np.array(values, int))


def in_order(flow: Dataflow, events: list[tuple[int, int, int]]) -> list[Any]:
    run = flow.start()
    send(run, sorted(events))
    assert run.overhead == 1
    return run.watermark(1 << 60).payload.tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("name", FLOWS)
def test_every_permutation_of_seven_items(name: str, together: bool) -> None:
    flow, rng = FLOWS[name], np.random.default_rng(1)
    expected = in_order(flow, SEVEN)
    for order in itertools.islice(itertools.permutations(SEVEN), 0, None, 29):
        run = flow.start(together=together)
        cut = int(rng.integers(0, 8))
        send(run, list(order[:cut]))
        send(run, list(order[cut:]))
        assert run.watermark(100).payload.tolist() == expected


events = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 2), st.integers(0, 9)), max_size=24, unique=True
)  # fmt: skip


@given(events, st.integers(1, 4))
def test_tuples_are_those_of_the_printed_algorithms(
    given_: list[tuple[int, int, int]], window: int
) -> None:
    slow = slow_grouping([(event, event[2]) for event in given_], window, by_third)
    run = Dataflow((Grouping(window, key=by_third),)).start()
    send(run, given_)
    assert run.sink.arrived == slow.arrived
    assert run.watermark(100).payload.tolist() == slow.punctuation(100)


@given(events)
def test_the_cycle_gives_what_states_sent_round_it_do(given_: list[tuple[int, int, int]]) -> None:
    slow = slow_stateful([(event, event[2]) for event in given_], _chained, by_third)
    run = Dataflow((Stateful(PythonCombine(_chained), key=by_third),)).start()
    send(run, given_)
    assert run.sink.arrived == slow.arrived
    assert run.watermark(100).payload.tolist() == slow.punctuation(100)


@settings(max_examples=30)
@given(
    st.sampled_from(sorted(FLOWS)),
    events,
    st.lists(st.tuples(st.integers(0, 24), st.integers(0, 13)), max_size=4),
    st.booleans(),
)
def test_cuts_and_restarts_change_nothing(
    name: str, given_: list[tuple[int, int, int]], stops: list[tuple[int, int]], together: bool
) -> None:
    """At each stop (after so many events) a watermark comes and the program starts again."""
    flow, out = FLOWS[name], list[Any]()
    run, floors, at = flow.start(together=together), list[tuple[int, int]](), 0
    for stop, floor in sorted(stops):
        send(run, given_[at:stop])
        at = max(at, min(stop, len(given_)))
        out += run.watermark(floor).payload.tolist()
        floors.append((at, run.floor))
        state = from_bytes(to_bytes(run.snapshot()))
        out_again, run = run, flow.start(together=together)
        run.restore(state)
        assert (run.buffered, run.sink.buffered) == (out_again.buffered, out_again.sink.buffered)
    send(run, given_[at:])
    out += run.watermark(100).payload.tolist()
    in_time = [event for place, event in enumerate(given_)
               if all(place < at or event[0] >= floor for at, floor in floors)]  # fmt: skip
    assert run.late == len(given_) - len(in_time)
    assert out == in_order(flow, in_time)


def _sums(before: Any, item: Any, after: Any, out: Any) -> bool:
    after.hash = (before.hash * 31 + item.v) % 1009
    after.n = before.n + 1
    out.v = item.v
    out.hash = after.hash
    return bool(after.n % 3 != 0)


def _plain_sums(state: Any, value: int) -> tuple[Any, list[Any]]:
    n, hashed = state or (0, 0)
    new = (hashed * 31 + value) % 1009
    return (n + 1, new), [(value, new)] if (n + 1) % 3 else []


def _last_two(group: Any, out: Any) -> bool:
    out.v = group[len(group) - 1].hash * 7 + group[0].v
    return True


COMPILED = Dataflow(
    (
        Stateful(Combine(_sums, {"hash": int, "n": int}, {"v": int, "hash": int}),
                 key=lambda items: items["v"] % 3),
        Grouping(2, key="hash", hash=lambda hashes: hashes % 2,
                 map=TupleMap(_last_two, {"v": int})),
    ),
    {"v": int},
)  # fmt: skip


def _plain_last_two(items: tuple[Any, ...]) -> list[int]:
    return [items[-1][1] * 7 + items[0][0]]


@given(events, st.lists(st.integers(0, 24), max_size=3), st.booleans())
def test_compiled_maps_give_what_plain_ones_do(
    given_: list[tuple[int, int, int]], cuts: list[int], together: bool
) -> None:
    plain = Dataflow(
        (
            Stateful(PythonCombine(_plain_sums), key=by_third),
            Grouping(2, key=lambda pair: pair[1] % 2, map=PythonTupleMap(_plain_last_two)),
        )
    )
    run = COMPILED.start(together=together)
    out: list[int] = []
    for start, end in itertools.pairwise([0, *sorted(cuts), 24]):
        part = given_[start:end]
        values = np.array([(event[2],) for event in part], run.item)
        run.send([e[0] for e in part], values, source=[e[1] for e in part],
                 seq=[e[2] for e in part])  # fmt: skip
        state = from_bytes(to_bytes(run.snapshot()))
        run = COMPILED.start(together=together)
        run.restore(state)
    out += run.watermark(100).payload["v"].tolist()
    assert out == in_order(plain, given_)


@pytest.mark.slow
def test_the_state_is_bounded_on_an_endless_stream() -> None:
    make: Callable[[], RunningDataflow] = COMPILED.start
    run, rng, most, size = make(), np.random.default_rng(2), 0, 0
    for batch in range(100):
        times = 100 * batch + rng.integers(0, 150, 500)
        run.send(times, np.array([(v,) for v in times % 9], run.item))
        run.watermark(100 * batch)
        most = max(most, run.buffered)
        if batch in {20, 99}:
            before, size = size, len(to_bytes(run.snapshot()))
    assert most < 3 * 4096 + 4 * 1000
    assert size < 1.5 * before
    assert run.sink.let_go > 25_000
