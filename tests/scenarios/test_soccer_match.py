"""What happens on the pitch: smooth, plausible, seeded, and its goals known by brute force."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from slackwater.scenarios.soccer import pitch
from slackwater.scenarios.soccer.incidents import (
    KINDS,
    LATE_KICK,
    LONG_SHOT,
    SHOT,
    TAP_IN,
    TOO_LONG,
    WIDE,
)
from slackwater.scenarios.soccer.motion import Motion, approach, debs_columns, ease, seconds
from slackwater.scenarios.soccer.pitch import MS, SECOND
from slackwater.scenarios.soccer.sensors import COLUMNS, Ball, Match, Shoes
from slackwater.simulator.seeds import Seeds
from slackwater.simulator.workload import Batch, Span, Workload

KICKOFF = 10**18


def workloads(match: Match) -> Iterator[tuple[str, Workload]]:
    yield pitch.BALL, Ball(match)
    for name, sids in pitch.shoes_of_gateways().items():
        yield name, Shoes(sids, match)


def made(match: Match, length_ns: int) -> dict[str, list[Batch]]:
    span = Span(KICKOFF, length_ns)
    return {name: list(each.batches(span, Seeds(0), name)) for name, each in workloads(match)}


@pytest.fixture(scope="module")
def match() -> Match:
    return Match.planned(Seeds(1), KICKOFF, 36 * SECOND)


@pytest.fixture(scope="module")
def batches(match: Match) -> dict[str, list[Batch]]:
    return made(match, 36 * SECOND)


def joined(batches: dict[str, list[Batch]], name: str, truth: bool = False) -> np.ndarray:
    parts = [part for each in batches.values() for part in each]
    return np.concatenate([part.truth[name] if truth else part.attrs[name] for part in parts])


def test_r19_5_1_rates_and_columns(batches: dict[str, list[Batch]]) -> None:
    """R19 5.1: 200 Hz per shoe, 2,000 Hz for the ball, roughly 15,000 events a second."""
    events = sum(part.true_ns.size for each in batches.values() for part in each)
    assert events == 36 * 14_800
    assert sum(part.true_ns.size for part in batches["ball"]) == 36 * 2_000
    sid = joined(batches, "sid")
    assert {int(n) for n in np.bincount(sid)[pitch.FIRST_SHOE_SID :]} == {36 * 200}
    assert len(np.unique(sid)) == 65
    assert len(batches) == 11
    for each in batches.values():
        for part in each:
            assert tuple(part.attrs) == COLUMNS
            assert all(part.attrs[name].dtype == np.int64 for name in COLUMNS)


def test_goals_are_found_by_brute_force(match: Match, batches: dict[str, list[Batch]]) -> None:
    times = np.concatenate([part.true_ns for each in batches.values() for part in each])
    kicks = times[joined(batches, "kick", truth=True)].tolist()
    goals = times[joined(batches, "goal", truth=True)].tolist()
    planned = match.incidents
    assert sorted(kicks) == [each.kick_ns for each in planned]
    assert sorted(goals) == [each.stop_ns for each in planned if each.kind.scored]
    pairs = [(k, g) for k in kicks for g in goals if 0 < g - k <= pitch.WITHIN_NS]
    assert sorted(pairs) == [(each.kick_ns, each.stop_ns) for each in planned if each.is_match]
    assert len(pairs) >= 5


def test_every_kind_of_incident_is_what_it_says() -> None:
    match = Match.planned(Seeds(3), KICKOFF, 60 * SECOND)
    seen = {each.kind for each in match.incidents}
    assert seen == set(KINDS)
    for each in match.incidents:
        gap_ms = (each.stop_ns - each.kick_ns) / MS
        if each.kind in {SHOT, TAP_IN, LONG_SHOT}:
            assert each.is_match
        if each.kind in {TOO_LONG, WIDE, LATE_KICK}:
            assert not each.is_match
        assert {SHOT: gap_ms >= 44, TAP_IN: 2 <= gap_ms < 13, LATE_KICK: -10 < gap_ms <= -1}.get(
            each.kind, True
        ), (each.kind.name, gap_ms)
        assert (each.kick_ns - KICKOFF - pitch.shoe_phase_ns(pitch.shoe_sid(each.player, 0))) % (
            pitch.SHOE_PERIOD_NS
        ) == 0
        assert (each.stop_ns - KICKOFF) % pitch.BALL_PERIOD_NS == 0


def test_nothing_else_comes_near_the_conditions(batches: dict[str, list[Batch]]) -> None:
    """Rounding or another seed's motion must not make a match that nobody planned."""
    sid, a = joined(batches, "sid"), joined(batches, "a")
    kick, goal = joined(batches, "kick", truth=True), joined(batches, "goal", truth=True)
    shoe = sid != pitch.BALL_SID
    assert a[shoe & ~kick].max() < 0.8 * pitch.KICK_UM_PER_S2
    assert a[~shoe & (a < pitch.GOAL_UM_PER_S2)].max() < 0.9 * pitch.GOAL_UM_PER_S2
    assert a[kick].min() > 1.5 * pitch.KICK_UM_PER_S2
    assert a[goal].min() > 1.1 * pitch.GOAL_UM_PER_S2


