"""Events that the agent stamps on arrival, by a clock that is set while it is off line."""

from __future__ import annotations

import pytest

from slackwater.edge_agent import messages as m
from slackwater.edge_agent.clock import Now
from slackwater.edge_agent.clock_reports import ClockReports
from slackwater.edge_agent.device_clock import DeviceClockSettings
from slackwater.edge_agent.inputs.base import Surroundings
from slackwater.edge_agent.inputs.stamping import StampingClocks, StampingSettings
from slackwater.edge_agent.packing import Row
from slackwater.edge_agent.timesync import SyncReport
from slackwater.edge_agent.unacked import UnackedMessages
from slackwater.edge_agent.wire import Decoder
from tests.inputs.outlet import NOW_NS, KeptOutlet

S = 10**9
LATEST = 2 * S


@pytest.mark.parametrize("by", [0, -S // 2, S // 2, 3600 * S])
async def test_events_of_before_and_behind_a_step_keep_a_bound_each(by: int) -> None:
    """The gateway's clock is 5 s ahead of the agent's when both meet; until then nothing is sent,
    and a bound that says something newer of the same clock takes the place of the one before.
    """
    outlet, clock = KeptOutlet(), Now(NOW_NS, 0)
    unacked = UnackedMessages([m.CONTROL], 1 << 20)
    reports, number = ClockReports(unacked), 0
    around = Surroundings(
        schemas={}, name="in", wall_ns=lambda: clock.wall_ns, mono_ns=lambda: clock.mono_ns,
        jitter=lambda most: most,
    )  # fmt: skip
    device = DeviceClockSettings(delay_min_max_ns=0, delay_max_ns=LATEST)
    stamping = StampingClocks(StampingSettings(clock="arrival", device=device), around)
    happened: list[tuple[Row, int]] = []
    for place in range(40):
        mono, was_set = place * S, by if place >= 20 else 0
        clock = Now(NOW_NS + mono + was_set, mono)
        (row,) = await stamping.stamped([Row(0, 0, None, None, ())], outlet)
        happened.append((row, mono))
        for bound in outlet.bounds:
            number = reports.put(bound, number)
        outlet.bounds.clear()
    own = SyncReport(5 * S, 0, clock.wall_ns, 0, 0)
    reports.put_agent(own, clock, number)
    names = {row.clock for row, _ in happened}
    assert len(names) == len(unacked) == (10 if by else 5)
    syncs = {}
    while (message := unacked.next_waiting(urgent_only=False)) is not None:
        (sync,) = Decoder().feed(message.data)
        syncs[sync.clock] = sync
    for row, mono in happened:
        sync = syncs[row.clock]
        true = NOW_NS + by + mono + 5 * S  # at the gateway, when the event came
        grown = abs(row.ts - sync.measured_at) * sync.skew_error_ppb // S
        off = true - LATEST // 2 - (row.ts + sync.offset)
        assert abs(off) <= sync.delay // 2 - LATEST // 2 + grown + 2
