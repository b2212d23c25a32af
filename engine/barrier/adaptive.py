"""``adaptive``: at once while that is seldom wrong, by promises while it is not (L09 XI, Z10).

The rate of spoilt matches is smoothed over about 64 fates: 1 for each match that a later row
changes, 0 for each that is let go. Above 10 % new matches wait as under ``punctuation``; below 5 %
they leave at once again. Fates count at their places in the released stream, so no cut changes it.

When not to use: when a single wrong alarm is one too many, or when there are no promises.
"""

from __future__ import annotations

from typing import Any, Final

from engine.barrier.base import Asked
from engine.barrier.punctuation import Punctuation

_ONE: Final = 1_000_000
_SMOOTHING: Final = 64
_WAIT_ABOVE_PPM: Final = 100_000
_AT_ONCE_BELOW_PPM: Final = 50_000


class Adaptive(Punctuation):
    """The policy of ``adaptive``."""

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        self._rate_ppm = 0
        self._waits = False

    def at_once(self) -> bool:
        return not self._waits

    def observe(self, *, spoilt: bool) -> None:
        self._rate_ppm += ((_ONE if spoilt else 0) - self._rate_ppm) // _SMOOTHING
        if self._rate_ppm > _WAIT_ABOVE_PPM:
            self._waits = True
        elif self._rate_ppm < _AT_ONCE_BELOW_PPM:
            self._waits = False

    def snapshot(self) -> dict[str, Any]:
        return {**super().snapshot(), "rate_ppm": self._rate_ppm, "waits": self._waits}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._rate_ppm, self._waits = state["rate_ppm"], state["waits"]
