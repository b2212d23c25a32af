"""The bound of all automata here."""

from __future__ import annotations

from typing import Final

MAX_STATES: Final = 20_000
"""Of any automaton on the way; bounds time and memory before the first event."""


class TooLargeError(Exception):
    """An automaton would have more than ``MAX_STATES`` states."""
