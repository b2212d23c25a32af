"""The probability of matches with repeated steps that hang on the clocks (SPEC 4.3).

By the number of their events, as of other matches (``engine.pattern.verdict.probability``): the
order of each event and the next one, WITHIN, and the events that may lie in a gap. Conditions on
times that clocks leave open are not weighed: they make a match uncertain, and its probability is
that of its order.
"""

from __future__ import annotations

import numpy as np

from engine.pattern.compiled.records import RELATION, SCOPE
from engine.pattern.settings import Rule
from engine.pattern.store import Store
from engine.pattern.verdict.certainty import errors_of_pair, leaders_of, shares_clock
from engine.pattern.verdict.probability import (
    SCOPE_END,
    Doubtful,
    pair_probability,
    sampled_probability,
    shared_by_doubts,
)
from engine.repetition.kernel import FoundRuns


def chances_of(
    within_ns: int | None,
    rule: Rule,
    store: Store,
    runs: FoundRuns,
    which: np.ndarray,
    t_a: np.ndarray,
) -> np.ndarray:
    """Per match of ``which`` (places in ``runs.found``) the probability that it is true.

    Args:
        within_ns: WITHIN, or None.
        rule: how uncertain a pair is.
        store: the events.
        runs: the matches, and the doubts about them.
        which: of them.
        t_a: in force, per match of ``runs``.
    """
    found = np.ones(len(which))
    doubted = np.zeros(len(runs.found), np.bool_)
    doubted[runs.doubts["match"]] = True
    kind = 2 * runs.found["size"][which] + doubted[which]
    for each in np.unique(kind).tolist():
        some = np.flatnonzero(kind == each)
        found[some] = _of_size(
            each // 2, within_ns, rule, store, runs, which[some], t_a[which[some]]
        )
    return found


def _of_size(
    size: int, within_ns: int | None, rule: Rule, store: Store, runs: FoundRuns, which: np.ndarray,
    t_a: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Of matches with ``size`` events each."""
    rows = runs.path["row"][runs.found["from_"][which][:, None] + np.arange(size)]
    clocks, by_max_delay = store.clock(rows), rule.by_delay
    half = np.broadcast_to(t_a[:, None] / 2, rows.shape) if by_max_delay else clocks.unc
    half, long = half.astype(np.float64), clocks.ref_end - clocks.ref
    number = np.full(len(runs.found), -1)
    number[which] = np.arange(len(which))
    doubts = runs.doubts[number[runs.doubts["match"]] >= 0]
    leader = leaders_of(clocks, by_max_delay=by_max_delay)
    if size == 2 and not len(doubts):
        # By this match alone, whatever is asked about with it: exact, so a cut changes nothing.
        diff = clocks.ref[:, 1] - clocks.ref[:, 0]
        longest = None if within_ns is None else within_ns - long[:, 1]
        chance = pair_probability(diff, *errors_of_pair(half, leader), longest, long[:, 0])
        exact = (leader[:, 1] == 0) & (half[:, 0] == half[:, 1])
        return np.where(exact, 1.0, chance)  # of one clock: in this order for certain
    match, event = number[doubts["match"]], store.clock(doubts["event"])
    places = np.lexsort((doubts["gap"], store.columns["order"][doubts["event"]], match))
    doubts, match, event = doubts[places], match[places], event.take(places)
    exact, shares = (np.zeros((len(match), size), np.bool_) for _ in range(2))
    for step in range(0 if by_max_delay else size):
        other = clocks.take((match, np.full(len(match), step)))
        shares[:, step] = shares_clock(other, event)
        exact[:, step] = shares[:, step] & (other.unc == event.unc)
    error = t_a[match] / 2 if by_max_delay else event.unc
    order = store.columns["order"][doubts["event"]]
    of_step = np.where(shares.any(axis=1), leader[match, shares.argmax(axis=1)], -1)
    if not by_max_delay:
        of_step = shared_by_doubts(match, order, event.clock, event.epoch, of_step, size)
    scopes, ends = _gaps(size, within_ns or 0)
    doubtful = Doubtful(
        np.searchsorted(match, np.arange(len(which) + 1)),
        order, (event.ref - clocks.ref[match, 0]).astype(np.float64), error.astype(np.float64),
        of_step, doubts["gap"] + 1, exact, np.arange(size + 1), scopes, ends,
        (event.ref_end - event.ref).astype(np.float64), store.chances(doubts["event"]),
    )  # fmt: skip
    return sampled_probability(
        clocks.ref, half, leader, _relations(size, within_ns), long, doubtful
    )


def _relations(size: int, within_ns: int | None) -> np.ndarray:
    """Each event before the next, and all within WITHIN of the first."""
    rows = [(n, 1, 1, n + 1, 0, 0) for n in range(size - 1)]
    if within_ns is not None:
        rows += [(n, 1, 0, 0, 0, within_ns) for n in range(1, size)]
    return np.array(rows, RELATION)


def _gaps(size: int, within_ns: int) -> tuple[np.ndarray, np.ndarray]:
    """The scopes of a match of ``size`` events, from that before the first on, and their ends."""
    bounds = [(size - 1, 0, 0, within_ns), (0, 1, 1, 0)]
    for step in range(size - 1):
        bounds += [(step, 0, 1, 0), (step + 1, 1, 1, 0)]
    bounds += [(size - 1, 0, 1, 0), (0, 1, 0, within_ns)]
    ends = np.zeros(len(bounds), SCOPE_END)
    for column, name in enumerate(("step", "above", "strict", "bound")):
        ends[name] = [bound[column] for bound in bounds]
    scopes = np.zeros(size + 1, SCOPE)
    scopes["relations_from"] = 2 * np.arange(size + 1)
    scopes["relations_to"] = scopes["relations_from"] + 2
    return scopes, ends
