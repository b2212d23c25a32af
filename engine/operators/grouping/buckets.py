"""Windowed grouping: a sorted bucket per key, its tuples, and their changes (K18 V.B, V.C)."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final, NamedTuple

import numpy as np

from slackwater.engine.core.operator import Restorable
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import NONE, Record, record
from slackwater.engine.kernels.tables import slot_of

# The bucket of an item: that of its key, or of the hash of its key.


Key = str | tuple[str, ...] | Callable[[Any], Any]
"""Fields of a structured payload, or a function: of the whole structured array to an array (a value
or a row of values per item), or of one Python object to anything that can be a key of a dict."""
Hash = Callable[[Any], Any]
"""A hash of a key, or of an array of keys, as ``Key``; items of equal hashes share a bucket."""


class BucketKeys(Restorable):
    """Computes the keys of one grouping's items.

    Args:
        key: of an item; None: all items have the same key.
        hashed: the hash of its key; None: the key itself.
    """

    state_fields = ("_codes", "_next")

    def __init__(self, key: Key | None, hashed: Hash | None) -> None:
        self._key, self._hash = key, hashed
        self._codes: dict[Hashable, int] = {}
        self._next = 0

    def of(self, payload: np.ndarray) -> np.ndarray:
        """(n, columns) int64: equal rows for equal keys."""
        if self._key is None:
            return np.zeros((len(payload), 1), np.int64)
        if payload.dtype == object:
            return self._coded(payload)
        if callable(self._key):
            found = [np.asarray(self._key(payload))]
        else:
            names = (self._key,) if isinstance(self._key, str) else self._key
            found = [payload[name] for name in names]
        if self._hash is not None:
            found = [np.asarray(self._hash(found[0] if len(found) == 1 else tuple(found)))]
        columns = [each if each.ndim == 2 else each[:, None] for each in found]
        return np.ascontiguousarray(np.concatenate([_as_int64(each) for each in columns], axis=1))

    def _coded(self, payload: np.ndarray) -> np.ndarray:
        found = np.empty((len(payload), 1), np.int64)
        key = self._key
        assert callable(key)
        for place, each in enumerate(payload):
            value = key(each)
            value = value if self._hash is None else self._hash(value)
            code = self._codes.get(value)
            if code is None:
                code = self._codes[value] = self._next
                self._next += 1
            found[place, 0] = code
        return found

    def forget(self, used: np.ndarray) -> None:
        """Forget the keys whose codes are not in ``used``."""
        if self._codes:
            left = set(used.reshape(-1).tolist())
            self._codes = {key: code for key, code in self._codes.items() if code in left}


def _as_int64(values: np.ndarray) -> np.ndarray:
    """int64, equal for equal ``values`` (0.0 and -0.0 are equal)."""
    if values.dtype.kind == "f":
        return (values.astype(np.float64) + 0.0).view(np.int64)
    return values.astype(np.int64)


# The state of windowed grouping: a sorted bucket per key, and the tuples of its items (K18 V.B).
#
# A bucket is a list that is searched backwards from its last item, so an item in order costs one
# comparison, and a late one as many as there are later items in its bucket.


ENTRY: Final = record(
    "ref", "source", "seq", "origin", "child", "number", "made", "earlier", "later", "bucket"
)
"""An item in its ``bucket`` (NONE: it is removed); ``made``: number of the tuple that it ends, or
NONE. The first place is no item: it represents the place before a bucket's first item.
"""
BUCKET: Final = record("first", "last", "changed")
"""``changed``: the first entry whose tuple changes, if changes are emitted together."""
TALLY: Final = record("entries", "buckets", "made", "changes", "removed")
"""Numbers of each; ``made``: the next tuple's number; ``removed``: removed entries."""
NOBODY: Final = 0
LOST: Final = -1
"""Instead of a row: a tombstone refers to an unknown item."""


class Buckets(NamedTuple):
    """``keys``: of the buckets, (n, columns of the key) int64."""

    entries: np.ndarray
    buckets: np.ndarray
    keys: np.ndarray
    slots: np.ndarray
    tally: np.ndarray


