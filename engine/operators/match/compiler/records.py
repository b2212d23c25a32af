"""Records that the kernels of patterns read by name: events, and the tables of a compiled query.

A compiled query is a ``Tables``, which ``match.compiler.tables`` makes. Fields are int64; some of
EVENT are int32 to save memory. A range of rows of another table has two fields, ``.._from`` and
``.._to`` (exclusive).
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
"""A stored event; see ``engine.operators.match.store`` for the fields. ``ref_end``: ``te`` on the
engine's clock; equals ``ref`` for a point. ``unc``, ``epoch``: uncertainty and epoch of the start;
``unc_end``, ``epoch_end``: of the end. ``clock``: code of its clock."""

JOIN_ORDER: Final = record(
    "branch", "step", "scope", "probes_from", "probes_to", "floors_from", "floors_to"
)
"""The order in which the other positive steps are found, starting from an event of ``step``.
``scope``: the scope of a negated step, else -1.
"""
FLOOR: Final = record("step", "index", "keys_from", "keys_to", "by_end", "strict")
"""A place on a chain of end points; each is above (``strict``) or at least the previous one. It
belongs to a ``step`` whose ``index`` is sorted by it (-1: the new event). The least event above the
least previous one is the least that can be in a match.
"""
PROBE: Final = record(
    "step", "index", "keys_from", "keys_to", "pairs_from", "pairs_to", "conditions_from",
    "conditions_to", "bounds_from", "bounds_to", "tested", "sorted_by", "negated_from",
)  # fmt: skip
"""Finds an event of ``step`` in ``index``. ``negated_from``: the first condition on the negated
step that starts the join order; these conditions come last. ``tested``: 1: for intervals, no range
of the index implies all relations. ``sorted_by``: order of the index, BY_START or BY_END;
UNSORTED: the whole stack is scanned.
"""
KEY: Final = record("register", "other", "other_register")
"""``register`` of the event equals ``other_register`` of step ``other``."""
PAIR: Final = record("step", "other", "relations_from", "relations_to")
"""The relations between events of ``step`` and ``other``."""
RELATION: Final = record("left", "left_end", "strict", "right", "right_end", "bound")
"""The time of step ``left`` minus that of step ``right`` is below (``strict``) or at most ``bound``
[ns]. ``left_end``, ``right_end``: 1: the end of the event, 0: its start.
"""
CONDITION: Final = record("predicate", "clocked")
"""Number of a predicate; ``clocked``: clock errors may change its truth."""
BOUND: Final = record("scope", "side", "by_event", "keys_from", "keys_to")
"""A probe finds the step at one ``side`` (LOW, HIGH) of a scope. ``by_event``: the event of the
scope is known instead of the other side.
"""
SCOPE: Final = record(
    "branch", "step", "index", "keys_from", "keys_to", "pairs_from", "pairs_to", "conditions_from",
    "conditions_to", "relations_from", "relations_to",
)  # fmt: skip
"""Where no event of the negated ``step`` may lie. ``relations``: the relations of its pairs."""
BRANCH: Final = record(
    "scopes_from", "scopes_to", "pairs_from", "pairs_to", "members_from", "members_to",
    "conditions_from", "conditions_to", "relations_from", "relations_to",
)  # fmt: skip
"""``pairs``: pairs of positive steps; ``relations``: the relations of these pairs. ``conditions``:
conditions on positive steps that clock errors may change.
"""
MEMBER: Final = record("step")
"""A positive step of a branch; rows are in order."""
INDEX: Final = record("step", "registers_from", "registers_to", "by_end")
"""``by_end``: 1: sorted by the events' ends, else by their starts.
"""
REGISTER: Final = record("number")


class Tables(NamedTuple):
    """A compiled query: arrays of the records above."""

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
"""The record type of each table."""

BY_START: Final = 0
BY_END: Final = 1
UNSORTED: Final = 2
LOW: Final = 0
"""A probe finds the step at the low side of a scope whose high side is known."""
HIGH: Final = 1
