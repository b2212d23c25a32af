"""Matches as the barriers see them, made from rows of the store in an order no cut can change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.columns import VALID_PREFIX
from engine.frame import ATTR_PREFIX
from engine.pattern.certainty import Clock, Rule, order, shares_clock, within
from engine.pattern.probability import pair_probability, sampled_probability
from engine.pattern.store import ORDER, Store
from engine.query.fields import own_attribute
from engine.query.plan import SeqPlan
from engine.released import Strings

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Match:
    """A combination of events that satisfies the query, or may do so.

    ``completed_at``: release of the event that was released last; ``known_at``: arrival of the
    event that arrived last (arrival-clock instants, ns). ``events``: in step order.
    """

    completed_at: int
    known_at: int
    confirmed: bool
    probability: float
    events: list[Event]


def in_order(
    store: Store, completing: np.ndarray, rows: np.ndarray, strings: Strings
) -> np.ndarray:
    """Places of the matches by completing row, then by (ref, source name, seq) step by step.

    Args:
        store: the events.
        completing: per match, the row released last.
        rows: (matches, steps).
        strings: names of the sources.
    """
    columns = store.columns
    codes, which = np.unique(columns["source"][rows], return_inverse=True)
    names = [strings.text(int(code)) or "" for code in codes]
    rank = np.argsort(np.argsort(np.array(names)))[which.reshape(rows.shape)]
    keys = [columns[ORDER][completing]]
    for step in range(rows.shape[1]):
        mine = rows[:, step]
        keys += [columns["ref"][mine], rank[:, step], columns["seq"][mine], columns[ORDER][mine]]
    return np.lexsort(keys[::-1])


def certain(plan: SeqPlan, rule: Rule, t_a: int, clocks: list[Clock]) -> np.ndarray:
    """Per match, whether every required order and WITHIN is certain (SPEC 4.3)."""
    sure = np.ones(len(clocks[0].ref), np.bool_)
    for second in range(1, len(clocks)):
        for first in range(second):
            sure &= order(rule, t_a, clocks[first], clocks[second])[1]
    if plan.within_ns is not None:
        sure &= within(rule, t_a, clocks[0], clocks[-1], plan.within_ns)[1]
    return sure


def probability(plan: SeqPlan, rule: Rule, t_a: int, clocks: list[Clock]) -> np.ndarray:
    """Per uncertain match, the probability that it is true.

    Under ``max-delay`` every event's error is taken as uniform within T_a/2.
    """
    matches = len(clocks[0].ref)
    if rule is Rule.MAX_DELAY:
        unc = [np.full(matches, t_a / 2) for _ in clocks]
    else:
        unc = [clock.unc for clock in clocks]
    if len(clocks) == 2:
        diff = clocks[1].ref - clocks[0].ref
        return pair_probability(diff, unc[0], unc[1], plan.within_ns)
    leader = np.tile(np.arange(len(clocks)), (matches, 1))
    for second in range(1, len(clocks)):
        for first in range(second - 1, -1, -1):
            shared = shares_clock(clocks[first], clocks[second])
            leader[shared, second] = first
    ref = np.column_stack([clock.ref for clock in clocks])
    half_width = np.column_stack(unc).astype(np.float64)
    return sampled_probability(ref, half_width, leader, plan.within_ns)


def describe(
    plan: SeqPlan, rule: Rule, t_a: int, store: Store, rows: np.ndarray, completing: np.ndarray,
    strings: Strings, site: str,
) -> list[Match]:  # fmt: skip
    """The matches ``rows`` (matches, steps), in order; arguments as for ``in_order``."""
    places = in_order(store, completing, rows, strings)
    rows, completing = rows[places], completing[places]
    clocks = [store.clock(rows[:, step]) for step in range(rows.shape[1])]
    sure = certain(plan, rule, t_a, clocks)
    chance = np.ones(len(rows))
    doubtful = np.flatnonzero(~sure)
    if len(doubtful):
        some = [clock.take(doubtful) for clock in clocks]
        chance[doubtful] = probability(plan, rule, t_a, some)
    known_at = store.columns["arrival"][rows].max(axis=1).tolist()
    at = store.columns["release"][completing].tolist()
    events = [_events(plan, store, rows[:, k], k, strings, site) for k in range(rows.shape[1])]
    return [
        Match(at[m], known_at[m], bool(sure[m]), float(chance[m]), list(of_match))
        for m, of_match in enumerate(zip(*events, strict=True))
    ]


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