def test_the_motion_is_plausible(batches: dict[str, list[Batch]]) -> None:
    sid, v, z = (joined(batches, name) for name in ("sid", "v", "z"))
    shoe = sid != pitch.BALL_SID
    assert v[shoe].max() < 20e6  # a foot of a sprinter, um/s
    assert v[~shoe].max() < 80e6
    assert z.min() >= 0
    assert z.max() < 4_000
    size = np.sqrt(sum(joined(batches, name).astype(float) ** 2 for name in ("vx", "vy", "vz")))
    assert np.all(np.abs(size[v > 1000] - 10_000) < 2)


def test_the_shoe_is_at_the_ball(match: Match) -> None:
    for each in match.incidents:
        at = seconds(np.array([each.kick_ns]), KICKOFF)
        ball = match.ball.motion(at).position[:, 0]
        kicks = [(float(at[0]), np.array(each.shoe_mm))]
        shoe = match.squads.shoe(each.player, 0, at, kicks).position[:, 0]
        if each.strike_ns == each.kick_ns:
            assert np.linalg.norm(ball - shoe) < 300
        assert np.allclose(shoe, each.shoe_mm)


def derivatives_hold(motion_of: object, time_s: np.ndarray) -> None:
    """Velocity and acceleration against differences of positions and velocities."""
    assert callable(motion_of)
    step = 1e-6
    before, now, after = (motion_of(time_s + shift) for shift in (-step, 0.0, step))
    for value, change in (("position", "velocity"), ("velocity", "acceleration")):
        measured = (getattr(after, value) - getattr(before, value)) / (2 * step)
        stated = getattr(now, change)
        assert np.allclose(measured, stated, rtol=1e-3, atol=5.0)


def test_velocity_and_acceleration_are_the_derivatives(match: Match) -> None:
    # Midway between the samples: away from the instants where the ball is struck or stopped.
    time_s = np.arange(0, 30, 0.0377) + 0.00025
    kicks = [(10.0, np.array([20_000.0, 3_000.0, 60.0]))]
    for player, foot in ((3, 0), (20, 1), (30, 0)):
        derivatives_hold(lambda t, p=player, f=foot: match.squads.shoe(p, f, t, kicks), time_s)
    derivatives_hold(match.ball.motion, time_s)


def test_approach_reaches_its_target_and_lets_go() -> None:
    time_s = np.array([0.0, 5.0, 10.0])
    still = Motion(*np.ones((3, 3, 3)))
    led = approach(still, time_s, 5.0, np.array([7.0, 8.0, 9.0]), 2.0)
    assert led.position.T.tolist() == [[1, 1, 1], [7, 8, 9], [1, 1, 1]]
    assert led.velocity[:, 1].tolist() == [0, 0, 0]
    assert led.velocity[:, 2].tolist() == [1, 1, 1]


def test_ease_is_flat_outside() -> None:
    share, slope, bend = ease(np.array([-1.0, 0.0, 0.5, 1.0, 2.0]))
    assert share.tolist() == [0, 0, 0.5, 1, 1]
    assert slope.tolist() == [0, 0, 1.875, 0, 0]
    assert np.abs(bend).tolist() == [0, 0, 0, 0, 0]


def test_debs_columns_golden() -> None:
    """R19 Table 5.1: mm, um/s, um/s^2, directions of length 10,000."""
    motion = Motion(
        np.array([[1.4], [2.0], [3.0]]), np.array([[3.0], [4.0], [0.0]]), np.zeros((3, 1))
    )
    made = debs_columns(np.array([4]), motion)
    assert {name: int(value[0]) for name, value in made.items()} == {
        "sid": 4, "x": 1, "y": 2, "z": 3, "v": 5_000, "a": 0,
        "vx": 6_000, "vy": 8_000, "vz": 0, "ax": 0, "ay": 0, "az": 0,
    }  # fmt: skip


def test_the_seed_decides() -> None:
    first, again, other = (Match.planned(Seeds(seed), KICKOFF, 6 * SECOND) for seed in (1, 1, 2))
    assert first.incidents == again.incidents != other.incidents
    for name, parts in made(first, SECOND).items():
        for part, same in zip(parts, made(again, SECOND)[name], strict=True):
            assert all(np.array_equal(part.attrs[c], same.attrs[c]) for c in COLUMNS)


def test_a_longer_match_begins_as_a_short_one() -> None:
    short, long = (Match.planned(Seeds(1), KICKOFF, n * SECOND) for n in (9, 36))
    assert long.incidents[: len(short.incidents)] == short.incidents


def test_gateways_share_out_all_shoes() -> None:
    gateways = pitch.shoes_of_gateways()
    sids = [sid for each in gateways.values() for sid in each]
    first = pitch.FIRST_SHOE_SID
    assert sids == list(range(first, first + 64))
    assert {len(each) for each in gateways.values()} == {6, 8}
    phases = [pitch.shoe_phase_ns(sid) for sid in sids]
    assert phases == sorted(set(phases))
    assert phases[0] == 0
    assert phases[-1] < pitch.SHOE_PERIOD_NS
