"""The benches on real sockets: what was predicted is what happens, and nothing grows.

The first takes some 70 s, of which 45 are events; it needs root, network namespaces, TUN and
libfaketime.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bench.real_sockets.both_worlds import (
    SECONDS,
    both_tables,
    disagreements,
    run_both,
    scratch,
    untrue,
)
from bench.real_sockets.device_clock import Bend, ClockPair
from bench.real_sockets.measures import WorldChecks, WorldMeasures
from bench.real_sockets.real_run import lacks
from bench.real_sockets.setup import SocketsSetup
from bench.soak.__main__ import Soak, keep
from bench.soak.watched import ProcessWatch

SEEDS = (SocketsSetup.seed, 1)
"""Of the second only if the first is off; what is true is asked of each."""


@pytest.mark.slow
@pytest.mark.xdist_group("links")
def test_the_simulator_predicts_what_real_sockets_do() -> None:
    reason = lacks()
    if reason is not None:
        pytest.skip(reason)
    reported = ""
    for seed in SEEDS:  # what else the machine does for half a minute is in no prediction
        # Every event once in the log with the time at which it happened: run_both makes sure.
        with scratch() as folder:
            both = run_both(SocketsSetup(SECONDS, seed), Path(folder))
        reported += f"seed {seed}\n{both_tables(both)}\n"
        assert untrue(both.truth) == [], reported
        assert untrue(both.theirs) == [], reported
        off = disagreements(both.real, both.simulated)
        if not off:
            break
    assert off == {}, reported
    assert both.truth.syncs > 300
    assert both.truth.matches > 5_000
    assert both.truth.missed < 0.01 * both.truth.matches, reported


def measured(**more: float) -> WorldMeasures:
    return WorldMeasures(**dict.fromkeys(WorldMeasures.__annotations__, 10.0) | more)


def test_a_prediction_that_is_off_is_seen() -> None:
    real = measured()
    assert disagreements(real, measured(disorder=11.9, hold_mean=8.1)) == {}
    off = disagreements(real, measured(disorder=12.5, hold_mean=7.5))
    assert off == pytest.approx({"disorder": 0.25, "hold_mean": -0.25})


def test_what_is_untrue_is_seen() -> None:
    right = {"events": 9, "syncs": 2000, "beyond": 2, "matches": 5, "missed": 1, "wrong": 0}
    assert untrue(WorldChecks(**right)) == []
    wrong = untrue(WorldChecks(**right | {"beyond": 3, "wrong": 1}))
    assert wrong == ["3 of 2000 offsets are beyond their bound", "1 confirmed matches are none"]


@pytest.mark.parametrize("rate", [0.9998, 1.0, 1.0002])
def test_a_bend_is_read_both_ways(rate: float) -> None:
    bend = Bend(ClockPair(10**18, 10**18 - 3600 * 10**9, 0), rate)
    for true in (10**18, 10**18 + 60 * 10**9 + 7):
        assert abs(bend.true_ns(bend.device_ns(true)) - true) <= 1
    assert bend.device_ns(10**18 + 10**9) - bend.device_ns(10**18) == round(10**9 * rate)


@pytest.mark.slow
def test_memory_and_files_stay_as_they_are(tmp_path: Path) -> None:
    soak = Soak(tmp_path, agents=3, rate=6_000, seconds=40)
    soak.run()
    assert soak.events() == dict.fromkeys(soak.names, 80_000)
    assert soak.events_in_windows() == 240_000
    assert soak.pairs() > 100
    assert [each.name for each in soak.watched] == ["gateway", *soak.names, "engine"]
    assert all(len(each.at) > 20 for each in soak.watched)
    assert [reported for each in soak.watched for reported in each.grows()] == []
    keep(soak.watched, tmp_path / "kept", "a minute")
    assert (tmp_path / "kept" / "soak.csv").read_text().count("\n") > 100
    root = ET.parse(tmp_path / "kept" / "soak.svg").getroot()
    lines = root.findall(".//{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 2 * len(soak.watched)


def looked(kb: list[int], files: list[int]) -> ProcessWatch:
    return ProcessWatch("p", 1, [float(i) for i in range(len(kb))], kb, files)


def test_what_grows_is_seen() -> None:
    flat = [100_000, 101_000] * 20
    assert looked(flat, [9] * 40).grows() == []
    leak = [100_000 + 1_000 * i for i in range(40)]
    assert looked(leak, [9] * 40).grows() == [
        "p: memory grows by 18.6 MB over the second half, 3515.6 MB/h"
    ]
    assert looked(leak, [9] * 40).verdict().endswith("+3515.6 MB/h, 9 -> 9 files: grows")
    peaks = [100_000 + 90_000 * (i % 9 == 0) for i in range(40)]
    assert looked(peaks, [9] * 40).grows() == []
    assert looked(peaks, [9] * 40).verdict().endswith("MB,    +0.0 MB/h, 9 -> 9 files: flat")
    assert looked(flat, list(range(40))).grows() == ["p: open files grow from 24 to 34"]
    warmed_up = [1_000 * min(i, 15) + 50_000 for i in range(40)]
    assert looked(warmed_up, [9] * 40).grows() == []
