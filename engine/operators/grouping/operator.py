"""The operator of a dataflow in a chain: events in, valid items out, or items and retractions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from slackwater.engine.barrier.registry import BARRIERS, BarrierSettings, Closes
from slackwater.engine.core.clocks.epochs import IS_UNKNOWN, ComparedClocks
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.operator import Restorable
from slackwater.engine.core.released import LATEST, Released, Strings
from slackwater.engine.core.timeline import ALL, LONG_AGO, Moved, Steps, ends_of
from slackwater.engine.kernels.records import INT_MAX, INT_MIN
from slackwater.engine.operators.grouping.grouping import SourceOrder
from slackwater.engine.operators.grouping.items import (
    DerivedItems,
    ItemColumns,
    Items,
    payload_column,
    payloads,
)
from slackwater.engine.operators.grouping.operations import GroupingPlan, Map
from slackwater.engine.output.schema import decoded, one_of
from slackwater.engine.query.fields import released_columns

# The watermark of a chain's dataflow: which times are passed, row by row, and since when.


@dataclass(frozen=True, slots=True)
class Watermark:
    """Steps of the watermark in one batch: no later record counts with a ref below ``value``."""

    value: np.ndarray
    at: np.ndarray
    moment: np.ndarray

    @classmethod
    def behind(cls, steps: Steps, less: int) -> Watermark:
        """The clock of ``steps``, less ``less``."""
        value = np.where(steps.value < LONG_AGO + less + 2, INT_MIN, steps.value - less)
        return cls(value, steps.at, steps.moment)

    def before(self, moments: np.ndarray) -> np.ndarray:
        """What it was just before each of ``moments``."""
        place = np.searchsorted(self.moment, moments) - 1
        return np.asarray(np.where(place < 0, INT_MIN, self.value[place]))

    def last(self) -> int:
        """What it is after the batch."""
        return int(self.value.max(initial=INT_MIN))

    def since(self, ref: np.ndarray) -> np.ndarray:
        """When it passed each of ``ref`` [ns]; INT_MAX: not yet."""
        place = np.searchsorted(self.value, ref, "right")
        return np.append(self.at, INT_MAX)[place]


def promised(moved: Moved, types: tuple[str, ...]) -> Watermark | None:
    """What is promised of all ``types``, by the order or by punctuations; None: nothing can be."""
    promised = moved.received.promised
    whole = [promised[ALL]] if ALL in promised else []
    clocks = [promised[name] for name in types if name in promised]
    if whole or not clocks or len(clocks) < len(types):
        return Watermark.behind(whole[0], 0) if whole else None
    kind = np.repeat(np.arange(len(clocks)), [len(each.value) for each in clocks])
    value, at, moment = (
        np.concatenate([getattr(each, of) for each in clocks]) for of in ("value", "at", "moment")
    )  # fmt: skip
    order = np.lexsort((at, moment))
    so_far = [
        np.maximum.accumulate(np.where(kind[order] == each, value[order], LONG_AGO))
        for each in range(len(clocks))
    ]
    return Watermark.behind(Steps(np.min(so_far, axis=0), at[order], moment[order]), 0)


# The operator of a dataflow in a chain: events in, valid items out, or items and retractions.
#
# ``bounded:K`` and ``punctuation`` are K18's one barrier, flushed by the watermark that the slack
# or the promises give; what is let go is in order. ``immediate`` has none: items leave at once, and
# a late event takes some back.


_READ: Final = {
    "ref", "release", "status", "source", "seq", "stream", "type", "clock", "epoch",
}  # fmt: skip


class GroupingOperator(Restorable):
    """Sends the events of one site through the dataflow of ``plan``.

    Raises:
        UserError: a barrier that it does not have.
    """

    state_fields = ("_run", "_compared", "_newest", "_counts")

    def __init__(
        self, plan: GroupingPlan, site: str, barrier: BarrierSettings, *,
        unknown: Sequence[str] = (),
    ) -> None:  # fmt: skip
        kind = BARRIERS[barrier.name]
        if kind.by_arrival or kind.policy.adapts:
            raise UserError(
                f"query {plan.name!r}: a dataflow has no barrier {barrier.name}; use bounded:K or "
                "punctuation, which let valid items go in order, or immediate"
            )
        self.plan, self.site = plan, site
        self.types = plan.types
        self._slack_ns = barrier.span_ns if kind.closes is Closes.SLACK else plan.keep_ns
        self._waits = kind.closes is not Closes.NOTHING
        self._by_promise = kind.closes is not Closes.SLACK
        self._run = plan.flow.start(together=self._waits)
        self._sources = SourceOrder()
        self._strings = Strings()
        self._counts = dict.fromkeys(("items", "late", "incomplete"), 0)
        self._groups = not all(isinstance(each, Map) for each in plan.flow.operations)
        """Whether events are put in order; keys are functions, so any clock may be in a group."""
        # What a function has made of an event, it may go on with for good.
        self._compared = ComparedClocks(unknown=unknown, before=LATEST)
        self._newest = LONG_AGO

    def required_columns(self) -> set[str]:
        return _READ | released_columns(self.plan.attributes)

    def process(self, released: Released) -> Sequence[Any]:
        self._strings = released.strings
        assert released.moved is not None
        marks = self._watermarks(released.moved)
        results = self._sent(released, marks) if released.n else None
        gone = self._run.watermark(max([INT_MIN, *(mark.last() for mark in marks)]))
        if not self._waits:
            return () if results is None else results
        if not len(gone):
            return ()
        return self._results(gone, np.min([mark.since(gone.ref) for mark in marks], axis=0))

    def _watermarks(self, moved: Moved) -> list[Watermark]:
        """What says how far time has come; the furthest counts."""
        marks = []
        if self._slack_ns is not None:
            marks.append(Watermark.behind(moved.received.clock, self._slack_ns))
        if self._by_promise:
            mark = promised(moved, self.types)
            if mark is not None:
                marks.append(mark)
            elif self._waits:
                raise UserError(
                    f"query {self.plan.name!r}: events in no order are promised by type: name the "
                    "types that are read (types=...), or use an order, or barrier bounded:K"
                )
        return marks

    def _sent(self, released: Released, marks: list[Watermark]) -> Sequence[Any]:
        """What becomes known at once."""
        columns, strings, ref = released.columns, released.strings, ends_of(released)
        mine = np.ones(released.n, np.bool_)
        for name, texts in (("type", self.types), ("stream", self.plan.streams)):
            if texts:
                mine &= np.isin(columns[name], [strings.find(text) for text in texts])
        assert released.moved is not None
        moments = 2 * (released.moved.first + np.arange(released.n)) + 1
        late = np.zeros(released.n, np.bool_)
        for mark in marks:
            late |= ref < mark.before(moments)
        payload, known = payloads(self.plan, released)
        taken = mine & known & ~late
        chosen = np.flatnonzero(taken)
        if self._groups:
            # By time, not by what was read: a retraction comes later than its item, and repeats it.
            newest = np.append(self._newest, np.where(taken, ref, LONG_AGO))
            newest = np.maximum.accumulate(newest)
            self._newest = int(newest[-1])
            self._compared.see(released, ref, newest[:-1], taken)
        self._counts["items"] += len(chosen)
        self._counts["late"] += int((mine & known & late).sum())
        self._counts["incomplete"] += int((mine & ~known).sum())
        source = columns["source"][chosen].astype(np.int64)
        rank = self._sources.rank(source, strings, self._run.sources)
        sent = self._run.send(ref[chosen], payload[chosen], source, columns["seq"][chosen], rank)
        return self._results(sent, columns["release"][chosen][sent.row]) if len(sent) else ()

    def _results(self, items: Items, at: np.ndarray) -> DerivedItems:
        none = np.zeros(len(items), np.bool_)
        unknown = self._compared.of(items.ref, items.ref + 1) & IS_UNKNOWN != 0
        columns = ItemColumns(
            back=items.tombstone,
            at=pa.array(at),
            ts=pa.array(items.ref),
            source=decoded(items.source, none, self._strings.text),
            seq=pa.array(items.seq, mask=items.seq < 0),
            item=payload_column(items.payload),
            certainty=one_of(("unknown",), np.zeros(len(items), np.int32), ~unknown),
        )
        return DerivedItems(columns, self.plan.name, self.site)

    def advance(self, now: int) -> Sequence[Any]:  # noqa: ARG002 - time passes by the stream's clocks
        return ()

    def finish(self, at: int) -> Sequence[Any]:
        gone = self._run.watermark(INT_MAX)
        return self._results(gone, np.full(len(gone), at)) if self._waits and len(gone) else ()

    def counters(self) -> dict[str, int]:
        return {**self._counts, "items_held": self._run.sink.buffered if self._waits else 0}

    def codes(self) -> np.ndarray:
        return np.concatenate((self._run.sources(), self._compared.codes()))

    def snapshot(self) -> dict[str, Any]:
        texts = {code: self._strings.text(code) for code in set(self._run.sources().tolist())}
        return super().snapshot() | {"texts": texts}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._sources.restore(state["texts"])
        self._strings = self._sources.strings()
