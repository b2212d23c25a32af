"""Clock prediction on simulated devices: the agent's syncs, the gateway's log, the engine's ref."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.chain import Chain, ChainSettings
from engine.order.registry import parse_order
from engine.stream.frame import Frame
from simulator.run import FrameList, simulate
from simulator.scenario import read_scenario

MS, S = 10**6, 10**9
MINUTES = 15
SEEDS = (11, pytest.param(12, marks=pytest.mark.slow), pytest.param(13, marks=pytest.mark.slow))
LINKS = {
    "lan": {"model": "exponential", "min": "200 us", "mean": "400 us"},
    "wifi": {"model": "exponential", "min": "2 ms", "mean": "4 ms"},
}
PERIOD_NS, POLL_NS = 250 * MS, 2 * S


def world(
    seed: int, clocks: dict[str, dict[str, Any]]
) -> tuple[list[Frame], dict[tuple[str, int], int]]:
    """Frames of devices ``CLOCK/LINK``, and the true time of each event by (source, number)."""
    sources = [
        {
            "name": f"{name}/{link}",
            "workload": {"model": "periodic", "period": PERIOD_NS},
            "clock": {"offset": "-3 s", "wander_ppb": 20, "resolution": "1 us", **clock},
            "up": {"delay": delay},
            "down": {"delay": delay},
            "poll": POLL_NS,
            "sync": {"watch": 0},
        }
        for name, clock in clocks.items()
        for link, delay in LINKS.items()
    ]
    given = {
        "name": "clocks", "seed": seed, "duration": f"{MINUTES} min", "sources": sources,
        "gateway": {"tick_every": "5 s", "frame_every": "5 s"}, "drain": "5 s",
    }  # fmt: skip
    sink = FrameList()
    done = simulate(read_scenario(given), sink, Path("/no/recordings/here"))
    events = done.events.to_pydict()
    names = zip(events["source"], events["seq"], strict=True)
    return sink.frames, dict(zip(names, events["true_ts"], strict=True))


@dataclass
class Corrected:
    """Events as an order released them: true times, errors of ref and their bounds [ns]."""

    source: np.ndarray
    true_ns: np.ndarray
    error: np.ndarray
    unc: np.ndarray
    counters: dict[str, dict[str, Any]]

    @classmethod
    def by(cls, order: str, frames: list[Frame], truth: dict[tuple[str, int], int]) -> Corrected:
        chain = Chain(ChainSettings(parse_order(order), ordered="bare"), "main")
        outputs = [*(chain.process([frame]) for frame in frames), chain.finish()]
        rows = []
        for released in (each for output in outputs for each in output.ordered):
            columns = [released.columns[name].tolist() for name in ("source", "seq", "ref", "unc")]
            for code, seq, ref, unc in zip(*columns, strict=True):
                name = released.strings.text(code)
                true_ns = truth[name or "", seq]
                rows.append((name, true_ns, ref - true_ns, unc))
        source, *numbers = zip(*rows, strict=True)
        counters = {each["source"]: each for each in chain.counters()["clocks"]}
        return cls(np.array(source), *(np.array(each) for each in numbers), counters)


@pytest.mark.parametrize("seed", SEEDS)
def test_prediction_halves_the_error_and_keeps_its_bound(seed: int) -> None:
    skews = {"slow": 50_000, "fast": -50_000}
    frames, truth = world(seed, {name: {"skew_ppb": skew} for name, skew in skews.items()})
    line, hold = (Corrected.by(order, frames, truth) for order in ("none", "none:time=hold"))
    for name, found in line.counters.items():
        mine, other = line.source == name, hold.source == name
        size, without = np.abs(line.error[mine]), np.abs(hold.error[other])
        assert size.size > MINUTES * 200
        assert (size <= line.unc[mine]).mean() >= 0.999
        assert size.mean() <= without.mean() / 2
        assert line.unc[mine].mean() < hold.unc[other].mean()
        assert found["syncs"] >= MINUTES
        assert found["clock_steps"] == 0
        skew = skews[name.partition("/")[0]]
        assert abs(found["skew_ppb"] - skew) <= found["skew_error_ppb"]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_step_is_found_at_the_next_sync_and_what_was_held_is_covered(seed: int) -> None:
    jumps = {"back": 200 * MS, "ahead": -200 * MS}
    clocks = {
        name: {"skew_ppb": 20_000, "steps": [{"at": "450 s", "by": f"{jump // MS} ms"}]}
        for name, jump in jumps.items()
    }
    frames, truth = world(seed, clocks)
    # A slack of more than a minute: what lies between two syncs is still held at the second one.
    kept = Corrected.by("kslack:70s", frames, truth)
    assert (np.abs(kept.error) <= kept.unc).all()
    at_once = Corrected.by("none", frames, truth)
    wrong = np.abs(at_once.error) > at_once.unc
    assert len(kept.counters) == 4
    for name, found in kept.counters.items():
        jump = jumps[name.partition("/")[0]]
        assert found["clock_steps"] == 1
        assert abs(found["last_step_ns"] - jump) < 15 * MS
        assert found["released_before_step"] == 0
        widened = kept.true_ns[(kept.source == name) & (kept.unc > 150 * MS)]
        assert 55 * S < np.ptp(widened) <= 61 * S
        # Nothing is taken back: what went out wrong is among those that the counter tells of.
        counted = at_once.counters[name]["released_before_step"]
        assert 0 < int(wrong[at_once.source == name].sum()) < counted <= 61 * S // PERIOD_NS
