"""After which events to promise, so that who waits for punctuations (POGs) need not wait long.

An agent emits the events of a stream soon after they happened, so it can tell at any time below
which event time nothing more will come; but each promise costs a message. A share of the events
is followed by one, evenly spaced: the POG percentage of L09 VII-A, promises over events.
Heartbeats (``edge_agent.promising``) speak for streams that are silent.

>>> rule = Promising(PromiseSettings(share=0.4))
>>> [len(rule.due(1, None)) for _ in range(10)]
[0, 0, 1, 0, 1, 0, 0, 1, 0, 1]
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass

from edge_agent.errors import SettingsError
from edge_agent.messages import NAMES_MAX, Texts


@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseSettings:
    """How often an agent promises of its own accord.

    Attributes:
        share: promises per event, in [0, 1]; 0: never.
        by_type: count and promise each type by itself, instead of the whole stream.
        phase: in [0, 1): the part of a round of 1/share events that is over at the start.
    """

    share: float = 0.0
    by_type: bool = False
    phase: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise SettingsError(f"promise share must lie in 0..1, is {self.share}")
        if not 0 <= self.phase < 1:
            raise SettingsError(f"promise phase must lie in 0..1, below 1, is {self.phase}")


class Promising:
    """Counts the events of one stream, and says when a promise is due."""

    def __init__(self, settings: PromiseSettings) -> None:
        self._settings = settings
        self._credit: dict[str | None, float] = {}

    def due(self, rows: int, types: Texts | None) -> list[str | None]:
        """Types to promise after a message of ``rows`` events; None stands for every type.

        However many promises a message has earned, one says it all. Events without a type can
        only be promised with the whole stream, and so can types beyond ``NAMES_MAX`` of them.
        """
        share = self._settings.share
        if not share:
            return []
        counted = _counted(rows, types) if self._settings.by_type else {None: rows}
        found: list[str | None] = []
        for name, events in counted.items():
            known = name if name in self._credit or len(self._credit) < NAMES_MAX else None
            credit = self._credit.get(known, self._settings.phase) + events * share
            self._credit[known] = credit % 1.0
            if credit >= 1.0:
                found.append(known)
        return [None] if None in found else found


def _counted(rows: int, types: Texts | None) -> dict[str | None, int]:
    """Events per type, None of those without one."""
    if types is None:
        return {None: rows}
    if types.codes is None:
        return {types.names[0]: rows}
    codes = Counter(struct.unpack(f"<{rows}i", types.codes))
    return {types.names[code] if code >= 0 else None: n for code, n in sorted(codes.items())}


# When to promise for streams that have nothing to say: silence must not look like loss.


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
