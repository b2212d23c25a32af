"""A connection that swallows everything is noticed as soon as acks should have come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

S = 10**9
MS = 10**6
WorldOf = Callable[..., Any]


@pytest.mark.parametrize(("low_ns", "noticed"), [(0, False), (100 * MS, True)])
def test_the_wait_fits_the_path(world_of: WorldOf, low_ns: int, noticed: bool) -> None:
    world = world_of(1, {}, ack_timeout_ns=30 * S, ack_timeout_min_ns=low_ns, heartbeat_ns=0)
    world.run(S)
    for _ in range(20):
        world.emit("events", 5)
        world.run(50 * MS)
    world.cut(0, told=False)
    world.emit("events", 5)
    world.run(S)
    assert (world.agent.counts["ack_timeout"] == 1) == noticed
    assert (world.agent.counts["acked"] == 105) == noticed
    world.run(40 * S)
    assert world.agent.counts["acked"] == 105


def test_a_slower_path_is_learnt_and_not_condemned_again(world_of: WorldOf) -> None:
    """Each wrong timeout doubles the wait; then the path's own times count."""
    world = world_of(2, {}, ack_timeout_ns=30 * S, ack_timeout_min_ns=20 * MS, heartbeat_ns=0)
    world.run(S)
    for _ in range(20):
        world.emit("events", 5)
        world.run(50 * MS)
    assert world.agent.counts["ack_timeout"] == 0
    world.network = type(world.network)(delay_ns_max=400 * MS)
    for _ in range(40):
        world.emit("events", 5)
        world.run(250 * MS)
    wrong = world.agent.counts["ack_timeout"]
    for _ in range(40):
        world.emit("events", 5)
        world.run(250 * MS)
    world.run(5 * S)
    assert world.agent.counts["acked"] == 500
    assert world.agent.counts["ack_timeout"] - wrong <= 2
    assert wrong <= 8
