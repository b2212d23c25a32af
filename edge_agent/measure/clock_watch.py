"""The wall clock against the monotonic one, reading by reading: steps, and nothing else moves.

On Linux both are steered alike, so whatever sets them apart set the wall clock.
"""

from __future__ import annotations

from typing import Final

from edge_agent.clock import Now

STEP_MIN_NS: Final = 1_000_000
"""A jump below this may be a pause between the two readings."""
_STEPS_MAX: Final = 1_000


class ClockWatch:
    """Takes readings in their order."""

    def __init__(self) -> None:
        self.readings = 0
        self.backwards = 0
        self.steps: list[tuple[int, int]] = []
        self._last: Now | None = None
        self._first_ns = 0

    def see(self, now: Now, apart_ns: int = 0) -> None:
        """``apart_ns``: how far the two clocks' readings may lie from one another."""
        self.readings += 1
        last, self._last = self._last, now
        if last is None:
            self._first_ns = now.mono_ns
            return
        ran_ns = now.mono_ns - last.mono_ns
        if ran_ns < 0:
            self.backwards += 1
            return
        jump_ns = now.wall_ns - last.wall_ns - ran_ns
        if abs(jump_ns) > STEP_MIN_NS + apart_ns and len(self.steps) < _STEPS_MAX:
            self.steps.append((now.mono_ns, jump_ns))

    @property
    def watched_ns(self) -> int:
        """From the first reading to the last."""
        return 0 if self._last is None else self._last.mono_ns - self._first_ns
