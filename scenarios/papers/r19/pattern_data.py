"""Data set 4 of R19 5.1.4: a goal in two events 44 ms apart, each heard by another source.

The ball is kicked beside the goal (e1, source 0) and crosses the line between the posts (e2,
source 1). e1 is late, so that e2 arrives before it. No other event satisfies either condition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from slackwater.log import STRING, Frame
from slackwater.log import records as r
from slackwater.scenarios.papers.r19.data_sets import TRANSIT_NS, DataSet, Profile, disordered
from slackwater.scenarios.papers.r19.football import BALLS
from slackwater.scenarios.papers.r19.log_writing import PublishedSource, merged_frames

APART_NS: Final = 44_000_000
"""From e1 to e2, to within the 0.2 ms in which a ball is heard next (R19 5.1.4)."""
_LATE_NS: Final = 60_000_000
_PROFILE: Final = Profile(4, 60_000, 5_000, 0.9, 80_000, 100_000_000)
_KICKED: Final = {"x": 30_500, "y": -33_000, "z": 300}
_CROSSED: Final = {"x": 26_000, "y": -33_970, "z": 1_000, "a_abs": 900_000}
_ATTRIBUTES: Final = ("sid", "x", "y", "z", "a_abs")
_TYPE: Final = "position"

_BALL: Final = f"sid IN ({', '.join(map(str, BALLS))})"
GOAL_QUERY: Final = (
    f"EVENT SEQ({_TYPE} e1, {_TYPE} e2) "
    "WHERE e1.source = '0' AND (e1.x > 29880 OR e1.x < 22560) "
    f"AND e1.y > -33968 AND e1.y < 33965 AND e1.{_BALL} "
    "AND e2.source = '1' AND e2.x <= 29898 AND e2.x > 22579 AND e2.y <= -33968 "
    f"AND e2.z < 2440 AND e2.a_abs >= 55000 AND e2.{_BALL} WITHIN 1 s"
)
"""R19 Query 5.8; the window is ours, as our language asks for one."""


@dataclass(frozen=True, slots=True)
class GoalData:
    """Data set 4: what source 0 and source 1 publish, and the rows of e1 and e2 in it."""

    kicking: DataSet
    crossing: DataSet
    kick: int
    cross: int


def goal(seed: int) -> GoalData:
    """Data set 4."""
    kicking, crossing = (
        disordered(_PROFILE, _PROFILE.events, np.random.default_rng((seed, 4, number)))
        for number in (0, 1)
    )
    for of in (kicking, crossing):  # ordinary balls stay off the places of both conditions
        ball = np.isin(of.events.attributes["sid"], BALLS)
        of.events.attributes["x"][ball] = 23_000 + of.events.attributes["x"][ball] // 10
    kick = _ball_after(kicking, int(kicking.events.ts[len(kicking) // 2]))
    cross = _ball_after(crossing, int(kicking.events.ts[kick]) + APART_NS)
    for of, row, values in ((kicking, kick, _KICKED), (crossing, cross, _CROSSED)):
        for name, value in values.items():
            of.events.attributes[name][row] = value
    kicking.arrival[kick] = kicking.events.ts[kick] + TRANSIT_NS + _LATE_NS
    return GoalData(kicking, crossing, kick, cross)


def goal_frames(
    made: GoalData, publishers: tuple[PublishedSource, PublishedSource]
) -> Iterator[Frame]:
    """The frames of an arrival log in which the two sources publish data set 4."""
    for frame in merged_frames((made.kicking, made.crossing), publishers, _ATTRIBUTES):
        types = pa.array([_TYPE] * frame.rows, pa.string()).cast(STRING)
        yield Frame(frame.site, frame.batch.append_column(r.TYPE, types))


def _ball_after(data: DataSet, ts: int) -> int:
    """Row of the first event of a ball at or after ``ts`` that is not delayed."""
    ball = np.isin(data.events.attributes["sid"], BALLS) & ~data.delayed
    return int(np.flatnonzero(ball & (data.events.ts >= ts))[0])
