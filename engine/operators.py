"""Which operator answers which plan: adding one is one file and one line here."""

from __future__ import annotations

from engine.barrier.registry import BarrierSettings
from engine.errors import UserError
from engine.operator import Operator
from engine.pattern.seq import PatternSettings, SeqMatcher
from engine.query.plan import OrPlan, Plan, SeqPlan
from engine.window.tumbling import TumblingWindow

_CERTAINTIES = ("pairwise", "max-delay")


def build_operator(
    plan: Plan, barrier: BarrierSettings | None, certainty: str, site: str,
    keep_late_ns: int | None = None,
) -> Operator:  # fmt: skip
    """The operator of ``plan`` for ``site``; the rest as in ``engine.chain.ChainSettings``.

    Raises:
        UserError: an unknown certainty rule, naming the known ones.
    """
    if certainty not in _CERTAINTIES:
        raise UserError(f"certainty {certainty!r}: use {' or '.join(_CERTAINTIES)}")
    if isinstance(plan, SeqPlan | OrPlan):
        return SeqMatcher(plan, PatternSettings(certainty, keep_late_ns), site, barrier)
    return TumblingWindow(plan, site=site)
