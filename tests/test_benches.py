"""Every benchmark runs: on little, whatever it measures then."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.mass import GOALS, MassGoal
from bench.soak.watched import family

BENCH = Path(__file__).resolve().parent.parent / "bench"
LITTLE: dict[str, dict[str, Any]] = {
    "agent": {"EVENTS": 3_000, "STARTS": 2},
    "cascade": {"EVENTS": 20_000, "ROUNDS": 1, "GOAL_RATIO": float("inf")},
    "chain": {"ORDERS": ("none",), "EVENTS": 20_000},
    "constraint": {"EVENTS": 20_000, "TRACES": 1_000, "ROUNDS": 1, "GOAL_PER_S": 0},
    "corrections": {"ROUNDS": 1},
    "gateway_speed": {"EVENTS": 16_000, "ROWS": (1000,), "GOAL_PER_S": 0},
    "grouping": {
        "EVENTS": 20_000,
        "KEYS": 200,
        "EVERY_NS": 1_000_000,
        "ROUNDS": 1,
        "GOAL_PER_S": 0,
        "GOAL_TIMES": 0,
        "GOAL_LATENCY": float("inf"),
    },
    "intervals": {"COMPARED": 400, "TIMED": 5_000, "BATCHED": 2_000},
    "join": {"EVENTS": 20_000, "ROUNDS": 1, "GOAL_BY_HAND": 0},
    "live": {"SECONDS": {"embedded": 8.0}, "LEFT_OUT_S": 1},
    "losses": {"LOSSES": (1_000, 2_000)},
    "mass": {"GOALS": dict.fromkeys(GOALS, MassGoal(10**9, 10**9))},
    "negation": {"EVENTS": 20_000, "SIZES": (10_000, 20_000), "TOLD_EVERY": 10_000},
    "one_event": {},
    "orders": {"ORDERS": ("kslack:1s",), "EVENTS": 20_000, "SIZES": (10_000,), "SOURCES": (3,)},
    "repetition": {"EVENTS": 20_000, "ROUNDS": 1, "GOAL_RATIO": 0.0},
    "results": {"ROUNDS": 1},
    "scale": {"SITES": 20, "FRAME_ROWS": 1_000, "SOURCES": 200, "AT_ONCE": 20, "KEYS": 2_000},
    "simulate": {"LOADS": ((3, 100),), "GOAL_PER_S": 0},
    "spill": {"ROWS": 30_000, "BATCH": 10_000, "WINDOW_ROWS": 30_000, "WINDOW_IDS": 1_000},
    "sweep": {"SECONDS": 5, "CELLS": 2},
    "tune_aq": {"KPS": (0.2,), "KDS": (0.1,), "ERRORS": (0.05,)},
    "window": {"ROWS": 20_000, "BATCH": 10_000},
}
"""Constants of a module that make it small."""
ARGUMENT = {"corrections": 20_000, "negation": 20_000, "results": 20_000, "simulate": 1}
APART = {
    "spark_cost": "many runs of Spark: minutes even on little",
    "spark_w1": "Spark beside Spark: minutes even on little",
    "spark_w2": "Spark beside Spark: minutes even on little",
    "workload": "what the others read",
}


def test_every_benchmark_is_here() -> None:
    assert {path.stem for path in BENCH.glob("*.py")} == {*LITTLE, *APART}


@pytest.mark.slow
@pytest.mark.parametrize("name", LITTLE)
def test_a_benchmark_runs(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module(f"bench.{name}")
    for constant, value in LITTLE[name].items():
        monkeypatch.setattr(module, constant, value)
    if name == "scale":
        monkeypatch.setattr(module, "in_another_process", lambda job, *given: job(*given))
    arguments = [str(ARGUMENT[name])] if name in ARGUMENT else []
    monkeypatch.setattr(sys, "argv", ["bench", *arguments])
    assert not module.main()
    assert capsys.readouterr().out.count("\n") >= 1


def test_a_family_of_processes_that_come_and_go_is_looked_for_without_a_fault() -> None:
    """One of 40 kill rounds ended by it: a child was gone between its number and its children."""
    shell = subprocess.Popen(["/bin/sh", "-c", "while :; do /bin/true & /bin/true; done"])
    try:
        found = [family(shell.pid) for _ in range(3000)]
    finally:
        shell.kill()
        shell.wait()
    assert any(found)
    assert family(shell.pid) == []
