"""When to promise for streams that have nothing to say: silence must not look like loss."""

from __future__ import annotations


class Heartbeat:
    """Watches which of ``streams`` streams were silent for ``interval_ns`` (0: never any)."""

    def __init__(self, streams: int, interval_ns: int) -> None:
        self.due: int | None = None
        """Monotonic instant at which some stream may have been silent for too long."""
        self._interval_ns = interval_ns
        self._quiet_since = [0] * streams

    def start(self, mono_ns: int) -> None:
        """Streams are watched from now on, as they were not."""
        if self._interval_ns:
            self._quiet_since = [max(since, mono_ns) for since in self._quiet_since]
            self.due = mono_ns + self._interval_ns

    def stop(self) -> None:
        self.due = None

    def spoke(self, stream: int, mono_ns: int) -> None:
        """An event of ``stream`` was emitted."""
        self._quiet_since[stream] = mono_ns

    def silent(self, mono_ns: int) -> list[int]:
        """The streams to promise for now; sets the next ``due``. Called when ``due`` has come."""
        found = [
            stream
            for stream, since in enumerate(self._quiet_since)
            if since + self._interval_ns <= mono_ns
        ]
        for stream in found:
            self._quiet_since[stream] = mono_ns
        self.due = min(self._quiet_since) + self._interval_ns
        return found
