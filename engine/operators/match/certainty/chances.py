"""The certainty of a match under clock uncertainty, and the probability that it is true.

Source: R19 3.2.3.2, Pseudocode 3.1; SPEC 4.3. For e required before f with
``diff = ref_f - ref_e`` and bound b, the order is certain when ``diff > b``, uncertain when
``-b <= diff <= b``, else impossible; with b = 0 it must be ``diff > 0``. R19 takes the site's
T_a as b (``max-delay-r19``), ``max-delay`` a bound of any two events' errors, ``pairwise`` the sum
of both events' uncertainties. Under the latter two rules events of one clock and epoch share their
error, so b is the difference of their uncertainties: the error of the clock's rate over their
distance. R19's rule has no such exemption (SPEC 4.3). The kernel decides this pair by pair and
condition by condition (``search.construction``); this module computes the probability of uncertain
matches.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct, structs

from slackwater.engine.barrier.base import ReleasedMatches
from slackwater.engine.core.released import NO_EPOCH
from slackwater.engine.core.timeline import UNKNOWN
from slackwater.engine.operators.match.certainty.probability import (
    SCOPE_END,
    Doubtful,
    SampledConditions,
    pair_probability,
    sampled_probability,
    shared_by_doubts,
)
from slackwater.engine.operators.match.compiler.membership import step_filters
from slackwater.engine.operators.match.compiler.records import RELATION
from slackwater.engine.operators.match.compiler.tables import Layout, members_of
from slackwater.engine.operators.match.search.machine import Errors, Programs
from slackwater.engine.query.pattern_settings import Rule


class EventTimes(Struct, frozen=True):
    """The times of events with uncertainty, clock and epoch, and the times of their ends.

    int64, except ``clock`` (int32).
    """

    ref: np.ndarray
    unc: np.ndarray
    epoch: np.ndarray
    clock: np.ndarray
    ref_end: np.ndarray
    unc_end: np.ndarray
    epoch_end: np.ndarray

    def take(self, rows: Any) -> EventTimes:
        """Return the times at ``rows`` (any index of an array)."""
        return EventTimes(*(column[rows] for column in structs.astuple(self)))

    @property
    def inexact(self) -> np.ndarray:
        """Whether the length of each event has an unknown error."""
        alike = (self.unc == self.unc_end) & (self.epoch == self.epoch_end)
        return np.asarray((self.ref != self.ref_end) & ~alike)

    @property
    def points(self) -> EventTimes:
        """The starts, then the ends, of each match (row), as points."""
        ref, unc, epoch = (
            np.hstack(two) for two in (
                (self.ref, self.ref_end), (self.unc, self.unc_end), (self.epoch, self.epoch_end)
            )
        )  # fmt: skip
        return EventTimes(ref, unc, epoch, np.hstack([self.clock] * 2), ref, unc, epoch)


def shares_clock(first: EventTimes, second: EventTimes) -> np.ndarray:
    """Return whether both events have one clock and epoch."""
    one = (first.clock == second.clock) & (first.epoch == second.epoch)
    return np.asarray(one & (first.epoch != NO_EPOCH))


class Doubts(Struct):
    """Events that are possibly in a scope; sorted by match, event, scope.

    ``match``: number of the match. ``event``: the time of the event; ``row``: its place in the
    store; ``order``: its number in the stream. ``scope``: number of the scope. ``chance``: the
    probability that it happened (``engine.core.timeline``).
    """

    match: np.ndarray
    event: EventTimes
    row: np.ndarray
    order: np.ndarray
    scope: np.ndarray
    chance: np.ndarray

    def take(self, which: np.ndarray, number: np.ndarray) -> Doubts:
        """Return the doubts at ``which``; match i becomes match ``number[i]``."""
        columns = (self.row, self.order, self.scope, self.chance)
        row, order, scope, chance = (column[which] for column in columns)
        match = number[self.match[which]]
        return Doubts(match, self.event.take(which), row, order, scope, chance)


class Conditions(Struct):
    """The conditions of a query that depend on clock errors, and their inputs: the arguments of
    ``engine.operators.match.search.machine.holds``.
    """

    programs: Programs
    ranks: np.ndarray
    raw: np.ndarray
    ok: np.ndarray
    events: np.ndarray


def chances(
    layout: Layout, branch: int, rule: Rule, t_a: np.ndarray, rows: np.ndarray, clocks: EventTimes,
    doubts: Doubts, conditions: Conditions | None,
) -> np.ndarray:  # fmt: skip
    """Return per match of one branch the probability that it is true.

    Args:
        layout: the layout of the query.
        branch: one of its branches.
        rule: the rule of uncertain order.
        t_a: T_a in force, per match [ns]; under ``max-delay`` every error is uniform within T_a/2,
            and independent of all others.
        rows: (matches, steps): places of their events in the store.
        clocks: (matches, positive steps): times of their events.
        doubts: the doubts of these matches.
        conditions: the conditions that depend on clock errors; None: there are none.

    Returns:
        Shape (matches,); NaN: unknown, as conditions or negated events depend on inexact lengths.
    """
    lasting = np.asarray(clocks.inexact.any(axis=1))
    lasting[doubts.match[doubts.event.inexact]] = True
    if lasting.any():
        found, some = np.full(len(rows), np.nan), np.flatnonzero(~lasting)
        number = np.cumsum(~lasting) - 1
        mine = doubts.take(np.flatnonzero(~lasting[doubts.match]), number)
        found[some] = _chances(
            layout, branch, rule, t_a[some], rows[some], clocks.take(some), mine, conditions
        )
        lasting[doubts.match] = False
        if conditions is None and not rule.by_delay:
            found[lasting] = _lasting_chances(layout, branch, clocks.take(lasting))
        return found
    return _chances(layout, branch, rule, t_a, rows, clocks, doubts, conditions)


def _lasting_chances(layout: Layout, branch: int, clocks: EventTimes) -> np.ndarray:
    """``chances`` of matches with events of inexact length: their two ends are separate points."""
    relations = _own_relations(layout, branch, _places(layout, branch))
    steps = clocks.ref.shape[1]
    longest = [each.longest_ns for each in step_filters(layout) if not each.step.negated]
    for end in ("left", "right"):
        relations[end] += relations[end + "_end"] * steps
        relations[end + "_end"] = 0
    if longest[0] is not None:
        lasts = np.zeros(steps, RELATION)
        lasts["left"], lasts["right"] = np.arange(steps) + steps, np.arange(steps)
        lasts["bound"] = longest[0]
        relations = np.concatenate([relations, lasts])
    points = clocks.points
    half, leader = points.unc.astype(np.float64), leaders_of(points, by_max_delay=False)
    return sampled_probability(points.ref, half, leader, relations, points.ref - points.ref)


def _places(layout: Layout, branch: int) -> np.ndarray:
    """Per step of the query, its place among the steps of a match of the branch."""
    members = members_of(layout.tables, branch)
    local = np.zeros(len(layout.steps), np.int64)
    local[members] = np.arange(len(members))
    return local


def _own_relations(layout: Layout, branch: int, local: np.ndarray) -> np.ndarray:
    """Return the relations of a branch, with steps as places in a match; ``local``: ``_places``."""
    of = layout.tables.branches[branch]
    relations = layout.tables.relations[of["relations_from"] : of["relations_to"]].copy()
    relations["left"], relations["right"] = local[relations["left"]], local[relations["right"]]
    return relations


def _chances(
    layout: Layout, branch: int, rule: Rule, t_a: np.ndarray, rows: np.ndarray, clocks: EventTimes,
    doubts: Doubts, conditions: Conditions | None,
) -> np.ndarray:  # fmt: skip
    """``chances`` of matches whose events have exact lengths."""
    local, in_force = _places(layout, branch), t_a if rule.by_delay else None
    return chances_of_order(
        _own_relations(layout, branch, local), clocks, in_force, doubts, _scopes(layout, local),
        _sampled_conditions(
            layout, branch, rows, half_widths(clocks, in_force), doubts, conditions
        ),
    )  # fmt: skip


class Scopes(NamedTuple):
    """The scopes of negated steps: SCOPE, the SCOPE_END of their relations, and per scope the first
    one with equal ends.
    """

    scopes: np.ndarray
    ends: np.ndarray
    same: np.ndarray


def half_widths(clocks: EventTimes, t_a: np.ndarray | None) -> np.ndarray:
    """Return the half-widths of the errors of each match's events [ns], float64; ``t_a``: per
    match, for rules with T_a (T_a/2 may be half an integer).
    """
    half = clocks.unc if t_a is None else np.broadcast_to(t_a[:, None] / 2, clocks.unc.shape)
    return np.asarray(half.astype(np.float64))


def chances_of_order(
    relations: np.ndarray, clocks: EventTimes, t_a: np.ndarray | None, doubts: Doubts,
    scopes: Scopes, conditions: SampledConditions | None = None,
) -> np.ndarray:  # fmt: skip
    """Return per match the probability that its relations hold and no doubtful event is in a scope.

    Args:
        relations: RELATION; steps are places in the match.
        clocks: (matches, steps): times of their events.
        t_a: see ``half_widths``.
        doubts: the doubts of these matches.
        scopes: the scopes of the doubts.
        conditions: conditions on times.
    """
    half, long = half_widths(clocks, t_a), clocks.ref_end - clocks.ref
    leader = leaders_of(clocks, by_max_delay=t_a is not None)
    if half.shape[1] == 2 and not len(doubts.match) and conditions is None:
        # Exact, and independent of the other matches of the call, so batches do not change it.
        least, longest = _bounds_of_pair(relations, long)
        diff = clocks.ref[:, 1] - clocks.ref[:, 0]
        # On one clock only the second event has an error: the difference of both.
        shared, apart = leader[:, 1] == 0, np.abs(half[:, 1] - half[:, 0])
        first, second = np.where(shared, 0.0, half[:, 0]), np.where(shared, apart, half[:, 1])
        chance = pair_probability(diff, first, second, longest, least)
        return np.where(shared & (apart == 0.0), 1.0, chance)  # their order is certain
    doubtful = _doubtful(clocks, leader, t_a, doubts, scopes)
    return sampled_probability(clocks.ref, half, leader, relations, long, doubtful, conditions)


def _bounds_of_pair(
    relations: np.ndarray, long: np.ndarray
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the bounds of the time from the begin of the first event to that of the second."""
    least, longest = list[np.ndarray](), list[np.ndarray]()
    for each in relations:
        of_end = each["left_end"] * long[:, each["left"]]
        of_end = of_end - each["right_end"] * long[:, each["right"]]
        room = each["bound"] - of_end
        if each["left"] == 1:
            longest.append(room)
        else:
            least.append(-room)
    return (
        np.maximum.reduce(least) if least else None,
        np.minimum.reduce(longest) if longest else None,
    )


