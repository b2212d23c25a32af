"""Callbacks at instants of virtual time: cheaper than a SimPy process per message.

Measured on SimPy 4.1: a process per message costs about twice what a timeout with a callback does.
Events of one instant happen in the order in which they were asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simpy import Environment
from simpy.events import Timeout

Callback = Callable[[Any], None]


def call_at(env: Environment, at_ns: int, callback: Callback, value: object = None) -> None:
    """Calls ``callback(event)`` at ``at_ns`` (not before now), ``event.value`` being ``value``."""
    Timeout(env, max(at_ns - env.now, 0), value).callbacks.append(callback)


class Alarm:
    """Rings once at the latest instant it was set to.

    A core changes its mind about its next deadline with nearly every message. Setting the
    alarm later costs nothing: the timeout that is pending finds, when it comes, that it is
    early and starts another one.
    """

    def __init__(self, env: Environment, ring: Callable[[], None]) -> None:
        self._env = env
        self._ring = ring
        self._due_ns: int | None = None
        self._pending_ns: int | None = None

    def set(self, due_ns: int | None) -> None:
        """Ring at ``due_ns`` and not before; None: not at all."""
        self._due_ns = due_ns
        if due_ns is not None and (self._pending_ns is None or due_ns < self._pending_ns):
            self._pending_ns = max(due_ns, self._env.now)
            call_at(self._env, self._pending_ns, self._came, self._pending_ns)

    def _came(self, event: Any) -> None:
        if event.value != self._pending_ns:  # one that an earlier setting has replaced
            return
        self._pending_ns = None
        if self._due_ns is None:
            return
        if self._due_ns > self._env.now:
            self.set(self._due_ns)
            return
        self._due_ns = None
        self._ring()


class LocalAlarm:
    """An alarm set to readings of a simulated clock."""

    def __init__(
        self,
        env: Environment,
        when_reads: Callable[[int, int], int],
        ring: Callable[[], None],
    ) -> None:
        """``when_reads(reading, not_before)``: as ``Clock.when_reads``."""
        self._env = env
        self._when_reads = when_reads
        self._alarm = Alarm(env, ring)
        self._reading_ns: int | None = None
        self._due_ns: int | None = None

    def set(self, reading_ns: int | None) -> None:
        """Ring when the clock first reads ``reading_ns`` from now on; None: not at all."""
        if reading_ns is None:
            self._due_ns = None
        else:
            due_ns, now_ns = self._due_ns, self._env.now
            if reading_ns == self._reading_ns and due_ns is not None and due_ns > now_ns:
                return  # as it is, with nearly every message
            self._due_ns = self._when_reads(reading_ns, now_ns)
        self._reading_ns = reading_ns
        self._alarm.set(self._due_ns)
