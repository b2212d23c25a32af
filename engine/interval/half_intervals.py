"""Halves of intervals: what is known of them, and how two make a whole (Z10 5.3.2).

A start half is an ``ibp`` record, an end half an ``ibe`` record; an event is whole. A half stands
in the stream as a point at the time that is known of it. When both halves of an interval are
there, the later one becomes the whole. A half that comes again (a begin may stand in the log twice
after a gateway's restart) says nothing new.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from edge_agent import records as r
from engine.pattern.match_results import END_HALF, HALF_COLUMN, START_HALF
from engine.query.plan import Attribute
from engine.stream.columns import ID_TYPE, VALID_PREFIX
from engine.stream.frame import ATTR_PREFIX
from engine.stream.released import Released

WHOLE: Final = 0
START: Final = START_HALF
END: Final = END_HALF
REPEATED: Final = 3
"""A half whose like waits already: it is no step of any match."""
HALF: Final = HALF_COLUMN.removeprefix(ATTR_PREFIX)
"""Which half an event is, as an attribute that no query can name (``$`` begins no name)."""
NUMBER: Final = ID_TYPE
"""The interval's id, likewise."""
ID_COLUMN: Final = ATTR_PREFIX + NUMBER
ID_VALID: Final = VALID_PREFIX + NUMBER


def half_of(alias: str) -> Attribute:
    """Which half the event of the step ``alias`` is."""
    return Attribute(HALF, alias)


def id_of(alias: str) -> Attribute:
    """The id of the interval of the step ``alias``."""
    return Attribute(NUMBER, alias)


def with_halves(released: Released) -> Released:
    """``released`` with the attributes ``HALF`` and ``NUMBER``, and without kinds of records."""
    columns = {name: column for name, column in released.columns.items() if name != r.KIND}
    half = np.zeros(released.n, np.int64)
    kind = released.columns.get(r.KIND)
    if kind is not None:
        half[kind == int(r.Kind.IBP)] = START
        half[kind == int(r.Kind.IBE)] = END
    columns[HALF_COLUMN] = half
    types = {**released.attr_types, HALF: "int"}
    if r.ID in columns:
        columns[ID_COLUMN] = columns.pop(r.ID)
        types.setdefault(NUMBER, "int")
    return replace(released, columns=columns, attr_types=types)


class Waiting:
    """Halves whose others have not come, as columns of released rows.

    They are kept as long as an event that begins then is.
    """

    def __init__(self) -> None:
        self._columns: dict[str, np.ndarray] = {}
        self._n = 0

    @property
    def n(self) -> int:
        """How many there are."""
        return self._n

    def joined(self, released: Released) -> Released:
        """``released`` in which each half whose other one is known has become the whole.

        Of several halves of one interval the first of each kind counts.
        """
        half = released.columns.get(HALF_COLUMN)
        if half is None or ID_COLUMN not in released.columns:
            return released
        known = released.columns.get(ID_VALID, np.ones(released.n, np.bool_))
        fresh = np.flatnonzero(known)
        if not (self._n or (half[fresh] != WHOLE).any()):
            return released
        mine = {name: column[fresh] for name, column in released.columns.items()}
        both = _stacked(self._columns, self._n, mine, len(fresh))
        of = _same_interval(both)
        intervals = int(of.max(initial=-1)) + 1
        first = [_first(of, both[HALF_COLUMN] == which, intervals) for which in (START, END)]
        is_whole = both[HALF_COLUMN] == WHOLE
        # An event tells all of its interval: halves before it wait no longer.
        told = _first(of, is_whole, intervals)
        before = np.where(told < 0, len(of), told)
        pair = np.flatnonzero((first[0] >= 0) & (first[1] >= 0) & (np.maximum(*first) < before))
        starts, ends = first[0][pair], first[1][pair]
        later = np.maximum(starts, ends)
        changed = released
        if len(pair):
            changed = _completed(released, fresh[later - self._n], both, starts, ends)
        is_whole[later] = True
        again = _again(of, both[HALF_COLUMN], is_whole)
        if again.any():
            changed = _repeated(changed, fresh[np.flatnonzero(again) - self._n])
        last = np.full(intervals, -1)
        rows = np.flatnonzero(is_whole)
        last[of[rows]] = rows
        waits = ~(is_whole | again) & (np.arange(len(of)) > last[of])
        self._keep(both, waits)
        return changed

    def forget(self, before: int) -> None:
        """Those that lie before ``before`` on the engine's clock have waited long enough."""
        if self._n:
            self._keep(self._columns, self._columns["ref"] + self._columns["unc"] >= before)

    def codes(self) -> np.ndarray:
        """Codes of texts that are in use."""
        found = [column for column in self._columns.values() if column.dtype == np.int32]
        return np.unique(np.concatenate([np.empty(0, np.int32), *found]))

    def _keep(self, columns: dict[str, np.ndarray], which: np.ndarray) -> None:
        self._columns = {name: column[which] for name, column in columns.items()}
        self._n = int(which.sum())

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {"columns": {n: c.copy() for n, c in self._columns.items()}, "n": self._n}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        self._columns = {name: column.copy() for name, column in state["columns"].items()}
        self._n = state["n"]


