"""Halves of intervals, and how two halves make a whole (Z10 5.3.2).

A start half is an ``ibp`` record, an end half an ``ibe`` record; an event is whole. In the stream a
half is a point at its known time. When both halves of an interval have come, the later one becomes
the whole. A repeated half is ignored; a begin may be in the log twice after a gateway's restart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from msgspec.structs import replace

from slackwater.edge_agent import records as r
from slackwater.engine.core.columns import ID_TYPE, VALID_PREFIX, Columns
from slackwater.engine.core.frame import ATTR_PREFIX
from slackwater.engine.core.operator import Restorable
from slackwater.engine.core.released import NO_EPOCH, Released
from slackwater.engine.core.timeline import EPOCH_START, LONG_AGO, UNC_START
from slackwater.engine.kernels.jit import kernel
from slackwater.engine.kernels.records import INT_MAX
from slackwater.engine.operators.match.match_results import END_HALF, HALF_COLUMN, START_HALF
from slackwater.engine.operators.match.search.state import BEGUN
from slackwater.engine.operators.match.store import widest_unc
from slackwater.engine.query.plan import Attribute

WHOLE: Final = 0
START: Final = START_HALF
END: Final = END_HALF
REPEATED: Final = 3
"""A half that repeats a waiting one: it matches no step."""
HALF: Final = HALF_COLUMN.removeprefix(ATTR_PREFIX)
"""Attribute: which half an event is; no query can name it (no name begins with ``$``)."""
NUMBER: Final = ID_TYPE
"""Attribute: the id of the interval; no query can name it."""
ID_COLUMN: Final = ATTR_PREFIX + NUMBER
ID_VALID: Final = VALID_PREFIX + NUMBER


def half_of(alias: str) -> Attribute:
    """Return the attribute that says which half the event of step ``alias`` is."""
    return Attribute(HALF, alias)


def id_of(alias: str) -> Attribute:
    """Return the attribute with the interval's id of step ``alias``."""
    return Attribute(NUMBER, alias)


def with_halves(released: Released) -> Released:
    """Return ``released`` with attributes ``HALF`` and ``NUMBER`` for columns ``kind`` and ``id``.

    ``HALF`` is START, END or WHOLE by the kind of record.
    """
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


class Waiting(Restorable):
    """Halves that wait for the other half, as columns of released rows.

    They are kept as long as an event at their time.
    """

    state_fields = ("_columns", "_n")

    def __init__(self) -> None:
        self._columns: dict[str, np.ndarray] = {}
        self._n = 0

    @property
    def n(self) -> int:
        """Number of waiting halves."""
        return self._n

    def joined(self, released: Released, before: np.ndarray | None) -> Released:
        """Return ``released`` where each half whose other half is known is replaced by the whole.

        The first half of each kind counts. ``before``: (n,), halves before this time [ns] are
        dropped by the time of the row; None: none are.
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
        if before is not None:
            now = np.concatenate([np.full(self._n, LONG_AGO), before[fresh]])
            until, kind = both["ref"] + both["unc"], both[HALF_COLUMN]
            by_interval, number = np.argsort(of, kind="stable"), np.empty_like(of)
            _part(of, by_interval, kind, until, now, number)
            of = number
        intervals = int(of.max(initial=-1)) + 1
        first = [_first(of, both[HALF_COLUMN] == which, intervals) for which in (START, END)]
        is_whole = both[HALF_COLUMN] == WHOLE
        # A whole event ends the wait of earlier halves of its interval.
        whole = _first(of, is_whole, intervals)
        whole[whole < 0] = len(of)
        pair = np.flatnonzero((first[0] >= 0) & (first[1] >= 0) & (np.maximum(*first) < whole))
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
        """Drop the halves whose time on the engine's clock is certainly before ``before`` [ns]."""
        if self._n:
            self._keep(self._columns, self._columns["ref"] + self._columns["unc"] >= before)

    def codes(self) -> np.ndarray:
        """Return the codes of texts in use."""
        found = [column for column in self._columns.values() if column.dtype == np.int32]
        return np.unique(np.concatenate([np.empty(0, np.int32), *found]))

    def _keep(self, columns: dict[str, np.ndarray], which: np.ndarray) -> None:
        self._columns = {name: column[which] for name, column in columns.items()}
        self._n = int(which.sum())


