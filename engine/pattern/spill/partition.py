"""Queries whose matches have one key each, and the keys of events as hashes.

Where equalities join all steps of every branch, events of different keys never meet, not even a
negated one and a match. So the events of some keys can be looked at alone (Grace hash join).
"""

from __future__ import annotations

import zlib
from typing import Final

import numpy as np

from engine.kernels.hashing import MULTIPLIER
from engine.pattern.compiled.tables import Layout
from engine.pattern.store import comparable
from engine.query.expression import View, column
from engine.query.fields import released_columns
from engine.query.plan import Attribute, SeqPlan
from engine.stream.released import Released, Strings

KEY: Final = "key"
"""The column of a store with the hashes of its events' keys, from 0 on."""
_KEYS: Final = 8
"""Keys are looked for no longer once there are so many."""
_HALF: Final = np.uint64(32)
_POSITIVE: Final = np.uint64(2**63 - 1)
_TABLE: Final = 1 << 20


def keys_of(layout: Layout) -> list[dict[str, str]]:
    """What all events of a match agree in: per key the attribute by event type; empty = nothing.

    >>> from engine.pattern.compiled.tables import layout_of
    >>> from engine.query import query
    >>> keys_of(layout_of(query("EVENT SEQ(A a, !C c, B b) WHERE a.x = b.y AND c.x = a.x")))
    [{'A': 'x', 'B': 'y', 'C': 'x'}]
    >>> keys_of(layout_of(query("EVENT SEQ(A a, A b) WHERE a.x = b.y")))
    []
    """
    first, *others = layout.branches
    found = _keys_of_branch(first)
    for branch in others:
        both = [
            one | other
            for one in found
            for other in _keys_of_branch(branch)
            if all(one[kind] == other[kind] for kind in one.keys() & other.keys())
        ]
        found = both[:_KEYS]
    return found


def _keys_of_branch(plan: SeqPlan) -> list[dict[str, str]]:
    type_of = {step.alias: step.type for step in plan.steps}
    found = []
    for group in plan.equalities:
        named = {(type_of[a.alias], a.name) for a in group if a.alias is not None}
        # An event that can be two steps must have one key as both.
        if len({a.alias for a in group}) == len(type_of) and len(dict(named)) == len(named):
            found.append(dict(sorted(named)))
    return found


class Keys:
    """Tells the keys of events.

    Args:
        layout: of a query for which ``keys_of`` finds some.
    """

    def __init__(self, layout: Layout) -> None:
        self._keys = keys_of(layout)
        self._hashes = np.empty(0, np.int64)
        """By code: of the text, as codes depend on what else was read."""

    def of(self, released: Released, rows: np.ndarray) -> np.ndarray:
        """int64 per one of ``rows``, the same for equal keys, and seldom for others."""
        strings, types = released.strings, released.columns["type"][rows]
        self._learn(strings)
        found = np.zeros(len(rows), np.uint64)
        for key in self._keys:
            for kind, name in key.items():
                mine = np.flatnonzero(types == strings.find(kind))
                if len(mine):
                    value = self._value(released, rows[mine], name).view(np.uint64)
                    mixed = (found[mine] ^ value) * MULTIPLIER
                    found[mine] = mixed ^ (mixed >> _HALF)
        return (found & _POSITIVE).view(np.int64)

    def _value(self, released: Released, rows: np.ndarray, name: str) -> np.ndarray:
        """int64, equal for equal values; 0 for null."""
        names = released_columns([Attribute(name)])
        columns = {n: released.columns[n][rows] for n in names if n in released.columns}
        value = column(name, View.of(columns, released.attr_types, released.strings))
        if value.kind == "null":
            return np.zeros(len(rows), np.int64)
        same, tag = comparable(value)
        there = tag != 0 if value.valid is None else value.valid & (tag != 0)
        if value.kind == "str":
            same = self._hashes[np.where(there, same, 0)]
        return np.where(there, same, 0)

    def _learn(self, strings: Strings) -> None:
        known = len(self._hashes)
        if known < len(strings.texts):
            new = [zlib.crc32(text.encode()) for text in strings.texts[known:]]
            self._hashes = np.append(self._hashes, np.array(new, np.int64))


class Wanted:
    """Some keys; it takes others for them now and then, but never misses one.

    Args:
        keys: hashes; None = all keys there are.
    """

    def __init__(self, keys: np.ndarray | None) -> None:
        self._table: np.ndarray | None = None
        if keys is not None:
            self._table = np.zeros(_TABLE, np.bool_)
            self._table[_place(keys)] = True

    def among(self, columns: dict[str, np.ndarray], n: int) -> np.ndarray:
        """Which of the first ``n`` events have one of the keys."""
        if self._table is None or not n:
            return np.ones(n, np.bool_)
        return np.asarray(self._table[_place(columns[KEY][:n])])


def _place(keys: np.ndarray) -> np.ndarray:
    """Not by the bits that tell the part."""
    return (keys >> 32) % _TABLE