class Arriving(NamedTuple):
    """Columns of ``grouping.items.Items``, their keys, and the order of sources."""

    ref: np.ndarray
    source: np.ndarray
    seq: np.ndarray
    origin: np.ndarray
    child: np.ndarray
    number: np.ndarray
    tombstone: np.ndarray
    key: np.ndarray
    rank: np.ndarray


class TupleChanges(NamedTuple):
    """Insertions and retractions of tuples, in order. ``ends``: ENTRY, a copy of the entry that
    ends the tuple, at the place ``entry``; ``tombstone``, ``row``: as in
    ``engine.operators.grouping.items.Items``; ``members``: (n, window) entries of inserted tuples;
    NOBODY: the bucket has no more.
    """

    ends: np.ndarray
    tombstone: np.ndarray
    row: np.ndarray
    entry: np.ndarray
    members: np.ndarray


def room_for(changes: int, window: int) -> TupleChanges:
    """Room for ``changes`` changes of tuples of ``window`` items."""
    return TupleChanges(
        np.empty(changes, ENTRY), np.empty(changes, np.bool_), np.empty(changes, np.int64),
        np.empty(changes, np.int64), np.empty((changes, window), np.int64),
    )  # fmt: skip


@inline
def is_behind(entry: Record, a: Arriving, i: int) -> bool:
    """Whether ``entry`` is after item ``i``; of equal ones the older entry is first."""
    if entry.ref != a.ref[i]:
        return bool(entry.ref > a.ref[i])
    if entry.source != a.source[i]:
        return bool(a.rank[entry.source] > a.rank[a.source[i]])
    if entry.seq != a.seq[i]:
        return bool(entry.seq > a.seq[i])
    if entry.origin != a.origin[i]:
        return bool(entry.origin > a.origin[i])
    return bool(entry.child > a.child[i])


@inline
def take_back(b: Buckets, row: int, place: int, out: TupleChanges) -> int:
    """Retract the tuple that the entry at ``place`` ends; returns its place in ``out``."""
    at = b.tally[0].changes
    b.tally[0].changes = at + 1
    out.ends[at] = b.entries[place]
    out.tombstone[at], out.row[at], out.entry[at] = True, row, place
    return int(at)


@inline
def make(b: Buckets, row: int, place: int, out: TupleChanges) -> None:
    """Insert the tuple that the entry at ``place`` ends, by the current bucket."""
    b.entries[place].made = b.tally[0].made
    b.tally[0].made += 1
    at = take_back(b, row, place, out)
    out.tombstone[at] = False
    member = place
    for back in range(out.members.shape[1] - 1, -1, -1):
        out.members[at, back] = member
        if member != NOBODY:
            member = b.entries[member].earlier


@inline
def bucket_of(b: Buckets, a: Arriving, i: int) -> int:
    """The bucket of item ``i``, created if there is none."""
    slot = slot_of(b.slots, b.keys, a.key[i])
    if b.slots[slot] == NONE:
        new = b.tally[0].buckets
        b.tally[0].buckets = new + 1
        b.slots[slot] = new
        for part in range(a.key.shape[1]):
            b.keys[new, part] = a.key[i, part]
        b.buckets[new].first = NOBODY
        b.buckets[new].last = NOBODY
        b.buckets[new].changed = NOBODY
    return int(b.slots[slot])


@inline
def put(b: Buckets, a: Arriving, i: int, bucket: int, earlier: int, later: int) -> int:
    """Insert item ``i`` between two entries of its bucket; returns its place."""
    place = b.tally[0].entries
    b.tally[0].entries = place + 1
    entry = b.entries[place]
    entry.ref = a.ref[i]
    entry.source = a.source[i]
    entry.seq = a.seq[i]
    entry.origin = a.origin[i]
    entry.child = a.child[i]
    entry.number = a.number[i]
    entry.earlier = earlier
    entry.later = later
    entry.made = NONE
    entry.bucket = bucket
    if earlier == NOBODY:
        b.buckets[bucket].first = place
    else:
        b.entries[earlier].later = place
    if later == NOBODY:
        b.buckets[bucket].last = place
    else:
        b.entries[later].earlier = place
    return int(place)


