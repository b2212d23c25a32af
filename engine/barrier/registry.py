"""Barriers by name.

Adding one: a file with its policy, a line in ``build_barrier`` and one in ``settings``.
"""

from __future__ import annotations

from engine.barrier.adaptive import Adaptive
from engine.barrier.base import Asked, Barrier
from engine.barrier.bounded import Bounded
from engine.barrier.hold import Hold
from engine.barrier.holding import Holding, Policy
from engine.barrier.immediate import Immediate
from engine.barrier.promised import Promised
from engine.barrier.punctuation import Punctuation
from engine.barrier.settings import BarrierSettings, barrier_in_force, parse_barrier

__all__ = ["BarrierSettings", "barrier_in_force", "build_barrier", "parse_barrier"]


def build_barrier(settings: BarrierSettings, asked: Asked) -> Barrier:
    """The barrier of one query and site."""
    policies: dict[str, Policy] = {
        "immediate": Promised(asked),
        "punctuation": Punctuation(asked),
        "bounded": Bounded(settings.span_ns),
        "hold": Hold(asked, settings.span_ns, ordered=settings.ordered),
        "adaptive": Adaptive(asked),
    }
    if settings.name == "immediate" and not settings.ordered:
        return Immediate(asked)
    return Holding(policies[settings.name], asked, ordered=settings.ordered)
