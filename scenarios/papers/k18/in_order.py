"""In-order processing: a buffer before the operations, which see all in order (K18 IV.A, IOP).

K18 compares its optimistic dataflow with this. No result is ever taken back, and nothing is
computed before the watermark says that the order is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from slackwater.engine.operators.grouping.dataflow import Dataflow, SinkBarrier
from slackwater.engine.operators.grouping.items import Items, regular


class InOrderRun:
    """``flow`` behind a buffer; methods have the same arguments and results as ``RunningDataflow``.

    Args:
        flow: the operations.
    """

    def __init__(self, flow: Dataflow) -> None:
        self._run = flow.start()
        self.item = self._run.item
        self._buffer = SinkBarrier()
        self._rank = np.arange(1)
        self.late = 0
        self._sent = 0

    def send(
        self,
        ref: Sequence[int] | np.ndarray,
        payload: Sequence[Any] | np.ndarray,
        source: Sequence[int] | np.ndarray | None = None,
        seq: Sequence[int] | np.ndarray | None = None,
    ) -> None:
        """Events in the order in which they arrive; they wait."""
        n = len(ref)
        codes = np.zeros(n, np.int64) if source is None else np.asarray(source, np.int64)
        if int(codes.max(initial=0)) >= len(self._rank):
            self._rank = np.arange(int(codes.max()) + 1)
        numbers = np.full(n, -1) if seq is None else np.asarray(seq, np.int64)
        carried = np.fromiter(payload, object, n) if self.item.names is None else payload
        items = regular(np.asarray(ref), codes, numbers, np.asarray(carried), self._sent)
        self._sent += n
        late = items.ref < self._run.floor
        self.late += int(late.sum())
        self._buffer.insert(items.take(~late) if late.any() else items)

    def watermark(self, floor: int) -> Items:
        """Process the buffered events with a ref below ``floor``: no more of them will come."""
        passed = self._buffer.punctuation(floor, self._rank)
        if passed is not None:
            self._run.send(passed.ref, passed.payload, passed.source, passed.seq)
        return self._run.watermark(floor)

    @property
    def waiting(self) -> int:
        """Events in the buffer."""
        return self._buffer.buffered
