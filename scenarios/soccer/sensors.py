"""Readings of the sensors: the workloads of the gateways, in DEBS 2013 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from slackwater.scenarios.soccer.ball import BallWay
from slackwater.scenarios.soccer.incidents import SLOT_NS, MatchIncident, plan_incidents, turns
from slackwater.scenarios.soccer.motion import Motion, debs_columns, seconds
from slackwater.scenarios.soccer.pitch import (
    BALL_PERIOD_NS,
    BALL_SID,
    FIRST_SHOE_SID,
    GOAL_UM_PER_S2,
    KICK_UM_PER_S2,
    SECOND,
    SHOE_PERIOD_NS,
    STREAM,
    TYPE,
    is_goal,
    is_kick,
    shoe_phase_ns,
    shoe_sid,
)
from slackwater.scenarios.soccer.players import Squads
from slackwater.simulation import Batch, Seeds, Span, StreamSchema

COLUMNS: Final = ("sid", "x", "y", "z", "v", "a", "vx", "vy", "vz", "ax", "ay", "az")
BATCH_NS: Final = 5 * SECOND
"""Length of the stretches in which events are made."""
_KICKED: Final = (2.0, 3.5)
"""Acceleration of a shoe that kicks, in multiples of the least kick."""
_STOPPED: Final = (1.2, 2.0)
"""Of a ball that is stopped, in multiples of the least goal."""
_STRUCK: Final = 0.85
"""Of a ball that is struck, likewise: below."""


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """The match of one run, the same for all gateways.

    ``power``: one number in 0..1 per incident, how hard it is.
    """

    kickoff_ns: int
    squads: Squads
    incidents: tuple[MatchIncident, ...]
    power: np.ndarray
    ball: BallWay

    @classmethod
    def planned(cls, seeds: Seeds, kickoff_ns: int, length_ns: int) -> Match:
        """The match of these seeds, ``length_ns`` long."""
        turns_s = [turn / SECOND for turn in turns(length_ns)]
        squads = Squads(seeds.generator("soccer/players"), turns_s, SLOT_NS / SECOND)
        generator = seeds.generator("soccer/incidents")
        incidents = plan_incidents(kickoff_ns, length_ns, squads, generator)
        power = generator.random(len(incidents))
        ball = BallWay.through(incidents, kickoff_ns, length_ns)
        return cls(kickoff_ns, squads, incidents, power, ball)


@dataclass(frozen=True, slots=True)
class Shoes:
    """Events of the shoes that one gateway hears, 200 Hz each."""

    sids: tuple[int, ...]
    match: Match = field(repr=False)

    def streams(self) -> Sequence[StreamSchema]:
        return streams()

    def batches(self, span: Span, seeds: Seeds, source: str) -> Iterator[Batch]:  # noqa: ARG002 - the match is drawn
        phases = np.array([shoe_phase_ns(sid) for sid in self.sids], np.int64)
        for low_ns, high_ns in _stretches(span):
            starts = np.arange(low_ns, high_ns, SHOE_PERIOD_NS, dtype=np.int64)
            times = (starts[:, None] + phases).ravel()  # sorted: phases are within a period
            parts = [
                self._motion(sid, starts + phase)
                for sid, phase in zip(self.sids, phases, strict=True)
            ]
            motion = Motion(
                *(np.stack(each, axis=-1).reshape(3, -1) for each in zip(*parts, strict=True))
            )
            yield _batch(times, np.tile(np.array(self.sids), starts.size), motion)

    def _motion(self, sid: int, times: np.ndarray) -> Motion:
        player, foot = divmod(sid - FIRST_SHOE_SID, 2)
        match = self.match
        kicks = [
            ((each.kick_ns - match.kickoff_ns) / SECOND, np.array(each.shoe_mm))
            for each in match.incidents
            if each.player == player
        ]
        motion = match.squads.shoe(player, foot, seconds(times, match.kickoff_ns), kicks)
        for each, power in zip(match.incidents, match.power.tolist(), strict=True):
            if shoe_sid(each.player, 0) == sid:
                size = _between(_KICKED, power) * KICK_UM_PER_S2
                _jolt(motion, times, each.kick_ns, size, np.array([0.0, each.end.sign, 0.1]))
        return motion


@dataclass(frozen=True, slots=True)
class Ball:
    """Events of the ball's sensor, 2,000 Hz."""

    match: Match = field(repr=False)

    def streams(self) -> Sequence[StreamSchema]:
        return streams()

    def batches(self, span: Span, seeds: Seeds, source: str) -> Iterator[Batch]:  # noqa: ARG002 - the match is drawn
        match = self.match
        for low_ns, high_ns in _stretches(span):
            times = np.arange(low_ns, high_ns, BALL_PERIOD_NS, dtype=np.int64)
            motion = match.ball.motion(seconds(times, match.kickoff_ns))
            for each, power in zip(match.incidents, match.power.tolist(), strict=True):
                goalwards = np.array([0.0, each.end.sign, 0.0])
                if each.strike_ns == each.kick_ns:
                    # The ball is not sampled when the shoe is: its next sample feels the kick.
                    at_ns = times[np.searchsorted(times, each.strike_ns).clip(max=times.size - 1)]
                    if at_ns - BALL_PERIOD_NS < each.strike_ns <= at_ns < each.stop_ns:
                        _jolt(motion, times, int(at_ns), _STRUCK * GOAL_UM_PER_S2, goalwards)
                size = _between(_STOPPED, power) * GOAL_UM_PER_S2
                _jolt(motion, times, each.stop_ns, size, -goalwards)
            yield _batch(times, np.full(times.size, BALL_SID), motion)


def streams() -> Sequence[StreamSchema]:
    """The one stream of a gateway."""
    return (StreamSchema(STREAM, dict.fromkeys(COLUMNS, "int")),)


def _stretches(span: Span) -> Iterator[tuple[int, int]]:
    """The span cut into stretches of ``BATCH_NS``, in whole periods of every sensor."""
    end = span.start_ns + span.length_ns // SHOE_PERIOD_NS * SHOE_PERIOD_NS
    for low in range(span.start_ns, end, BATCH_NS):
        yield low, min(low + BATCH_NS, end)


def _between(range_: tuple[float, float], share: float) -> float:
    return range_[0] + (range_[1] - range_[0]) * share


def _jolt(
    motion: Motion, times: np.ndarray, at_ns: int, um_per_s2: float, along: np.ndarray
) -> None:
    """Sets the acceleration of the one sample at ``at_ns``, if it is among ``times``."""
    place = int(np.searchsorted(times, at_ns))
    if place < times.size and times[place] == at_ns:
        motion.acceleration[:, place] = um_per_s2 / 1000 * along / np.linalg.norm(along)


def _batch(times: np.ndarray, sid: np.ndarray, motion: Motion) -> Batch:
    made = debs_columns(sid, motion)
    attrs = {name: made[name] for name in COLUMNS}
    truth = {"sid": made["sid"], "v": made["v"], "kick": is_kick(made), "goal": is_goal(made)}
    return Batch(STREAM, times, TYPE, attrs, truth=truth)
