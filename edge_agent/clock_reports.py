"""Sync messages about devices' clocks: the errors device to agent and agent to gateway combined.

Only the agent sees both errors at one instant, so it adds them; the engine has no chains of clocks
(docs/design.md). A device's bound is relative to the agent's monotonic clock; the agent's own last
sync report relates that clock to the engine's.
"""

from __future__ import annotations

from typing import Any, Final

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import records as limits
from slackwater.edge_agent import wire
from slackwater.edge_agent.clock import Now
from slackwater.edge_agent.device_clock import (
    ARRIVAL,
    NS_PER_S,
    DeviceClockBound,
    device_of,
    is_in_doubt,
)
from slackwater.edge_agent.timesync import ClockStatus, SyncReport
from slackwater.edge_agent.unacked import Outgoing, UnackedMessages

_HEARD_NS: Final = 600 * NS_PER_S
"""A clock silent for longer is not reported again with the agent's own."""
CLOCKS_MAX: Final = 1024
"""Clocks that are reported again; beyond, the oldest are left out."""


class ClockReports:
    """The newest bound of each clock, and the message that reports it."""

    def __init__(self, unacked: UnackedMessages) -> None:
        self._unacked = unacked
        self._agent_report: SyncReport | None = None
        self._agent_report_mono = self._ahead = 0
        """Monotonic instant of the agent's report [ns], and its wall minus its monotonic clock."""
        self._bounds: dict[tuple[str, bool], tuple[DeviceClockBound, Outgoing]] = {}
        """By clock and ``refutes``: a refutation does not replace the bound it contradicts."""

    def put_agent(self, report: SyncReport, now: Now, control_next: int) -> int:
        """Take the agent's sync and report all clocks again; returns the next control number."""
        self._agent_report, self._ahead = report, now.wall_ns - now.mono_ns
        self._agent_report_mono = report.measured_at_ns - self._ahead
        for bound, message in list(self._bounds.values()):
            waits = message.tries == 0 and not message.done
            over = not bound.refutes and (bound.clock, True) in self._bounds
            if waits or (now.mono_ns - bound.mono < _HEARD_NS and not over):
                control_next = self.put(bound, control_next)
        return control_next

    def put(self, bound: DeviceClockBound, control_next: int) -> int:
        """Send a bound, instead of an unsent former one; returns the next control number."""
        key = bound.clock, bound.refutes
        _, message = self._bounds.pop(key, (None, None))
        if message is not None and message.tries == 0 and not message.done:
            self._unacked.replace(message, wire.encode(self._sync(message.first, bound)))
        else:
            data = wire.encode(self._sync(control_next, bound))
            message = self._unacked.add(m.CONTROL, control_next, 1, data)
            control_next += 1
        self._bounds[key] = bound, message
        if len(self._bounds) > CLOCKS_MAX:
            del self._bounds[next(iter(self._bounds))]
        return control_next

    def by_gateway(self, number: int, clock: str, measured_at: int) -> m.Sync:
        """Sync of a clock relative to the current gateway."""
        known = self._bounds.get((clock, False)) or self._bounds.get((clock, True))
        if known is None:
            return m.Sync(number, None, None, measured_at, 1, 0, clock)
        return self._sync(number, known[0])

    def states(self, agent_status: ClockStatus, now: Now) -> list[dict[str, Any]]:
        """States of the agent's clock, then of each device's: ``clock`` (empty: the agent's),
        ``offset`` (the gateway's clock minus it) and ``bound`` [ns] (None: unknown), ``status``.
        """
        offset = bound = None
        report = self._agent_report
        if report is not None and report.offset_ns is not None:
            offset, bound = report.offset_ns, report.bound_ns(now.mono_ns - self._agent_report_mono)
        found: list[dict[str, Any]] = [
            {"clock": "", "offset": offset, "bound": bound, "status": agent_status.value}
        ]
        bounds = [each for each, _ in self._bounds.values() if not each.refutes]
        newest = {device_of(each.clock): each for each in bounds}
        for device, each in newest.items():
            if ARRIVAL in device:
                continue  # the arrival of an event is not a device's clock
            sync, age = self._sync(0, each), now.mono_ns - each.mono
            status, bound = ClockStatus.UNKNOWN, None
            if sync.delay is not None:
                grown = age * sync.skew_error_ppb // NS_PER_S
                bound = (sync.delay + 1) // 2 + sync.precision + grown
                status = ClockStatus.SYNCHRONIZED
                if is_in_doubt(each.clock):
                    status = ClockStatus.DISRUPTED
                elif age > _HEARD_NS:
                    status = ClockStatus.FREE_RUNNING
            found.append(
                {"clock": device, "offset": sync.offset, "bound": bound, "status": status.value}
            )
        return found

    def without_clock(self, number: int, measured_at: int) -> m.Sync:
        """The agent's own sync, in place of a device's for a gateway without named clocks."""
        report = self._agent_report
        if report is None:
            return m.Sync(number, None, None, measured_at, 1, 0)
        return m.Sync(
            number, report.offset_ns, report.delay_ns, report.measured_at_ns, report.precision_ns,
            report.skew_error_ppb,
        )  # fmt: skip

    def _sync(self, number: int, bound: DeviceClockBound) -> m.Sync:
        """``bound`` relative to the engine's clock; offset None if the agent's own is unknown."""
        report = self._agent_report
        unknown = m.Sync(number, None, None, bound.stamp, 1, 0, bound.clock)
        if report is None or report.offset_ns is None or report.delay_ns is None:
            return unknown
        age = abs(bound.mono - self._agent_report_mono)
        grown = -(-age * report.skew_error_ppb // NS_PER_S)
        offset = (bound.low + bound.high) // 2 + self._ahead + report.offset_ns
        delay = bound.high - bound.low + 1 + report.delay_ns + 2 * grown
        if abs(offset) > limits.OFFSET_MAX_NS or delay > limits.DELAY_MAX_NS:
            return unknown
        skew = min(bound.skew_ppb + report.skew_error_ppb, limits.SKEW_ERROR_MAX_PPB)
        return m.Sync(number, offset, delay, bound.stamp, report.precision_ns, skew, bound.clock)
