"""What a gateway says of the peers that it refuses: who, from where, why; some lines a minute."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from edge_agent.errors import one_line
from engine.gateway.outputs import CloseConnection

MINUTE_S: Final = 60.0
_NAME_MAX: Final = 100
_DETAIL_MAX: Final = 400
LINES_MAX: Final = 10
"""In a minute; of one address and reason there is one."""
_ORDINARY: Final = ("replaced", "superseded")
"""A newer connection or start of the same source took over."""


class RefusalLines:
    """Tells of refusals with ``tell``; ``now_s``: a clock that never goes back."""

    def __init__(
        self, tell: Callable[[str], None], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self.tell = tell
        self._now_s = now_s
        self._begun = now_s()
        self._told: set[tuple[str, str]] = set()
        self._more = 0

    def closed(self, host: str, close: CloseConnection) -> None:
        """The connection of a peer at address ``host`` is closed, for that reason."""
        if close.reason in _ORDINARY:
            return
        now_s = self._now_s()
        if now_s - self._begun >= MINUTE_S:
            if self._more:
                self.tell(f"refused: {self._more} more, since the lines above")
            self._begun, self._more = now_s, 0
            self._told.clear()
        key = (host, close.reason)
        if key in self._told or len(self._told) >= LINES_MAX:
            self._more += 1
            return
        self._told.add(key)
        name = f" {one_line(close.name, _NAME_MAX)}" if close.name else ""
        detail = one_line(close.detail, _DETAIL_MAX)
        self.tell(f"refused{name} from {host or 'nowhere'}: {close.reason}: {detail}")
