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
# Source: K18 Algorithm 3. Instead of a place in a sorted buffer for each item, items wait in
# pieces, as they came: numbers are given out in order, so those of a piece ascend, and from one
# piece to the next. What passes is put in order then. A piece has less than half as many items as
# the one before it, else both become one: so there are few.


@dataclass(slots=True)
class WaitingItems:
    """Items that came together, of which some ``stands``: neither taken back nor let go."""

    items: Items
    stands: np.ndarray
    least: int
    """No item has a ref below it."""


class SinkBarrier:
    """Holds items until the watermark passes them, and forgets those that are taken back."""

    def __init__(self) -> None:
        self._pieces: list[WaitingItems] = []
        self.buffered = 0
        """Valid items that wait."""
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
        back = items.number[items.tombstone]
        self._put(items.take(~items.tombstone) if len(back) else items)
        self.buffered -= len(back)
        for piece in reversed(self._pieces):
            place, back = _found(piece.items.number, back)
            if not piece.stands[place].all():
                break
            piece.stands[place] = False
            if not len(back):
                return
        raise ContractViolation("a tombstone came of an item that is not at the barrier")

    def _put(self, items: Items) -> None:
        self.buffered += len(items)
        least = int(items.ref.min(initial=INT_MAX))
        pieces = self._pieces
        pieces.append(WaitingItems(items, np.ones(len(items), np.bool_), least))
        while len(pieces) > 1 and 2 * len(pieces[-1].items) >= len(pieces[-2].items):
            self._join(len(pieces) - 2)

    def punctuation(self, floor: int, rank: np.ndarray) -> Items | None:
        """No item or tombstone with a ref below ``floor`` comes any more: those go out, in order.

        Args:
            floor: the watermark [ns].
            rank: places of the sources in their order.
        """
        gone = []
        for piece in self._pieces:
            if piece.least < floor:
                passed = piece.stands & (piece.items.ref < floor)
                gone.append(piece.items.take(passed))
                piece.stands &= ~passed
                piece.least = floor
        passed_n = sum(map(len, gone))
        self.buffered -= passed_n
        self.let_go += passed_n
        self._pieces = [piece for piece in self._pieces if piece.stands.any()]
        if 2 * self.buffered < sum(len(piece.items) for piece in self._pieces):
            self._join(0)
        return _in_order(joined(gone), rank) if passed_n else None

    def _join(self, start: int) -> None:
        """What stands of the pieces from ``start`` on is one."""
        some = self._pieces[start:]
        items = joined([piece.items.take(piece.stands) for piece in some])
        least = min(piece.least for piece in some)
        self._pieces[start:] = [WaitingItems(items, np.ones(len(items), np.bool_), least)]

    def waiting(self) -> Items | None:
        """Valid items that wait, in the order of their numbers."""
        return joined([p.items.take(p.stands) for p in self._pieces]) if self.buffered else None

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        items = self.waiting()
        columns = None if items is None else [getattr(items, name) for name in COLUMNS]
        return {"held": columns, "counts": (self.arrived, self.let_go)}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        if state["held"] is not None:
            self._put(Items(*state["held"]))
        self.arrived, self.let_go = state["counts"]


def _found(ascending: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of those of ``values`` that are there, and the others."""
    if not len(ascending):
        return np.empty(0, np.int64), values
    place = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    there = ascending[place] == values
    return place[there], values[~there]


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
    def buffered(self) -> int: ...
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

    buffered = 0

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
            outputs = [self._map.function(each) for each in items.payload]
            of = np.repeat(np.arange(len(outputs)), [len(each) for each in outputs])
            payload = np.fromiter((one for each in outputs for one in each), object, len(of))
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
        valid = self.sink.let_go + self.sink.buffered
        return self.sink.arrived / valid if valid else 1.0

    @property
    def buffered(self) -> int:
        """Items and states in the buckets."""
        return sum(stage.buffered for stage in self._stages)

    def sources(self) -> np.ndarray:
        """Codes of sources that the state holds."""
        waiting = self.sink.waiting()
        parts = [] if waiting is None else [waiting.source]
        return np.concatenate([np.empty(0, np.int64), *parts, *(s.sources() for s in self._stages)])

    def snapshot(self) -> dict[str, Any]:
        stages = [stage.snapshot(self.floor) for stage in self._stages]
        return super().snapshot() | {"stages": stages}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        for stage, saved in zip(self._stages, state["stages"], strict=True):
            stage.restore(saved)
