"""A barrier's settings, and their short form ``name[:DURATION][,ordered]`` (DESIGN, CLI)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from edge_agent.near_miss import near_miss
from engine.errors import UserError
from engine.units import DURATION_MAX_NS, parse_duration

_SPAN: Final = {"immediate": "", "punctuation": "", "bounded": "K", "hold": "H", "adaptive": ""}
"""Barriers, and what the duration that they need is called."""
BARRIER_FORMS: Final = tuple(f"{name}:{span}" if span else name for name, span in _SPAN.items())
"""Their short forms."""


@dataclass(frozen=True, slots=True)
class BarrierSettings:
    """``span_ns``: K of ``bounded``, H of ``hold``. ``ordered``: by last event's time."""

    name: str = "immediate"
    span_ns: int = 0
    ordered: bool = False


def parse_barrier(text: str, time_unit: str = "ns") -> BarrierSettings:
    """Settings of a barrier from its short form.

    >>> parse_barrier("bounded:1s,ordered")
    BarrierSettings(name='bounded', span_ns=1000000000, ordered=True)

    Args:
        text: e.g. ``immediate`` or ``hold:200ms,ordered``.
        time_unit: unit of durations written without one.

    Raises:
        UserError: an unknown barrier or setting; the message lists the known ones.
    """
    body, *settings = (part.strip() for part in text.strip().split(","))
    name, colon, span = (part.strip() for part in body.partition(":"))
    if name not in _SPAN:
        known = ", ".join(BARRIER_FORMS)
        meant = near_miss(name, _SPAN)
        raise UserError(f"barrier {text[:40]!r} is unknown; use {known}, each with ,ordered{meant}")
    if settings not in ([], ["ordered"]):
        raise UserError(f"barrier {text[:40]!r}: after a comma there is only ordered")
    needed = _SPAN[name]
    if needed and not span:
        raise UserError(f"barrier {name} needs its {needed}, as in {name}:500ms")
    if colon and not needed:
        raise UserError(f"barrier {name} takes no duration; write {name}")
    span_ns = parse_duration(span, time_unit) if needed else 0
    if span_ns > DURATION_MAX_NS:
        raise UserError(f"barrier {text[:40]!r}: at most {DURATION_MAX_NS} ns")
    return BarrierSettings(name, span_ns, bool(settings))


def barrier_in_force(given: BarrierSettings | None, realtime: int | None) -> BarrierSettings:
    """What is asked for, or else what the query's REALTIME says (Z10): 1 at once, 0 when right."""
    if given is not None:
        return given
    return BarrierSettings("punctuation" if realtime == 0 else "immediate")
