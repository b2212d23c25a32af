"""``kslack-chain``: K-slack buffers in a row, each query reading after its own (R19 2.3.5).

Buffer ``i`` holds events for ``K(i) - K(i-1)`` more than the one before it, and query ``i`` reads
after it: events are stored once, for the largest K, and no query waits longer than its own. The
event clock goes along the chain, so that query ``i`` gets just what ``kslack:K(i)`` would give it
(the papers hand on only events, whose clock stands still where event times leave gaps). An event
that is late after one buffer may be in time after the next.

When not to use: with a single query (``kslack`` is the same with less); with queries that can all
wait equally long; where numbers tell what is missing (``sequence`` adds latency only there).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from engine.errors import UserError
from engine.kernels.integers import INT_MAX
from engine.kernels.jit import kernel
from engine.kernels.records import one
from engine.order.base import Order, Ordered, OrderSettings, OrderSite
from engine.order.correction import Correction
from engine.order.short_form import SHARED, SLACK_MAX_NS, only_known, shared
from engine.order.slack.buffer import Buffer, Index, push, release_until
from engine.order.slack.held_order import HeldOrder
from engine.order.slack.kslack import KSLACK
from engine.stream.columns import Columns
from engine.units import parse_duration


@dataclass(frozen=True, slots=True)
class KSlackChainSettings(OrderSettings):
    """``ks_ns``: the slacks, ascending; ``late``: ``pass`` | ``drop``.

    ``time``: ``ref`` | ``ts`` | ``hold``. ``duplicates``: ``drop`` | ``pass``.

    Query ``i`` reads after slack ``i``; further queries, and the ordered stream, after the last.
    """

    ks_ns: tuple[int, ...]
    late: str = "pass"
    time: str = "ref"
    duplicates: str = "drop"

    listed = "ks"

    @classmethod
    def read(cls, pairs: dict[str, str], time_unit: str) -> Self:
        only_known(pairs, ("ks", *SHARED))
        texts = [text.strip(" []") for text in pairs.get("ks", ",500ms").split(",")[1:]]
        ks_ns = tuple(parse_duration(text, time_unit) for text in texts)
        if list(ks_ns) != sorted(ks_ns):
            raise UserError("give the slacks in ascending order, as in kslack-chain:100ms,1s")
        if ks_ns[-1] > SLACK_MAX_NS:
            raise UserError(f"a slack is at most {SLACK_MAX_NS} ns")
        return cls(ks_ns, **shared(pairs))

    def build(self, site: OrderSite) -> Order:
        correction = Correction(site.clocks, site.guards, self.duplicates)
        return KSlackChain(self, correction, site.wanted, len(site.plans))


class KSlackChain(HeldOrder):
    """The ordering operator ``kslack-chain``; ``readers``: how many queries there are."""

    def __init__(
        self,
        settings: KSlackChainSettings,
        correction: Correction,
        wanted: set[str] | None,
        readers: int,
    ) -> None:
        self._stages = [Index(one(KSLACK, slack=k), settings.late) for k in settings.ks_ns]
        self._readers = readers
        self._most = 0
        super().__init__(self._stages, correction, wanted)

    @property
    def buffered_max(self) -> int:
        """Most events held at once so far, over all buffers."""
        return self._most

    def process(self, columns: Columns, rows: int) -> Ordered:
        """Records in arrival order; see ``engine.order.base.Order``."""
        start, end, quarantined = self._take(columns, rows)
        held = self.buffered()
        new = end - start
        came, upto = np.arange(start, end, dtype=np.int32), np.arange(1, new + 1)
        taps = []
        for number, index in enumerate(self._stages):
            buffer, gone = self._buffer(index, len(came), new), np.empty(new, np.int64)
            _run(buffer, start, end, index.own, came, upto, gone)
            taps.append(self._tap(number, buffer))
            came, upto = buffer.out_row[: index.state["out"][0]], gone
        self._most = max(self._most, int((held + np.arange(1, new + 1) - upto).max(initial=0)))
        return self._joined(taps, quarantined)

    def flush(self) -> Ordered:
        """End of the input: everything held goes at the last arrival, in order."""
        if not self.buffered():
            return Ordered(0, {})
        taps, came = [], np.empty(0, np.int32)
        for number, index in enumerate(self._stages):
            buffer = self._buffer(index, len(came), 0)
            _flush(buffer, came)
            taps.append(self._tap(number, buffer))
            came = buffer.out_row[: index.state["out"][0]]
        return self._joined(taps, {})

    def _tap(self, number: int, buffer: Buffer) -> Ordered:
        """What came out of a buffer; nothing where nobody reads."""
        if number >= self._readers and number < len(self._stages) - 1:
            return Ordered(0, {})
        return self._released(self._stages[number], buffer)

    def _joined(self, taps: list[Ordered], quarantined: Columns) -> Ordered:
        last = taps.pop()
        self._count(last.columns, self._stages[-1])
        last.quarantined = quarantined
        last.taps = tuple(taps)
        return last

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {**super().snapshot(), "most": self._most}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        super().restore(state)
        self._most = state["most"]


@kernel
def _run(
    b: Buffer, start: int, end: int, own: np.ndarray, came: np.ndarray, upto: np.ndarray,
    gone: np.ndarray,
) -> None:  # fmt: skip
    """One buffer over rows [start, end): the first ``upto[i]`` of ``came`` are here by row i.

    ``gone[i]``: how many have left by then.
    """
    s, slack, here = b.state[0], own[0].slack, 0
    for i in range(end - start):
        row = start + i
        s.clock = max(s.clock, b.key[row])
        while here < upto[i]:
            push(b, came[here])
            here += 1
        release_until(b, s.clock - slack, b.arrival[row])
        gone[i] = s.out


@kernel
def _flush(b: Buffer, came: np.ndarray) -> None:
    for row in came:
        push(b, row)
    release_until(b, INT_MAX, b.state[0].now)
