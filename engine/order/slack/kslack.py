"""K-slack: a fixed K, the largest delay as K, and buffers in a row (R19 2.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np

from slackwater.engine.core.columns import Columns
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.units import parse_duration
from slackwater.engine.kernels.jit import kernel
from slackwater.engine.kernels.records import INT_MAX, one, record
from slackwater.engine.order.base import (
    SHARED,
    SLACK_MAX_NS,
    Order,
    Ordered,
    OrderSettings,
    OrderSite,
    only_known,
    shared,
)
from slackwater.engine.order.correction import Correction
from slackwater.engine.order.slack.buffer import Index, SlackBuffer, push, release_until
from slackwater.engine.order.slack.held_order import HeldOrder, SlackOrder

# ``kslack``: every event waits until the event clock has passed it by K (R19 2.3.1).
#
# Release all events with ``time + K <= clock``, smallest first, where the clock is the largest
# event time seen of any source. An event that is more than K late comes out of order.
#
# When not to use: when delays have a tail (K must be the largest one for a complete answer, and
# then every event waits that long); when some sources are often silent (the clock stops);
# when clocks disagree and are not compared.


KSLACK: Final = record("slack")
"""K [ns]."""


@dataclass(frozen=True, slots=True)
class KSlackSettings(OrderSettings):
    """``k_ns``: the slack; ``late``: ``pass`` | ``drop``; ``time``: ``ref`` | ``ts`` | ``hold``.

    ``duplicates``: ``drop`` | ``pass``.
    """

    k_ns: int
    late: str = "pass"
    time: str = "ref"
    duplicates: str = "drop"

    first = "k"

    @classmethod
    def read(cls, pairs: dict[str, str], time_unit: str) -> Self:
        only_known(pairs, ("k", *SHARED))
        if "k" not in pairs:
            raise UserError("kslack needs its slack, as in kslack:2s")
        k_ns = parse_duration(pairs["k"], time_unit)
        if k_ns > SLACK_MAX_NS:
            raise UserError(f"k={pairs['k']}: at most {SLACK_MAX_NS} ns")
        return cls(k_ns, **shared(pairs))

    def build(self, site: OrderSite) -> Order:
        own = one(KSLACK, slack=self.k_ns)
        correction = Correction(site.clocks, site.guards, self.duplicates)
        return SlackOrder(_run_fixed, own, self.late, correction, site.wanted)


@kernel
def _run_fixed(b: SlackBuffer, start: int, end: int, own: np.ndarray) -> None:
    s, slack = b.state[0], own[0].slack
    for row in range(start, end):
        s.clock = max(s.clock, b.key[row])
        push(b, row)
        release_until(b, s.clock - slack, b.arrival[row])


# ``mp-kslack``: K-slack whose K is the largest delay seen so far (R19 2.3.2, Fig 2.6).
#
# K starts at 0 and is looked at only when the clock advances: K becomes the largest distance of an
# event since the last advance from the new clock, if that is more than before. Then everything with
# ``time + K <= clock`` goes. K never shrinks.
#
# When not to use: a single straggler, or one event stamped in the future, makes every later event
# wait as long as it was late, for ever. The future guard keeps the second from happening.


MP_KSLACK: Final = record("slack", "lowest")
"""K [ns]; the smallest event time since the clock advanced."""


@dataclass(frozen=True, slots=True)
class MpKSlackSettings(OrderSettings):
    """``late``: ``pass`` | ``drop``; ``time``: ``ref`` | ``ts`` | ``hold``; ``duplicates``: as
    ``engine.order.duplicates``, ``drop`` | ``pass``.
    """

    late: str = "pass"
    time: str = "ref"
    duplicates: str = "drop"

    @classmethod
    def read(cls, pairs: dict[str, str], time_unit: str) -> Self:
        del time_unit
        only_known(pairs, SHARED)
        return cls(**shared(pairs))

    def build(self, site: OrderSite) -> Order:
        own = one(MP_KSLACK, lowest=INT_MAX)
        correction = Correction(site.clocks, site.guards, self.duplicates)
        return SlackOrder(_run_growing, own, self.late, correction, site.wanted)


@kernel
def _run_growing(b: SlackBuffer, start: int, end: int, own: np.ndarray) -> None:
    s, mine = b.state[0], own[0]
    for row in range(start, end):
        key = b.key[row]
        push(b, row)
        if key <= s.clock:
            mine.lowest = min(mine.lowest, key)
            continue
        if mine.lowest != INT_MAX:
            mine.slack = max(mine.slack, key - mine.lowest)
            mine.lowest = INT_MAX
        s.clock = key
        release_until(b, key - mine.slack, b.arrival[row])


# ``kslack-chain``: K-slack buffers in a row, each query reading after its own (R19 2.3.5).
#
# Buffer ``i`` holds events for ``K(i) - K(i-1)`` more than the one before it, and query ``i`` reads
# after it: events are stored once, for the largest K, and no query waits longer than its own. The
# event clock goes along the chain, so that query ``i`` gets just what ``kslack:K(i)`` would give it
# (the papers hand on only events, whose clock stops where event times leave gaps). An event
# that is late after one buffer may be in time after the next.
#
# When not to use: with a single query (``kslack`` is the same with less); with queries that can all
# wait equally long; where numbers tell what is missing (``sequence`` adds latency only there).


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
            _run_chain(buffer, start, end, index.own, came, upto, gone)
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

    def _tap(self, number: int, buffer: SlackBuffer) -> Ordered:
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
def _run_chain(
    b: SlackBuffer, start: int, end: int, own: np.ndarray, came: np.ndarray, upto: np.ndarray,
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
def _flush(b: SlackBuffer, came: np.ndarray) -> None:
    for row in came:
        push(b, row)
    release_until(b, INT_MAX, b.state[0].now)
