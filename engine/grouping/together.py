"""The changes of many items told together: an item that is taken back at once never was.

All items go to their buckets, those that are late without more ado; then the buckets where such are
tell what has become of their tuples. What a valid item is stays the same; there are fewer
tombstones than by K18's Algorithm 2, as a tuple that many late items change is made anew once. How
much fewer depends on how many items come at once, so this is for dataflows of which only what
passes the barrier is looked at.
"""

from __future__ import annotations

import numpy as np

from engine.grouping.buckets import (
    LOST,
    NOBODY,
    Arriving,
    Buckets,
    TupleChanges,
    bucket_of,
    is_behind,
    make,
    put,
    remove,
    take_back,
)
from engine.kernels.integers import NONE
from engine.kernels.jit import inline, kernel


@inline
def _is_before(b: Buckets, place: int, other: int, a: Arriving) -> bool:
    """Whether one entry of a bucket comes before another one, not behind or equal."""
    one, two = b.entries[place], b.entries[other]
    if one.ref != two.ref:
        return bool(one.ref < two.ref)
    if one.source != two.source:
        return bool(a.rank[one.source] < a.rank[two.source])
    if one.seq != two.seq:
        return bool(one.seq < two.seq)
    return bool(one.child < two.child)


@kernel
def take_all_in(b: Buckets, a: Arriving, out: TupleChanges, touched: np.ndarray) -> int:
    """Take all items to their buckets; those in order make their tuples at once.

    Args:
        b: has room for all rows.
        a: the items.
        out: has room for two changes of each item, from ``b.tally.changes`` on.
        touched: filled with the buckets that have something to tell, each once.

    Returns:
        How many are touched; LOST: a tombstone's item is not there.
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
        elif first == gone or (changed != NOBODY and _is_before(b, changed, first, a)):
            b.buckets[bucket].changed = changed
    return found


@kernel
def tell(
    b: Buckets, touched: np.ndarray, first: int, row: int, reach: int, out: TupleChanges
) -> int:
    """What has become of the tuples of ``touched`` buckets from ``first`` on, as of ``row``.

    Args:
        b: after ``take_all_in``.
        touched: buckets.
        first: the first one that has not told yet.
        row: that is told as the cause.
        reach: how many items behind it an item changes the tuples of.
        out: filled from ``b.tally.changes`` on.

    Returns:
        The first bucket for whose changes there is no room, or the number of them.
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
