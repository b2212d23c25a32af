"""Events that may not have happened: results of another statement, which are not always certain."""

from __future__ import annotations

from typing import Final

CHANCE: Final = "chance"
"""Column of released events: 1 where the result is certain, else how probable it is, NaN where
nobody knows. Left out of the log's own events, which all happened.
"""
UNKNOWN: Final = -1.0
"""The chance of a result that compares events of clocks of which one is unknown (SPEC 2)."""
