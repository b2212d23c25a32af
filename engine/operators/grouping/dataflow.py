"""A dataflow at work: operations one after another, and one barrier behind them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import numpy as np

from slackwater.engine.core.errors import ContractViolation, UserError
from slackwater.engine.core.operator import Restorable
from slackwater.engine.kernels.records import INT_MAX, INT_MIN
from slackwater.engine.operators.grouping.grouping import GroupingStage
from slackwater.engine.operators.grouping.items import COLUMNS, Items, joined, regular
from slackwater.engine.operators.grouping.maps import Fields, dtype_of
from slackwater.engine.operators.grouping.operations import Map, Operation

# The one barrier, at the sink: what a watermark has passed can be taken back no more (K18 V.D).
#
# Source: K18 Algorithm 3. Instead of a place in a sorted buffer for each item, what waits is sorted
# in one go once a quarter of it is new; what is newer lies behind it as it came.


_LEAST: Final = 1 << 12
"""So many items may be new without being sorted in."""
_SHARE: Final = 4


class SinkBarrier:
    """Holds items until the watermark passes them, and forgets those that are taken back."""

    def __init__(self) -> None:
        self._sorted: Items | None = None
        self._stands = np.empty(0, np.bool_)
        """Of those sorted: was neither taken back nor let go."""
        self._start = 0
        """Those sorted before it were let go."""
        self._by_number: np.ndarray | None = None
        """Places of those sorted, by their numbers; None: not asked for yet."""
        self._new: list[Items] = []
        self._new_rows = 0
        self._new_least = INT_MAX
        self.arrived = 0
        """Items so far, tombstones among them."""
        self.let_go = 0
        """Valid items so far."""

    def insert(self, items: Items) -> None:
        """Take ``items``, tombstones among them, in the order in which they were made.

        Raises:
            ContractViolation: a tombstone of an item that is not there.
        """
        self.arrived += len(items)
        if items.tombstone.any():
            items = self._without_taken_back(items)
        if len(items):
            self._put(items)

    def _put(self, items: Items) -> None:
        self._new.append(items)
        self._new_rows += len(items)
        self._new_least = min(self._new_least, int(items.ref.min()))

    def _without_taken_back(self, items: Items) -> Items:
        """The regular ones of ``items`` and of those held that stand after their tombstones."""
        back, regular = items.number[items.tombstone], items.take(~items.tombstone)
        here, back = _found(regular.number, back)
        if len(back):
            # Numbers are given out in order, so those of new items ascend.
            held = joined(self._new) if self._new else regular.take(slice(0))
            there, back = _found(held.number, back)
            if len(there):
                self._replace_new(held.take(np.delete(np.arange(len(held)), there)))
        if len(back):
            self._take_back_sorted(back)
        return regular.take(np.delete(np.arange(len(regular)), here))

    def _replace_new(self, items: Items) -> None:
        self._new, self._new_rows, self._new_least = [], 0, INT_MAX
        if len(items):
            self._put(items)

    def _take_back_sorted(self, back: np.ndarray) -> None:
        numbers = np.empty(0, np.int64) if self._sorted is None else self._sorted.number
        if self._by_number is None:
            self._by_number = np.argsort(numbers)
        place, missing = _found(numbers[self._by_number], back)
        found = self._by_number[place]
        if len(missing) or not self._stands[found].all():
            raise ContractViolation("a tombstone came of an item that is not at the barrier")
        self._stands[found] = False

    def punctuation(self, floor: int, rank: np.ndarray) -> Items | None:
        """No item or tombstone with a ref below ``floor`` comes any more: those go out, in order.

        Args:
            floor: the watermark [ns].
            rank: places of the sources in their order.
        """
        if self._new_rows > max(_LEAST, len(self._stands) // _SHARE):
            self._sort_in()
        gone = []
        if self._sorted is not None:
            end = self._start + int(np.searchsorted(self._sorted.ref[self._start :], floor))
            if end > self._start:
                passed = self._start + np.flatnonzero(self._stands[self._start : end])
                self._stands[self._start : end] = False
                gone.append(self._sorted.take(passed))
                self._start = end
        if floor > self._new_least:
            new = joined(self._new)
            is_passed = new.ref < floor
            gone.append(new.take(is_passed))
            self._replace_new(new.take(~is_passed))
        if not sum(map(len, gone)):
            return None
        self.let_go += sum(map(len, gone))
        return _in_order(joined(gone), rank)

    def _sort_in(self) -> None:
        """All that waits is sorted by its time, and nothing is new."""
        pieces = list(self._new)
        if self._sorted is not None:
            pieces.insert(0, self._sorted.take(self._stands))
        self._replace_new(pieces[0].take(slice(0)))
        items = joined(pieces)
        if not _ascend(items.ref):
            items = items.take(np.argsort(items.ref, kind="stable"))
        self._sorted, self._start, self._by_number = items, 0, None
        self._stands = np.ones(len(items), np.bool_)

    @property
    def held(self) -> int:
        """Valid items that wait."""
        return int(self._stands.sum()) + self._new_rows

    def waiting(self) -> Items | None:
        """Valid items that wait, in the order of their numbers."""
        if self._new or self._sorted is not None:
            self._sort_in()
        if self._sorted is None or not len(self._sorted):
            return None
        return self._sorted.take(np.argsort(self._sorted.number))

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        held = self.waiting()
        columns = None if held is None else [getattr(held, name) for name in COLUMNS]
        return {"held": columns, "counts": (self.arrived, self.let_go)}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        if state["held"] is not None:
            self._put(Items(*state["held"]))
        self.arrived, self.let_go = state["counts"]


def _found(ascending: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of those of ``wanted`` that are there, and the others."""
    if not len(ascending):
        return np.empty(0, np.int64), wanted
    place = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    there = ascending[place] == wanted
    return place[there], wanted[~there]


