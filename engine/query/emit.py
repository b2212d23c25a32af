"""When results of windows are told."""

from __future__ import annotations

from enum import StrEnum


class Emit(StrEnum):
    """When results of windows are told; what stands at the end is the same."""

    CLOSE = "close"
    """When the window closes."""
    EARLY = "early"
    """Also at every multiple of ``WindowPlan.early_ns`` of reference time until then, as far as it
    has changed."""
    CHANGE = "change"
    """At every event that changes it."""
