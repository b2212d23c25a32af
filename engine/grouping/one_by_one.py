"""Each item's changes at once, item by item: what K18 sends down the stream.

Source: K18 Algorithm 2. Tuples that no longer are what the bucket says leave as tombstones, then
those that have come up instead. In the cycle (K18 V.C) a tuple is an item and the state behind the
item before it; a new state takes back all that were made from the old one, so there everything
behind a changed place is made anew. Instead of sending states round the cycle one by one, each of
which would be found in the bucket anew, all that one item changes is told in the bucket's order.
"""

from __future__ import annotations

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
from engine.kernels.jit import kernel


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
