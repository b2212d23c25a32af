"""Time sync in simulation, chrony's way: a scenario is some settings and limits on the error.

What the agent measures must lie within the bound that it declares: half the delay, both clocks'
precision, and the growth of the skew's error since the measurement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from slackwater.simulator.run import SimulationOutcome

START_NS = 1_767_225_600 * 10**9
MS = 10**6
SECOND = 10**9
Rows = list[dict[str, Any]]
World = Callable[..., tuple[SimulationOutcome, Rows]]


def delay(model: str, **given: Any) -> dict[str, Any]:
    return {"delay": {"model": model, **given}}


@dataclass(frozen=True)
class Case:
    """Settings over defaults, and limits of the error that the scenario must keep."""

    name: str
    error_max_ns: int
    """Largest error of a reported offset at the moment of its measurement."""
    up: dict[str, Any] = field(default_factory=lambda: delay("constant", delay="5 ms"))
    down: dict[str, Any] = field(default_factory=lambda: delay("constant", delay="5 ms"))
    clock: dict[str, Any] = field(default_factory=dict)
    gateway: dict[str, Any] = field(default_factory=dict)
    error_min_ns: int = 0
    reports: int = 6
    start_ns: int = START_NS
    settle_ns: int = 0
    """After a step, until so long after the start, the bound need not hold."""


QUICK = ("101", "103", "105", "106", "109", "112", "115")
"""Of these a quick run tries each; the others vary them."""
JITTER = delay("exponential", min="2 ms", mean="40 ms")
CASES = [
    Case("101 symmetric", 1, clock={"offset": "1 h"}),
    Case("102 symmetric, fast source", 1, clock={"offset": "-1 h"}),
    Case(
        "103 asymmetric 9/1 ms", 4 * MS, up=delay("constant", delay="9 ms"),
        down=delay("constant", delay="1 ms"), error_min_ns=4 * MS,
    ),
    Case("104 large jitter", 15 * MS, up=JITTER, down=JITTER),
    Case("105 asymmetric jitter", 15 * MS, up=JITTER),
    Case("106 skew of 20 ppm", 1, clock={"skew_ppb": 20_000}),
    Case("107 skew of -45 ppm and jitter", 15 * MS, up=JITTER, clock={"skew_ppb": -45_000}),
    Case("108 wander", 1, clock={"wander_ppb": 1000}),
    Case(
        "109 a step of 1 s is found and measured within 2 s", 1, settle_ns=32 * SECOND,
        clock={"steps": [{"at": "30 s", "by": "1 s"}]},
    ),
    Case(
        "110 a step back of 1 s", 1, settle_ns=32 * SECOND,
        clock={"steps": [{"at": "30 s", "by": "-1 s"}]},
    ),
    Case("111 a clock of 1 ms", MS, clock={"resolution": "1 ms"}),
    Case(
        "112 loss of 30 %, so that some rounds fail", 1, reports=4,
        up={**delay("constant", delay="5 ms"), "loss": 0.3},
    ),
    Case(
        "113 an outage over a round", 1, reports=5,
        up={**delay("constant", delay="5 ms"), "outages": [{"start": "55 s", "length": "10 s"}]},
    ),
    Case("114 a gateway 1 min ahead", 1, gateway={"clock": {"offset": "-1 min"}}),
    Case("115 the NTP era ends in mid run, in 2036", 1, start_ns=(2**32 - 2_208_988_900) * SECOND),
    Case("116 year 2104", 1, start_ns=4_260_000_000 * SECOND),
]  # fmt: skip


def measured(world: World, case: Case, **sync: Any) -> tuple[SimulationOutcome, Rows]:
    resolution = case.clock.get("resolution", "1 us")
    one = {
        "name": "s0",
        "workload": {"model": "periodic", "period": "1 s"},
        "clock": case.clock,
        "up": case.up,
        "down": case.down,
        "sync": {"precision": resolution, **sync},
    }
    done, rows = world(one, duration="310 s", gateway=case.gateway, start=case.start_ns)
    return done, [row for row in rows if row["kind"] == 3]


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=() if case.name[:3] in QUICK else pytest.mark.slow)
        for case in CASES
    ],
)
def test_the_offset_is_right_within_its_limit_and_its_declared_bound(
    world: World, case: Case
) -> None:
    done, reports = measured(world, case)
    assert len(reports) >= case.reports
    samples = done.clocks.to_pylist()
    errors = []
    for report, following in zip(reports, [*reports[1:], None], strict=True):
        at, end = report["ts"], following["ts"] if following else 2**62
        covered = [
            row
            for row in samples
            if at <= row["source_ns"] < end and row["true_ns"] - case.start_ns >= case.settle_ns
        ]
        bounds = [
            report["delay"] // 2
            + report["precision"]
            + (row["source_ns"] - at) * report["skew_error_ppb"] // SECOND
            for row in covered
        ]
        off = [abs(row["offset_ns"] - report["offset"]) for row in covered]
        assert all(error <= bound for error, bound in zip(off, bounds, strict=True)), report
        # Samples come each second: the first one is at most that old.
        errors += [error - SECOND * report["skew_error_ppb"] // SECOND for error in off[:1]]
    assert max(errors) <= case.error_max_ns
    assert max(errors) >= case.error_min_ns - 50_000


def test_canary_a_step_that_nobody_looks_for_breaks_the_bound_until_the_next_round(
    world: World,
) -> None:
    case = next(case for case in CASES if case.name.startswith("109"))
    done, reports = measured(world, case, watch=0)
    row = next(row for row in done.clocks.to_pylist() if row["true_ns"] == START_NS + 40 * SECOND)
    latest = max(
        (each for each in reports if each["ts"] <= row["source_ns"]), key=lambda r: r["ts"]
    )
    assert abs(row["offset_ns"] - latest["offset"]) > latest["delay"] // 2 + MS


def test_a_source_that_nobody_answers_sends_its_events_unsynchronised(world: World) -> None:
    one = {
        "name": "s0",
        "workload": {"model": "periodic", "period": "10 ms"},
        "up": {**delay("constant", delay="1 ms")},
        "down": {**delay("constant", delay="1 ms")},
        "sync": {"timeout": "1500 us"},  # less than a round trip: every answer comes too late
    }
    done, rows = world(one, duration="1 s", drain="5 s")
    assert done.manifest["sources"]["main/s0"]["sync"]["failed_rounds"] >= 1
    assert [row.get("offset") for row in rows if row["kind"] == 3][:1] == [None]
