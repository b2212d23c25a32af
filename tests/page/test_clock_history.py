"""Points of clocks in bounded memory."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from engine.server.watch.clock_history import EACH_LEAST, EACH_MAX, SPAN_NS, ClockHistory

S = 10**9


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30)), max_size=400),
    st.integers(1, 300),
)
def test_memory_is_bounded_and_the_newest_stays(
    adds: list[tuple[int, int]], points_max: int
) -> None:
    history, now, given_ = ClockHistory(points_max), 0, dict[int, list[int]]()
    for source, step in adds:
        now += step * S
        history.add(source, now, source, 1)
        given_.setdefault(source, []).append(now)
        total = sum(len(history.points(each)) for each in given_)
        assert total <= max(points_max, EACH_LEAST * len(given_))
        kept = [point.at for point in history.points(source)]
        assert kept[-1] == now
        assert kept == sorted(kept)
        assert set(kept) <= set(given_[source])


def test_an_hour_is_kept_evenly() -> None:
    history = ClockHistory()
    for second in range(10_000):
        history.add(0, second * S, 0, 0)
    points = [point.at for point in history.points(0)]
    assert len(points) <= EACH_MAX
    assert points[-1] == 9999 * S
    assert SPAN_NS <= points[-1] - points[0] <= 1.2 * SPAN_NS
    steps = [b - a for a, b in itertools.pairwise(points)]
    assert max(steps) <= 1.2 * SPAN_NS / EACH_MAX


def test_few_points_stay_as_they_came() -> None:
    history = ClockHistory()
    for place in range(10):
        history.add(0, place * 60 * S, -place, 2 * place)
    assert history.points(0) == [(n * 60 * S, -n, 2 * n) for n in range(10)]
    assert history.points(1) == []
