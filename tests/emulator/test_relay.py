"""Emulated links: their settings, and packets with the fates that the simulator gives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.cli.app import run
from slackwater.engine.core.errors import UserError
from slackwater.simulator.alarm import VirtualTime
from slackwater.simulator.emulator.relay import Relay
from slackwater.simulator.emulator.settings import read_emulation, read_links_file
from slackwater.simulator.links import Link, LinkSettings, Outage, Place
from slackwater.simulator.seeds import Seeds
from slackwater.simulator.settings import parse

SAMPLE = Path(__file__).resolve().parents[2] / "docs" / "samples" / "links.toml"

MS = 1_000_000


def test_the_sample_is_read() -> None:
    emulation = read_links_file(SAMPLE)
    up, down = (settings for *_, settings in emulation.links[0].ways)
    assert (up.fifo, up.loss.mean, up.queue_bytes) == (False, 0.02, 64_000)
    assert up.outages == (Outage(10_000 * MS, 2_000 * MS, 60_000 * MS),)
    assert down == LinkSettings(delay=down.delay)
    assert emulation.addresses == {"device": "10.203.0.1", "gateway": "10.203.0.2"}


def test_without_down_both_directions_are_alike_and_draw_apart() -> None:
    link = read_emulation({"links": [{"between": ["a", "b"], "up": {"loss": 0.1}}]}).links[0]
    (_, _, up, there), (_, _, down, back) = link.ways
    assert there == back
    assert (up, down) == ("link/a-b/up", "link/a-b/down")


def between(*names: Any) -> dict[str, Any]:
    return {"between": list(names)}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "links: links is missing"),
        ({"links": []}, "links.links: there must be at least one"),
        ({"links": [{}]}, "links.links[0]: between is missing"),
        ({"links": [between("a")]}, "between: name two namespaces"),
        ({"links": [between("a", "a")]}, "a link needs two different ends"),
        ({"links": [between("a", "b/..")]}, "'b/..' is no name of a namespace"),
        ({"links": [between("a", "lo")]}, "'lo' is no name of a namespace"),
        ({"links": [between("a", "b" * 16)]}, "is no name of a namespace"),
        ({"links": [between("a", "b"), between("b", "a")]}, "there are two between a and b"),
        ({"links": [between("a", "b") | {"up": {"reliable": True}}]}, "up.reliable: leave it out"),
        ({"links": [between("a", "b") | {"up": {"lost": 0.1}}]}, "up.lost: unknown setting"),
        ({"links": [between("a", "b") | {"mtu": 100}]}, "mtu: must lie in 576..65535"),
        ({"links": [between("a", "b")], "prefix": "../"}, "prefix: write 1 to 32"),
        ({"links": [between("a", "b")], "network": "10.0.0.0/31"}, "no room for 2 namespaces"),
        ({"links": [between("a", "b")], "network": "ten"}, "network: "),
        ({"links": [between("a", "b")], "seed": -1}, "seed: must not be negative"),
    ],
)
def test_a_mistake_is_reported_with_its_place(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        read_emulation(given)
    assert message in str(caught.value)
    assert str(caught.value).startswith("links")


def test_check_needs_no_root_and_prints_what_is_in_effect(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["emulate", str(SAMPLE), "--check"]) == 0
    printed = capsys.readouterr().out
    assert "slackwater-gateway  10.203.0.2" in printed
    assert "gateway -> device: delay = Constant(delay_ns=5000000)" in printed


def test_files_that_cannot_be_read_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing, wrong = tmp_path / "no.toml", tmp_path / "wrong.toml"
    wrong.write_text("links = [")
    assert [run(["emulate", str(each)]) for each in (missing, wrong)] == [2, 2]
    said = capsys.readouterr().err
    assert f"{missing}: No such file or directory" in said
    assert f"{wrong}: not TOML" in said


def test_without_root_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert run(["emulate", str(SAMPLE)]) == 2
    assert "must be run as root: sudo slackwater emulate" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--in", "device"], "--in needs a command"),
        (["--in", "lamp", "--", "true"], "--in lamp: no such namespace in the settings"),
    ],
)
def test_a_namespace_to_run_in_must_be_there_and_needs_a_command(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["emulate", str(SAMPLE), *words]) == 2
    assert message in capsys.readouterr().err


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
