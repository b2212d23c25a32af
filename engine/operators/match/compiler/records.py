"""Records that the kernels of patterns read by name: events, and the tables of a compiled query.

A compiled query is a ``Tables``, which ``match.compiler.tables`` makes. Fields are int64
(of events, of which many are held, some are int32). A range of rows of another table is two fields,
``.._from`` and ``.._to``; the latter is the first row that is no longer meant.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from slackwater.engine.kernels.records import record

EVENT: Final = record(
    "ref", "ref_end", "unc", "epoch", "unc_end", "epoch_end", "order", "expires", "member",
    "horizon", "t_a",
    narrow=("clock", "doubted"),
)  # fmt: skip
"""An event held (``engine.operators.match.store`` says more). ``ref_end``: ``te`` on the
engine's clock; ``ref`` of a point. ``unc``, ``epoch``: of the start, and of the end. ``clock``: its
code. ``doubted``: as of ``engine.operators.match.store``."""

JOIN_ORDER: Final = record(
    "branch", "step", "scope", "probes_from", "probes_to", "floors_from", "floors_to"
)
"""In which order the other positive steps are found once an event of ``step`` is there. ``scope``:
of a negated step, else -1.
"""
FLOOR: Final = record("step", "index", "keys_from", "keys_to", "by_end", "strict")
"""A place on a chain of end points, each of which is above (``strict``) or at least the one before
it: of a ``step``, whose ``index`` is sorted by it (-1: of the event that came). The least event
above the least one before is the least that can be in a match.
"""
PROBE: Final = record(
    "step", "index", "keys_from", "keys_to", "pairs_from", "pairs_to", "conditions_from",
    "conditions_to", "bounds_from", "bounds_to", "tested", "sorted_by", "negated_from",
)  # fmt: skip
"""Finds an event of ``step`` in ``index``. ``negated_from``: the first of its conditions that names
the negated step from which the join order starts; they are the last ones. ``tested``: 1: some of
its relations are implied by no range of the index, if events are no points. ``sorted_by``: BY_START
or BY_END, as the index is; UNSORTED: all of the stack is looked through.
"""
KEY: Final = record("register", "other", "other_register")
"""``register`` of mine equals ``other_register`` of step ``other``."""
PAIR: Final = record("step", "other", "relations_from", "relations_to")
"""How an event of ``step`` is related to one of ``other``."""
RELATION: Final = record("left", "left_end", "strict", "right", "right_end", "bound")
"""The time of step ``left`` less that of step ``right`` is below ``bound`` (``strict``) or at most
it [ns]. ``left_end``, ``right_end``: 1: the event's end, 0: its start.
"""
CONDITION: Final = record("predicate", "clocked")
"""Number of a predicate; ``clocked``: clock errors change whether it holds."""
BOUND: Final = record("scope", "side", "by_event", "keys_from", "keys_to")
"""A probe finds the step at one ``side`` (LOW, HIGH) of a scope. ``by_event``: what is known is the
scope's own event, and not its other end.
"""
SCOPE: Final = record(
    "branch", "step", "index", "keys_from", "keys_to", "pairs_from", "pairs_to", "conditions_from",
    "conditions_to", "relations_from", "relations_to",
)  # fmt: skip
"""Where no event of the negated ``step`` may lie. ``relations``: those of its pairs, of starts."""
BRANCH: Final = record(
    "scopes_from", "scopes_to", "pairs_from", "pairs_to", "members_from", "members_to",
    "conditions_from", "conditions_to", "relations_from", "relations_to",
)  # fmt: skip
"""``pairs``: of positive steps; ``relations``: those of the pairs. ``conditions``: those on
positive steps that clock errors change.
"""
MEMBER: Final = record("step")
"""A positive step of a branch, in order."""
INDEX: Final = record("step", "registers_from", "registers_to", "by_end")
"""``by_end``: 1: sorted by the events' ends, else by their starts.
"""
REGISTER: Final = record("number")


class Tables(NamedTuple):
    """All that the kernel knows of a query: arrays of the records above."""

    join_orders: np.ndarray
    probes: np.ndarray
    keys: np.ndarray
    pairs: np.ndarray
    relations: np.ndarray
    conditions: np.ndarray
    bounds: np.ndarray
    scopes: np.ndarray
    branches: np.ndarray
    members: np.ndarray
    indexes: np.ndarray
    registers: np.ndarray
    floors: np.ndarray


RECORDS: Final = {
    "join_orders": JOIN_ORDER, "probes": PROBE, "keys": KEY, "pairs": PAIR,
    "relations": RELATION, "conditions": CONDITION, "bounds": BOUND, "scopes": SCOPE,
    "branches": BRANCH, "members": MEMBER, "indexes": INDEX, "registers": REGISTER,
    "floors": FLOOR,
}  # fmt: skip
"""By table, its record."""

BY_START: Final = 0
BY_END: Final = 1
UNSORTED: Final = 2
LOW: Final = 0
"""A probe finds the step at the low end of a scope, of which the high end is known."""
HIGH: Final = 1
