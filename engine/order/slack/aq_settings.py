"""Settings of ``aq-kslack`` (``engine.order.slack.aq_kslack``) and of ``kslack-chain``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import ATTR_PREFIX
from slackwater.engine.core.units import parse_duration
from slackwater.engine.order.base import (
    SHARED,
    SLACK_MAX_NS,
    Order,
    OrderSettings,
    OrderSite,
    choice,
    factor,
    only_known,
    share,
    shared,
    span_if_given,
)
from slackwater.engine.order.correction import Correction
from slackwater.engine.order.served import Window, reads_of, window_of
from slackwater.engine.order.slack.aq_kslack import R19, AqKSlack
from slackwater.engine.order.slack.aq_threshold import AGGREGATES
from slackwater.engine.order.slack.kslack import fixed_buffers
from slackwater.engine.query.plan import Plan

HORIZON_PART: Final = 10
"""L leaves out this part of the error: 1 - horizon is a tenth of it."""
KP_MILLI: Final = 200
KD_MILLI: Final = 100
CONTROLS: Final = ("relative", R19)
"""How alpha follows the coverage: as above, or by Eq 2.3 as printed."""
_GAIN_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class AqKSlackSettings(OrderSettings):
    """``error_ppm``: relative error allowed to a window's result, with ``confidence_ppm``.

    ``window_ns``, ``agg`` (``count`` | ``sum`` | ``avg`` of the attribute ``attr``): None = as the
    queries say (``engine.order.served``). ``slide_ns``: None = the window. ``horizon_ppm``:
    quantile of L. ``control``: one of ``CONTROLS``; ``kp_milli``, ``kd_milli``: its gains.
    ``late``: ``pass`` | ``drop``. ``time``: ``ref`` | ``ts`` | ``hold``. ``duplicates``: ``drop`` |
    ``pass``.
    """

    error_ppm: int
    confidence_ppm: int = 950_000
    window_ns: int | None = None
    slide_ns: int | None = None
    agg: str | None = None
    attr: str | None = None
    horizon_ppm: int = 995_000
    control: str = "relative"
    kp_milli: int = KP_MILLI
    kd_milli: int = KD_MILLI
    late: str = "pass"
    time: str = "ref"
    duplicates: str = "drop"

    @classmethod
    def read(cls, pairs: dict[str, str], time_unit: str) -> Self:
        keys = ("error", "confidence", "window", "slide", "agg", "attr", "horizon", "control", "kp",
                "kd", *SHARED)  # fmt: skip
        only_known(pairs, keys)
        if "error" not in pairs:
            raise UserError(
                "aq-kslack needs the relative error allowed, as in aq-kslack:error=0.05"
            )
        error_ppm = share(pairs["error"], "error", 10**6)
        confidence_ppm = share(pairs.get("confidence", "0.95"), "confidence", 10**6)
        if not error_ppm:
            raise UserError("error=0: must be above 0; mp-kslack waits for everything")
        if confidence_ppm < 500_000:
            raise UserError(f"confidence={pairs['confidence']}: must be at least 0.5")
        agg = choice(pairs, "agg", tuple(AGGREGATES)) if "agg" in pairs else None
        attr = pairs.get("attr", "").removeprefix(ATTR_PREFIX)
        if (agg in (None, "count")) != (not attr):
            raise UserError(
                "sum and avg need their attribute and count has none: agg=avg,attr=NAME"
            )
        return cls(
            error_ppm=error_ppm,
            confidence_ppm=confidence_ppm,
            window_ns=span_if_given(pairs, "window", time_unit),
            slide_ns=span_if_given(pairs, "slide", time_unit),
            agg=agg,
            attr=attr or None,
            horizon_ppm=(
                share(pairs["horizon"], "horizon", 10**6)
                if "horizon" in pairs
                else 1_000_000 - error_ppm // HORIZON_PART
            ),
            control=choice(pairs, "control", CONTROLS),
            kp_milli=factor(pairs["kp"], "kp", _GAIN_MAX) if "kp" in pairs else KP_MILLI,
            kd_milli=factor(pairs["kd"], "kd", _GAIN_MAX) if "kd" in pairs else KD_MILLI,
            **shared(pairs),
        )

    def build(self, site: OrderSite) -> Order:
        return quality_buffers([(self, site.plans)], site)

    def served(self, plans: Sequence[Plan]) -> Window:
        """The window that is measured.

        Raises:
            UserError: as ``engine.order.served.window_of``.
        """
        return window_of(plans, self.window_ns, self.agg, self.attr)

    def attributes(self, plans: Sequence[Plan]) -> dict[str, bool]:
        served = self.served(plans)
        return {} if served.attr is None else {served.attr: served.agg != "count"}


def quality_buffers(
    buffers: Sequence[tuple[AqKSlackSettings, Sequence[Plan]]], site: OrderSite
) -> Order:
    """A buffer for each of ``buffers``, whose settings differ in their errors alone, with the
    queries that it serves.
    """
    settings, _ = buffers[0]
    correction = Correction(site.clocks, site.guards, settings.duplicates)
    measures = [(each, each.served(plans), reads_of(plans)) for each, plans in buffers]
    return AqKSlack(measures, site.clocks.strings, correction, site.wanted)


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
        correction = Correction(site.clocks, site.guards, self.duplicates)
        return fixed_buffers(slacks, self.late, correction, site.wanted)

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
