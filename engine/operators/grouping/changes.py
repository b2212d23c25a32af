"""The changes that items make in a dataflow: each at once, or those of many together."""

from __future__ import annotations

import numpy as np

from slackwater.engine.kernels.jit import kernel
from slackwater.engine.kernels.records import NONE
from slackwater.engine.operators.grouping.buckets import (
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

# Each item's changes at once, item by item: what K18 sends down the stream.
#
# Source: K18 Algorithm 2. Tuples that no longer are what the bucket says leave as tombstones, then
# those that have come up instead. In the cycle (K18 V.C) a tuple is an item and the state behind
# the item before it; a new state takes back all that were made from the old one, so
# everything behind a changed place is made again there. States do not go round the cycle one by
# one, with a search in the bucket for each: one item emits all its changes in the bucket's order.


@kernel
def take_in(b: Buckets, a: Arriving, first: int, reach: int, out: TupleChanges) -> int:
    """Take items from row ``first`` on to their buckets.

    Args:
        b: has room for all rows.
        a: the items.
        first: the first row that was not taken yet.
        reach: how many items behind it an item changes the tuples of.
        out: filled from ``b.tally.changes`` on.

    Returns:
        The first row for whose changes there is no room, or the number of rows; LOST.
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


# The changes of many items emitted together: an item that is taken back at once never was.
#
# All items go to their buckets, those that are late without more ado; then the buckets where such
# are emit the changes of their tuples. What a valid item is stays the same; there are fewer
# tombstones than by K18's Algorithm 2, as a tuple that many late items change is made again once.
# How much fewer depends on how many items come at once, so this is for dataflows of which only what
# passes the barrier is looked at.


@kernel
def take_all_in(b: Buckets, a: Arriving, out: TupleChanges, touched: np.ndarray) -> int:
    """Take all items to their buckets; those in order make their tuples at once.

    Args:
        b: has room for all rows.
        a: the items.
        out: has room for two changes of each item, from ``b.tally.changes`` on.
        touched: filled with the buckets that have changes to emit, each once.

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
        elif first == gone or (changed != NOBODY and is_behind(b.entries[first], a, i)):
            b.buckets[bucket].changed = changed
    return found


@kernel
def emit(
    b: Buckets, touched: np.ndarray, first: int, row: int, reach: int, out: TupleChanges
) -> int:
    """What has become of the tuples of ``touched`` buckets from ``first`` on, as of ``row``.

    Args:
        b: after ``take_all_in``.
        touched: buckets.
        first: the first one that has emitted nothing yet.
        row: the cause of the changes.
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