def _in_order(items: Items, rank: np.ndarray) -> Items:
    """``items`` in their own order."""
    if _ascend(items.ref):
        return items
    order = np.argsort(items.ref, kind="stable")
    if not _ascend(items.ref[order]):
        order = np.lexsort(
            (items.child, items.origin, items.seq, rank[items.source], items.ref)
        )  # fmt: skip
    return items.take(order)


def _ascend(times: np.ndarray) -> bool:
    """Whether each is later than the one before it."""
    return bool((times[1:] > times[:-1]).all())


# A dataflow: operations one after another, and what is sent through them at work.
#
# Nothing waits before an operation. What a late item makes wrong is taken back by tombstones, which
# go the same way as the items, so that only the end of the way needs a buffer (K18 V).


_FAR: Final = 1 << 40
"""Places among the items of one that no chain of maps may need more of."""


class Stage(Protocol):
    """An operation at work."""

    @property
    def held(self) -> int: ...
    def process(self, items: Items, rank: np.ndarray) -> Iterator[Items]: ...
    def passed(self, floor: int) -> None: ...
    def sources(self) -> np.ndarray: ...
    def snapshot(self, floor: int) -> dict[str, Any]: ...
    def restore(self, state: dict[str, Any]) -> None: ...


@dataclass(frozen=True, eq=False)
class Dataflow:
    """What is done with items, in order.

    Args:
        operations: ``Map``, ``Grouping``, ``Stateful``; at least one.
        item: fields of the items that come in; None: Python objects.
    """

    operations: tuple[Operation, ...]
    item: Fields | None = None

    def start(self, *, together: bool = False) -> RunningDataflow:
        """A dataflow that nothing was sent through yet.

        ``together``: the items of one ``send`` emit their changes together, which is faster where
        many are late. Then what ``send`` gives depends on how many are sent at once; what passes
        the barrier does not.
        """
        return RunningDataflow(self, together=together)


class MapStage:
    """A ``Map`` at work."""

    held = 0

    def __init__(self, operation: Map) -> None:
        self._map = operation

    def process(self, items: Items, rank: np.ndarray) -> Iterator[Items]:  # noqa: ARG002
        """``items``, mapped; tombstones go the way of what they take back."""
        if not len(items):
            return
        if items.payload.dtype != object:
            made = self._map.function(items.payload)
            if not isinstance(made, tuple):
                yield replace(items, payload=made)
                return
            payload, of = made
        else:
            given = [self._map.function(each) for each in items.payload]
            of = np.repeat(np.arange(len(given)), [len(each) for each in given])
            payload = np.fromiter((one for each in given for one in each), object, len(of))
        if len(of):
            yield self._placed(items, payload, np.asarray(of, np.int64))

    def _placed(self, items: Items, payload: np.ndarray, of: np.ndarray) -> Items:
        """``payload``, of which item ``of`` each is."""
        first = np.flatnonzero(np.concatenate(([True], of[1:] != of[:-1])))
        child = np.arange(len(of)) - np.repeat(first, np.diff(np.append(first, len(of))))
        most = self._map.most
        if int(child.max()) >= most:
            raise UserError(f"a map made {child.max() + 1} items of one; its most={most}")
        found = items.take(of)
        return replace(
            found, child=found.child * most + child, number=found.number * most + child,
            payload=payload,
        )  # fmt: skip

    def passed(self, floor: int) -> None:
        """A map remembers nothing."""

    def sources(self) -> np.ndarray:
        return np.empty(0, np.int64)

    def snapshot(self, floor: int) -> dict[str, Any]:  # noqa: ARG002 - as ``passed``
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """As ``passed``."""