def _sampled_conditions(
    layout: Layout, branch: int, rows: np.ndarray, half: np.ndarray, doubts: Doubts,
    conditions: Conditions | None,
) -> SampledConditions | None:  # fmt: skip
    """Return the conditions to test on samples, besides the order of events."""
    if conditions is None:
        return None
    tables = layout.tables
    from_, to = tables.branches[["conditions_from", "conditions_to"]][branch].tolist()
    c = conditions
    errors = Errors(c.events, -1, np.zeros(len(layout.steps)))
    return SampledConditions(
        c.programs, c.ranks, c.raw, c.ok, errors, rows.copy(),
        members_of(tables, branch), half,
        tables.conditions, from_, to, doubts.row, tables.scopes,
    )  # fmt: skip


def no_surer_than(events: np.ndarray, matches: ReleasedMatches) -> ReleasedMatches:
    """Combine the certainty of matches with that of their events, if these are uncertain results of
    another statement: probabilities are multiplied, as if independent.

    Args:
        events: (matches, steps): the probability of each event (``engine.core.timeline``).
        matches: the matches, with their certainty by clocks.
    """
    if (events == 1).all():
        return matches
    sure = matches.confirmed & (events == 1).all(axis=1)
    unknown = (matches.chance == UNKNOWN) | (events == UNKNOWN).any(axis=1)
    chance = np.where(unknown, UNKNOWN, matches.chance * events.prod(axis=1))
    return structs.replace(matches, confirmed=sure, chance=chance)


