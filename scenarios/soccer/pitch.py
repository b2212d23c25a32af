"""The pitch, who wears which sensor, and when a kick or a goal is one.

Coordinates and units as in the DEBS 2013 Grand Challenge (R19 Table 5.1): x, y, z in mm, |v| in
um/s, |a| in um/s^2, directions as vectors of length 10,000. Home attacks the end of positive y.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

WIDTH_MM: Final = 52_483
"""x runs from 0 to this along the goal lines."""


class End(NamedTuple):
    """One goal: its sign of y, its line, the inner sides of its posts (mm)."""

    sign: int
    line_mm: int
    post_low_mm: int
    post_high_mm: int


ENDS: Final = (End(1, 33_965, 22_579, 29_898), End(-1, -33_968, 22_560, 29_880))
BAR_MM: Final = 2_440
"""Height of the crossbar."""

BALL: Final = "ball"
"""Source (and gateway) of the ball's sensor."""
BALL_SID: Final = 4
BALL_PERIOD_NS: Final = 500_000
SHOE_PERIOD_NS: Final = 5_000_000
STREAM: Final = "soccer"
TYPE: Final = "position"
MS: Final = 10**6
SECOND: Final = 10**9

TEAM: Final = 16
"""Eleven play, five warm up beside the pitch."""
PLAYING: Final = 11
PLAYERS: Final = 2 * TEAM
SHOES: Final = 2 * PLAYERS
FIRST_SHOE_SID: Final = 13
GATEWAYS_PER_TEAM: Final = 5

KICK_UM_PER_S2: Final = 250_000_000
"""Least acceleration of a kicking shoe; running stays far below."""
GOAL_UM_PER_S2: Final = 800_000_000
"""Least acceleration of a ball that is stopped; a kick gives it a little less."""
WITHIN_NS: Final = SECOND
"""Longest time from a kick to its goal."""

GOALS_QUERY: Final = (
    f"EVENT SEQ({TYPE} k, {TYPE} g) "
    f"WHERE k.source != '{BALL}' AND k.a >= {KICK_UM_PER_S2}"
    f" AND k.y < {ENDS[0].line_mm} AND k.y > {ENDS[1].line_mm}"
    f" AND g.source = '{BALL}' AND g.sid = {BALL_SID}"
    f" AND g.a >= {GOAL_UM_PER_S2} AND g.z < {BAR_MM} AND ("
    + " OR ".join(
        f"(g.y {'>=' if end.sign > 0 else '<='} {end.line_mm}"
        f" AND g.x > {end.post_low_mm} AND g.x < {end.post_high_mm})"
        for end in ENDS
    )
    + f") WITHIN {WITHIN_NS // SECOND} s"
)
"""R19 Query 5.8 with the conditions of our pitch; every result has its certainty."""


def shoe_sid(player: int, foot: int) -> int:
    """Sensor of ``player`` 0..31 (home first), ``foot`` 0 = right, 1 = left."""
    return FIRST_SHOE_SID + 2 * player + foot


def shoe_phase_ns(sid: int) -> int:
    """When in its period a shoe's sensor samples: they are spread, in order of their ids."""
    return (sid - FIRST_SHOE_SID) * SHOE_PERIOD_NS // SHOES


def shoes_of_gateways() -> dict[str, tuple[int, ...]]:
    """The shoes that each gateway but the ball's hears: those of three or four players."""
    gateways: dict[str, tuple[int, ...]] = {}
    for team, name in enumerate(("home", "away")):
        players = np.array_split(np.arange(team * TEAM, (team + 1) * TEAM), GATEWAYS_PER_TEAM)
        for number, some in enumerate(players, 1):
            sids = [shoe_sid(player, foot) for player in some.tolist() for foot in (0, 1)]
            gateways[f"{name}-{number}"] = tuple(sids)
    return gateways


def is_kick(columns: dict[str, np.ndarray]) -> np.ndarray:
    """Which shoe events are step ``k`` of ``GOALS_QUERY``, by their true values."""
    inside = (columns["y"] < ENDS[0].line_mm) & (columns["y"] > ENDS[1].line_mm)
    shoe = columns["sid"] != BALL_SID
    return np.asarray(shoe & inside & (columns["a"] >= KICK_UM_PER_S2))


def is_goal(columns: dict[str, np.ndarray]) -> np.ndarray:
    """Which events are step ``g`` of ``GOALS_QUERY``, by their true values."""
    scored = np.zeros(len(columns["sid"]), np.bool_)
    for end in ENDS:
        beyond = end.sign * columns["y"] >= end.sign * end.line_mm
        scored |= beyond & (columns["x"] > end.post_low_mm) & (columns["x"] < end.post_high_mm)
    low = columns["z"] < BAR_MM
    hard = (columns["sid"] == BALL_SID) & (columns["a"] >= GOAL_UM_PER_S2)
    return np.asarray(scored & low & hard)
