"""Which operator answers which plan: adding one is one file and one line here."""

from __future__ import annotations

from engine.errors import UserError
from engine.operator import Operator
from engine.pattern.seq import PatternSettings, SeqMatcher
from engine.query.plan import Plan, SeqPlan
from engine.window.tumbling import TumblingWindow

_BARRIERS = ("immediate",)
_CERTAINTIES = ("pairwise", "max-delay")


def build_operator(plan: Plan, barrier: str, certainty: str, site: str) -> Operator:
    """The operator of ``plan`` for ``site``.

    Raises:
        UserError: an unknown barrier or certainty rule, naming the known ones.
    """
    if barrier not in _BARRIERS:
        raise UserError(
            f"barrier {barrier!r} is not supported by this version; use {', '.join(_BARRIERS)}"
        )
    if certainty not in _CERTAINTIES:
        raise UserError(f"certainty {certainty!r}: use {' or '.join(_CERTAINTIES)}")
    if isinstance(plan, SeqPlan):
        return SeqMatcher(plan, PatternSettings(certainty=certainty), site=site)
    return TumblingWindow(plan, site=site)
