"""Clock prediction on simulated devices: the agent's syncs, the gateway's log, the engine's ref."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slackwater.engine.core.frame import Frame
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.order.registry import parse_order
from slackwater.simulator.run import FrameList, SimulationOutcome, simulate
from slackwater.simulator.scenario import read_scenario

MINUTES = 15
SKEWS_PPB = {"slow": 50_000, "fast": -50_000}
LINKS = {
    "lan": {"model": "exponential", "min": "200 us", "mean": "400 us"},
    "wifi": {"model": "exponential", "min": "2 ms", "mean": "4 ms"},
}


def world(seed: int) -> tuple[list[Frame], SimulationOutcome]:
    """Devices ``CLOCK/LINK``: what they logged, and the truth."""
    sources = [
        {
            "name": f"{name}/{link}",
            "workload": {"model": "periodic", "period": "250 ms"},
            "clock": {"offset": "-3 s", "wander_ppb": 20, "resolution": "1 us", "skew_ppb": skew},
            "up": {"delay": delay},
            "down": {"delay": delay},
            "poll": "2 s",
            "sync": {"watch": 0},
        }
        for name, skew in SKEWS_PPB.items()
        for link, delay in LINKS.items()
    ]
    given = {
        "name": "clocks", "seed": seed, "duration": f"{MINUTES} min", "sources": sources,
        "gateway": {"tick_every": "5 s", "frame_every": "5 s"}, "drain": "5 s",
    }  # fmt: skip
    sink = FrameList()
    done = simulate(read_scenario(given), sink, Path("/no/recordings/here"))
    return sink.frames, done


def errors(
    order: str, frames: list[Frame], done: SimulationOutcome
) -> tuple[dict[str, tuple[np.ndarray, np.ndarray]], dict[str, dict[str, Any]]]:
    """By source the errors of ref and what they are said to be at most [ns]; counters of clocks."""
    events = done.events.to_pydict()
    names = zip(events["source"], events["seq"], strict=True)
    truth = dict(zip(names, events["true_ts"], strict=True))
    chain = Chain(ChainSettings(parse_order(order), ordered="bare"), "main")
    outputs = [*(chain.process([frame]) for frame in frames), chain.finish()]
    found: dict[str, list[tuple[int, int]]] = {}
    for released in (each for output in outputs for each in output.ordered):
        columns = [released.columns[name].tolist() for name in ("source", "seq", "ref", "unc")]
        for code, seq, ref, unc in zip(*columns, strict=True):
            name = released.strings.text(code) or ""
            found.setdefault(name, []).append((abs(ref - truth[name, seq]), unc))
    by_source = {name: tuple(np.array(rows).T) for name, rows in found.items()}
    clocks = chain.counters()["clocks"]
    return by_source, {each["source"].replace("%2F", "/"): each for each in clocks}


@pytest.mark.parametrize(
    "seed", [11, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (12, 13))]
)
def test_prediction_halves_the_error_and_keeps_its_bound(seed: int) -> None:
    frames, done = world(seed)
    line, counters = errors("none:time=fit", frames, done)
    hold, _ = errors("none:time=hold", frames, done)
    for name, clock in counters.items():
        (error, unc), (held_error, held_unc) = line[name], hold[name]
        assert error.size > MINUTES * 200
        assert (error <= unc).mean() >= 0.999
        assert error.mean() <= held_error.mean() / 2
        assert unc.mean() < held_unc.mean()
        assert clock["syncs"] >= MINUTES
        assert clock["clock_steps"] == 0
        skew = SKEWS_PPB[name.partition("/")[0]]
        assert abs(clock["skew_ppb"] - skew) <= clock["skew_error_ppb"]
