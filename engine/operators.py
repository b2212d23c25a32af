"""Which operator answers which plan: adding one is one file and one line here."""

from __future__ import annotations

from dataclasses import replace

from engine.barrier.registry import BarrierSettings
from engine.errors import UserError
from engine.operator import Operator
from engine.pattern.chunk_store import ChunkStore
from engine.pattern.in_stream import InStream
from engine.pattern.seq import PatternSettings, SeqMatcher
from engine.pattern.spill_settings import SpillSettings
from engine.query.plan import OrPlan, Plan, SeqPlan
from engine.window.settings import WindowSettings

_CERTAINTIES = ("pairwise", "max-delay")
_AS_USUAL = PatternSettings()


def build_operator(
    plan: Plan, barrier: BarrierSettings | None, certainty: str, site: str,
    pattern: PatternSettings = _AS_USUAL, spill: SpillSettings | None = None,
    chunks: ChunkStore | None = None, window: WindowSettings | None = None,
) -> Operator:  # fmt: skip
    """The operator of ``plan`` for ``site``; the rest as in ``engine.chain.ChainSettings``.

    ``chunks``: where spilled ones are; None: as ``spill`` says.

    Raises:
        UserError: an unknown certainty rule, naming the known ones.
    """
    if certainty not in _CERTAINTIES:
        raise UserError(f"certainty {certainty!r}: use {' or '.join(_CERTAINTIES)}")
    if isinstance(plan, SeqPlan | OrPlan):
        pattern = replace(pattern, certainty=certainty)
        if spill is not None:
            from engine.pattern.spill import SpillingMatcher  # noqa: PLC0415 - for few runs

            return InStream(SpillingMatcher(plan, spill, pattern, site, barrier, chunks))
        return InStream(SeqMatcher(plan, pattern, site, barrier))
    from engine.window.tumbling import TumblingWindow  # noqa: PLC0415 - not for patterns

    return TumblingWindow(plan, window, site)
