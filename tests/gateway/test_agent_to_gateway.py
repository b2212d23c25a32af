"""Agent and gateway together, over networks that lose, repeat, reorder and break.

Conservation: every emitted event is in the log exactly once, or died with a restarted device, or
was refused by ``emit`` and counted; and what was acked is in the log at that very moment.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.edge_agent import session as s
from slackwater.edge_agent.records import Kind
from slackwater.edge_agent.timesync import SyncState
from slackwater.engine.gateway.core import GatewayCore, GatewaySettings
from tests.gateway.world import DEVICE_STEPS, NETWORKS, world_of

MS = 10**6

S = 10**9


@settings(max_examples=50)
@given(
    seed=st.integers(0, 2**32),
    network=NETWORKS,
    steps=st.lists(st.one_of(*DEVICE_STEPS, st.tuples(st.just("boot"), st.none())), max_size=30),
    connections=st.integers(1, 3),
    unacked_bytes_max=st.sampled_from([2_500, 1 << 20]),
    delivery=st.sampled_from(list(s.Delivery)),
    ack_timeout_min_ns=st.sampled_from([0, 0, 20 * MS]),
)
def test_conservation_over_any_network(
    seed: int,
    network: dict[str, Any],
    steps: list[tuple[str, Any]],
    connections: int,
    unacked_bytes_max: int,
    delivery: s.Delivery,
    ack_timeout_min_ns: int,
) -> None:
    world = world_of(
        seed, network, connections=connections, unacked_bytes_max=unacked_bytes_max,
        delivery=delivery, ack_timeout_min_ns=ack_timeout_min_ns,
    )  # fmt: skip
    for step, size in steps:
        world.take(step, size)
        assert world.agent.unacked_bytes <= unacked_bytes_max + 1000
    world.settle()
    world.check()


def test_a_quiet_network_needs_no_resending() -> None:
    world = world_of(1, {}, offset=3600 * S, connections=3)
    world.run(S)
    assert world.agent.state is s.SessionState.RUNNING
    for _ in range(50):
        world.emit("events", 20)
        world.run(3 * MS)
    world.settle()
    world.check()
    assert world.agent.counts["resent_messages"] == 0
    assert world.gateway.counts == {
        ("main", "d", "received"): 1000,
        ("main", "d", "recorded"): 1000,
    }
    assert world.agent.sync_state is SyncState.SYNCED
    sync = [row for row in world.log.rows if row["kind"] == Kind.SYNC][-1]
    assert abs(sync["offset"] - 3600 * S) <= sync["delay"] // 2 + 1
    # Three connections with delays of their own: events overtook each other.
    seqs = [row["seq"] for row in world.log.rows if row["kind"] == 0]
    assert sorted(seqs) == list(range(1000)) != seqs


def test_events_wait_until_the_clock_is_known() -> None:
    world = world_of(2, {})
    world.emit("events", 5)
    world.settle()
    kinds = [(row["kind"], row.get("offset")) for row in world.log.rows if row["source"]]
    offset = kinds[0][1]
    assert offset is not None
    assert kinds == [(3, offset)] * 2 + [(0, None)] * 5 + [(5, None)] * 2


def test_a_server_that_never_answers_does_not_stop_the_events() -> None:
    world = world_of(3, {"lose_datagram": 100})
    world.emit("events", 5)
    world.run(S)
    world.settle()
    world.check()
    first = next(row for row in world.log.rows if row["kind"] == 3)
    assert (first["offset"], first["delay"], first["first_seq"]) == (None, None, 0)


def test_silent_streams_promise_that_nothing_older_comes() -> None:
    world = world_of(4, {}, offset=S)
    world.run(S)
    world.emit("events", 3)
    world.run(300 * MS)
    promises = [row for row in world.log.rows if row["kind"] == 1]
    of_events = [row for row in promises if row["stream"] == "events" and row["seq"] == 3]
    assert len(of_events) >= 3
    assert all(row.get("type") is None for row in promises)
    assert all(row["ts"] <= row["arrival"] - S for row in promises)


def test_a_full_buffer_refuses_and_takes_again_after_acks() -> None:
    world = world_of(6, {}, unacked_bytes_max=5000)
    world.run(S)
    while not world.refused:
        world.emit("events", 50)
    emitted = world.emitted[0, "events"]
    world.run(100 * MS)
    world.emit("events", 50)
    assert world.emitted[0, "events"] == emitted + 50
    assert world.refused == world.agent.counts["refused_full"] == 50
    world.settle()
    world.check()


def test_a_wrong_token_fails_for_good_and_says_why() -> None:
    world = world_of(9, {}, token="wrong")
    world.gateway = GatewayCore(GatewaySettings(tokens={("main", "d"): "right"}), world.log)
    world.boot()
    world.run(S)
    assert world.agent.state is s.SessionState.FAILED
    assert world.agent.failure is not None
    assert world.agent.failure.reason == "token"
    assert world.agent.next_wake() is None
    done = world.agent.emit("events", world.now(), ts=np.zeros(1, np.int64))
    assert done == (False, 0, "failed")


def test_after_finish_nothing_is_taken() -> None:
    world = world_of(10, {})
    world.agent.finish(world.now())
    done = world.agent.emit("events", world.now(), ts=np.zeros(1, np.int64))
    assert done.reason == "finished"
    world.settle()
    assert world.agent.counts["refused_finished"] == 1


def test_delivery_once_leaves_what_is_lost_missing() -> None:
    world = world_of(7, {}, delivery=s.Delivery.ONCE)
    world.run(S)
    world.network = world_of(0, {"lose": 30}).network
    for _ in range(100):
        world.emit("events", 1)
        world.run(MS)
    world.settle()
    world.check()
    have = world.log.numbers[0, "events"]
    assert 40 < len(have) < 95
    assert world.agent.unacked_bytes == 0


def test_a_gateway_that_talks_nonsense_loses_its_connection_only() -> None:
    world = world_of(11, {})
    world.run(S)
    for noise in (b"\0\0\0\x01\xc0", b"\xff" * 9):
        before = world.agent.counts["bad_message"]
        world.agent.received(0, noise, world.now())
        assert world.agent.counts["bad_message"] == before + 1
        world.run(S)
    world.emit("events", 3)
    world.settle()
    world.check()


@pytest.mark.parametrize("percent", [0, 100])
def test_the_checks_can_fail(percent: int) -> None:
    """A canary: a sink that forgets frames must be noticed."""
    world = world_of(12, {})
    keep = world.log.append
    world.log.append = lambda frame: None if world.chance(percent) else keep(frame)

    def go() -> None:
        world.run(S)
        world.emit("events", 3)
        world.settle()
        world.check()

    if percent:
        with pytest.raises(AssertionError):
            go()
    else:
        go()


@pytest.mark.parametrize(("low_ns", "noticed"), [(0, False), (100 * MS, True)])
def test_the_wait_fits_the_path(low_ns: int, noticed: bool) -> None:
    world = world_of(1, {}, ack_timeout_ns=30 * S, ack_timeout_min_ns=low_ns, heartbeat_ns=0)
    world.run(S)
    for _ in range(20):
        world.emit("events", 5)
        world.run(50 * MS)
    world.cut(0, reported=False)
    world.emit("events", 5)
    world.run(S)
    assert (world.agent.counts["ack_timeout"] == 1) == noticed
    assert (world.agent.counts["acked"] == 105) == noticed
    world.run(40 * S)
    assert world.agent.counts["acked"] == 105


def test_a_slower_path_is_learnt_and_not_condemned_again() -> None:
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
