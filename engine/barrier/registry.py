"""Barriers by name, and their short form ``name[:DURATION][,ordered]`` (DESIGN, CLI).

A new barrier needs a policy, its import, and a line in ``BARRIERS``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from slackwater.edge_agent.errors import near_miss
from slackwater.engine.barrier.base import Barrier, BarrierRequirements
from slackwater.engine.barrier.policies import (
    Adaptive,
    Bounded,
    Hold,
    Immediate,
    Policy,
    Punctuation,
)
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.units import parse_span


@dataclass(frozen=True, slots=True)
class BarrierSettings:
    """The setting of a barrier.

    ``span_ns``: K of ``bounded``, H of ``hold`` [ns]. ``ordered``: whether matches leave in order
    of their last event's time.
    """

    name: str = "immediate"
    span_ns: int = 0
    ordered: bool = False


class Closes(Enum):
    """What closes the scope of a negated step, so that a match need not wait for it."""

    NOTHING = "a match does not wait"
    PROMISE = "a promise"
    SLACK = "the event clock, less the duration"


@dataclass(frozen=True, slots=True)
class BarrierKind:
    """A kind of barrier.

    ``closes``: what scopes wait for. ``says``: when a match leaves, for users; ``{span}`` is the
    duration. ``span``: the name of its duration; empty: it has none. ``by_arrival``: the duration
    is on the arrival clock. ``not_of_windows``: why windows do not support it; empty: they do
    (``engine.operators.window.progress``).
    """

    closes: Closes
    says: str
    policy: type[Policy]
    span: str = ""
    by_arrival: bool = False
    not_of_windows: str = ""


_CLOSED: Final = "a match leaves once all its negated steps are closed; without these at once"
BARRIERS: Final = {
    "immediate": BarrierKind(Closes.NOTHING, "a match leaves at once", Policy),
    "punctuation": BarrierKind(Closes.PROMISE, _CLOSED, Punctuation),
    "bounded": BarrierKind(Closes.SLACK, _CLOSED, Bounded, "K"),
    "hold": BarrierKind(
        Closes.NOTHING,
        "a match leaves {span} after its last event has arrived, unless taken back until then",
        Hold, "H",
        by_arrival=True,
    ),
    "adaptive": BarrierKind(
        Closes.PROMISE,
        "a match leaves at once while few are changed later, else as under punctuation",
        Adaptive,
        not_of_windows="it goes by how many matches are taken back, and a window emits once, "
        "when it closes",
    ),
}  # fmt: skip
BARRIER_FORMS: Final = tuple(
    f"{name}:{kind.span}" if kind.span else name for name, kind in BARRIERS.items()
)
"""The short forms of the barriers."""


def parse_barrier(text: str, time_unit: str = "ns") -> BarrierSettings:
    """Parse the setting of a barrier from its short form.

    >>> parse_barrier("bounded:1s,ordered")
    BarrierSettings(name='bounded', span_ns=1000000000, ordered=True)

    Args:
        text: e.g. ``immediate`` or ``hold:200ms,ordered``.
        time_unit: unit of durations written without one.

    Raises:
        UserError: the barrier or setting is unknown; the message lists the known ones.
    """
    body, *settings = (part.strip() for part in text.strip().split(","))
    name, colon, span = (part.strip() for part in body.partition(":"))
    if name not in BARRIERS:
        known = ", ".join(BARRIER_FORMS)
        meant = near_miss(name, BARRIERS)
        raise UserError(f"barrier {text[:40]!r} is unknown; use {known}, each with ,ordered{meant}")
    if settings not in ([], ["ordered"]):
        raise UserError(f"barrier {text[:40]!r}: after a comma there is only ordered")
    needed = BARRIERS[name].span
    if needed and not span:
        raise UserError(f"barrier {name} needs its {needed}, as in {name}:500ms")
    if colon and not needed:
        raise UserError(f"barrier {name} takes no duration; write {name}")
    span_ns = parse_span(span, time_unit, f"barrier {text[:40]!r}") if needed else 0
    return BarrierSettings(name, span_ns, bool(settings))


def barrier_in_force(barrier: BarrierSettings | None, realtime: int | None) -> BarrierSettings:
    """Return the setting, else the default by REALTIME (Z10): 1: at once, 0: when final.

    Args:
        barrier: the user's setting; None: there is none.
        realtime: the query's REALTIME; None: it has none.
    """
    if barrier is not None:
        return barrier
    return BarrierSettings("punctuation" if realtime == 0 else "immediate")


def barrier_of_windows(barrier: BarrierSettings | None, query: str) -> BarrierSettings | None:
    """Return the setting after a check that the windows of ``query`` support it.

    Raises:
        UserError: windows do not support this barrier; the message says why and what to use.
    """
    why = "" if barrier is None else BARRIERS[barrier.name].not_of_windows
    if barrier is not None and why:
        those = [
            form for form in BARRIER_FORMS if not BARRIERS[form.partition(":")[0]].not_of_windows
        ]
        raise UserError(
            f"barrier {barrier.name} is not of windows, which {query} has: {why}; use "
            f"{', '.join(those)}, or ask for patterns in a call of their own"
        )
    return barrier


def build_barrier(settings: BarrierSettings, requirements: BarrierRequirements) -> Barrier:
    """Return the barrier of one query and site."""
    if settings.name == "immediate" and not settings.ordered:
        return Immediate(requirements)
    # Imported here, as few runs hold matches and need the kernels for that.
    from slackwater.engine.barrier.holding import Holding  # noqa: PLC0415

    kind = BARRIERS[settings.name]
    policy = kind.policy(requirements, settings.span_ns, ordered=settings.ordered)
    return Holding(policy, requirements, ordered=settings.ordered)
