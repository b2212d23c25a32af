"""Gateways and agents that start again, clocks set back, sinks that fail: nothing lost or twice.

The worlds are random (a failing example prints its seed and steps). At every moment everything
acked is in the log, durable; no number stands there twice and arrivals never go back
(``World.check_acked``, ``NumberedLog``). In the end all that the last start emitted is there, and
``sequence`` puts all of it in order: incarnations increase, whatever the devices said.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.engine.gateway.core import Recalled
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from tests.gateway.world import DEVICE_STEPS, NETWORKS, world_of

MS = 10**6
S = 10**9


GATEWAY_STEPS = (
    st.tuples(st.just("boot"), st.sampled_from([None, 0, 0, 1, 3, 9, 2**40])),
    st.tuples(st.just("gateway"), st.just(0)),
    st.tuples(st.just("clock"), st.sampled_from([1, 999, 1500, 3_600_000])),
    st.tuples(st.just("sink"), st.sampled_from([(), ("append",), ("flush",)])),
)


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**32),
    network=NETWORKS,
    steps=st.lists(st.one_of(*DEVICE_STEPS, *GATEWAY_STEPS), max_size=30),
    connections=st.integers(1, 3),
    commit_every_ns=st.sampled_from([0, 50 * MS]),
)
@example(  # a start without records leaves its site while ticks of it are due
    seed=2,
    network={"repeat": 20, "delay_ns_max": MS, "whole": False},
    steps=[("run", 643), ("boot", None), ("run", 1)],
    connections=1,
    commit_every_ns=0,
)
@example(  # a start that nobody heard of, and the next one with its incarnation
    seed=0,
    network={"delay_ns_max": MS},
    steps=[("begin", 0), ("boot", 0), ("begin", 0), ("begin", 0)],
    connections=1,
    commit_every_ns=0,
)
def test_nothing_is_lost_or_twice_and_all_is_ordered(
    seed: int,
    network: dict[str, Any],
    steps: list[tuple[str, Any]],
    connections: int,
    commit_every_ns: int,
) -> None:
    world = world_of(seed, network, connections=connections)
    world.commit_every_ns = commit_every_ns
    world.start_gateway()
    for step, size in steps:
        match step:
            case "gateway":
                world.start_gateway()
            case "clock":
                world.set_back += size * MS
            case "sink":
                world.log.fails = set(size)
            case _:
                world.take(step, size)
    world.log.fails = set()
    world.settle()
    world.check()
    # A gateway that starts again with a clock set back has measured none of the agent's syncs.
    check_order(world, Guards(None) if world.set_back else Guards())


def check_order(world: Any, guards: Guards) -> None:
    """``sequence``, which waits for ever here, takes no event for late and none for a copy."""
    settings_ = ChainSettings(
        parse_order("sequence:timeout=fixed:1d", "ns"), guards=guards, ordered="full"
    )
    rows = sum(len(have) for have in world.log.numbers.values())
    for frames in (1, 1000):
        chain = Chain(settings_, "main")
        parts = range(0, len(world.log.frames), frames)
        outputs = [chain.process(world.log.frames[at : at + frames]) for at in parts]
        released = [part for output in (*outputs, chain.finish()) for part in output.ordered]
        assert sum(part.n for part in released) == rows
        for lane in chain.counters()["lanes"]:
            for name in ("late_dropped", "late_passed", "duplicate", "quarantined_jump"):
                assert lane[name] == 0, name
        if released:
            names = ("stream", "incarnation", "seq")
            places = np.concatenate(
                [np.stack([part.columns[n] for n in names], axis=1) for part in released]
            )
            for stream in np.unique(places[:, 0]):
                of = places[places[:, 0] == stream, 1:].tolist()
                assert of == sorted(of)


def test_the_clock_is_measured_anew_when_the_gateway_is_back() -> None:
    """It may run on with another time, and the next round would come a minute later."""
    world = world_of(6, {}, connections=3)
    world.run(S)
    world.cut(1, reported=True)
    world.run(S)
    assert len(offsets(world)) == 1  # others carried on
    world.set_back -= 5 * S
    world.start_gateway()
    world.run(S)
    before, after = offsets(world)
    assert abs(after - before - 5 * S) < 10 * MS


def offsets(world: Any) -> list[int]:
    """What syncs said, each once."""
    rows = world.log.rows
    return [row["offset"] for row in rows if (row["kind"], row["stream"]) == (3, "events")]


def test_what_a_gateway_recalls_does_not_depend_on_its_log_s_frames() -> None:
    world = world_of(5, {"lose": 20, "whole": False})
    for _ in range(3):
        world.boot()
        world.run(200 * MS)
        world.emit("events", 30)
        world.run(20 * MS)
    world.settle()
    frames = world.log.frames
    whole = Recalled(frames)
    single = Recalled([frame.slice(row, 1) for frame in frames for row in range(frame.rows)])
    for each in (whole, single):
        past = each.sources["main", "d"]
        assert past.incarnation == world.agent.incarnation
        assert past.streams["events"].next == world.agent.next_seq("events")
    assert whole.attr_types == single.attr_types == {"main": {"n": "int"}}
    assert whole.last_arrival == single.last_arrival == frames[-1].last_arrival
