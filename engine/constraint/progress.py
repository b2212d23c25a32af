"""How far time has come at each event of a batch, and with what a given instant was passed."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from engine.kernels.integers import INT_MIN
from engine.stream.released import IN_ORDER, Released

_PLACES: Final = 4
"""Places of an event: its own results, what it moved, what moved after it."""


class Moves(NamedTuple):
    """What progress came to, less what clocks may err: ``to`` (ascending), at arrival-clock instant
    ``at``, in ``place`` among a batch's results; and how far it was ``before`` each event.
    """

    to: np.ndarray
    at: np.ndarray
    place: np.ndarray
    before: np.ndarray

    def passing(self, deadlines: np.ndarray) -> np.ndarray:
        """The move with which each of the ``deadlines`` was passed."""
        return np.searchsorted(self.to, deadlines, side="right")


def moves_of(released: Released, begun: int, widest: np.ndarray) -> Moves:
    """Of a batch; ``begun``: how far time was before it. ``widest``: the largest error of a clock
    that was known before each row, and after the last.

    Events in order, punctuations, and the slack of an order that goes by one move it, as they do
    for windows (SPEC 4.4).
    """
    columns, steps, slack = released.columns, released.progress, released.slack
    rows = np.arange(released.n)
    in_order = columns["status"] == IN_ORDER
    to = np.concatenate((
        np.where(in_order, columns["ref"] - widest[1:], INT_MIN),
        *(
            np.maximum(moved.frontier, INT_MIN + widest[moved.row]) - widest[moved.row]
            for moved in (steps, slack)
        ),
    ))  # fmt: skip
    at = np.concatenate((columns["release"], steps.at, slack.at))
    place = np.concatenate((
        _PLACES * rows + 1, _PLACES * (steps.row - 1) + 2, _PLACES * (slack.row - 1) + 3,
    ))  # fmt: skip
    order = np.argsort(place, kind="stable")
    to, place = np.maximum(np.maximum.accumulate(to[order]), begun), place[order]
    until = np.searchsorted(place, _PLACES * rows, side="left") - 1
    before = np.where(until >= 0, to[until], begun) if len(to) else np.full(released.n, begun)
    return Moves(to, at[order], place, before)


def place_of_rows(rows: np.ndarray) -> np.ndarray:
    """The places of events' own results."""
    return _PLACES * rows
