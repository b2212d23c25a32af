"""How certain a match is under clock uncertainty, and with which probability it is true.

Source: R19 3.2.3.2, Pseudocode 3.1; SPEC 4.3. For e required before f with
``diff = ref_f - ref_e`` and bound b, the order is certain when ``diff > b``, uncertain when
``-b <= diff <= b``, else impossible; with b = 0 it must be ``diff > 0``. R19 takes the site's
T_a as b (``max-delay``), ``pairwise`` the sum of both events' uncertainties. Two events of one
source and epoch share one clock error, so their difference is exact. The kernel decides so pair by
pair (``engine.pattern.construction``); here is the probability of what it leaves uncertain.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from engine.pattern.probability import Doubtful, pair_probability, sampled_probability
from engine.pattern.tables import BEFORE, NOT_LONG_BEFORE, Layout
from engine.released import NO_EPOCH


class Rule(StrEnum):
    """Where the bound of a pair comes from."""

    PAIRWISE = "pairwise"
    MAX_DELAY = "max-delay"


@dataclass(frozen=True, slots=True)
class Clock:
    """What is known of some events' times: int64 ``ref unc epoch``, int32 ``source``."""

    ref: np.ndarray
    unc: np.ndarray
    epoch: np.ndarray
    source: np.ndarray

    def take(self, rows: Any) -> Clock:
        """The clocks of ``rows`` (whatever indexes an array)."""
        return Clock(self.ref[rows], self.unc[rows], self.epoch[rows], self.source[rows])


def shares_clock(first: Clock, second: Clock) -> np.ndarray:
    """Where both events have one clock error."""
    one = (first.source == second.source) & (first.epoch == second.epoch)
    return np.asarray(one & (first.epoch != NO_EPOCH))


@dataclass(slots=True)
class Doubts:
    """Events that may lie in a scope, but not for certain; sorted by match, event, scope.

    ``match``: number of the match. ``event``: what is known of the event's time; ``order``: its
    number in the stream. ``scope``: number of the scope.
    """

    match: np.ndarray
    event: Clock
    order: np.ndarray
    scope: np.ndarray


def chances(
    layout: Layout, branch: int, rule: Rule, t_a: np.ndarray, clocks: Clock, doubts: Doubts
) -> np.ndarray:
    """Per match of one branch, the probability that it is true.

    Args:
        layout: of the query.
        branch: which of its branches.
        rule: how uncertain a pair is.
        t_a: in force, per match; under ``max-delay`` every error is uniform within T_a/2.
        clocks: (matches, positive steps): of their events.
        doubts: about these matches.
    """
    tables, within_ns = layout.tables, layout.branches[branch].within_ns
    _, _, pairs_from, pairs_to, members_from, members_to = tables.branches[branch, :6].tolist()
    local = np.zeros(len(layout.steps), np.int64)
    members = tables.members[members_from:members_to]
    local[members] = np.arange(len(members))
    pairs = tables.pairs[pairs_from:pairs_to, :3].copy()
    pairs[:, :2] = local[pairs[:, :2]]
    by_max_delay = rule is Rule.MAX_DELAY
    half = np.broadcast_to(t_a[:, None] / 2, clocks.unc.shape) if by_max_delay else clocks.unc
    half = half.astype(np.float64)
    if len(members) == 2 and not len(doubts.match):
        least = 0 if (pairs[:, 2] & BEFORE).any() else -(within_ns or 0)
        bounded = within_ns if (pairs[:, 2] & NOT_LONG_BEFORE).any() else None
        diff = clocks.ref[:, 1] - clocks.ref[:, 0]
        return pair_probability(diff, half[:, 0], half[:, 1], bounded, least)
    leader = _leaders(clocks)
    doubtful = _doubtful(layout, local, clocks, leader, t_a if by_max_delay else None, doubts)
    return sampled_probability(clocks.ref, half, leader, pairs, within_ns, doubtful)


def _leaders(clocks: Clock) -> np.ndarray:
    """(matches, steps): the first step with the same error."""
    matches, steps = clocks.ref.shape
    leader = np.tile(np.arange(steps), (matches, 1))
    every = np.arange(matches)
    for second in range(1, steps):
        for first in range(second - 1, -1, -1):
            one, two = (clocks.take((every, np.full(matches, step))) for step in (first, second))
            leader[shares_clock(one, two), second] = first
    return leader


def _doubtful(
    layout: Layout, local: np.ndarray, clocks: Clock, leader: np.ndarray,
    t_a: np.ndarray | None, doubts: Doubts,
) -> Doubtful:  # fmt: skip
    scopes = layout.tables.scopes
    relations = layout.tables.relations[:, :2].copy()
    relations[:, 0] = local[relations[:, 0]]
    same: dict[bytes, int] = {}
    ranges = [relations[start:stop].tobytes() for start, stop in scopes[:, 5:7].tolist()]
    same_scope = [same.setdefault(each, number) for number, each in enumerate(ranges)]
    match, event = doubts.match, doubts.event
    steps = clocks.ref.shape[1]
    exact = np.zeros((len(match), steps), np.bool_)
    for step in range(steps):
        exact[:, step] = shares_clock(clocks.take((match, np.full(len(match), step))), event)
    error = event.unc if t_a is None else t_a[match] / 2
    return Doubtful(
        np.searchsorted(match, np.arange(len(clocks.ref) + 1)),
        doubts.order, (event.ref - clocks.ref[match, 0]).astype(np.float64),
        error.astype(np.float64),
        np.where(exact.any(axis=1), leader[match, exact.argmax(axis=1)], -1),
        doubts.scope, exact, np.array(same_scope, np.int64), scopes[:, 5].copy(),
        scopes[:, 6].copy(), relations,
    )  # fmt: skip
