"""Incidents in front of the goals, planned by the seed so that the truth is known.

Every ``SLOT_NS`` one incident, five at one end, then a pause in which the play turns. A round of
ten holds every kind of ``KINDS``: goals whose two events the clocks can tell apart, goals where
they cannot, and decoys in which goal and kick come in the other order, too far apart, or not at
all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.scenarios.soccer.motion import seconds
from slackwater.scenarios.soccer.pitch import (
    BALL_PERIOD_NS,
    ENDS,
    MS,
    SECOND,
    SHOE_PERIOD_NS,
    WIDTH_MM,
    WITHIN_NS,
    End,
    shoe_phase_ns,
    shoe_sid,
)
from slackwater.scenarios.soccer.players import Squads, defenders, shooters

SLOT_NS: Final = 3 * SECOND
AT_ONE_END: Final = 5
_FIRST_NS: Final = 1_300 * MS
_JITTER_NS: Final = 200 * MS
BEYOND_MM: Final = 120
"""The ball is in when it is wholly beyond the line."""
HEADER_NS: Final = 300 * MS


@dataclass(frozen=True, slots=True)
class IncidentKind:
    """One kind of incident.

    Attributes:
        name: for tables.
        gap_ns: shortest and longest time from the kick to the ball's stop; negative: the
            ball was headed in before somebody kicked.
        scored: whether the ball goes in.
    """

    name: str
    gap_ns: tuple[int, int]
    scored: bool = True


SHOT: Final = IncidentKind("shot", (44 * MS, 600 * MS))
TAP_IN: Final = IncidentKind("tap-in", (2 * MS, 12 * MS))
LONG_SHOT: Final = IncidentKind("long shot", (WITHIN_NS - 6 * MS, WITHIN_NS - 2 * MS))
TOO_LONG: Final = IncidentKind("too long ago", (WITHIN_NS + 2 * MS, WITHIN_NS + 6 * MS))
LATE_KICK: Final = IncidentKind("header, then a kick at once", (-4 * MS, -1 * MS))
LATER_KICK: Final = IncidentKind("header, then a kick", (-500 * MS, -100 * MS))
WIDE: Final = IncidentKind("wide", (300 * MS, 500 * MS), scored=False)
KINDS: Final = (
    SHOT, SHOT, SHOT, TAP_IN, TAP_IN, LONG_SHOT, TOO_LONG, LATE_KICK, LATER_KICK, WIDE,
)  # fmt: skip
"""One round; the order within a round is drawn."""


@dataclass(frozen=True, slots=True)
class MatchIncident:
    """Times are true times [ns], of samples of the sensors; places are (x, y, z) in mm.

    Attributes:
        kind: kind of the incident.
        end: the goal.
        player: the player who kicks, with the right foot.
        kick_ns: when; the only sample of the shoe with a kick's acceleration.
        shoe_mm: where the shoe is then.
        strike_ns: when the ball is struck (or headed) towards the goal.
        strike_mm: where.
        stop_ns: when it is stopped, beyond the line; the only sample with such an acceleration.
        stop_mm: where.
    """

    kind: IncidentKind
    end: End
    player: int
    kick_ns: int
    shoe_mm: tuple[float, float, float]
    strike_ns: int
    strike_mm: tuple[float, float, float]
    stop_ns: int
    stop_mm: tuple[float, float, float]

    @property
    def is_match(self) -> bool:
        """Whether kick and goal are a match of the query by their true times."""
        return self.kind.scored and 0 < self.stop_ns - self.kick_ns <= WITHIN_NS


def turns(length_ns: int) -> tuple[int, ...]:
    """Starts of the pauses in which the play turns, ns after the kick-off."""
    every = (AT_ONE_END + 1) * SLOT_NS
    return tuple(range(AT_ONE_END * SLOT_NS, length_ns, every))


def plan_incidents(
    kickoff_ns: int, length_ns: int, squads: Squads, generator: np.random.Generator
) -> tuple[MatchIncident, ...]:
    """All incidents that end within ``length_ns`` from ``kickoff_ns`` on, in order of time."""
    planned: list[MatchIncident] = []
    kinds: list[IncidentKind] = []
    before = -1
    for slot in range(length_ns // SLOT_NS):
        block, place = divmod(slot, AT_ONE_END + 1)
        if place == AT_ONE_END:
            continue
        if not kinds:
            kinds = [KINDS[at] for at in generator.permutation(len(KINDS)).tolist()]
        start_ns = kickoff_ns + slot * SLOT_NS
        about_ns = start_ns + _FIRST_NS + int(generator.integers(_JITTER_NS))
        made = _incident(
            kinds.pop(), ENDS[block % 2], about_ns, kickoff_ns, squads, generator, before
        )
        before = made.player
        planned.append(made)
    return tuple(planned)


def _incident(
    kind: IncidentKind,
    end: End,
    about_ns: int,
    kickoff_ns: int,
    squads: Squads,
    generator: np.random.Generator,
    before: int,
) -> MatchIncident:
    """One incident near ``about_ns``, with another kicker than ``before``."""
    gap_ns = int(generator.integers(kind.gap_ns[0], kind.gap_ns[1] + 1))
    kick_first = gap_ns > 0
    speed = generator.uniform(16_000, 28_000)  # mm/s
    stop = _stop_place(kind, end, generator)
    flight_ns = gap_ns if kick_first else HEADER_NS
    strike = _strike_place(stop, end, speed * flight_ns / SECOND, generator.uniform(-0.6, 0.6))
    attacking = 0 if end.sign > 0 else 1
    if kick_first:
        shoe = (strike[0], strike[1] - end.sign * 250.0, strike[2] - 50.0)
        able = shooters(attacking)
    else:
        strike = (*strike[:2], 1_900.0)
        shoe = (stop[0] + 300.0, end.line_mm - end.sign * 200.0, 60.0)
        able = defenders(1 - attacking)
    player = _nearest(able, shoe, about_ns - kickoff_ns, squads, before)
    phase_ns = kickoff_ns + shoe_phase_ns(shoe_sid(player, 0))
    if kick_first:
        kick_ns = _sample(about_ns, phase_ns, SHOE_PERIOD_NS)
        stop_ns = _sample(kick_ns + gap_ns, kickoff_ns, BALL_PERIOD_NS)
        strike_ns = kick_ns
    else:
        stop_ns = _sample(about_ns, kickoff_ns, BALL_PERIOD_NS)
        kick_ns = _sample(stop_ns - gap_ns, phase_ns, SHOE_PERIOD_NS)
        strike_ns = stop_ns - HEADER_NS
    return MatchIncident(kind, end, player, kick_ns, shoe, strike_ns, strike, stop_ns, stop)


def _sample(at_ns: int, first_ns: int, period_ns: int) -> int:
    """The first sample from ``at_ns`` on."""
    return first_ns - (first_ns - at_ns) // period_ns * period_ns


def _stop_place(
    kind: IncidentKind, end: End, generator: np.random.Generator
) -> tuple[float, float, float]:
    x = generator.uniform(end.post_low_mm + 500, end.post_high_mm - 500)
    if not kind.scored:
        x = end.post_high_mm + generator.uniform(500, 3_000)
    return (
        float(x),
        float(end.line_mm + end.sign * BEYOND_MM),
        float(generator.uniform(200, 1_900)),
    )


def _strike_place(
    stop: tuple[float, float, float], end: End, way_mm: float, angle: float
) -> tuple[float, float, float]:
    x = float(np.clip(stop[0] + way_mm * np.sin(angle), 1_000, WIDTH_MM - 1_000))
    rise = min(0.5 * way_mm, stop[2] - 110.0)  # from near by the ball is volleyed
    return (x, float(stop[1] - end.sign * way_mm * np.cos(angle)), stop[2] - rise)


def _nearest(
    able: range, place: tuple[float, float, float], since_ns: int, squads: Squads, before: int
) -> int:
    """Who of ``able`` but ``before`` is nearest to ``place``."""
    time_s = seconds(np.array([since_ns], np.int64), 0)
    away = {
        player: float(np.hypot(*(squads.body(player, time_s).position[:2, 0] - place[:2])))
        for player in able
        if player != before
    }
    return min(away, key=lambda player: (away[player], player))
