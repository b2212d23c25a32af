"""From closed frames to what may be acked: frames go to the sink, and are durable when it says so.

A sink that writes in a thread of its own answers ``flush`` with LATER. What was in frames until
then, a *flight*, is durable when the sink says so. While it is behind, few flights wait: frames
stay open and become larger, so that a slow disk gets fewer and larger writes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from slackwater.engine.gateway.intake import Site
from slackwater.engine.gateway.outputs import LATER, Sink
from slackwater.engine.gateway.peers import Lane, Source

FLIGHTS_MAX: Final = 16
"""A frame is held open while so many flights wait for the sink."""


class _Flight(NamedTuple):
    """``written``: up to which number each lane is in it; ``bytes``: of its frames, about."""

    sources: list[Source]
    written: list[tuple[Lane, int]]
    bytes: int


class Commits:
    """What the sink was given, and what of it is durable.

    Attributes:
        error: why the sink failed when it was last tried; None: it did not.
        waiting_bytes: of all frames in the making, and of those that are not durable.
        due: something waits for ``flush``.
    """

    def __init__(self, sink: Sink) -> None:
        self.error: OSError | None = None
        self.waiting_bytes = 0
        self.due = False
        self._sink = sink
        self._written: dict[Source, None] = {}
        """Sources of frames that the sink has taken, and is to be asked for."""
        self._bytes = 0
        self._unflushed = False
        self._flights: deque[_Flight] = deque()
        self._done = 0

    @property
    def room(self) -> bool:
        """Whether frames that are due may be closed; else they are held until ``flushed``."""
        return len(self._flights) < FLIGHTS_MAX and not (self._flights and self.error)

    def append(self, site: Site) -> None:
        """Closes the site's frame and gives it to the sink.

        Raises:
            OSError: of the sink; the frame stays open.
        """
        if site.builder.rows:
            self._sink.append(site.builder.build())
            self._unflushed = True
            self._bytes += site.builder.bytes
        for source in site.flushed():
            for lane in (source.control, *source.lanes):
                lane.written = lane.received.next
            self._written[source] = None
        self.due = self._unflushed or bool(self._written)

    def flush(self) -> Iterable[Source]:
        """Asks the sink for what it has taken; gives the sources of which more is durable now.

        Raises:
            OSError: of the sink; call again.
        """
        later = self._sink.flush() is LATER if self._unflushed else False
        self._unflushed = False
        sources = list(self._written)
        lanes = [(lane, lane.written) for s in sources for lane in (s.control, *s.lanes)]
        self._flights.append(_Flight(sources, lanes, self._bytes))
        self._written, self._bytes, self.due = {}, 0, False
        if later:
            return ()
        if len(self._flights) > 1:
            # Nothing of it is in a frame, but what was said before it must be durable first.
            last = self._flights.pop()
            before = self._flights.pop()
            joined = {**dict.fromkeys(before.sources), **dict.fromkeys(last.sources)}
            written = [*before.written, *last.written]
            self._flights.append(_Flight(list(joined), written, before.bytes + last.bytes))
            return ()
        return self._landed(1)

    def flushed(self, count: int) -> Iterable[Source]:
        """The sink has done ``count`` flushes in all; as ``flush``."""
        new, self._done = count - self._done, count
        return self._landed(new)

    def _landed(self, count: int) -> Iterable[Source]:
        self.error = None
        sources: dict[Source, None] = {}
        for _ in range(count):
            flight = self._flights.popleft()
            self.waiting_bytes -= flight.bytes
            for lane, written in flight.written:
                lane.durable = max(lane.durable, written)
            sources.update(dict.fromkeys(flight.sources))
        return sources
