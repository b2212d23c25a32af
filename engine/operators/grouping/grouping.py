"""A grouping at work: its buckets grow with what comes and shrink with the watermark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from slackwater.engine.core.errors import ContractViolation
from slackwater.engine.core.released import Strings
from slackwater.engine.kernels.records import longer, one
from slackwater.engine.kernels.tables import empty_slots, enter
from slackwater.engine.operators.grouping.buckets import (
    BUCKET,
    ENTRY,
    LOST,
    TALLY,
    Arriving,
    BucketKeys,
    Buckets,
    TupleChanges,
    close_ranks,
    emit,
    keep,
    room_for,
    take_all_in,
    take_in,
)
from slackwater.engine.operators.grouping.items import Items
from slackwater.engine.operators.grouping.operations import Grouped

# The order of a site's sources, by their names: codes are given out as sources turn up.


class SourceOrder:
    """Knows the sources of the events that a dataflow holds."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._generation = 0
        self._rank = np.zeros(1, np.int64)

    def rank(
        self, codes: np.ndarray, strings: Strings, sources: Callable[[], np.ndarray]
    ) -> np.ndarray:
        """By code its place in the order of names, of ``codes`` and those ``sources``."""
        found = np.unique(codes)
        if strings.generation != self._generation:
            self._generation = strings.generation
            found, self._names = np.union1d(found, sources()), {}
        new = {code: strings.texts[code] for code in found.tolist() if code not in self._names}
        if new:
            self._names.update(new)
            self._put_in_order()
        return self._rank

    def _put_in_order(self) -> None:
        by_name = sorted(self._names, key=self._names.__getitem__)
        self._rank = np.zeros(max(by_name, default=0) + 1, np.int64)
        self._rank[by_name] = np.arange(len(by_name))

    def strings(self) -> Strings:
        """The names by code, until a batch brings the site's table."""
        texts = [""] * (max(self._names, default=-1) + 1)
        for code, name in self._names.items():
            texts[code] = name
        return Strings(texts)

    def restore(self, names: Mapping[int, str]) -> None:
        """Takes over the sources of what is held."""
        self._names = dict(names)
        self._put_in_order()


_LEAST: Final = 1 << 12
"""Entries that are not looked through for those of no use."""
_CHANGES: Final = 1 << 16
"""Changes made known at once, unless one item makes more."""
_ALL: Final = 1 << 62
_OF_TUPLE: Final = {
    **{name: name for name in ("ref", "source", "seq", "origin", "child")}, "number": "made",
}  # fmt: skip
"""What an item that a tuple becomes has of the entry that ends the tuple."""