@inline
def remove(b: Buckets, place: int, bucket: int) -> None:
    """Remove the entry at ``place`` from its bucket; its place is not reused."""
    entry = b.entries[place]
    if entry.earlier == NOBODY:
        b.buckets[bucket].first = entry.later
    else:
        b.entries[entry.earlier].later = entry.later
    if entry.later == NOBODY:
        b.buckets[bucket].last = entry.earlier
    else:
        b.entries[entry.later].earlier = entry.earlier
    entry.bucket = NONE
    b.tally[0].removed += 1


@inline
def _is_needed(b: Buckets, place: int, floor: int, final: int) -> bool:
    """Whether later items may need an entry: ``final`` entries before each one are needed."""
    entry = b.entries[place]
    if entry.bucket == NONE:
        return False
    left, later = final, entry.later
    if entry.ref < floor:
        while left > 0 and later != NOBODY and b.entries[later].ref < floor:
            left -= 1
            later = b.entries[later].later
    return bool(entry.ref >= floor or left > 0)


@kernel
def keep(
    b: Buckets, floor: int, final: int, fresh: np.ndarray, kept: np.ndarray, place_of: np.ndarray,
    used: np.ndarray,
) -> int:  # fmt: skip
    """Copy the entries that later items may need to ``fresh``, in order of arrival.

    Args:
        b: its entries are unchanged; its buckets refer to ``fresh`` afterwards.
        floor: no later item has a ref below it.
        final: the number of a bucket's items below ``floor`` that later ones need.
        fresh: room for all entries.
        kept: filled with the old places of entries.
        place_of: filled: by old place the new one, or NOBODY.
        used: false; set to true for buckets with entries.

    Returns:
        the number of entries, the first place included.
    """
    size = 1
    kept[0] = NOBODY
    place_of[0] = NOBODY
    for place in range(1, b.tally[0].entries):
        place_of[place] = NOBODY
        if _is_needed(b, place, floor, final):
            fresh[size] = b.entries[place]
            kept[size] = place
            place_of[place] = size
            size += 1
    for place in range(1, size):
        entry = fresh[place]
        entry.earlier = place_of[entry.earlier]
        entry.later = place_of[entry.later]
        used[entry.bucket] = True
        if entry.earlier == NOBODY:
            b.buckets[entry.bucket].first = place
        if entry.later == NOBODY:
            b.buckets[entry.bucket].last = place
    return size


@kernel
def close_ranks(b: Buckets, used: np.ndarray, number_of: np.ndarray) -> int:
    """Remove the buckets that are not ``used``; returns the number of the others.

    ``number_of``: filled with the new number of each. The slots must be filled again.
    """
    left = 0
    for bucket in range(b.tally[0].buckets):
        number_of[bucket] = left
        if used[bucket]:
            b.buckets[left] = b.buckets[bucket]
            for part in range(b.keys.shape[1]):
                b.keys[left, part] = b.keys[bucket, part]
            left += 1
    for place in range(1, b.tally[0].entries):
        b.entries[place].bucket = number_of[b.entries[place].bucket]
    b.tally[0].buckets = left
    return left


# The changes of each item, item by item: the output of K18.
#
# Source: K18 Algorithm 2. Tuples that the bucket no longer has are retracted by tombstones, then
# the new ones are inserted. In the cycle (K18 V.C) a tuple is an item and the state after the
# previous item; a new state retracts all tuples made from the old one, so everything after a
# changed place is computed again. States do not pass through the cycle one by one, with a search in
# the bucket for each: one item emits all its changes in the order of the bucket.