def _stacked(
    old: dict[str, np.ndarray], n: int, new: dict[str, np.ndarray], m: int
) -> dict[str, np.ndarray]:
    """Concatenate ``old`` (``n`` rows) and ``new`` (``m`` rows); missing values are 0, invalid."""
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
    """Return numbers that are equal for halves of equal source, type and id."""
    keys = [columns[name].astype(np.int64) for name in (r.SOURCE, r.TYPE)]
    number = columns[ID_COLUMN]
    keys.append(number.view(np.int64) if number.dtype == np.float64 else number.astype(np.int64))
    _, of = np.unique(np.column_stack(keys), axis=0, return_inverse=True)
    return np.asarray(of).reshape(-1)


@kernel
def _part(
    of: np.ndarray, order: np.ndarray, kind: np.ndarray, until: np.ndarray, now: np.ndarray,
    found: np.ndarray,
) -> None:  # fmt: skip
    """Number intervals so that halves after the waiting one is dropped get a new number.

    Args:
        of: the interval of each row.
        order: the rows, by interval.
        kind: START, END or WHOLE.
        until: the time until which a half waits [ns].
        now: the time at each row [ns].
        found: output, the number of each row.
    """
    number, waits = -1, -1
    for place in range(len(order)):
        row = order[place]
        if place == 0 or of[row] != of[order[place - 1]]:
            number, waits = number + 1, -1
        if waits >= 0 and until[waits] < now[row]:
            number, waits = number + 1, -1
        if kind[row] == WHOLE or (waits >= 0 and kind[row] != kind[waits]):
            waits = -1
        elif waits < 0:
            waits = row
        found[row] = number


def _first(of: np.ndarray, which: np.ndarray, intervals: int) -> np.ndarray:
    """Return per interval the first of the rows ``which``, or -1."""
    found = np.full(intervals, -1)
    rows = np.flatnonzero(which)[::-1]
    found[of[rows]] = rows
    return found


def _again(of: np.ndarray, half: np.ndarray, is_whole: np.ndarray) -> np.ndarray:
    """Return which halves repeat an earlier half without a whole of their interval in between."""
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
    """Return ``released`` with ``rows`` replaced by the wholes of halves ``starts`` and ``ends``.

    A whole takes begin and clock from the start half, and the uncertainty of each end from its own
    half. It has the attributes of both; if both have one, that of the later half.
    """
    columns = dict(released.columns)
    for name, start in (("unc", UNC_START), ("epoch", EPOCH_START)):
        columns.setdefault(start, columns[name])

    def put(name: str, values: np.ndarray) -> None:
        columns[name] = columns[name].copy()
        columns[name][rows] = values

    for name in ("ts", "ref", "clock"):
        put(name, both[name][starts])
    put(UNC_START, both["unc"][starts])
    put(EPOCH_START, both["epoch"][starts])
    # If the end half is before the start half, the interval is a point at its begin.
    te = np.maximum(both["te"][ends], both["ts"][starts])
    put("te", te)
    off = np.abs(both["ref"][ends] - te - both["ref"][starts] + both["ts"][starts])
    alike = (off == 0) & (both["clock"][ends] == both["clock"][starts])
    put("unc", np.minimum(both["unc"][ends] + off, r.UNC_MAX_NS))
    put("epoch", np.where(alike, both["epoch"][ends], NO_EPOCH))
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


# IBPs: which intervals have begun, and whether a type announces all of its intervals (L10 5.4.1).
#
# An IBP applies to the rows released after its arrival. From the first IBP on every type is assumed
# to be *announced*. The assumption ends if an interval of the type comes that began since then and
# has no earlier IBP, or if an IBP has a begin that progress had excluded: other intervals may then
# have begun without an IBP as well. Such intervals and IBPs are counted, except intervals longer
# than WITHIN, which are in no match (and whose IBP may be dropped by then). Copies of an IBP are
# ignored.
#
# While no row is released, IBPs wait, as no progress can drop them. At most ``WAITING_MAX`` wait.
# If more come, the oldest are dropped and no type is assumed to be announced. That never affects
# results.


WAITING_MAX: Final = 1 << 16
"""Largest number of IBPs between two released rows, 48 bytes each; plus those of one batch."""
_FIELDS: Final = ("type", "source", r.INCARNATION, "ref", r.ARRIVAL, r.ID)


