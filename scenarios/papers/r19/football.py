"""Football events as those of DEBS 2013, in order: 40 sensors, about 15,200 events a second.

R19 5.1, Table 5.1: 36 sensors at shoes and hands sample at 200 Hz and four balls at 2,000 Hz. The
values are made up and plausible: people and balls wander over the pitch, and every sensor's
speed changes from second to second, so that the averages of two windows differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

BALLS: Final = (4, 8, 10, 12)
"""Sensor ids of the balls, as in R19 Query 5.8."""
PEOPLE: Final = 36
_FIRST_OF_PEOPLE: Final = 13
_PERIOD_NS: Final = 5_000_000
_BALL_TICKS: Final = 10
_PER_SECOND: Final = 10**9 // _PERIOD_NS
SLOTS: Final = len(BALLS) * _BALL_TICKS + PEOPLE
"""Events of all sensors within the 5 ms in which each of the people's is heard once."""
EVENTS_PER_SECOND: Final = SLOTS * _PER_SECOND
_JITTER_NS: Final = 60_000
"""Less than the distance of two slots, so that times rise strictly."""
START_NS: Final = 10_760 * 10**9
"""First event time: near the kick-off of DEBS 2013, and where a window of 10 s begins."""

_SPEED_UM_PER_S: Final = 140_000
_KNOTS_PER_S: Final = 2
PITCH_X_MM: Final = (0, 52_483)
PITCH_Y_MM: Final = (-33_960, 33_965)

Columns = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class FootballEvents:
    """``ts``: strictly rising event times [ns]; ``attributes``: int64 columns of equal length.

    ``sid``; ``x y z`` [mm]; ``v_abs`` [um/s]; ``a_abs`` [um/s^2].
    """

    ts: np.ndarray
    attributes: Columns

    def __len__(self) -> int:
        return len(self.ts)


def football(events: int, chance: np.random.Generator) -> FootballEvents:
    """The first ``events`` of a match, in order of their times."""
    slot = np.arange(events)
    ts = START_NS + slot * _PERIOD_NS // SLOTS + chance.integers(0, _JITTER_NS, events)
    sid = np.resize(_one_period(chance), events)
    seconds = (ts - START_NS) / 1e9
    columns = {name: np.empty(events, np.int64) for name in ("x", "y", "z", "v_abs", "a_abs")}
    for sensor in (*BALLS, *range(_FIRST_OF_PEOPLE, _FIRST_OF_PEOPLE + PEOPLE)):
        mine = np.flatnonzero(sid == sensor)
        for name, values in _life_of(sensor, seconds[mine], chance).items():
            columns[name][mine] = values
    return FootballEvents(ts, {"sid": sid, **columns})


def _one_period(chance: np.random.Generator) -> np.ndarray:
    """Which sensor speaks in which slot: balls ten times, evenly; the people once."""
    slots = np.empty(SLOTS, np.int64)
    of_balls = np.linspace(0, SLOTS, len(BALLS) * _BALL_TICKS, endpoint=False).astype(np.int64)
    slots[of_balls] = np.tile(BALLS, _BALL_TICKS)
    rest = np.setdiff1d(np.arange(SLOTS), of_balls)
    slots[rest] = _FIRST_OF_PEOPLE + chance.permutation(PEOPLE)
    return slots


def _life_of(sensor: int, seconds: np.ndarray, chance: np.random.Generator) -> Columns:
    """Where one sensor is and how it moves at these instants [s since the start], rising."""
    knots = np.arange(int(seconds[-1] * _KNOTS_PER_S) + 2 if len(seconds) else 2)
    speed = _SPEED_UM_PER_S * np.exp(chance.normal(-0.18, 0.6, len(knots)))
    v = np.interp(seconds, knots / _KNOTS_PER_S, speed)
    low_z, high_z = (110, 1_500) if sensor in BALLS else (20, 400)
    return {
        "x": _wander(seconds, PITCH_X_MM, chance),
        "y": _wander(seconds, PITCH_Y_MM, chance),
        "z": _wander(seconds, (low_z, high_z), chance),
        "v_abs": v.astype(np.int64),
        "a_abs": (v * chance.uniform(1, 20, len(v))).astype(np.int64),
    }


def _wander(
    seconds: np.ndarray, between: tuple[int, int], chance: np.random.Generator
) -> np.ndarray:
    """A smooth way to and fro between two limits [mm], the limits themselves never reached."""
    low, high = between
    period_s, phase = chance.uniform(7, 40), chance.uniform(0, 2 * np.pi)
    middle, reach = (low + high) / 2, 0.49 * (high - low)
    return (middle + reach * np.sin(2 * np.pi * seconds / period_s + phase)).astype(np.int64)
