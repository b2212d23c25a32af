"""Integers with one meaning in every kernel: none, before and after everything, units."""

from __future__ import annotations

from typing import Final

NONE: Final = -1
INT_MIN: Final = -(2**63) + 1
INT_MAX: Final = 2**63 - 1
NS_PER_S: Final = 10**9
PPB: Final = 10**9
"""1, in parts per billion."""
