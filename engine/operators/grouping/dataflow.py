"""A running dataflow: operations one after another, and one barrier at the end."""

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

# The barrier at the sink: items below the watermark are final (K18 V.D).
#
# Source: K18 Algorithm 3. Items do not wait in a sorted buffer but in pieces, in order of arrival:
# numbers ascend within a piece and from one piece to the next. Items that pass are sorted then. A
# piece has less than half as many items as the previous one, else both are merged: so there are
# few.


@dataclass(slots=True)
class WaitingItems:
    """Items that arrived together; ``stands``: neither retracted nor released."""

    items: Items
    stands: np.ndarray
    least: int
    """No item has a ref below it."""


class SinkBarrier:
    """Holds items until the watermark passes them, and drops those that are retracted."""

    def __init__(self) -> None:
        self._pieces: list[WaitingItems] = []
        self.buffered = 0
        """Number of valid items that wait."""
        self.arrived = 0
        """Number of items so far, tombstones included."""
        self.let_go = 0
        """Number of released items so far."""

    def insert(self, items: Items) -> None:
        """Add ``items``, tombstones included, in the order in which they were made.

        Raises:
            ContractViolation: a tombstone refers to an unknown item.
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
        """Release the items below the watermark, in order; None: there are none.

        Args:
            floor: the watermark [ns]: no later item or tombstone has a ref below it.
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
        """Merge the pieces from ``start`` on, without retracted and released items."""
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
        """Restore a snapshot."""
        if state["held"] is not None:
            self._put(Items(*state["held"]))
        self.arrived, self.let_go = state["counts"]


def _found(ascending: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The places of the ``values`` that are in ``ascending``, and the other values."""
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
    """Whether each time is later than the previous one."""
    return bool((times[1:] > times[:-1]).all())


# A dataflow: operations one after another, and its run.
#
# No item waits before an operation. Results that a late item invalidates are retracted by
# tombstones, which take the same way as the items, so that only the sink needs a buffer (K18 V).


_FAR: Final = 1 << 40
"""The most places among the items of one input item, over all maps of a dataflow."""


class Stage(Protocol):
    """A running operation."""

    @property
    def buffered(self) -> int: ...
    def process(self, items: Items, rank: np.ndarray) -> Iterator[Items]: ...
    def passed(self, floor: int) -> None: ...
    def sources(self) -> np.ndarray: ...
    def snapshot(self, floor: int) -> dict[str, Any]: ...
    def restore(self, state: dict[str, Any]) -> None: ...


@dataclass(frozen=True, eq=False)
class Dataflow:
    """Operations on items, in order.

    Args:
        operations: ``Map``, ``Grouping``, ``Stateful``; at least one.
        item: fields of the input items; None: Python objects.
    """

    operations: tuple[Operation, ...]
    item: Fields | None = None

    def start(self, *, together: bool = False) -> RunningDataflow:
        """A new run of the dataflow.

        ``together``: the items of one ``send`` emit their changes together, which is faster if many
        are late. Then the output of ``send`` depends on the number of items per call; the items
        that pass the barrier do not.
        """
        return RunningDataflow(self, together=together)


class MapStage:
    """A running ``Map``."""

    buffered = 0

    def __init__(self, operation: Map) -> None:
        self._map = operation

    def process(self, items: Items, rank: np.ndarray) -> Iterator[Items]:  # noqa: ARG002
        """The mapped ``items``; tombstones are mapped like the items that they retract."""
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
        """Items with ``payload``; ``of``: the input item of each."""
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
        """Do nothing: a map has no state."""

    def sources(self) -> np.ndarray:
        return np.empty(0, np.int64)

    def snapshot(self, floor: int) -> dict[str, Any]:  # noqa: ARG002 - as ``passed``
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Do nothing: a map has no state."""


class RunningDataflow(Restorable):
    """A running dataflow: ``send`` items as they arrive, ``watermark`` when a time has passed.

    Args:
        flow: the dataflow.
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
        """Send events in order of arrival; returns the items that reach the sink.

        Events below the watermark are ignored and counted (``late``).

        Args:
            ref: event times [ns].
            payload: records, or objects.
            source: number of each event's source; None: all are of one.
            seq: the source's numbers of the events; ties keep the order of arrival.
            rank: by number of a source its place in the order of sources; None: the number itself.
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
        """Send items through the stages from ``stage`` on, piece by piece."""
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
        """Advance the watermark to ``floor`` [ns]; returns the valid items below it, in order.

        Later events below it are late. A watermark never decreases.
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
        """Items that reached the barrier per valid one (K18 VI.B); 1: no overhead."""
        valid = self.sink.let_go + self.sink.buffered
        return self.sink.arrived / valid if valid else 1.0

    @property
    def buffered(self) -> int:
        """Number of items and states in the buckets."""
        return sum(stage.buffered for stage in self._stages)

    def sources(self) -> np.ndarray:
        """Codes of sources in the state."""
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
