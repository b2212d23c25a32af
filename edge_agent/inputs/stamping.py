"""The clock that stamps an input's events: the device's, the agent's, or the time of arrival.

``device``: each device has its own clock, bounded from its messages (``FollowedClock``).
``agent``: the times are of this device's clock. ``arrival``: an event gets the time of its arrival
at the agent; it happened up to ``delay_max`` earlier. Errors of arrivals are independent, so each
event has its own clock. A name is used again after twice ``delay_max``, but not if the agent's
clock was set meanwhile: the new bound would replace one that waiting events still need.
"""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from slackwater.edge_agent.device_clock import (
    ARRIVAL as ARRIVAL_NAME,
)
from slackwater.edge_agent.device_clock import (
    NS_PER_S,
    REPORT_AGAIN_NS,
    DeviceClockBound,
    DeviceClockSettings,
    FollowedClock,
)
from slackwater.edge_agent.errors import SettingsError
from slackwater.edge_agent.inputs.base import Outlet, Surroundings
from slackwater.edge_agent.inputs.record_fields import RecordFields
from slackwater.edge_agent.messages import NAME_MAX
from slackwater.edge_agent.packing import Row
from slackwater.edge_agent.settings_file import Table
from slackwater.edge_agent.units import NS_PER

DEVICE: Final = "device"
AGENT: Final = "agent"
ARRIVAL: Final = "arrival"
CLOCKS: Final = (DEVICE, AGENT, ARRIVAL)
DEVICES_MAX: Final = 256
"""Devices per input whose clocks are followed; beyond, the least recent one is forgotten."""
ARRIVALS_MAX: Final = 1024
"""Arrivals with independent errors; more than that within twice ``delay_max`` share clocks."""
_SUFFIX: Final = 40
"""Characters reserved for the number of an epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StampingSettings:
    """The settings ``clock delay_min_max delay_max window skew_max`` of an input."""

    clock: str
    device: DeviceClockSettings


def read_stamping(
    table: Table, default: str, *, delay_min_max_ns: int, delay_max_ns: int,
    also: Sequence[str] = (),
) -> StampingSettings:  # fmt: skip
    """Raises SettingsError. ``also``: other values of ``clock`` that mean ``device``."""
    clock = table.text("clock", default, among=(*CLOCKS, *also))
    longest = table.duration_ns("delay_max", delay_max_ns, low=1)
    least = table.duration_ns("delay_min_max", min(delay_min_max_ns, longest))
    window = table.duration_ns("window", 60 * NS_PER["s"], low=NS_PER["ms"])
    skew = table.integer("skew_max_ppm", 50, 0, 100_000)
    try:
        settings = DeviceClockSettings(
            delay_min_max_ns=least, delay_max_ns=longest, window_ns=window,
            skew_max_ppb=skew * 1000,
        )  # fmt: skip
    except SettingsError as error:
        raise table.wrong("delay_min_max", str(error)) from error
    return StampingSettings(clock=DEVICE if clock in also else clock, device=settings)


class StampingClocks:
    """The clocks of one input's devices."""

    def __init__(self, stamping: StampingSettings, around: Surroundings) -> None:
        self.mode = stamping.clock
        self.counts: Counter[str] = Counter()
        """``clock_steps``: detected steps of devices' clocks; ``clocks_forgotten``;
        ``arrivals_shared``: events that share an arrival's clock with another event."""
        self._settings = stamping.device
        self._name = around.name
        self._wall_ns, self._mono_ns = around.wall_ns, around.mono_ns
        # Above the numbers of earlier starts of the agent: a clock may have been set meanwhile.
        self._number = itertools.count(around.wall_ns() // NS_PER_S).__next__
        self._devices: dict[str, FollowedClock] = {}
        self._free = list(reversed(range(ARRIVALS_MAX)))
        self._used: deque[tuple[int, int]] = deque()
        self._said: dict[int, DeviceClockBound] = {}

    def device(self, name: str) -> FollowedClock:
        """The clock of a device; empty name: the only one of the input."""
        found = self._devices.pop(name, None)
        if found is None:
            whole = f"{self._name}/{name}" if name else self._name
            found = FollowedClock(whole[: NAME_MAX - _SUFFIX], self._settings, self._number)
            if len(self._devices) >= DEVICES_MAX:
                del self._devices[next(iter(self._devices))]
                self.counts["clocks_forgotten"] += 1
        self._devices[name] = found
        return found

    async def stamped(
        self, rows: Sequence[Row], outlet: Outlet, *, device: str = "",
        stamp_ns: int | None = None, resolution_ns: int = 0,
    ) -> Sequence[Row]:  # fmt: skip
        """Return a message's events with their clocks, whose bounds go to ``outlet``; call when the
        message arrives. ``stamp_ns``: when the device made the message; None: its newest event.
        """
        if self.mode == AGENT or not rows:
            return rows
        if self.mode == ARRIVAL:
            return await self._arrived(rows, outlet)
        clock = self.device(device)
        steps = clock.steps
        newest = max([row.ts for row in rows]) if stamp_ns is None else stamp_ns
        clock.add_message(self._mono_ns(), newest, resolution_ns)
        named = [row._replace(clock=clock.name_of(row.ts)) for row in rows]
        await self.say(clock, steps, outlet)
        return named

    async def answered(
        self, outlet: Outlet, device: str, sent_mono_ns: int, mono_ns: int, stamp_ns: int,
        resolution_ns: int = 0,
    ) -> None:  # fmt: skip
        """Take a device's answer to a question for its time."""
        clock = self.device(device)
        steps = clock.steps
        clock.add_answer(sent_mono_ns, mono_ns, stamp_ns, resolution_ns)
        clock.name_of(stamp_ns)
        await self.say(clock, steps, outlet)

    async def say(self, clock: FollowedClock, steps_before: int, outlet: Outlet) -> None:
        """Pass on new bounds of a clock, and report a step since ``steps_before``."""
        if clock.steps > steps_before:
            self.counts["clock_steps"] += clock.steps - steps_before
            seconds = abs(clock.last_step_ns) / NS_PER_S
            way = "back" if clock.last_step_ns > 0 else "ahead"
            outlet.trouble(f"its clock was set {way} by about {seconds:.3f} s", clock.name)
        said = clock.take_bounds()
        if said:
            await outlet.clocks(said)

    async def _arrived(self, rows: Sequence[Row], outlet: Outlet) -> Sequence[Row]:
        wall_ns, mono_ns = self._wall_ns(), self._mono_ns()
        ahead = mono_ns - wall_ns
        named, said = [], []
        for row in rows:
            number = self._arrival(mono_ns)
            before, name = self._said.get(number), f"{self._name}{ARRIVAL_NAME}{number}"
            skew_ppb = self._settings.skew_max_ppb
            if before is not None:
                ran = (mono_ns - before.mono) * skew_ppb // NS_PER_S
                is_set = abs(ahead - before.high) > ran
                name = f"{name}#{self._number()}" if is_set else before.clock
            bound = DeviceClockBound(
                name, ahead - self._settings.delay_max_ns, ahead, wall_ns, mono_ns, skew_ppb
            )
            if (
                before is None
                or mono_ns - before.mono > REPORT_AGAIN_NS
                or before.high != bound.high
            ):
                self._said[number] = bound
                said.append(bound)
            named.append(
                row._replace(ts=wall_ns - (row.te - row.ts), te=wall_ns, clock=bound.clock)
            )
        if said:
            await outlet.clocks(said)
        return named

    def _arrival(self, mono_ns: int) -> int:
        """The number of a clock that no event of the last twice ``delay_max`` uses."""
        while self._used and mono_ns - self._used[0][0] > 2 * self._settings.delay_max_ns:
            self._free.append(self._used.popleft()[1])
        if not self._free:
            self.counts["arrivals_shared"] += 1
            self._free.append(self._used.popleft()[1])
        number = self._free.pop()
        self._used.append((mono_ns, number))
        return number


def stamping_outlet(
    stamping: StampingSettings, fields: RecordFields, around: Surroundings, counts: Counter[str]
) -> Callable[[Outlet], Outlet]:
    """Return the wrapper of the outlet to which an input of records passes its events."""
    if stamping.clock == AGENT:
        return lambda outlet: outlet
    unit_ns = NS_PER[fields.time_unit]
    clocks = StampingClocks(stamping, around)
    clocks.counts = counts
    return lambda outlet: StampingOutlet(outlet, clocks, unit_ns if unit_ns > 1 else 0)


class StampingOutlet:
    """Passes events on with the clocks that stamped them. A row's ``clock`` names the stamping
    device (None: the agent).
    """

    def __init__(self, outlet: Outlet, clocks: StampingClocks, resolution_ns: int) -> None:
        self._outlet = outlet
        self._clocks = clocks
        self._resolution_ns = resolution_ns
        self.knows, self.session, self.durable = outlet.knows, outlet.session, outlet.durable
        self.bad, self.trouble, self.clocks = outlet.bad, outlet.trouble, outlet.clocks

    async def take(self, stream: str, rows: Sequence[Row], keys: Sequence[bytes] = ()) -> bool:
        """Stamp the rows, in their order, and pass them on."""
        if self._clocks.mode != DEVICE:
            named = await self._clocks.stamped(rows, self._outlet)
            return await self._outlet.take(stream, named, keys)
        places: dict[str, list[int]] = {}
        for place, row in enumerate(rows):
            if row.clock is not None:
                places.setdefault(row.clock, []).append(place)
        found = list(rows)
        for device, of in places.items():
            named = await self._clocks.stamped(
                [rows[place] for place in of], self._outlet, device=device,
                resolution_ns=self._resolution_ns,
            )  # fmt: skip
            for place, row in zip(of, named, strict=True):
                found[place] = row
        return await self._outlet.take(stream, found, keys)
