"""Source information store of the engine: offsets, uncertainties and their epochs (SPEC 2).

``ref = ts + offset`` (R19 Eq 3.15) with uncertainty ``delay / 2`` + precision (Eq 3.14), growing by
``skew_error_ppb`` of the offset's age. A stored offset applies to events by event time from its
measurement on; an epoch is the validity of one offset, so two events of one source and epoch share
one clock error. The site's ``t_a`` is the largest filtered delay (Eq 3.16).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.jit import kernel
from engine.order.merge import reference
from engine.order.state import CLOCK, EPOCHS_KEPT, INT_MIN, NONE
from engine.released import Strings


@dataclass(frozen=True, slots=True)
class Sync:
    """One sync record; durations in ns.

    ``ts``: event time at the source from which the offset is in force; None: after everything
    seen of the source so far.
    """

    source: str
    stream: str
    arrival: int
    offset: int
    delay: int
    ts: int | None = None
    incarnation: int = 0
    first_seq: int | None = None
    precision: int = 0
    skew_error_ppb: int = 0

    @property
    def uncertainty(self) -> int:
        """Half-width around the offset, rounded up."""
        return (self.delay + 1) // 2 + self.precision


class SourceClocks:
    """Offsets of every source of a site, by the source's code in ``strings``."""

    def __init__(self, strings: Strings) -> None:
        self.strings = strings
        self.next_epoch = 0
        self.delay: dict[str, int] = {}
        self.clocks = _empty(0)

    @property
    def t_a(self) -> int:
        """The largest filtered delay over the site's sources [ns] (R19 Eq 3.16)."""
        return max(self.delay.values(), default=0)

    def grow(self, sources: int) -> None:
        """Make room for source codes below ``sources``; codes of other texts need none."""
        have = len(self.clocks)
        if sources > have:
            more = _empty(max(sources, 2 * have))
            more[:have] = self.clocks
            self.clocks = more

    def learn(self, sync: Sync, newest_ts: int) -> None:
        """Take over ``sync``; ``newest_ts``: largest event time seen of the source, or INT_MIN."""
        code = self.strings.code(sync.source)
        self.grow(code + 1)
        ck = self.clocks
        self.delay[sync.source] = sync.delay
        n = int(ck["n"][code, 0])
        start = (
            sync.ts if sync.ts is not None else newest_ts + 1 if newest_ts > INT_MIN else INT_MIN
        )
        if n == 0:
            start = INT_MIN
        else:
            same = (sync.offset, sync.uncertainty, sync.skew_error_ppb)
            last = (ck["offset"][code, n - 1], ck["unc"][code, n - 1], ck["rate"][code, n - 1])
            if same == last and (sync.ts is None or ck["anchor"][code, n - 1] == sync.ts):
                return  # the same report for another stream of this source
        if n == EPOCHS_KEPT:
            for name in ("start", "offset", "unc", "rate", "anchor", "ident"):
                ck[name][code, :-1] = ck[name][code, 1:].copy()
            n -= 1
        ck["start"][code, n] = start
        ck["offset"][code, n] = sync.offset
        ck["unc"][code, n] = sync.uncertainty
        ck["rate"][code, n] = sync.skew_error_ppb if sync.ts is not None else 0
        ck["anchor"][code, n] = sync.ts if sync.ts is not None else max(newest_ts, 0)
        ck["ident"][code, n] = self.next_epoch
        ck["n"][code, 0] = n + 1
        self.next_epoch += 1

    def correct(
        self, source: np.ndarray, ts: np.ndarray, default_uncertainty: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(ref, uncertainty, epoch) of events; there must be room for their sources."""
        n = len(source)
        ref, unc, epoch = (np.empty(n, np.int64) for _ in range(3))
        _correct(self.clocks, source, ts, default_uncertainty, ref, unc, epoch)
        return ref, unc, epoch

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "next_epoch": self.next_epoch,
            "delay": dict(self.delay),
            "clocks": self.clocks.copy(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self.next_epoch = state["next_epoch"]
        self.delay = dict(state["delay"])
        self.clocks = state["clocks"].copy()


@kernel
def _correct(
    ck: np.ndarray, source: np.ndarray, ts: np.ndarray, default: int, ref: np.ndarray,
    unc: np.ndarray, epoch: np.ndarray,
) -> None:  # fmt: skip
    for i in range(len(source)):
        ref[i], unc[i], epoch[i] = reference(ck, default, source[i], ts[i])


def _empty(sources: int) -> np.ndarray:
    """Clock tables of ``sources`` codes, none of them synchronised."""
    table = np.zeros((sources, EPOCHS_KEPT), CLOCK)
    table["first_lane"] = NONE
    return table
