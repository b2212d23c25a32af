"""Matches as the barriers see them, made from rows of the store in an order no cut can change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from engine.columns import VALID_PREFIX
from engine.frame import ATTR_PREFIX
from engine.pattern.certainty import Clock, Rule, order, shares_clock, within
from engine.pattern.doubt import doubted_probability
from engine.pattern.probability import pair_probability, sampled_probability
from engine.pattern.scope import Scope
from engine.pattern.standing import Doubts
from engine.pattern.store import ORDER, Store
from engine.query.fields import own_attribute
from engine.query.plan import SeqPlan
from engine.released import Strings

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Match:
    """A combination of events that satisfies the query, or may do so.

    ``key``: the numbers of its events in the released stream, which name it. ``completed_at``:
    release of the event that was released last; ``known_at``: arrival of the event that arrived
    last (arrival-clock instants, ns). ``last_ns``: ref of the last event. ``events``: by step.
    """

    key: tuple[int, ...]
    completed_at: int
    known_at: int
    last_ns: int
    confirmed: bool
    probability: float
    events: list[Event]


@dataclass(frozen=True, slots=True)
class Change:
    """What one released row does to one match.

    ``row``: its number in the released stream; ``at``: its release. ``before``: the match as it
    stood, None when the row completes it. ``after``: None when the row invalidates it. ``closes``,
    of a new match: per negated step the least promise that closes its scope (no later event below
    it), and last the one after which no event comes below the match's last.
    """

    row: int
    at: int
    before: Match | None
    after: Match | None
    closes: tuple[int, ...] = ()


@dataclass(slots=True)
class Verdicts:
    """Per match: does it stand, is it confirmed, with which probability?"""

    stands: np.ndarray
    confirmed: np.ndarray
    chance: np.ndarray

    def take(self, which: np.ndarray) -> Verdicts:
        return Verdicts(self.stands[which], self.confirmed[which], self.chance[which])


@dataclass(slots=True)
class Found:
    """What rows of a batch do to matches: equally long columns.

    ``rows``: (n, positive steps) places in the store; ``completing`` and ``cause``: the row that
    completed the match, and the one that changes it now (the same for a new match). ``closes``: (n,
    scopes + 1), of new matches, as in ``Change``.
    """

    rows: np.ndarray
    completing: np.ndarray
    cause: np.ndarray
    before: Verdicts
    after: Verdicts
    closes: np.ndarray

    def take(self, which: np.ndarray) -> Found:
        """Those of ``which``, in its order."""
        return Found(
            self.rows[which], self.completing[which], self.cause[which], self.before.take(which),
            self.after.take(which), self.closes[which],
        )  # fmt: skip


def in_order(
    store: Store, cause: np.ndarray, is_new: np.ndarray, rows: np.ndarray, strings: Strings
) -> np.ndarray:
    """Places of the changes by row that causes them, older matches before new ones, then by
    (ref, source name, seq) step by step.

    Args:
        store: the events.
        cause: per change, the row that causes it.
        is_new: per change, whether it completes a match.
        rows: (matches, steps).
        strings: names of the sources.
    """
    columns = store.columns
    codes, which = np.unique(columns["source"][rows], return_inverse=True)
    names = [strings.text(int(code)) or "" for code in codes]
    rank = np.argsort(np.argsort(np.array(names)))[which.reshape(rows.shape)]
    keys = [columns[ORDER][cause], is_new]
    for step in range(rows.shape[1]):
        mine = rows[:, step]
        keys += [columns["ref"][mine], rank[:, step], columns["seq"][mine], columns[ORDER][mine]]
    return np.lexsort(keys[::-1])


def certain(plan: SeqPlan, rule: Rule, t_a: int | np.ndarray, clocks: list[Clock]) -> np.ndarray:
    """Per match, whether every required order and WITHIN is certain (SPEC 4.3)."""
    sure = np.ones(len(clocks[0].ref), np.bool_)
    for second in range(1, len(clocks)):
        for first in range(second):
            sure &= order(rule, t_a, clocks[first], clocks[second])[1]
    if plan.within_ns is not None and len(clocks) > 1:
        sure &= within(rule, t_a, clocks[0], clocks[-1], plan.within_ns)[1]
    return sure


def verdicts(
    plan: SeqPlan, rule: Rule, t_a: np.ndarray, store: Store, rows: np.ndarray,
    killed: np.ndarray, scopes: list[Scope], doubts: Doubts,
) -> Verdicts:  # fmt: skip
    """How matches stand.

    Args:
        plan: the positive steps.
        rule: how uncertain a pair is.
        t_a: in force, per match.
        store: the events.
        rows: (matches, positive steps).
        killed: where a negated step's event is certain.
        scopes: of the negated steps, with places of positive steps.
        doubts: the events of negated steps that may lie in a scope of one of these matches.
    """
    clocks = [store.clock(rows[:, step]) for step in range(rows.shape[1])]
    sure = certain(plan, rule, t_a, clocks)
    chance = np.ones(len(rows))
    doubted = np.zeros(len(rows), np.bool_)
    doubted[doubts.match] = True
    for which, some in ((~sure & ~doubted, None), (doubted, doubts)):
        places = np.flatnonzero(which & ~killed)
        if not len(places):
            continue
        mine = [clock.take(places) for clock in clocks]
        if some is None:
            chance[places] = probability(plan, rule, t_a[places], mine)
        else:
            half_width, leader = _errors_of(rule, t_a[places], mine)
            chance[places] = doubted_probability(
                mine, half_width, leader, plan.within_ns, scopes, some.of(places), store,
                t_a[places] / 2 if rule is Rule.MAX_DELAY else None,
            )  # fmt: skip
    return Verdicts(~killed, sure & ~doubted, chance)


def _errors_of(rule: Rule, t_a: np.ndarray, clocks: list[Clock]) -> tuple[np.ndarray, np.ndarray]:
    """(matches, steps): half-widths of the errors, and the first step with the same error."""
    matches = len(clocks[0].ref)
    unc = [t_a / 2 if rule is Rule.MAX_DELAY else clock.unc for clock in clocks]
    leader = np.tile(np.arange(len(clocks)), (matches, 1))
    for second in range(1, len(clocks)):
        for first in range(second - 1, -1, -1):
            shared = shares_clock(clocks[first], clocks[second])
            leader[shared, second] = first
    return np.column_stack(unc).astype(np.float64), leader


def probability(plan: SeqPlan, rule: Rule, t_a: np.ndarray, clocks: list[Clock]) -> np.ndarray:
    """Per uncertain match, the probability that it is true.

    Under ``max-delay`` every event's error is taken as uniform within T_a/2.
    """
    half_width, leader = _errors_of(rule, t_a, clocks)
    if len(clocks) == 2:
        diff = clocks[1].ref - clocks[0].ref
        return pair_probability(diff, half_width[:, 0], half_width[:, 1], plan.within_ns)
    ref = np.column_stack([clock.ref for clock in clocks])
    return sampled_probability(ref, half_width, leader, plan.within_ns)


def describe(
    plan: SeqPlan, store: Store, found: Found, strings: Strings, site: str
) -> list[Change]:
    """The changes ``found``, in order; those that change nothing are left out.

    Args:
        plan: the positive steps.
        store: the events.
        found: what the rows of a batch do.
        strings: the site's table.
        site: named in events.
    """
    was, now = found.before, found.after
    same = (was.confirmed == now.confirmed) & (was.chance == now.chance)
    seen = (was.stands | now.stands) & ~(was.stands & now.stands & same)
    found = found.take(np.flatnonzero(seen))
    places = in_order(store, found.cause, ~found.before.stands, found.rows, strings)
    found = found.take(places)
    rows, columns = found.rows, store.columns
    events = [_events(plan, store, rows[:, k], k, strings, site) for k in range(rows.shape[1])]
    facts = zip(
        map(tuple, columns[ORDER][rows].tolist()),
        columns["release"][found.completing].tolist(),
        columns["arrival"][rows].max(axis=1).tolist(),
        columns["ref"][rows[:, -1]].tolist(),
        found.after.confirmed.tolist(),
        found.after.chance.tolist(),
        zip(*events, strict=True),
        strict=True,
    )
    matches = [
        Match(key, at, known_at, last_ns, sure, chance, list(event))
        for key, at, known_at, last_ns, sure, chance, event in facts
    ]
    before = zip(*(c.tolist() for c in (
        found.before.stands, found.before.confirmed, found.before.chance
    )), strict=True)  # fmt: skip
    stands = found.after.stands.tolist()
    order_of, at = columns[ORDER][found.cause].tolist(), columns["release"][found.cause].tolist()
    closes = found.closes.tolist()
    return [
        Change(
            order_of[c], at[c],
            replace(match, confirmed=sure, probability=chance, events=_copied(match.events))
            if stood else None,
            match if stands[c] else None,
            () if stood else tuple(closes[c]),
        )
        for c, (match, (stood, sure, chance)) in enumerate(zip(matches, before, strict=True))
    ]  # fmt: skip


def _copied(events: list[Event]) -> list[Event]:
    return [event | {"attrs": dict(event["attrs"])} for event in events]


def _events(
    plan: SeqPlan, store: Store, rows: np.ndarray, step: int, strings: Strings, site: str
) -> list[Event]:
    """Each match's event of one step; every match gets copies of its own."""
    distinct, which = np.unique(rows, return_inverse=True)
    made: list[Event] = [{"site": site} for _ in distinct]
    for name in ("stream", "source", "seq", "type", "ts", "te", "ref"):
        values: list[Any] = store.columns[name][distinct].tolist()
        if name in {"stream", "source", "type"}:
            values = [strings.text(code) for code in values]
        for event, value in zip(made, values, strict=True):
            event[name] = None if name == "seq" and value < 0 else value
    attrs = _attributes(plan, store, distinct, step, strings)
    return [made[place] | {"attrs": dict(attrs[place])} for place in which.tolist()]


def _attributes(
    plan: SeqPlan, store: Store, rows: np.ndarray, step: int, strings: Strings
) -> list[dict[str, Any]]:
    """What RETURN selects of this step, or everything; what an event lacks is left out."""
    alias = plan.steps[step].alias
    wanted = [own_attribute(a.name) for a in plan.returns if a.alias == alias]
    names = list(store.attr_types) if not plan.returns else [name for name in wanted if name]
    found: list[dict[str, Any]] = [{} for _ in rows]
    for name in sorted(names):
        if name not in store.attr_types:
            continue
        values = store.columns[ATTR_PREFIX + name][rows].tolist()
        valid = store.columns[VALID_PREFIX + name][rows].tolist()
        for attrs, value, known in zip(found, values, valid, strict=True):
            if known:
                is_text = store.attr_types[name] == "str"
                attrs[name] = strings.text(value) if is_text else value
    return found
