"""The AQ-K-slack that R19 ran: against a slow twin with lists, and by its published rules."""

from __future__ import annotations

import math
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.scenarios.papers.r19.aq_extension import Extension, let_go, threshold
from slackwater.scenarios.papers.r19.data_sets import data_set
from slackwater.scenarios.papers.r19.let_go_measures import measures_of, series_of
from slackwater.scenarios.papers.r19.log_writing import SHIFT_NS, sources


def made(times: list[int], values: list[int]) -> Any:
    """What ``let_go`` reads of a data set; an event arrives a ns after the one before."""
    events = SimpleNamespace(
        ts=np.array(times, np.int64), attributes={"v_abs": np.array(values, np.int64)}
    )
    return SimpleNamespace(events=events, arrival=np.arange(len(times)))


def wanted(values: list[int], error: float, z: float) -> float:
    """The least c with (1 + d) c^2 - (2 + 2 s error + d) c + (1 + s error)^2 = 0, s being 1 or -1;
    d is z^2 (mean^2 + variance^2) / (n mean^2), with the variance where R19 means the error.
    """
    n, mean = len(values), math.fsum(values) / len(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / n
    noise = z * z * (mean * mean + variance * variance) / (n * mean * mean)
    roots = []
    for sign in (-1, 1):
        half = (2 + 2 * sign * error + noise) / 2
        under = half * half - (1 + noise) * (1 + sign * error) ** 2
        if under >= 0:
            roots.append((half - math.sqrt(under)) / (1 + noise))
            roots.append((half + math.sqrt(under)) / (1 + noise))
    return min(roots, default=0.0)


def slowly(times: list[int], values: list[int], of: Extension) -> list[tuple[int, int]]:
    """(time, instant of release) in order, event by event over plain lists."""
    held: list[int] = []
    fresh: list[int] = []
    kept: list[int] = []
    batch: list[int] = []
    released = []
    slack, clock, alpha, last, error, back = 0, -1, 1.0, 0.0, 0.0, 0
    for now, (time, value) in enumerate(zip(times, values, strict=True)):
        kept.append(time)
        fresh.append(time)
        batch.append(value)
        if len(batch) > of.batch:
            covered = 1.0
            if back:
                low, high = time - back - of.window_ns, time - back
                begun = next((i for i, ts in enumerate(kept) if ts >= low), len(kept))
                ended = next((i for i, ts in enumerate(kept) if ts >= high), len(kept))
                inside = [i for i, ts in enumerate(kept) if i >= begun and low <= ts <= high]
                covered = sum(i < ended for i in inside) / len(inside) if inside else 1.0
                kept = [ts for ts in kept if ts > low]
            short = wanted(batch, of.error, 1.959963984540054) - covered
            alpha = abs(last + of.kp * short + of.kd * (short - error))
            last, error, batch = alpha, short, []
            back = min(round(alpha * slack), slack)
        if time > clock:
            clock = time
            if clock - min(fresh) > slack:
                slack = round((clock - min(fresh)) * alpha)
            held = sorted(held + fresh)
            fresh = []
            while held and held[0] + slack <= clock:
                released.append((held.pop(0), now))
    return released + [(time, len(times) - 1) for time in sorted(held + fresh)]


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), min_size=1, max_size=60),
    st.integers(1, 12),
    st.integers(1, 20),
)
def test_it_lets_go_what_its_slow_twin_does(
    events: list[tuple[int, int]], batch: int, window: int
) -> None:
    times, values = ([each[i] for each in events] for i in (0, 1))
    settings = Extension(batch=batch, window_ns=window)
    let = let_go(made(times, values), sources(1), settings)
    assert list(zip(let.ts.tolist(), let.release.tolist(), strict=True)) == slowly(
        times, values, settings
    )


def test_speeds_make_its_threshold_nothing_and_alpha_goes_to_and_fro() -> None:
    """As the variance stands where the deviation belongs; small values keep it near 1 - error."""
    fast = np.array([1e6, 2e6, 3e6, 9e6])
    assert threshold(fast, 0.03, 1.96) < 1e-6
    assert 0.8 < threshold(np.array([1.0, 1.1] * 5_000), 0.03, 1.96) < 0.97
    let = let_go(data_set(1, 1, 0.2), sources(1))
    assert let.alphas[:4] == pytest.approx([1.3, 0.8, 0.3, 0.2], abs=1e-3)
    assert 0.05 < let.alphas[4:].min() < let.alphas[4:].max() < 0.45


def test_every_event_of_every_source_goes_once_and_is_measured() -> None:
    data = data_set(3, 1, 0.005)
    let = let_go(data, sources(3))
    want = np.sort(np.concatenate([data.events.ts + n * SHIFT_NS for n in range(3)]))
    assert np.array_equal(np.sort(let.ts), want)
    found = measures_of(let, "x", 3)
    times = let.ts.tolist()
    assert found.steps_back == sum(b < a for a, b in pairwise(times)) > 0
    newest, behind = -1, 0
    for time in times:
        behind += time < newest
        newest = max(newest, time)
    assert found.disorder_after == found.late == behind >= found.steps_back
    assert found.disorder_before == pytest.approx(3 * data.delayed.sum(), rel=0.5)
    assert found.arrived == found.released == found.in_place + behind == 3 * len(data)
    hold = (let.release - let.arrival).mean()
    assert found.hold.mean_ns == pytest.approx(hold)
    series = series_of(let)
    assert (series.after_previous, series.after_any) == (found.steps_back, behind)
    assert len(series.held_mean_ns) == 3 * len(data) // 10_000
