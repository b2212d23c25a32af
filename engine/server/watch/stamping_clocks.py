"""What a running gateway knows of the clocks of devices behind its sources, from their syncs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from slackwater.edge_agent.device_clock import ARRIVAL, device_of, is_in_doubt
from slackwater.edge_agent.timesync import ClockStatus
from slackwater.engine.core.clocks.epochs import FREE_RUNNING_NS
from slackwater.engine.gateway.frames import clock_name

CLOCKS_MAX: Final = 64
"""Of one source: what its last events may name. Beyond, the one synchronised longest ago goes."""
DEVICES_SHOWN: Final = 8
"""Of one source: those that were heard of last."""


class ClockSync(NamedTuple):
    """The last sync of a clock; ``synced``: its arrival [ns]."""

    offset: int
    delay: int
    precision: int
    skew_error_ppb: int
    synced: int

    def bound_ns(self, now: int) -> int:
        """How wrong the offset may be: half the delay, both clocks' precision, and what grows with
        the age of the sync.
        """
        grown = max(now - self.synced, 0) * self.skew_error_ppb // 1_000_000_000
        return (self.delay + 1) // 2 + self.precision + grown


def status_of(synced: int | None, now: int, *, refuted: bool) -> ClockStatus:
    """The status of a clock (SPEC 2) whose last sync arrived at ``synced``; None: it had none."""
    if synced is None:
        return ClockStatus.UNKNOWN
    if refuted:
        return ClockStatus.DISRUPTED
    is_old = now - synced > FREE_RUNNING_NS
    return ClockStatus.FREE_RUNNING if is_old else ClockStatus.SYNCHRONIZED


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A device's clock; times in seconds. ``synced``: how long ago."""

    name: str
    offset: float
    bound: float
    status: str
    synced: float


class DeviceClocks:
    """The clocks of devices behind each source, by (site, source)."""

    def __init__(self) -> None:
        self._syncs: dict[tuple[str, str], dict[str, ClockSync]] = {}
        self._refuted = set[tuple[str, str, str]]()

    def synced(self, key: tuple[str, str], clock: str, sync: ClockSync) -> None:
        """A sync of ``clock``, as the gateway calls it: ``SOURCE/NAME``."""
        syncs = self._syncs.setdefault(key, {})
        syncs.pop(clock, None)
        syncs[clock] = sync
        self.trusted(key, clock)
        if len(syncs) > CLOCKS_MAX:
            gone = next(iter(syncs))
            del syncs[gone]
            self.trusted(key, gone)

    def refuted(self, key: tuple[str, str], clock: str) -> None:
        """An event arrived before it can have happened by the last sync of its clock, which may be
        the source's own.
        """
        self._refuted.add((*key, clock))

    def trusted(self, key: tuple[str, str], clock: str) -> None:
        """A sync of ``clock`` came."""
        self._refuted.discard((*key, clock))

    def is_refuted(self, key: tuple[str, str], clock: str) -> bool:
        """Whether an event has refuted the last sync of ``clock``."""
        return (*key, clock) in self._refuted

    def of(self, key: tuple[str, str], clock: str) -> ClockSync | None:
        """The last sync of a clock; None: it had none, or that is forgotten."""
        return self._syncs.get(key, {}).get(clock)

    def rows(self, key: tuple[str, str], now: int) -> list[DeviceRow]:
        """The devices of a source, each by the clock of it that was synchronised last."""
        newest = {
            device_of(clock): (clock, sync) for clock, sync in self._syncs.get(key, {}).items()
        }
        found = []
        for device, (clock, sync) in list(newest.items())[-DEVICES_SHOWN:]:
            name = device.removeprefix(f"{clock_name(key[1])}/")
            if ARRIVAL in name:
                continue  # it names an event's arrival, and is nobody's
            refuted = is_in_doubt(clock) or self.is_refuted(key, clock)
            status = status_of(sync.synced, now, refuted=refuted)
            found.append(
                DeviceRow(
                    name, sync.offset / 1e9, sync.bound_ns(now) / 1e9, status.value,
                    max(now - sync.synced, 0) / 1e9,
                )
            )  # fmt: skip
        return found
