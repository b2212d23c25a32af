"""Integers that mean "none", "before everything" and "after everything" in every kernel."""

from __future__ import annotations

from typing import Final

NONE: Final = -1
INT_MIN: Final = -(2**63) + 1
INT_MAX: Final = 2**63 - 1
