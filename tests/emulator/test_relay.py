"""Packets have the fates that the simulator gives them; no root, no sockets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.alarm import VirtualTime
from simulator.emulator.relay import Relay
from simulator.emulator.settings import read_emulation
from simulator.links import Link, LinkSettings, Place
from simulator.seeds import Seeds
from simulator.settings import parse

MS = 1_000_000
ORIGIN = 5_000 * MS
PLACE = Place(ORIGIN, Path())
DELAYS = (
    {"model": "constant", "delay": "5 ms"},
    {"model": "uniform", "low": "1 ms", "high": "30 ms"},
    {"model": "lognormal", "median": "20 ms", "sigma": 0.5, "min": "5 ms"},
)
LOSSES = (0.0, 0.1, {"model": "gilbert_elliott", "p_good_to_bad": 0.05, "p_bad_to_good": 0.4})
LINKS = st.fixed_dictionaries(
    {
        "delay": st.sampled_from(DELAYS),
        "correlation": st.sampled_from([0.0, 0.8]),
        "fifo": st.booleans(),
        "loss": st.sampled_from(LOSSES),
        "duplicate": st.sampled_from([0.0, 0.2]),
        "rate_bytes_per_s": st.sampled_from([None, 50_000]),
        "queue_bytes": st.sampled_from([2_000, 1_000_000]),
        "outages": st.sampled_from([[], [{"start": "50 ms", "length": "30 ms", "every": "1 s"}]]),
    }
)
PACKETS = st.lists(st.tuples(st.integers(0, 20 * MS), st.integers(28, 1500)), max_size=60)


def emulated(settings: dict[str, Any], packets: list[tuple[int, int]], **more: Any) -> Relay:
    """A relay that has taken the packets (instant, size) on the way up."""
    whole = {"seed": 3, "links": [{"between": ["a", "b"], "up": settings}], **more}
    relay = Relay(read_emulation(whole), PLACE)
    for number, (at_ns, size) in enumerate(packets):
        relay.take(relay.ways[0], at_ns, number.to_bytes(2, "big").ljust(size, b"."))
    return relay


def simulated(settings: dict[str, Any], packets: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Instant and number of what comes out of the simulator's link, on SimPy's clock."""
    env = VirtualTime(initial_time=ORIGIN)
    link = Link(parse(LinkSettings, settings, "up"), Seeds(3), "link/a-b/up", PLACE)
    came: list[tuple[int, int]] = []

    def send(packet: tuple[int, int]) -> None:
        number, size = packet
        for at_ns in link.transmit(env.now, size, 0):
            env.call_at(at_ns, lambda given: came.append((env.now, given)), number)

    for number, (at_ns, size) in enumerate(packets):
        env.call_at(at_ns, send, (number, size))
    env.run()
    return came


def instants(steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    now, found = ORIGIN, []
    for step, size in steps:
        now += step
        found.append((now, size))
    return found


@given(LINKS, PACKETS)
def test_the_same_settings_seed_and_packets_have_the_same_fates(
    settings: dict[str, Any], steps: list[tuple[int, int]]
) -> None:
    packets = instants(steps)
    relay = emulated(settings, packets)
    came = [(at, int.from_bytes(data[:2], "big")) for at, _, data in relay.due(2**62)]
    assert sorted(came) == sorted(simulated(settings, packets))
    assert [at for at, _ in came] == sorted(at for at, _ in came)
    way = relay.ways[0]
    assert way.link.counts.balance() == (0, 0)
    assert way.link.counts.left.messages == len(came)
    assert (relay.waiting.messages, relay.waiting.events) == (0, 0)


def test_another_seed_or_direction_has_other_fates() -> None:
    packets = instants([(MS, 100)] * 400)
    fates = []
    for seed, direction in ((1, 0), (2, 0), (1, 1)):
        whole = {"seed": seed, "links": [{"between": ["a", "b"], "up": {"loss": 0.5}}]}
        relay = Relay(read_emulation(whole), PLACE)
        for number, (at_ns, _) in enumerate(packets):
            relay.take(relay.ways[direction], at_ns, number.to_bytes(2, "big"))
        fates.append([data for *_, data in relay.due(2**62)])
        assert len(fates[-1]) == pytest.approx(200, abs=40)
    assert fates[0] != fates[1]
    assert fates[0] != fates[2]


def test_packets_come_out_when_due_and_not_before() -> None:
    relay = emulated({"delay": DELAYS[0]}, [(ORIGIN, 100), (ORIGIN + MS, 100)])
    assert relay.next_ns == ORIGIN + 5 * MS
    assert list(relay.due(ORIGIN + 5 * MS - 1)) == []
    assert [at for at, *_ in relay.due(ORIGIN + 5 * MS)] == [ORIGIN + 5 * MS]
    assert [at for at, *_ in relay.due(ORIGIN + 9 * MS)] == [ORIGIN + 6 * MS]
    assert relay.next_ns is None


def test_too_much_under_way_is_dropped_and_counted_without_changing_the_others() -> None:
    settings = {"delay": DELAYS[1], "fifo": False, "loss": 0.1}
    packets = instants([(MS // 10, 1500)] * 300)
    wide = emulated(settings, packets)
    tight = emulated(settings, packets, waiting_bytes_max=90_000)
    dropped = tight.ways[0].no_room.messages
    assert dropped > 100
    assert tight.waiting.messages == 60
    assert tight.waiting.events == 90_000
    assert wide.waiting.messages == 60 + dropped
    everything = {(at, data) for at, _, data in wide.due(2**62)}
    assert {(at, data) for at, _, data in tight.due(2**62)} < everything