@kernel
def take_in(b: Buckets, a: Arriving, first: int, reach: int, out: TupleChanges) -> int:
    """Insert items from row ``first`` on into their buckets.

    Args:
        b: has room for all rows.
        a: the items.
        first: the first row to insert.
        reach: the number of later items whose tuples an item changes.
        out: filled from ``b.tally.changes`` on.

    Returns:
        the first row without room for its changes, or the number of rows; LOST.
    """
    for i in range(first, len(a.ref)):
        bucket = bucket_of(b, a, i)
        later, earlier, behind = NOBODY, b.buckets[bucket].last, 0
        if a.tombstone[i]:
            while earlier != NOBODY and b.entries[earlier].number != a.number[i]:
                later, earlier = earlier, b.entries[earlier].earlier
                behind += 1
            if earlier == NOBODY:
                return LOST
        else:
            while earlier != NOBODY and is_behind(b.entries[earlier], a, i):
                later, earlier = earlier, b.entries[earlier].earlier
                behind += 1
        behind = min(behind, reach)
        if b.tally[0].changes + 2 * behind + 1 > len(out.row):
            return i
        if a.tombstone[i]:
            take_back(b, i, earlier, out)
        place = later
        for _ in range(behind):
            take_back(b, i, place, out)
            place = b.entries[place].later
        if a.tombstone[i]:
            remove(b, earlier, bucket)
        else:
            make(b, i, put(b, a, i, bucket, earlier, later), out)
        place = later
        for _ in range(behind):
            make(b, i, place, out)
            place = b.entries[place].later
    return len(a.ref)


# The changes of many items, emitted together: an item that is retracted at once is never emitted.
#
# All items are inserted into their buckets; then the buckets with late items emit the changes of
# their tuples. The valid items are the same; there are fewer tombstones than by K18's Algorithm 2,
# as a tuple that many late items change is computed once. The number of tombstones depends on the
# items per call, so this is for dataflows whose only output is that of the barrier.


@kernel
def take_all_in(b: Buckets, a: Arriving, out: TupleChanges, touched: np.ndarray) -> int:
    """Insert all items into their buckets; those in order make their tuples at once.

    Args:
        b: has room for all rows.
        a: the items.
        out: has room for two changes of each item, from ``b.tally.changes`` on.
        touched: filled with the buckets that have changes to emit, each once.

    Returns:
        the number of these buckets; LOST: a tombstone refers to an unknown item.
    """
    found = 0
    for i in range(len(a.ref)):
        bucket = bucket_of(b, a, i)
        later, earlier = NOBODY, b.buckets[bucket].last
        if a.tombstone[i]:
            while earlier != NOBODY and b.entries[earlier].number != a.number[i]:
                later, earlier = earlier, b.entries[earlier].earlier
            if earlier == NOBODY:
                return LOST
            for place in (earlier, later):
                if place != NOBODY and b.entries[place].made != NONE:
                    take_back(b, i, place, out)
                    b.entries[place].made = NONE
            remove(b, earlier, bucket)
            changed, gone = later, earlier
        else:
            while earlier != NOBODY and is_behind(b.entries[earlier], a, i):
                later, earlier = earlier, b.entries[earlier].earlier
            changed, gone = put(b, a, i, bucket, earlier, later), NONE
            if later == NOBODY and b.buckets[bucket].changed == NOBODY:
                make(b, i, changed, out)
                continue
        first = b.buckets[bucket].changed
        if first == NOBODY and changed != NOBODY:
            touched[found] = bucket
            found += 1
            b.buckets[bucket].changed = changed
        elif first == gone or (changed != NOBODY and is_behind(b.entries[first], a, i)):
            b.buckets[bucket].changed = changed
    return found


@kernel
def emit(
    b: Buckets, touched: np.ndarray, first: int, row: int, reach: int, out: TupleChanges
) -> int:
    """Emit the changes of the tuples of ``touched`` buckets from ``first`` on.

    Args:
        b: after ``take_all_in``.
        touched: buckets.
        first: the first one to emit.
        row: the cause of the changes.
        reach: the number of later items whose tuples an item changes.
        out: filled from ``b.tally.changes`` on.

    Returns:
        the first bucket without room for its changes, or their number.
    """
    for number in range(first, len(touched)):
        bucket = touched[number]
        start = b.buckets[bucket].changed
        entries, place = 0, start
        while place != NOBODY:
            entries += 1
            place = b.entries[place].later
        if b.tally[0].changes + 2 * entries > len(out.row):
            return number
        left, place = reach + 1, start
        while place != NOBODY:
            is_new = b.entries[place].made == NONE
            if is_new:
                left = reach + 1
            if left > 0:
                if not is_new:
                    take_back(b, row, place, out)
                make(b, row, place, out)
                left -= 1
            place = b.entries[place].later
        b.buckets[bucket].changed = NOBODY
    return len(touched)
