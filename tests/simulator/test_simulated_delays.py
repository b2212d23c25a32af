"""Delay laws: realised means, quantiles and correlation; recordings resampled and in time."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from slackwater.engine.core.errors import UserError
from slackwater.simulator.delays import (
    Constant,
    DelayModel,
    DrawnDelay,
    Exponential,
    Lognormal,
    Pareto,
    TwoPeak,
    Uniform,
)
from slackwater.simulator.normals import Normals, survival
from slackwater.simulator.recorded import (
    DelayTrace,
    RecordedDelay,
    RecordedSettings,
    build_delay,
    data_directory,
)
from slackwater.simulator.seeds import Seeds

MS = 10**6
MANY = 400_000
LAWS: list[tuple[DelayModel, float, float]] = [
    # law, mean, median [ns], both from the law's textbook formulas
    (Constant(5 * MS), 5 * MS, 5 * MS),
    (Uniform(2 * MS, 8 * MS), 5 * MS, 5 * MS),
    (Exponential(3 * MS, 10 * MS), 10 * MS, 3 * MS + 7 * MS * math.log(2)),
    (Lognormal(10 * MS, 0.5), 10 * MS * math.exp(0.125), 10 * MS),
    (
        Lognormal(10 * MS, 0.8, min_ns=4 * MS),
        4 * MS + 6 * MS * math.exp(0.32),
        10 * MS,
    ),
    (Pareto(2 * MS, 3.0), 3 * MS, 2 * MS * 2 ** (1 / 3)),
    (
        TwoPeak(10 * MS, 900 * MS, 0.25, spread_ns=5 * MS),
        10 * MS * 0.75 + 900 * MS * 0.25,
        10 * MS + 5 * MS * (1 - math.sqrt(2 / 3)),
    ),
]


def drawn(model: DelayModel, correlation: float = 0.0, count: int = MANY) -> np.ndarray:
    return DrawnDelay(model, Seeds(11).generator("delay"), correlation).take(count)


@pytest.mark.parametrize(("model", "mean", "median"), LAWS, ids=lambda law: type(law).__name__)
@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_the_realised_mean_and_median_are_those_asked_for(
    model: DelayModel, mean: float, median: float, correlation: float
) -> None:
    sample = drawn(model, correlation)
    # AR(1) with 0.8 leaves one independent value in nine.
    independent = MANY * (1 - correlation) / (1 + correlation)
    error = 6 * sample.std() / math.sqrt(independent) + 1
    assert abs(sample.mean() - mean) < error
    assert abs((sample <= median).mean() - 0.5) < 0.01 or type(model) is Constant


@pytest.mark.parametrize(("model", "mean", "median"), LAWS, ids=lambda law: type(law).__name__)
def test_delays_are_whole_and_stay_within_the_law(
    model: DelayModel, mean: float, median: float
) -> None:
    sample = drawn(model)
    assert sample.dtype == np.int64
    least = {"Uniform": 2 * MS, "Exponential": 3 * MS, "Pareto": 2 * MS, "TwoPeak": 5 * MS}
    assert sample.min() >= least.get(type(model).__name__, 0)
    normals = np.linspace(-5, 5, 1001)
    assert np.all(np.diff(model.bend(normals)) >= 0), "a law must be monotone in its normals"


def test_two_peaks_share_the_messages_and_leave_the_middle_empty() -> None:
    sample = drawn(TwoPeak(10 * MS, 900 * MS, 0.25, spread_ns=5 * MS))
    assert abs((sample > 500 * MS).mean() - 0.25) < 0.005
    assert not np.any((sample > 15 * MS) & (sample < 895 * MS))
    assert sample.max() <= 905 * MS


def test_a_pareto_tail_is_cut_where_asked_even_with_a_tiny_shape() -> None:
    sample = drawn(Pareto(1 * MS, 0.001, max_ns=50 * MS), count=10_000)
    assert sample.max() == 50 * MS
    assert (sample == 50 * MS).mean() > 0.9


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.95])
def test_neighbours_are_correlated_as_asked(correlation: float) -> None:
    normals = Normals(Seeds(4).generator("n"), correlation).draw(200_000)
    measured = np.corrcoef(normals[:-1], normals[1:])[0, 1]
    assert abs(measured - correlation) < 0.01
    assert abs(normals.std() - 1) < 0.03


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_batches_do_not_show(correlation: float) -> None:
    model = Exponential(1 * MS, 5 * MS)
    whole = drawn(model, correlation, 5000)
    one_by_one = DrawnDelay(model, Seeds(11).generator("delay"), correlation)
    assert [one_by_one.sample(0) for _ in range(5000)] == whole.tolist()


def test_survival_is_exact_in_the_tail() -> None:
    known = {0.0: 0.5, 1.959963984540054: 0.025, 6.0: 9.865876450376946e-10}
    measured = survival(np.array(list(known)))
    assert measured == pytest.approx(list(known.values()), rel=1e-12)


def test_a_recording_read_in_time_keeps_its_bursts() -> None:
    trace = DelayTrace(np.array([0, 10, 20]), np.array([5, 500, 6]), length_ns=30)
    replay = RecordedDelay(trace, phase_ns=10, origin_ns=1000)
    assert [replay.sample(1000 + t) for t in (0, 9, 10, 19, 20, 29, 30, 60)] == [
        500, 500, 6, 6, 5, 5, 500, 500,
    ]  # fmt: skip


def test_a_recording_resampled_has_its_own_distribution() -> None:
    trace = DelayTrace(np.arange(4), np.array([7, 1, 3, 3]), length_ns=4)
    sample = drawn(trace, count=100_000)
    values, counts = np.unique(sample, return_counts=True)
    assert values.tolist() == [1, 3, 7]
    assert counts / 100_000 == pytest.approx([0.25, 0.5, 0.25], abs=0.01)


@pytest.mark.skipif(
    not (data_directory({}) / "net_cicv5g").is_dir(), reason="the recording is not on this machine"
)
def test_cicv5g_is_read_as_half_round_trips() -> None:
    generator = Seeds(1).generator("delay")
    delay = build_delay(
        RecordedSettings("net_cicv5g", in_time=False), generator, 0.0, 0, data_directory({})
    )
    sample = np.array([delay.sample(0) for _ in range(20_000)])
    # First row of the file: 22 ms there and back; the median of all is 18 ms.
    assert np.median(sample) == 9 * MS
    assert np.all(sample % (MS // 2) == 0)
    again = build_delay(
        RecordedSettings("net_cicv5g"), Seeds(1).generator("delay"), 0.0, 0, data_directory({})
    )
    close = np.array([again.sample(t * MS) for t in range(20_000)])
    assert (np.diff(close) == 0).mean() > 0.9, "in time order, neighbouring instants share a delay"


def test_an_absent_recording_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"net_cicv5g is not there.*zenodo.*SLACKWATER_DATA"):
        build_delay(RecordedSettings("net_cicv5g"), Seeds(1).generator("d"), 0.0, 0, tmp_path)