class GroupingStage:
    """One ``Grouping`` or ``Stateful`` of a dataflow.

    Args:
        operation: what it does.
        item: of what dtype its items' payloads are.
        together: items that come at once emit their changes together.
    """

    def __init__(self, operation: Grouped, item: np.dtype[Any], *, together: bool) -> None:
        self._together = together
        self._window, self._cyclic = operation.window, operation.cyclic
        self._keys = BucketKeys(operation.key, operation.hash)
        self._maps = operation.remembered(item)
        self._reach = _ALL if self._cyclic else self._window - 1
        self._final = 1 if self._cyclic else self._window - 1
        self._b = _empty(0, 1, 0)
        self._b.tally[0]["entries"] = 1
        self._live = 0
        self._room = room_for(_CHANGES, self._window)
        self.most, self.output = self._maps.most, self._maps.output

    def process(self, items: Items, rank: np.ndarray) -> Iterator[Items]:
        """What ``items`` make and take back, in pieces; ``rank``: places of sources in order.

        Raises:
            ContractViolation: a tombstone of an item that never came.
        """
        key = self._keys.of(items.payload)
        regular = items.payload if not items.tombstone.any() else items.payload[~items.tombstone]
        self._grow(len(regular), key)
        self._maps.put(int(self._b.tally[0]["entries"]), regular)
        arriving = Arriving(
            items.ref, items.source, items.seq, items.origin, items.child, items.number,
            items.tombstone, key, rank,
        )  # fmt: skip
        if self._together:
            yield from self._all(arriving, items)
            return
        row = 0
        while row < len(items):
            row = take_in(self._b, arriving, row, self._reach, self._room)
            yield from self._drain(row, items)

    def _all(self, arriving: Arriving, items: Items) -> Iterator[Items]:
        if 2 * len(items) > len(self._room.row):
            self._room = room_for(2 * len(items), self._window)
        touched = np.empty(len(items), np.int64)
        found = take_all_in(self._b, arriving, self._room, touched)
        yield from self._drain(found, items)
        number = 0
        while number < found:
            number = emit(
                self._b, touched[:found], number, len(items) - 1, self._reach, self._room
            )  # fmt: skip
            yield from self._drain(number, items)

    def _drain(self, came_to: int, items: Items) -> Iterator[Items]:
        """The changes at hand; there is room for more afterwards."""
        if came_to == LOST:
            raise ContractViolation("a tombstone came of an item that is not in its bucket")
        made = int(self._b.tally[0]["changes"])
        if made:
            self._b.tally["changes"] = 0
            yield self._gone_on(TupleChanges(*(each[:made] for each in self._room)), items)
        elif came_to < len(items):
            self._room = room_for(2 * len(self._room.row), self._window)

    def _gone_on(self, changes: TupleChanges, items: Items) -> Items:
        """The tuples as their map made them; their order is that of the items that end them."""
        emitted = self._maps.run(changes)
        # The room for changes is used again: these are copies.
        chosen = slice(None) if emitted.change is None else emitted.change
        ends = {name: changes.ends[of][chosen].copy() for name, of in _OF_TUPLE.items()}
        tombstone, row = changes.tombstone[chosen].copy(), items.row[changes.row[chosen]]
        found = Items(**ends, tombstone=tombstone, row=row, payload=emitted.payload)
        if self.most == 1:
            return found
        child, number = (
            each * self.most + emitted.child for each in (found.child, found.number)
        )  # fmt: skip
        return replace(found, child=child, number=number)

    def _grow(self, entries: int, key: np.ndarray) -> None:
        """Room for so many more items, each with a bucket of its own."""
        b, tally = self._b, self._b.tally[0]
        needed_entries = int(tally["entries"]) + entries
        if needed_entries > len(b.entries):
            room = max(_LEAST, 2 * needed_entries)
            self._maps.grow(room)
            self._b = b = b._replace(entries=longer(b.entries, room))
        buckets = int(tally["buckets"])
        if buckets + len(key) > len(b.buckets) or b.keys.shape[1] != key.shape[1]:
            room = max(_LEAST, 2 * (buckets + len(key)))
            keys = np.zeros((room, key.shape[1]), np.int64)
            if buckets:
                keys[:buckets] = b.keys[:buckets]
            slots = empty_slots(room)
            enter(slots, keys[:buckets], 0)
            self._b = b._replace(buckets=longer(b.buckets, room), keys=keys, slots=slots)

    def passed(self, floor: int) -> None:
        """No later item has a ref below ``floor``: what is of no use may go.

        It goes once it may be half of all, so that this costs no more than the items did.
        """
        if int(self._b.tally[0]["entries"]) > max(_LEAST, 2 * self._live):
            self._shrink(floor)

    def _shrink(self, floor: int) -> None:
        b, tally = self._b, self._b.tally[0]
        used, buckets = int(tally["entries"]), int(tally["buckets"])
        fresh = np.zeros(used, ENTRY)
        kept, place_of = np.empty(used, np.int64), np.empty(used, np.int64)
        in_use = np.zeros(buckets, np.bool_)
        self._live = keep(b, floor, self._final, fresh, kept, place_of, in_use)
        self._b = b = b._replace(entries=fresh)
        tally["entries"], tally["removed"] = self._live, 0
        if not in_use.all():
            left = close_ranks(b, in_use, np.empty(buckets, np.int64))
            self._b = b._replace(slots=empty_slots(len(b.buckets)))
            enter(self._b.slots, b.keys[:left], 0)
            self._keys.forget(b.keys[:left])
        self._maps.keep(kept[: self._live])
        self._maps.grow(used)

    @property
    def buffered(self) -> int:
        """Items in the buckets."""
        tally = self._b.tally[0]
        return int(tally["entries"]) - 1 - int(tally["removed"])

    def sources(self) -> np.ndarray:
        """Codes of sources of items in the buckets."""
        return np.asarray(self._b.entries["source"][1 : int(self._b.tally[0]["entries"])])

    def snapshot(self, floor: int) -> dict[str, Any]:
        """Plain data, without what is of no use below ``floor``."""
        self._shrink(floor)
        tally = self._b.tally[0]
        entries, buckets = int(tally["entries"]), int(tally["buckets"])
        return {
            "entries": self._b.entries[:entries].copy(),
            "buckets": self._b.buckets[:buckets].copy(),
            "bucket_keys": self._b.keys[:buckets].copy(),
            "tally": self._b.tally.copy(),
            "keys": self._keys.snapshot(),
            "maps": self._maps.snapshot(entries),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        keys = state["bucket_keys"]
        slots = empty_slots(len(keys))
        enter(slots, keys, 0)
        self._b = Buckets(
            state["entries"].copy(), state["buckets"].copy(), keys.copy(), slots,
            state["tally"].copy(),
        )  # fmt: skip
        self._live = len(self._b.entries)
        self._keys.restore(state["keys"])
        self._maps.restore(state["maps"])


def _empty(entries: int, buckets: int, columns: int) -> Buckets:
    """Room for so many."""
    return Buckets(
        np.zeros(max(entries, 1), ENTRY), np.zeros(buckets, BUCKET),
        np.zeros((buckets, columns), np.int64), empty_slots(buckets), one(TALLY),
    )  # fmt: skip
