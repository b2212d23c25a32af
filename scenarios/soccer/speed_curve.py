"""The speed of one player's shoe as a curve of sliding windows, with the clocks' uncertainty.

The query runs for the report alone, over the same log in the same order; the run's results are
those of its own queries.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

import slackwater
from slackwater.scenario import Chart, Score, Series
from slackwater.scenarios.soccer.event_truth import EventTruth
from slackwater.scenarios.soccer.pitch import MS, SECOND, shoe_sid
from slackwater.scenarios.soccer.window_scoring import METRES, SPEED

SIZE_NS: Final = SECOND // 2
SLIDE_NS: Final = SECOND // 10
SHOWN_NS: Final = 20 * SECOND
"""A longer curve is only its own noise."""
_ROOM: Final = 1e-9
"""Relative, of an average of integers: two ways of rounding its division."""
_MILLI: Final = 1000


def curve_score(log: Path, order: str, truth: EventTruth, logged: np.ndarray) -> Score:
    """The curve, and how far it is from the truth, as two figures.

    Args:
        log: the arrival log.
        order: of the run.
        truth: what happened.
        logged: which of its events are in the log.
    """
    sid = _shoe(truth)
    text = _query_text(sid)
    began = int(truth.true_ns.min()) // SLIDE_NS * SLIDE_NS
    ended = min(int(truth.true_ns.max()), began + SHOWN_NS)
    standing = _standing(log, text, order)
    starts = [
        start
        for start in range(began, ended - SIZE_NS + 1, SLIDE_NS)
        if None not in standing.get(start, (None,))
    ]
    found = np.array([standing[start] for start in starts], np.float64).reshape(-1, 3)
    values, bounds = found[:, 0], found[:, 1:]
    mine = logged & (truth.sid == sid)
    true = _averages(truth.true_ns[mine], truth.v[mine], np.array(starts, np.int64))
    room = _ROOM * np.abs(true)
    inside = (bounds[:, 0] - room <= true) & (true <= bounds[:, 1] + room)
    facts = {"curve_sid": sid, "curve_windows": len(starts), "curve_outside": int((~inside).sum())}
    ends = tuple(((np.array(starts) + SIZE_NS - began) / SECOND).tolist())
    caption = (
        f"Each point is the mean speed of sensor {sid}, in a player's shoe, over the half second "
        f"before it ({text}). The band is all that the clocks' errors could have made of "
        f"it: it holds the true mean of the events that arrived in {int(inside.sum())} of "
        f"{len(starts)} windows."
    )
    return Score((), facts=facts, charts=(
        _chart(
            "Sliding speed of a player, with its uncertainty", caption, "speed [m/s]", ends,
            METRES.factor, np.column_stack((values, bounds, true)),
        ),
        _chart(
            "The same curve, less the true one",
            "The part that the clocks leave open, enlarged a thousand times; the dotted line is "
            "the truth.", "speed less the true one [mm/s]", ends, _MILLI * METRES.factor,
            np.column_stack((values, bounds, true)) - true[:, None],
        ),
    ))  # fmt: skip


def _query_text(sid: int) -> str:
    size, slide = SIZE_NS // MS, SLIDE_NS // MS
    window = f"WINDOW SLIDING {size} ms EVERY {slide} ms"
    return f"SELECT {SPEED} FROM soccer WHERE sid = {sid} GROUP BY sid {window}"  # noqa: S608


def _standing(log: Path, text: str, order: str) -> dict[int, tuple[float | None, ...]]:
    """Per start of a window its value, and the least and the largest that it may be."""
    standing: dict[int, tuple[float | None, ...]] = {}
    with slackwater.query(log, text, order=order) as found:
        for each in found:
            start = each["window"]["start"]
            if each["op"] == "+":
                standing[start] = (each["value"][SPEED], *each["bounds"][SPEED])
            else:
                del standing[start]
    return standing


def _shoe(truth: EventTruth) -> int:
    """The shoe that kicks first, or else the first there is."""
    kicks = np.flatnonzero(truth.kick)
    if not len(kicks):
        return shoe_sid(0, 0)
    return int(truth.sid[kicks[np.argmin(truth.true_ns[kicks])]])


def _averages(true_ns: np.ndarray, v: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Of the values in each window, by true times; NaN where there are none."""
    order = np.argsort(true_ns)
    true_ns = true_ns[order]
    sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(v[order])))
    first, end = (np.searchsorted(true_ns, edge) for edge in (starts, starts + SIZE_NS))
    return np.asarray((sums[end] - sums[first]) / (end - first))


def _chart(
    title: str, caption: str, y_title: str, x: tuple[float, ...], factor: float, of: np.ndarray
) -> Chart:
    """``of``: values, least, most, true."""
    value, low, high, true = (tuple((column * factor).tolist()) for column in of.T)
    return Chart(title, caption, "time since the beginning [s]", y_title, (
        Series("as measured", x, value, (), joined=True, low=low, high=high),
        Series("the truth", x, true, (), joined=True),
    ))  # fmt: skip
