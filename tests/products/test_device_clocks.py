"""Issue 36, accept: clocks behind agents that are wrong; no false ``confirmed``, none missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from slackwater.edge_agent.device_clock import DeviceClockSettings
from tests.products.device_worlds import MS, Monitor, S, assert_honest, lived

DECLARED = DeviceClockSettings(delay_min_max_ns=100 * MS, delay_max_ns=5 * S, window_ns=10 * S)
MONITORS = {
    "20-s-slow": Monitor(ahead=-20 * S),
    "14-s-ahead": Monitor(ahead=14 * S),
    "set-30-s-ahead": Monitor(ahead=-20 * S, steps=((60 * S, 30 * S),)),
    "set-30-s-back": Monitor(ahead=14 * S, steps=((60 * S, -30 * S),)),
    "set-300-ms-back": Monitor(steps=((60 * S, -300 * MS),)),
    "set-twice": Monitor(steps=((40 * S, -2 * S), (70 * S, 900 * MS))),
    "whole-seconds": Monitor(ahead=-20 * S, grain=S),
}
"""Whole seconds: of two events within one, no clock can say which was first."""


@pytest.mark.parametrize("name", ["20-s-slow", "set-30-s-back"])
def test_accept_a_monitors_clock_that_is_wrong(tmp_path: Path, name: str) -> None:
    assert one_world(tmp_path / "log", MONITORS[name], 1) > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("name", list(MONITORS))
def test_accept_every_monitors_clock_that_is_wrong(tmp_path: Path, name: str) -> None:
    share = one_world(tmp_path / "log", MONITORS[name], 2)
    if name in ("20-s-slow", "14-s-ahead"):
        assert share > 0.5


@pytest.mark.deep
@pytest.mark.parametrize("name", list(MONITORS))
@pytest.mark.parametrize("seed", range(3, 23))
def test_accept_a_monitors_clock_that_is_wrong_20_seeds(
    tmp_path: Path, name: str, seed: int
) -> None:
    one_world(tmp_path / "log", MONITORS[name], seed)


@pytest.mark.slow
def test_a_clock_set_ahead_behind_slow_messages_confirms_nothing_false(tmp_path: Path) -> None:
    """Messages that are as slow as the clock was set look as if it had not been."""
    events, _ = lived(
        tmp_path / "log", 4, Monitor(steps=((30 * S, 700 * MS),)), seconds=60, apart=200 * MS,
        delay=lambda chance: (720 * (chance.random() < 0.7) + 2 + chance.randrange(40)) * MS,
        declared=DECLARED,
    )  # fmt: skip
    assert_honest(events, tmp_path / "log", 2)


def one_world(folder: Path, monitor: Monitor, seed: int) -> float:
    events, _ = lived(
        folder, seed, monitor, seconds=120, apart=400 * MS, declared=DECLARED,
        delay=lambda chance: 2 * MS + chance.randrange(1500 if chance.random() < 0.1 else 40) * MS,
    )  # fmt: skip
    return assert_honest(events, folder, 5)


@pytest.mark.slow
def test_accept_40_ppm_over_a_day(tmp_path: Path) -> None:
    a_day(tmp_path / "log", 5)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(6, 26))
def test_accept_40_ppm_over_a_day_20_seeds(tmp_path: Path, seed: int) -> None:
    a_day(tmp_path / "log", seed)


def a_day(folder: Path, seed: int) -> None:
    declared = DeviceClockSettings(
        delay_min_max_ns=100 * MS, delay_max_ns=60 * S, window_ns=600 * S
    )
    events, clock = lived(
        folder, seed, Monitor(fast_ppb=40_000), seconds=86_400, apart=40 * S,
        declared=declared, delay=lambda chance: 2 * MS + chance.randrange(60) * MS,
    )  # fmt: skip
    assert clock.steps == 0
    assert assert_honest(events, folder, 120) > 0.8
