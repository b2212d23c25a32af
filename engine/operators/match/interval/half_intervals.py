"""Halves of intervals: what is known of them, and how two make a whole (Z10 5.3.2).

A start half is an ``ibp`` record, an end half an ``ibe`` record; an event is whole. A half is
in the stream as a point at the time that is known of it. When both halves of an interval are
there, the later one becomes the whole. A half that comes again (a begin may be in the log twice
after a gateway's restart) says nothing new.
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


class Waiting(Restorable):
    """Halves whose others have not come, as columns of released rows.

    They are kept as long as an event that begins then is.
    """

    state_fields = ("_columns", "_n")

    def __init__(self) -> None:
        self._columns: dict[str, np.ndarray] = {}
        self._n = 0

    @property
    def n(self) -> int:
        """How many there are."""
        return self._n

    def joined(self, released: Released, before: np.ndarray | None) -> Released:
        """``released`` in which each half whose other one is known has become the whole.

        Of several halves of one interval the first of each kind counts. ``before``: of each row;
        to it, halves that lie before this time are forgotten. None: none are.
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
        # An event says all of its interval: halves before it wait no longer.
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


@kernel
def _part(
    of: np.ndarray, order: np.ndarray, kind: np.ndarray, until: np.ndarray, now: np.ndarray,
    found: np.ndarray,
) -> None:  # fmt: skip
    """Other numbers for the halves of an interval that come when the one that waits is forgotten.

    Args:
        of: the interval of each row.
        order: the rows by interval.
        kind: START, END or WHOLE.
        until: when a half has waited long enough.
        now: the time that this is compared with at each row.
        found: written.
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
    say the later half's. Either end errs as its own half does.
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
    # An interval that ends before it begins, as its halves say, is a point where it begins.
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


# What IBPs say: which intervals have begun, and whether a type announces all of them (L10 5.4.1).
#
# An IBP acts upon the rows released after it arrived. From the first IBP on every type is taken to
# be *announced*, until an interval of it comes that has begun since and whose IBP had not come, or
# an IBP names a begin which was ruled out, as no interval that was to come could have begun so
# early: then nobody can tell what else has begun unheard. Intervals and IBPs that came so are
# counted, except of intervals longer than WITHIN, which are in no match (and whose IBP may be
# forgotten by then). A copy of an IBP says nothing new.
#
# Where nothing is released, IBPs wait: no progress says that one is out of any window's reach. So
# at most ``WAITING_MAX`` wait, and what is forgotten beyond is taken as what may have begun
# unheard: it costs the trust in types, which never costs a result.


WAITING_MAX: Final = 1 << 16
"""IBPs between two released rows, 48 bytes each; memory holds those of one batch beside them."""
_FIELDS: Final = ("type", "source", r.INCARNATION, "ref", r.ARRIVAL, r.ID)


@dataclass(frozen=True, slots=True)
class Heard:
    """``begun``: of BEGUN, in order of the rows they act before. The row from which on types are
    announced (``heard``) and by type that from which on it is no more (``lost``).
    """

    begun: np.ndarray
    heard: int
    lost: dict[str, int]


class Announced(Restorable):
    """IBPs of the types of one query.

    Args:
        types: of its positive steps, one each.
        within_ns: WITHIN; None: no IBP is ever forgotten.
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
        """IBPs that have arrived: ``type source incarnation ref arrival id``."""
        self.count += len(begun["ref"])
        # What waits from before has had no row released behind it.
        kept = self._heard_last(self._waiting, np.zeros(len(self._waiting["ref"]), np.int64))
        self._waiting = {
            name: np.concatenate((known[kept], begun[name].astype(np.int64)))
            for name, known in self._waiting.items()
        }

    def before(self, released: Released, first: int, horizon: np.ndarray) -> Heard:
        """What acts upon the rows of a batch, of which the first is row ``first`` of the stream;
        ``horizon``: at each, below which no later interval ends.
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
        """Which are among the last ``WAITING_MAX`` that act ``before`` the same row, however they
        came in batches; of the others their types are noted, and when the first came.
        """
        kept = np.searchsorted(before, before, side="right") - np.arange(len(before)) <= WAITING_MAX
        self.forgotten += int((~kept).sum())
        gone = np.stack([begun["type"][~kept], begun[r.ARRIVAL][~kept]], axis=1)
        gone = np.concatenate((self._unheard, gone))
        _, firsts = np.unique(gone[:, 0], return_index=True)
        self._unheard = gone[firsts]
        return np.asarray(kept)

    def _unheard_of(self, codes: list[int], first: int, release: np.ndarray, last: int) -> None:
        """From the row on that a forgotten IBP acts upon, no type of the query is announced."""
        acting = self._unheard[:, 1] < last
        releases = self._unheard[acting & np.isin(self._unheard[:, 0], codes), 1]
        self._unheard = self._unheard[~acting]
        if len(releases):
            row = first + int(np.searchsorted(release, releases.min(), side="right"))
            self._lost |= {name: min(row, self._lost.get(name, INT_MAX)) for name in self._types}

    def _came_late(
        self, acting: Columns, codes: list[int], order: np.ndarray, passed: np.ndarray
    ) -> None:
        """IBPs of begins before ``passed``, the horizon of the row before theirs."""
        late = np.isin(acting["type"], codes) & (acting["ref"] < passed) & (order > self._heard)
        if self._within_ns is not None:
            late &= acting["ref"] >= passed - self._within_ns
        if not late.any():
            return
        keys = np.stack([acting["source"], acting[r.INCARNATION], acting[r.ID]], axis=1)
        known = np.concatenate((self._known[:, :3], keys))
        # Of several copies the first counts, and so does one that came long ago.
        since = np.arange(len(known)) - len(self._known)
        late &= _first_heard(known, since, keys) == np.arange(len(keys))
        self.late += int(late.sum())
        names = dict(zip(codes, self._types, strict=True))
        for kind, row in zip(acting["type"][late].tolist(), order[late].tolist(), strict=True):
            self._lost[names[kind]] = min(row, self._lost.get(names[kind], INT_MAX))

    def _missed(
        self, released: Released, first: int, codes: list[int], acting: Columns, order: np.ndarray
    ) -> None:
        """Intervals of announced types that come without an IBP of their own."""
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
        if self._within_ns is not None:  # of a longer one the IBP may be forgotten
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
        """Codes of texts held: of types, sources and ids, if these are texts."""
        texts = [self._waiting[name] for name in ("type", "source", r.ID)]
        texts += [self._known[:, 0], self._known[:, 2], self._unheard[:, 0]]
        return np.unique(np.concatenate(texts))


def _first_heard(known: np.ndarray, since: np.ndarray, identities: np.ndarray) -> np.ndarray:
    """Per row of ``identities`` the least ``since`` of an equal row of ``known``, or INT_MAX."""
    which = np.zeros(len(known) + len(identities), np.int64)
    for column in np.concatenate((known, identities)).T:
        # One number per row, kept small: rows are sorted as numbers, several times as fast.
        values, place = np.unique(column, return_inverse=True)
        _, which = np.unique(which * len(values) + place, return_inverse=True)
    first = np.full(int(which.max(initial=-1)) + 1, INT_MAX)
    np.minimum.at(first, which[: len(known)], since)
    return np.asarray(first[which[len(known) :]])
