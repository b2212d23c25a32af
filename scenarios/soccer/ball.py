"""The ball: its way from incident to incident, sampled at 2,000 Hz.

Between incidents it rolls smoothly to where it is struck next; a struck ball flies along a parabola
to where it is stopped; a stopped one loses its speed in the net.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.scenarios.soccer.incidents import MatchIncident
from slackwater.scenarios.soccer.motion import Motion, ease
from slackwater.scenarios.soccer.pitch import SECOND, WIDTH_MM

_ROLL, _FLIGHT, _NET = 0, 1, 2
GRAVITY: Final = 9_810.0
"""mm/s^2."""
NET_S: Final = 0.06
"""The net takes the ball's speed to 1/e within this."""
IN_NET_S: Final = 0.3
"""Then somebody fetches it."""


@dataclass(frozen=True, slots=True)
class BallWay:
    """Pieces of the way: ``kinds[i]`` from ``starts_s[i]`` on for ``lengths_s[i]``.

    ``begins`` and ``ends`` (pieces, 3): places in mm; of a piece in the net the place that it would
    reach if nobody fetched it.
    """

    kinds: np.ndarray
    starts_s: np.ndarray
    lengths_s: np.ndarray
    begins: np.ndarray
    ends: np.ndarray

    @classmethod
    def through(
        cls, incidents: Sequence[MatchIncident], kickoff_ns: int, length_ns: int
    ) -> BallWay:
        """The way through all ``incidents``, from the kick-off at ``kickoff_ns``."""
        pieces: list[tuple[int, float, float, np.ndarray, np.ndarray]] = []
        at_s, place = 0.0, np.array([WIDTH_MM / 2, 0.0, 110.0])
        for each in incidents:
            strike_s = (each.strike_ns - kickoff_ns) / SECOND
            stop_s = (each.stop_ns - kickoff_ns) / SECOND
            strike, stop = np.array(each.strike_mm), np.array(each.stop_mm)
            pieces.append((_ROLL, at_s, strike_s - at_s, place, strike))
            flight_s = stop_s - strike_s
            pieces.append((_FLIGHT, strike_s, flight_s, strike, stop))
            reach = stop + np.array([1, 1, 0]) * (stop - strike) / flight_s * NET_S
            pieces.append((_NET, stop_s, IN_NET_S, stop, reach))
            place = stop + (reach - stop) * (1 - np.exp(-IN_NET_S / NET_S))
            at_s = stop_s + IN_NET_S
        pieces.append((_ROLL, at_s, max(length_ns / SECOND - at_s, 1.0), place, place))
        kinds, starts, lengths, begins, ends = zip(*pieces, strict=True)
        return cls(
            np.array(kinds), np.array(starts), np.array(lengths), np.array(begins), np.array(ends)
        )

    def motion(self, time_s: np.ndarray) -> Motion:
        """Where the ball is at ``time_s`` (seconds since the kick-off, sorted)."""
        piece = np.searchsorted(self.starts_s, time_s, side="right") - 1
        length = self.lengths_s[piece]
        since = time_s - self.starts_s[piece]
        kind = self.kinds[piece]
        begin, way = self.begins[piece].T, (self.ends - self.begins)[piece].T
        share, slope, bend = ease(since / length)
        fade = np.exp(-since / NET_S)
        flying, stopped = kind == _FLIGHT, kind == _NET
        share = np.select([flying, stopped], [since / length, 1 - fade], share)
        slope = np.select([flying, stopped], [1 / length, fade / NET_S], slope / length)
        bend = np.select([flying, stopped], [0.0, -fade / NET_S**2], bend / length**2)
        motion = Motion(begin + share * way, slope * way, bend * way)
        motion.position[2] += flying * GRAVITY / 2 * since * (length - since)
        motion.velocity[2] += flying * GRAVITY / 2 * (length - 2 * since)
        motion.acceleration[2] -= flying * GRAVITY
        return motion
