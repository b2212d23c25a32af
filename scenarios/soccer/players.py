"""Thirty-two players: how their shoes move, and who takes a shot.

Eleven of each team keep a formation that shifts with the play and wander about their places; five
warm up beside the pitch. For an incident (``scenarios.soccer.incidents``) the player who kicks is
led to the ball and back. The kick itself is one sample of high acceleration, as the sensor sees it;
it is not integrated into the motion.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from slackwater.scenarios.soccer.motion import Motion, approach, ease
from slackwater.scenarios.soccer.pitch import (
    PLAYERS,
    PLAYING,
    TEAM,
    WIDTH_MM,
)

SHIFT_MM: Final = 8_000
"""How far both formations move towards the goal that is played at."""
LED_S: Final = 2.6
"""Before and after a kick, the kicker is on the way to the ball and back."""
_LINES: Final = ((0, 1, -30_000), (1, 4, -12_000), (5, 3, 0), (8, 3, 10_000))
"""Formation of a team that attacks y > 0: first player, how many, y of their line [mm]."""
_WAVES: Final = 3
FOOT_MM: Final = 150
"""Half the way between the feet, and the swing of a stride."""


def shooters(team: int) -> range:
    """Midfield and attack of ``team``."""
    return range(team * TEAM + 5, team * TEAM + PLAYING)


def defenders(team: int) -> range:
    """The back four of ``team``."""
    return range(team * TEAM + 1, team * TEAM + 5)


class Squads:
    """Both squads, drawn from ``generator``.

    Args:
        generator: draws the players' places and habits.
        turns_s: instants at which the play turns to the other end; it begins at y > 0.
        turn_s: how long such a turn takes.
    """

    def __init__(
        self, generator: np.random.Generator, turns_s: Sequence[float], turn_s: float
    ) -> None:
        self._homes = _homes()
        self._size_mm = generator.uniform(400, 1_600, (PLAYERS, 2, _WAVES))
        self._rate = 2 * np.pi * generator.uniform(0.03, 0.15, (PLAYERS, 2, _WAVES))
        self._phase = generator.uniform(0, 2 * np.pi, (PLAYERS, 2, _WAVES))
        self._stride = 2 * np.pi * generator.uniform(1.2, 2.6, PLAYERS)
        self._turns_s = tuple(turns_s)
        self._turn_s = turn_s

    def body(self, player: int, time_s: np.ndarray) -> Motion:
        """The middle of the player on the ground, without any incident."""
        motion = Motion(*np.zeros((3, 3, time_s.size)))
        motion.position[:2] = self._homes[player][:, None]
        angle = (
            self._rate[player][..., None] * time_s + self._phase[player][..., None]
        )  # (axis, wave, n)
        size, rate = self._size_mm[player][..., None], self._rate[player][..., None]
        motion.position[:2] += (size * np.sin(angle)).sum(axis=1)
        motion.velocity[:2] = (size * rate * np.cos(angle)).sum(axis=1)
        motion.acceleration[:2] = -(size * rate**2 * np.sin(angle)).sum(axis=1)
        if player % TEAM < PLAYING:
            self._shift(motion, time_s)
        return motion

    def _shift(self, motion: Motion, time_s: np.ndarray) -> None:
        motion.position[1] += SHIFT_MM
        for number, turn_s in enumerate(self._turns_s):
            way = -2 * SHIFT_MM if number % 2 == 0 else 2 * SHIFT_MM
            share, slope, bend = ease((time_s - turn_s) / self._turn_s)
            motion.position[1] += way * share
            motion.velocity[1] += way * slope / self._turn_s
            motion.acceleration[1] += way * bend / self._turn_s**2

    def shoe(
        self,
        player: int,
        foot: int,
        time_s: np.ndarray,
        kicks: Sequence[tuple[float, np.ndarray]],
    ) -> Motion:
        """A shoe of ``player`` (``foot`` 0 = right), led to each of its ``kicks``.

        Args:
            player: 0..31.
            foot: 0 or 1.
            time_s: of the samples, float64.
            kicks: instant [s] and place (3,) [mm] of the right shoe at each kick of the player.
        """
        motion = self.body(player, time_s)
        rate, side = self._stride[player], 1 - 2 * foot
        angle = rate * time_s + np.pi * foot
        motion.position[0] += side * FOOT_MM
        for axis, size, base in ((1, FOOT_MM, 0), (2, FOOT_MM / 3, 60 + FOOT_MM / 3)):
            motion.position[axis] += base + size * np.sin(angle)
            motion.velocity[axis] += size * rate * np.cos(angle)
            motion.acceleration[axis] -= size * rate**2 * np.sin(angle)
        for at_s, place in kicks:
            target = place + np.array([2 * FOOT_MM * -foot, 0, 0])
            motion = approach(motion, time_s, at_s, target, LED_S)
        return motion


def _homes() -> np.ndarray:
    """Place (x, y) of each player, shape (32, 2), mm."""
    places = np.empty((PLAYERS, 2))
    for team, sign in enumerate((1, -1)):
        of_team = places[team * TEAM : (team + 1) * TEAM]
        for first, count, y in _LINES:
            of_team[first : first + count, 0] = np.arange(1, count + 1) * WIDTH_MM / (count + 1)
            of_team[first : first + count, 1] = sign * y
        spare = TEAM - PLAYING
        of_team[PLAYING:, 0] = -3_000
        of_team[PLAYING:, 1] = sign * np.linspace(4_000, 24_000, spare)
    return places
