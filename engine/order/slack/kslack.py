"""K-slack: a fixed K, the largest delay as K, and buffers in a row (R19 2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.units import parse_duration
from slackwater.engine.kernels.jit import kernel
from slackwater.engine.kernels.records import INT_MAX, one, record
from slackwater.engine.order.base import (
    SHARED,
    SLACK_MAX_NS,
    Order,
    OrderSettings,
    OrderSite,
    only_known,
    shared,
)
from slackwater.engine.order.correction import Correction
from slackwater.engine.order.slack.aq_settings import AqKSlackSettings, quality_buffers
from slackwater.engine.order.slack.buffer import SlackBuffer, push, release_until
from slackwater.engine.order.slack.held_order import SlackOrder
from slackwater.engine.query.plan import Plan

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
        return SlackOrder([_run_fixed], [own], self.late, correction, site.wanted)


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
        return SlackOrder([_run_growing], [own], self.late, correction, site.wanted)


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
# As printed, buffer ``i`` holds events for ``K(i) - K(i-1)`` more than the one before it, and query
# ``i`` reads after it. A chain gives what one buffer of the sum of its sizes gives, so here the
# buffers lie side by side over rows that are stored once: query ``i`` gets just what
# ``kslack:K(i)`` would give it, and no query waits longer than its own. (The papers hand on only
# events, whose clock stops where event times leave gaps.) Side by side, sizes may change, and
# overtake each other: with ``error=E`` query ``i`` gets just what ``aq-kslack:error=E`` would give
# it alone.
#
# When not to use: with a single query (``kslack`` is the same with less); with queries that can all
# wait equally long; where numbers tell what is missing (``sequence`` adds latency only there).


@dataclass(frozen=True, slots=True)
class KSlackChainSettings(OrderSettings):
    """``ks_ns``: the slacks, ascending; ``late``: ``pass`` | ``drop``.

    ``qualities``: the buffers, where an error sizes them; then there is no slack.
    ``time``: ``ref`` | ``ts`` | ``hold``. ``duplicates``: ``drop`` | ``pass``.

    Query ``i`` reads after slack ``i``; further queries, and the ordered stream, after the last. By
    quality every query has its own, which further ones size by the last error, and the ordered
    stream is what the last query reads.
    """

    ks_ns: tuple[int, ...] = ()
    qualities: tuple[AqKSlackSettings, ...] = ()
    late: str = "pass"
    time: str = "ref"
    duplicates: str = "drop"

    listed = "ks"

    @classmethod
    def read(cls, pairs: dict[str, str], time_unit: str) -> Self:
        texts = [text.strip(" []") for text in pairs.get("ks", "").split(",")[1:]]
        if "error" in pairs:
            return cls((), cls._qualities(pairs, texts, time_unit), **shared(pairs))
        only_known(pairs, ("ks", *SHARED, "error"))
        ks_ns = tuple(parse_duration(text, time_unit) for text in texts or ("500ms",))
        if list(ks_ns) != sorted(ks_ns):
            raise UserError("give the slacks in ascending order, as in kslack-chain:100ms,1s")
        if ks_ns[-1] > SLACK_MAX_NS:
            raise UserError(f"a slack is at most {SLACK_MAX_NS} ns")
        return cls(ks_ns, (), **shared(pairs))

    @staticmethod
    def _qualities(
        pairs: dict[str, str], texts: list[str], time_unit: str
    ) -> tuple[AqKSlackSettings, ...]:
        """``texts``: what is listed behind the first error."""
        names = list(pairs)
        if texts and names.index("ks") < names.index("error"):
            raise UserError(
                "give slacks or errors, not both: kslack-chain:100ms,1s or "
                "kslack-chain:error=0.05,0.01"
            )
        others = {key: value for key, value in pairs.items() if key != "ks"}
        errors = (pairs["error"], *texts)
        return tuple(AqKSlackSettings.read({**others, "error": e}, time_unit) for e in errors)

    def build(self, site: OrderSite) -> Order:
        if self.qualities:
            return quality_buffers(self._by_query(site.plans), site)
        slacks = self.ks_ns[:-1][: len(site.plans)] + self.ks_ns[-1:]
        owns = [one(KSLACK, slack=k) for k in slacks]
        correction = Correction(site.clocks, site.guards, self.duplicates)
        return SlackOrder([_run_fixed] * len(owns), owns, self.late, correction, site.wanted)

    def attributes(self, plans: Sequence[Plan]) -> dict[str, bool]:
        found: dict[str, bool] = {}
        for quality, served in self._by_query(plans) if self.qualities else ():
            for name, number in quality.attributes(served).items():
                found[name] = number or found.get(name, False)
        return found

    def _by_query(self, plans: Sequence[Plan]) -> list[tuple[AqKSlackSettings, Sequence[Plan]]]:
        """What sizes each query's buffer; without queries the last one alone."""
        if not plans:
            return [(self.qualities[-1], ())]
        last = len(self.qualities) - 1
        return [(self.qualities[min(n, last)], (plan,)) for n, plan in enumerate(plans)]
