"""Dead letters: what peers sent and the gateway refused, kept for people to look at.

One JSON object per line: ``at`` (arrival clock, ns), ``site``, ``source``, ``connection``,
``reason`` (a fixed word), ``detail``, ``rows`` (events in it), ``sample`` (first bytes, base64).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable


class DeadLetters:
    """Writes refused messages until ``bytes_max`` is reached, and counts what comes after."""

    def __init__(
        self, write: Callable[[str], object] | None = None, bytes_max: int = 16 << 20
    ) -> None:
        """``write`` takes one line with its newline; None: lines are kept in ``lines``."""
        self.lines: list[str] = []
        self.kept = 0
        self.dropped = 0
        """Refused messages for which no room was left: counted by reason, but not kept."""
        self._write = write or self.lines.append
        self._bytes_left = bytes_max

    def add(
        self,
        at_ns: int,
        peer: tuple[str, str, str],
        reason: str,
        detail: str,
        sample: bytes,
        rows: int = 0,
    ) -> None:
        """One refused message; ``peer`` is (site, source, connection), empty when not known."""
        site, source, connection = peer
        letter = {
            "at": at_ns, "site": site, "source": source, "connection": connection,
            "reason": reason, "detail": detail, "rows": rows,
            "sample": base64.b64encode(sample).decode("ascii"),
        }  # fmt: skip
        line = json.dumps(letter) + "\n"
        if len(line) > self._bytes_left:
            self.dropped += 1
            return
        self._bytes_left -= len(line)
        self.kept += 1
        self._write(line)