@dataclass(frozen=True, slots=True)
class Heard:
    """IBPs that apply to a batch.

    ``begun``: BEGUN, in order of the rows that they apply to. ``heard``: the row from which types
    are announced. ``lost``: by type, the row from which it is no longer announced.
    """

    begun: np.ndarray
    heard: int
    lost: dict[str, int]


class Announced(Restorable):
    """IBPs of the types of one query.

    Args:
        types: the type of each positive step.
        within_ns: WITHIN [ns]; None: no IBP is ever dropped.
    """

    state_fields = (
        "_waiting", "_known", "_heard", "_since", "_passed", "_lost", "_unheard", "count",
        "missing", "late", "forgotten",
    )  # fmt: skip

    def __init__(self, types: Sequence[str], within_ns: int | None) -> None:
        self._types, self._within_ns = tuple(types), within_ns
        self._waiting = {name: np.empty(0, np.int64) for name in _FIELDS}
        self._known = np.empty((0, 4), np.int64)
        self._heard, self._since, self._passed = INT_MAX, INT_MAX, -INT_MAX
        self._lost: dict[str, int] = {}
        self._unheard = np.empty((0, 2), np.int64)
        self.count = self.missing = self.late = self.forgotten = 0

    def begins(self, begun: Columns) -> None:
        """Add IBPs that have arrived: columns ``type source incarnation ref arrival id``."""
        self.count += len(begun["ref"])
        # No row has been released since the waiting IBPs came.
        kept = self._heard_last(self._waiting, np.zeros(len(self._waiting["ref"]), np.int64))
        self._waiting = {
            name: np.concatenate((known[kept], begun[name].astype(np.int64)))
            for name, known in self._waiting.items()
        }

    def before(self, released: Released, first: int, horizon: np.ndarray) -> Heard:
        """Return the IBPs that apply to a batch.

        ``first``: number of its first row in the stream. ``horizon``: per row, no later interval
        ends before it [ns].
        """
        codes = [released.strings.find(name) for name in self._types]
        release = released.columns.get("release", np.empty(0, np.int64))
        last = int(release[-1]) if released.n else -INT_MAX
        waiting = self._waiting
        now = waiting[r.ARRIVAL] < last
        acting = {name: column[now] for name, column in waiting.items()}
        self._waiting = {name: column[~now] for name, column in waiting.items()}
        order = first + np.searchsorted(release, acting[r.ARRIVAL], side="right")
        kept = self._heard_last(acting, order)
        acting, order = {name: column[kept] for name, column in acting.items()}, order[kept]
        self._unheard_of(codes, first, release, last)
        parts = [np.empty(0, BEGUN)]
        for step, code in enumerate(codes):
            mine = acting["type"] == code
            if mine.any():
                part = np.zeros(int(mine.sum()), BEGUN)
                part["step"], part["time"], part["order"] = step, acting["ref"][mine], order[mine]
                parts.append(part)
        acting_rows = np.flatnonzero(np.isin(acting["type"], codes))
        if self._heard == INT_MAX and len(acting_rows):
            self._heard, self._since = (
                int(order[acting_rows[0]]),
                int(acting["ref"][acting_rows[0]]),
            )
        passed = np.concatenate(([self._passed], horizon))
        self._came_late(acting, codes, order, passed[order - first])
        self._missed(released, first, codes, acting, order)
        self._passed = int(passed[-1])
        if self._within_ns is not None and len(self._known):
            error = int(released.bound.at(np.array([self._passed]))[0])
            oldest = self._passed - self._within_ns - 2 * error
            self._known = self._known[self._known[:, 3] >= oldest]
        begun = np.concatenate(parts)
        begun = begun[np.lexsort((begun["step"], begun["order"]))]
        return Heard(begun, self._heard, dict(self._lost))

    def _heard_last(self, begun: Columns, before: np.ndarray) -> np.ndarray:
        """Return which IBPs are among the last ``WAITING_MAX`` that apply from the row ``before``.

        This does not depend on batches. For the others, type and first arrival are recorded.
        """
        kept = np.searchsorted(before, before, side="right") - np.arange(len(before)) <= WAITING_MAX
        self.forgotten += int((~kept).sum())
        gone = np.stack([begun["type"][~kept], begun[r.ARRIVAL][~kept]], axis=1)
        gone = np.concatenate((self._unheard, gone))
        _, firsts = np.unique(gone[:, 0], return_index=True)
        self._unheard = gone[firsts]
        return np.asarray(kept)

    def _unheard_of(self, codes: list[int], first: int, release: np.ndarray, last: int) -> None:
        """End the announcement of all types from the row to which a dropped IBP applies."""
        acting = self._unheard[:, 1] < last
        releases = self._unheard[acting & np.isin(self._unheard[:, 0], codes), 1]
        self._unheard = self._unheard[~acting]
        if len(releases):
            row = first + int(np.searchsorted(release, releases.min(), side="right"))
            self._lost |= {name: min(row, self._lost.get(name, INT_MAX)) for name in self._types}

    def _came_late(
        self, acting: Columns, codes: list[int], order: np.ndarray, passed: np.ndarray
    ) -> None:
        """Record IBPs with a begin before ``passed``, the horizon at the row before theirs."""
        late = np.isin(acting["type"], codes) & (acting["ref"] < passed) & (order > self._heard)
        if self._within_ns is not None:
            late &= acting["ref"] >= passed - self._within_ns
        if not late.any():
            return
        keys = np.stack([acting["source"], acting[r.INCARNATION], acting[r.ID]], axis=1)
        known = np.concatenate((self._known[:, :3], keys))
        # Only the first copy counts, including one of an earlier batch.
        since = np.arange(len(known)) - len(self._known)
        late &= _first_heard(known, since, keys) == np.arange(len(keys))
        self.late += int(late.sum())
        names = dict(zip(codes, self._types, strict=True))
        for kind, row in zip(acting["type"][late].tolist(), order[late].tolist(), strict=True):
            self._lost[names[kind]] = min(row, self._lost.get(names[kind], INT_MAX))

    def _missed(
        self, released: Released, first: int, codes: list[int], acting: Columns, order: np.ndarray
    ) -> None:
        """Record intervals of announced types that come without an IBP."""
        mine = np.isin(acting["type"], codes)
        fresh = np.stack(
            [acting["source"], acting[r.INCARNATION], acting[r.ID], acting["ref"]], axis=1
        )[mine]
        past = np.zeros(len(self._known), np.int64)
        known, since = np.concatenate((self._known, fresh)), np.concatenate((past, order[mine]))
        self._known = known
        columns = released.columns
        if self._heard == INT_MAX or not released.n:
            return
        rows = np.flatnonzero(np.isin(columns["type"], codes))
        rows = rows[first + rows >= self._heard]
        long = columns["te"][rows] - columns["ts"][rows]
        fits = long > 0
        if self._within_ns is not None:  # the IBP of a longer one may be dropped
            fits &= long <= self._within_ns + 2 * widest_unc(released)[rows]
        rows = rows[fits]
        if not len(rows):
            return
        ids = columns.get(r.ID, np.full(released.n, -1))
        incarnation = columns.get(r.INCARNATION, np.zeros(released.n, np.int64))
        identities = np.stack([columns["source"], incarnation, ids], axis=1)[rows].astype(np.int64)
        announced = _first_heard(known[:, :3], since, identities) <= first + rows
        self.missing += int((~announced).sum())
        lost = rows[~announced & (columns["ref"][rows] >= self._since)]
        names = dict(zip(codes, self._types, strict=True))
        kinds, places = np.unique(columns["type"][lost], return_index=True)
        for kind, place in zip(kinds.tolist(), places.tolist(), strict=True):
            row = first + int(lost[place])
            self._lost[names[kind]] = min(row, self._lost.get(names[kind], INT_MAX))

    def codes(self) -> np.ndarray:
        """Return the codes of texts in use: types, sources and, if they are texts, ids."""
        texts = [self._waiting[name] for name in ("type", "source", r.ID)]
        texts += [self._known[:, 0], self._known[:, 2], self._unheard[:, 0]]
        return np.unique(np.concatenate(texts))


def _first_heard(known: np.ndarray, since: np.ndarray, identities: np.ndarray) -> np.ndarray:
    """Return per row of ``identities`` the least ``since`` of equal ``known`` rows, or INT_MAX."""
    which = np.zeros(len(known) + len(identities), np.int64)
    for column in np.concatenate((known, identities)).T:
        # One small number per row: sorting numbers is several times as fast as sorting rows.
        values, place = np.unique(column, return_inverse=True)
        _, which = np.unique(which * len(values) + place, return_inverse=True)
    first = np.full(int(which.max(initial=-1)) + 1, INT_MAX)
    np.minimum.at(first, which[: len(known)], since)
    return np.asarray(first[which[len(known) :]])
