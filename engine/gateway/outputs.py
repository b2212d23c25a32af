"""What a gateway asks its driver to do, and where its frames go."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple, Protocol

from engine.stream.frame import Frame

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


class Close(NamedTuple):
    """Close this connection; nothing more is to be reported of it.

    ``name``: SITE/SOURCE that it had, or claimed to be; empty: it did not say.
    """

    connection: Hashable
    reason: str
    detail: str = ""
    name: str = ""


Output = Send | Close
