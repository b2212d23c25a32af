"""Promises of a source that wait until the numbers they speak of have come.

A promise (POG) with number n follows the events below n. On another connection it may overtake
them, and an engine that took it at its word would let results go too early. The gateway knows
which numbers have come, so it writes the promise of a source that resends only when it is proven:
every event below n lies before it in the log (L09 VI-A: a punctuate operator releases POGs "based
on acknowledged receipt of the events in question").
"""

from __future__ import annotations

from typing import Final, NamedTuple

KEYS_MAX: Final = 1024
"""Most pairs of stream and type for which promises of one source wait."""


class GatewayPromise(NamedTuple):
    """No event numbered from ``next_seq`` on, of ``type`` (None: any), has ts below ``ts``."""

    type: str | None
    next_seq: int
    ts: int


class WaitingPromises:
    """Of each stream and type the first promise that waits, so that it is heard as soon as may be,
    and the newest, which says most; those between are left out.

    They live in memory only: a promise lost with the gateway makes results later, never wrong.
    """

    def __init__(self) -> None:
        self._streams: dict[int, dict[str | None, tuple[GatewayPromise, GatewayPromise]]] = {}
        self.keys = 0
        """Pairs of stream and type for which a promise waits."""

    def wait(self, stream: int, promised: GatewayPromise) -> bool:
        """Keeps ``promised`` until it is proven; False: there is no room for one more type."""
        waiting = self._streams.setdefault(stream, {})
        known = waiting.get(promised.type)
        if known is None:
            if self.keys >= KEYS_MAX:
                return False
            self.keys += 1
            waiting[promised.type] = (promised, promised)
            return True
        first = min(known[0], promised, key=_number)
        newest = max(known[1], promised, key=_number)
        waiting[promised.type] = (first, newest)
        return True

    def proven(self, stream: int, next_seq: int) -> list[GatewayPromise]:
        """Takes out what the arrival of every number below ``next_seq`` proves, one per type."""
        waiting = self._streams.get(stream)
        if not waiting:
            return []
        found: list[GatewayPromise] = []
        for name, (first, newest) in list(waiting.items()):
            if newest.next_seq <= next_seq:
                found.append(newest)
                del waiting[name]
                self.keys -= 1
            elif first.next_seq <= next_seq:
                found.append(first)
                waiting[name] = (newest, newest)
        return found


def _number(promised: GatewayPromise) -> tuple[int, int]:
    return promised.next_seq, promised.ts
