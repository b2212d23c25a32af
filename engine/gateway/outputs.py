"""What a gateway asks its driver to do, where its frames go, and dead letters."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Hashable
from typing import Final, NamedTuple, Protocol

from engine.stream.frame import Frame

# Dead letters: what peers sent and the gateway refused, kept for people to look at.
#
# One JSON object per line: ``at`` (arrival clock, ns), ``site``, ``source``, ``connection``,
# ``reason`` (a fixed word), ``detail``, ``rows`` (events in it), ``sample`` (first bytes, base64).


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


# What a gateway asks its driver to do, and where its frames go.


LATER: Final = object()
"""What ``Sink.flush`` gives when ``GatewayCore.flushed`` will say that it is done."""


class Sink(Protocol):
    """Where frames go: the arrival log."""

    def append(self, frame: Frame) -> None:
        """Takes ``frame``; an exception means that it was not taken."""

    def flush(self) -> object:
        """Returns when all that was taken is durable; an exception: a later call must do it.

        Or gives LATER at once. Then ``append`` never fails either, and the sink tries for itself.
        """


class Send(NamedTuple):
    """Write these bytes, one message, to this connection."""

    connection: Hashable
    data: bytes


class CloseConnection(NamedTuple):
    """Close this connection; nothing more is to be reported of it.

    ``name``: SITE/SOURCE that it had, or claimed to be; empty: it did not say.
    """

    connection: Hashable
    reason: str
    detail: str = ""
    name: str = ""


Output = Send | CloseConnection