class RunningDataflow(Restorable):
    """A dataflow at work: ``send`` items as they come, ``watermark`` when a time is passed.

    Args:
        flow: what it does.
        together: as in ``Dataflow.start``.
    """

    state_fields = ("sink", "floor", "late", "_sent", "_ranks")

    def __init__(self, flow: Dataflow, *, together: bool) -> None:
        item: np.dtype[Any] = np.dtype(object) if flow.item is None else dtype_of(flow.item)
        self.item = item
        self._stages: list[Stage] = []
        fan = 1
        for operation in flow.operations:
            if isinstance(operation, Map):
                fan *= operation.most
                self._stages.append(MapStage(operation))
                if item.names is not None:
                    made = operation.function(np.zeros(0, item))
                    item = (made[0] if isinstance(made, tuple) else made).dtype
            else:
                stage = GroupingStage(operation, item, together=together)
                fan *= stage.most
                item = stage.output
                self._stages.append(stage)
        if fan > _FAR:
            raise UserError(
                f"the maps of a dataflow may make {fan} items of one; at most {_FAR}: lower most"
            )
        self.output = item
        self.sink = SinkBarrier()
        self.floor = INT_MIN
        self.late = 0
        self._sent = 0

    def send(
        self,
        ref: Sequence[int] | np.ndarray,
        payload: Sequence[Any] | np.ndarray,
        source: Sequence[int] | np.ndarray | None = None,
        seq: Sequence[int] | np.ndarray | None = None,
        rank: np.ndarray | None = None,
    ) -> Items:
        """Events in the order in which they arrive; gives all that reaches the sink, at once.

        What comes after its time was passed is left out and counted (``late``).

        Args:
            ref: event times [ns].
            payload: records, or objects.
            source: number of each one's source; all of one.
            seq: the source's numbers of the events; ties keep the order of arrival.
            rank: by number of a source its place in the order of sources; the number itself.
        """
        times = np.asarray(ref, np.int64)
        n = len(times)
        if self.item.names is None:
            carried = np.fromiter(payload, object, n)
        else:
            carried = np.asarray(payload)
            if carried.dtype != self.item:
                carried = carried.astype(self.item)
        codes = np.zeros(n, np.int64) if source is None else np.asarray(source, np.int64)
        numbers = np.full(n, -1) if seq is None else np.asarray(seq, np.int64)
        items = regular(times, codes, numbers, carried, self._sent)
        late = times < self.floor
        if late.any():
            self.late += int(late.sum())
            items = items.take(~late)
        self._sent += n
        pieces: list[Items] = []
        self._hand_on(items, 0, self._rank(codes, rank), pieces)
        return joined(pieces) if pieces else self._nothing()

    def _rank(self, codes: np.ndarray, rank: np.ndarray | None) -> np.ndarray:
        if rank is not None:
            self._ranks = rank
        elif int(codes.max(initial=0)) >= len(self._ranks):
            self._ranks = np.arange(2 * int(codes.max()) + 1)
        return self._ranks

    _ranks: np.ndarray = np.arange(1)

    def _hand_on(self, items: Items, stage: int, rank: np.ndarray, pieces: list[Items]) -> None:
        """Piece by piece through all that is left of the way."""
        if stage == len(self._stages):
            self.sink.insert(items)
            pieces.append(items)
            return
        for piece in self._stages[stage].process(items, rank):
            self._hand_on(piece, stage + 1, rank, pieces)

    def _nothing(self) -> Items:
        none = np.empty(0, np.int64)
        return regular(none, none, none, np.empty(0, self.output))

    def watermark(self, floor: int) -> Items:
        """No event with a ref below ``floor`` comes any more; gives what is valid below, in order.

        What comes nevertheless is late. A watermark does not go back.
        """
        if floor <= self.floor:
            return self._nothing()
        self.floor = floor
        gone = self.sink.punctuation(floor, self._ranks)
        for stage in self._stages:
            stage.passed(floor)
        return self._nothing() if gone is None else gone

    @property
    def overhead(self) -> float:
        """Items that reached the barrier per valid one (K18 VI.B); 1: nothing was in vain."""
        valid = self.sink.let_go + self.sink.held
        return self.sink.arrived / valid if valid else 1.0

    @property
    def held(self) -> int:
        """Items and states in the buckets."""
        return sum(stage.held for stage in self._stages)

    def sources(self) -> np.ndarray:
        """Codes of sources that the state holds."""
        waiting = self.sink.waiting()
        held = [] if waiting is None else [waiting.source]
        return np.concatenate([np.empty(0, np.int64), *held, *(s.sources() for s in self._stages)])

    def snapshot(self) -> dict[str, Any]:
        stages = [stage.snapshot(self.floor) for stage in self._stages]
        return super().snapshot() | {"stages": stages}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        for stage, saved in zip(self._stages, state["stages"], strict=True):
            stage.restore(saved)
