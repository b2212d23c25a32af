"""The scenario's file with the options of ``slackwater run soccer``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from slackwater.scenario import UserError
from slackwater.scenarios.options import tables_of
from slackwater.scenarios.soccer.heard import GatewayRange
from slackwater.scenarios.soccer.pitch import MS
from slackwater.simulation import (
    Constant,
    DelaySettings,
    Exponential,
    Lognormal,
    Pareto,
    RecordedSettings,
    Scenario,
    TwoPeak,
    Uniform,
    build_from_tables,
)

DELAYS: Final[Mapping[str, DelaySettings]] = {
    "exponential": Exponential(min_ns=3 * MS, mean_ns=12 * MS),
    "two_peak": TwoPeak(first_ns=15 * MS, second_ns=320 * MS, second_share=0.03, spread_ns=8 * MS),
    "lognormal": Lognormal(median_ns=14 * MS, sigma=0.8, min_ns=4 * MS),
    "uniform": Uniform(low_ns=4 * MS, high_ns=45 * MS),
    "pareto": Pareto(min_ns=6 * MS, shape=2.2, max_ns=600 * MS),
    "constant": Constant(delay_ns=5 * MS),
    "recorded": RecordedSettings("net_cicv5g"),
}
"""One-way delays to the engine, by the value of the option ``delay``."""
MIXED: Final = "mixed"
"""As the file says: they differ from gateway to gateway."""
FILE: Final = Path(__file__).with_name("soccer.toml")
WORLDS: Final = {"soccer": GatewayRange}
"""Models of workloads of scenario files."""


def soccer_scenario(options: Mapping[str, Any]) -> Scenario:
    """Eleven gateways that hear a match: those of the file, with ``options`` of ``Soccer``.

    Raises:
        UserError: a setting out of its range.
    """
    delay = options["delay"]
    if delay != MIXED and delay not in DELAYS:
        known = ", ".join((MIXED, *DELAYS))
        raise UserError(f"--set delay={delay}: unknown model; use one of {known}")
    tables = tables_of(FILE, options)
    tables["clock"]["skew_ppm_spread"] = options["skew_ppm"]
    tables["link"]["up"] |= {name: options[name] for name in ("loss", "duplicate")}
    for source in tables["sources"]:
        source["connections"] = options["connections"]
        if delay != MIXED:
            source["link"]["up"]["delay"] = DELAYS[delay]
    return build_from_tables("soccer", tables, None, FILE.name, WORLDS).simulated