def leaders_of(clocks: EventTimes, *, by_max_delay: bool) -> np.ndarray:
    """(matches, steps): the first step with the same clock error."""
    matches, steps = clocks.ref.shape
    leader = np.tile(np.arange(steps), (matches, 1))
    if by_max_delay:
        return leader
    every = np.arange(matches)
    for second in range(1, steps):
        for first in range(second - 1, -1, -1):
            one, two = (clocks.take((every, np.full(matches, step))) for step in (first, second))
            leader[shares_clock(one, two), second] = first
    return leader


def _scopes(layout: Layout, local: np.ndarray) -> Scopes:
    """Return the scopes of the query; ``local``: ``_places``."""
    scopes, relations = layout.tables.scopes, layout.tables.relations
    ends = np.zeros(len(relations), SCOPE_END)
    same, same_scope = dict[bytes, int](), list[int]()
    for number, scope in enumerate(scopes):
        its = slice(scope["relations_from"], scope["relations_to"])
        above = relations["left"][its] == scope["step"]
        ends["above"][its] = above
        ends["step"][its] = local[np.where(above, relations["right"][its], relations["left"][its])]
        of_left, of_right = relations["left_end"][its], relations["right_end"][its]
        ends["own_end"][its] = np.where(above, of_left, of_right)
        ends["step_end"][its] = np.where(above, of_right, of_left)
        for name in ("strict", "bound"):
            ends[name][its] = relations[name][its]
        same_scope.append(same.setdefault(ends[its].tobytes(), number))
    return Scopes(scopes, ends, np.array(same_scope, np.int64))


def _doubtful(
    clocks: EventTimes, leader: np.ndarray, t_a: np.ndarray | None, doubts: Doubts, scopes: Scopes
) -> Doubtful:
    match, event = doubts.match, doubts.event
    steps = clocks.ref.shape[1]
    exact = np.zeros((len(match), steps), np.bool_)
    shares = exact.copy()
    for step in range(steps if t_a is None else 0):
        other = clocks.take((match, np.full(len(match), step)))
        shares[:, step] = shares_clock(other, event)
        exact[:, step] = shares[:, step] & (other.unc == event.unc)
    error = event.unc if t_a is None else t_a[match] / 2
    of_step = np.where(shares.any(axis=1), leader[match, shares.argmax(axis=1)], -1)
    if t_a is None:
        of_step = shared_by_doubts(match, doubts.order, event.clock, event.epoch, of_step, steps)
    return Doubtful(
        np.searchsorted(match, np.arange(len(clocks.ref) + 1)),
        doubts.order, (event.ref - clocks.ref[match, 0]).astype(np.float64),
        error.astype(np.float64),
        of_step,
        doubts.scope, exact, scopes.same, scopes.scopes, scopes.ends,
        (event.ref_end - event.ref).astype(np.float64), doubts.chance,
    )  # fmt: skip
