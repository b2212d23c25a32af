"""Intervals that began and did not come: the gateway asks for them (Z10 5.3.2)."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import session as s
from slackwater.edge_agent import wire
from tests.gateway.conftest import SCHEMA, SYNC, Bench, a_hello
from tests.gateway.world import NETWORKS, World, world_of

MS = 10**6
S = 10**9
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.just(0)),
        st.tuples(st.just("end"), st.integers(0, 5)),
        st.tuples(st.just("emit"), st.integers(1, 9)),
        st.tuples(st.just("run"), st.integers(1, 300)),
        st.tuples(st.just("cut"), st.integers(0, 2)),
        st.tuples(st.just("boot"), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32),
    network=NETWORKS,
    steps=STEPS,
    connections=st.integers(1, 3),
    delivery=st.sampled_from([s.Delivery.ONCE, s.Delivery.ONCE, s.Delivery.RESEND]),
)
def test_what_was_lost_and_is_kept_comes_when_the_network_heals(
    seed: int, network: dict[str, Any], steps: list[tuple[str, int]],
    connections: int, delivery: s.Delivery,
) -> None:  # fmt: skip
    """Every interval whose begin was reported is in the log once, however often asked for."""
    world = world_of(seed, network, connections=connections, delivery=delivery)
    unended: list[int] = []
    ended: set[int] = set()
    for step, size in steps:
        match step:
            case "begin":
                world.begin()
                unended = [i for i in world.begun.get(len(world.agents) - 1, []) if i not in ended]
            case "end" if unended:
                ended.add(mine := unended.pop(size % len(unended)))
                assert world.end(mine)
            case "boot":
                world.boot()
                unended, ended = [], set()
            case _:
                world.take(step, size)
    world.network = replace(world.network, lose=0, breaks=0, repeat=0)
    wanted = (sorted(ended), sorted(unended))
    for _ in range(20):
        if (sorted(came(world)), still_open(world)) == wanted:
            break
        world.run(S)
    assert (sorted(came(world)), still_open(world)) == wanted
    world.settle()
    world.check()
    assert sorted(came(world)) == sorted(ended)
    assert world.gateway.counts["main", "d", "pull_back_gone"] == 0


def came(world: World) -> list[int]:
    """Intervals of the last start that are in the log."""
    start = f"start {len(world.agents) - 1}"
    return [
        row["id"]
        for row in world.log.rows
        if row["kind"] == 0 and row["type"] == start and row.get("id") is not None
    ]


def still_open(world: World) -> list[int]:
    """Intervals of the last start that the gateway knows to have begun and not to have come."""
    sources = world.gateway.admission.sources.values()
    return sorted(id_ for source in sources for _, id_ in source.open)


@pytest.mark.parametrize("kept", [1 << 20, 0])
def test_how_much_of_a_bad_network_it_mends(kept: int) -> None:
    world = world_of(5, {"lose": 20}, delivery=s.Delivery.ONCE, pull_back_bytes=kept)
    world.run(S)
    for number in range(200):
        world.begin()
        world.run(20 * MS)
        assert world.end(number)
    world.run(S)
    arrived = len(came(world))
    assert (arrived > 195) if kept else (130 < arrived < 180)
    asked = world.gateway.counts["main", "d", "pull_back_asked"]
    assert (asked > 20) if kept else (asked == 0)


def begin(number: int, id_: int) -> m.Begin:
    return m.Begin(number, 0, 100 + id_, id_, "A")


def interval(seq: int, id_: int) -> m.Data:
    one = struct.pack("<q", 100 + id_)
    return m.Data(0, seq, 1, one, one, struct.pack("<q", id_), None, (m.Values(one, None),))


HELLO = a_hello(capabilities=(m.PULL_BACK, "what no gateway knows"))


def asked(bench: Any, now: int) -> list[tuple[int, int]]:
    bench.core.wake(now)
    return [
        pair
        for said in bench.answers()
        if isinstance(said, m.IntervalsRequest)
        for pair in said.intervals
    ]


def test_what_stays_open_is_asked_for_ever_more_seldom() -> None:
    bench = Bench(pull_back_ns=S)
    bench.join("c", HELLO)
    bench.say("c", SYNC, begin(1, 7), begin(2, 8))
    bench.say("c", interval(0, 8), now=MS)
    asks = []
    for second in range(200):
        for _ in asked(bench, second * S):
            asks.append(second)
            bench.say("c", m.MissingIntervals(((0, 7),), ()), now=second * S)
    assert asks == [1, 3, 7, 15, 31, 63, 127, 191]
    counts = bench.core.counts
    assert counts["main", "d", "pull_back_unended"] == counts["main", "d", "pull_back_asked"] == 8
    bench.say("c", interval(1, 7), now=200 * S)
    assert counts["main", "d", "pull_back_came"] == 0  # it would have come in any case
    assert asked(bench, 900 * S) == []


def test_missing_numbers_hurry_it_and_the_end_of_the_source_too() -> None:
    bench = Bench(pull_back_ns=10 * S)
    bench.join("c", HELLO)
    bench.say("c", SYNC, begin(1, 7), begin(2, 8), now=0)
    assert asked(bench, 10 * S) == [(0, 7), (0, 8)]
    bench.say("c", interval(1, 8), now=12 * S)  # 0 is missing: 7 may be in it
    assert asked(bench, 21 * S) == []
    assert asked(bench, 22 * S) == [(0, 7)]
    bench.say("c", m.Eos(3, 200, (2,)), now=23 * S)
    assert asked(bench, 23 * S) == [(0, 7)]
    assert bench.core.counts["main", "d", "pull_back_came"] == 1  # 8
    bench.say("c", interval(0, 7), now=24 * S)
    assert bench.core.counts["main", "d", "pull_back_came"] == 2


def test_what_is_gone_is_asked_for_once() -> None:
    bench = Bench(pull_back_ns=S)
    bench.join("c", HELLO)
    bench.say("c", SYNC, begin(1, 7))
    assert asked(bench, S) == [(0, 7)]
    bench.say("c", m.MissingIntervals((), ((0, 7), (0, 99), (5, 7))), now=S)
    assert bench.core.counts["main", "d", "pull_back_gone"] == 1
    assert asked(bench, 900 * S) == []


def test_who_is_away_is_asked_when_it_is_back() -> None:
    bench = Bench(pull_back_ns=S)
    bench.join("c", HELLO)
    bench.say("c", SYNC, begin(1, 7))
    bench.core.disconnected("c", MS)
    assert asked(bench, 100 * S) == []
    bench.join("d", replace(HELLO, control_acked=2), now=200 * S)
    assert asked(bench, 201 * S) == [(0, 7)]


def test_so_many_are_known_of_and_no_more() -> None:
    bench = Bench(pull_back_ns=S, pull_back_max=300)
    bench.join("c", HELLO)
    bench.say("c", SYNC, *[begin(1 + i, i) for i in range(310)])
    assert bench.core.counts["main", "d", "pull_back_untraced"] == 10
    bench.core.wake(S)
    sizes = [
        len(said.intervals) for said in bench.answers() if isinstance(said, m.IntervalsRequest)
    ]
    assert sizes == [m.INTERVALS_MAX, 300 - m.INTERVALS_MAX]
    bench.say("c", *[interval(i, i) for i in range(300)], now=S)
    bench.join("d", replace(HELLO, incarnation=2), now=20 * S)
    bench.say("d", SYNC, *[begin(1 + i, i) for i in range(300)], now=20 * S)
    assert bench.core.counts["main", "d", "pull_back_untraced"] == 10


def test_an_agent_from_before_is_let_in_and_never_asked() -> None:
    bench = Bench(pull_back_ns=S)
    fields = wire.encode(a_hello(capabilities=()))
    assert fields[4] == 0x9A  # ten fields: what such an agent says
    assert bench.join("c", a_hello()) == [m.Welcome(0, (0,))]
    bench.say("c", SYNC, begin(1, 7))
    assert asked(bench, 900 * S) == []


def test_a_gateway_from_before_gets_a_hello_that_it_knows() -> None:
    now = s.Now(0, 0)
    agent = s.AgentSession(s.SessionSettings(source="d"), (SCHEMA,), 1, lambda: 5)
    hellos = []
    agent.start(now)
    refusal = wire.encode(m.ErrorMessage("length", "11 fields instead of 10", retry=True))
    for second in (0, 1):
        now = s.Now(0, second * S)
        agent.wake(now)
        agent.outputs()
        agent.connected(0, now)
        hellos += [wire.decode(out.data[4:]) for out in agent.outputs()]
        agent.received(0, refusal, now)
    assert [hello.capabilities for hello in hellos] == [(m.CLOCKS, m.NUMBERS, m.PULL_BACK), ()]
    assert agent.counts["error_length"] == 2


def test_an_agent_that_keeps_little_says_what_is_gone() -> None:
    world = world_of(6, {}, delivery=s.Delivery.ONCE, pull_back_bytes=300)
    world.run(S)
    world.network = replace(world.network, lose=60)
    for number in range(40):
        world.begin()
        assert world.end(number)
        world.run(2 * MS)
    world.network = replace(world.network, lose=0)
    world.run(20 * S)
    counts = world.gateway.counts
    assert counts["main", "d", "pull_back_gone"] > 5
    assert world.agent.intervals.requests >= counts["main", "d", "pull_back_gone"]
    (source,) = world.gateway.admission.sources.values()
    assert source.open == {}