def _stacked(
    old: dict[str, np.ndarray], n: int, new: dict[str, np.ndarray], m: int
) -> dict[str, np.ndarray]:
    """Both, one after the other; what one lacks is 0, and not valid."""
    found = {}
    for name in {**old, **new}:
        like = old[name] if name in old else new[name]
        parts = [
            of[name] if name in of else _lacking(name, of, like, rows)
            for of, rows in ((old, n), (new, m))
        ]
        found[name] = np.concatenate(parts)
    return found


def _lacking(name: str, of: dict[str, np.ndarray], like: np.ndarray, rows: int) -> np.ndarray:
    if name.startswith(VALID_PREFIX):
        return np.full(rows, ATTR_PREFIX + name.removeprefix(VALID_PREFIX) in of)
    return np.zeros(rows, like.dtype)


def _same_interval(columns: dict[str, np.ndarray]) -> np.ndarray:
    """Numbers that are equal for halves of one interval: of a source, a type and an id."""
    keys = [columns[name].astype(np.int64) for name in (r.SOURCE, r.TYPE)]
    number = columns[ID_COLUMN]
    keys.append(number.view(np.int64) if number.dtype == np.float64 else number.astype(np.int64))
    _, of = np.unique(np.column_stack(keys), axis=0, return_inverse=True)
    return np.asarray(of).reshape(-1)


def _first(of: np.ndarray, which: np.ndarray, intervals: int) -> np.ndarray:
    """Per interval the first of the rows ``which``, or -1."""
    found = np.full(intervals, -1)
    rows = np.flatnonzero(which)[::-1]
    found[of[rows]] = rows
    return found


def _again(of: np.ndarray, half: np.ndarray, is_whole: np.ndarray) -> np.ndarray:
    """Which halves come after their like, with no whole of their interval between."""
    order = np.argsort(of, kind="stable")
    wholes = np.empty(len(of), np.int64)
    wholes[order] = np.cumsum(is_whole[order])
    keys = np.column_stack([of, wholes, np.where(is_whole, WHOLE, half)])
    _, first = np.unique(keys, axis=0, return_index=True)
    again = ~is_whole
    again[first] = False
    return again


def _repeated(released: Released, rows: np.ndarray) -> Released:
    half = released.columns[HALF_COLUMN].copy()
    half[rows] = REPEATED
    return replace(released, columns={**released.columns, HALF_COLUMN: half})


def _completed(
    released: Released, rows: np.ndarray, both: dict[str, np.ndarray], starts: np.ndarray,
    ends: np.ndarray,
) -> Released:  # fmt: skip
    """``released`` where ``rows`` are the wholes of the halves ``starts`` and ``ends``.

    It begins and is dated as its start half says; it has the attributes of both, and of what both
    say the later half's.
    """
    columns = dict(released.columns)

    def put(name: str, values: np.ndarray) -> None:
        columns[name] = columns[name].copy()
        columns[name][rows] = values

    for name in ("ts", "ref", "unc", "epoch", "clock"):
        put(name, both[name][starts])
    # An interval that ends before it begins, as its halves say, is a point where it begins.
    put("te", np.maximum(both["te"][ends], both["ts"][starts]))
    put(HALF_COLUMN, np.full(len(rows), WHOLE))
    for name in [each for each in columns if each.startswith(ATTR_PREFIX) and each != HALF_COLUMN]:
        mask = VALID_PREFIX + name.removeprefix(ATTR_PREFIX)
        if mask not in both:
            continue
        valid = columns.get(mask, np.ones(released.n, np.bool_)).copy()
        other = np.where(both[mask][starts], starts, ends)
        lacks = ~valid[rows] & both[mask][other]
        put(name, np.where(lacks, both[name][other], columns[name][rows]))
        valid[rows] |= lacks
        columns[mask] = valid
    return replace(released, columns=columns)
