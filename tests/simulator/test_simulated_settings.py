"""A wrong setting of a simulated world is named with its place; right ones are read with units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slackwater.engine.core.errors import UserError
from slackwater.simulator.clocks import SECOND, ClockSettings, Step
from slackwater.simulator.delays import Exponential
from slackwater.simulator.links import LinkSettings
from slackwater.simulator.losses import Bernoulli, parse_loss
from slackwater.simulator.recorded import parse_delay
from slackwater.simulator.scenario import read_scenario
from slackwater.simulator.settings import parse

MS = 10**6


def clock(given: Any) -> ClockSettings:
    return parse(ClockSettings, given, "clock")


def link(given: Any) -> LinkSettings:
    return parse(LinkSettings, given, "link")


def delay(given: Any) -> Any:
    return parse_delay(given, "delay")


def source(**given: Any) -> dict[str, Any]:
    return {"name": "s0", "workload": {"model": "periodic", "period": "10 ms"}, **given}


def scenario(change: dict[str, Any]) -> Any:
    whole = {"name": "bad", "seed": 1, "duration": "1 s", "sources": [source()]}
    return read_scenario({**whole, **change})


def sources(*given: dict[str, Any]) -> dict[str, Any]:
    return {"sources": list(given)}


BANDS = {
    "stream": "climate", "into": "bands", "kind": "bands", "value": "celsius",
    "bands": ["LOW", 50, "HIGH"],
}  # fmt: skip


def abstracted(change: dict[str, Any]) -> Any:
    return scenario(sources(source(abstract=[{**BANDS, **change}])))


WRONG: list[tuple[Callable[[Any], Any], Any, str]] = [
    (clock, {"ofset": 1}, r"clock\.ofset: unknown setting; known are offset, skew_ppb"),
    (clock, {"offset": "5 lightyears"}, r"clock\.offset: unknown time unit"),
    (clock, {"offset": 1.5}, r"clock\.offset: expected nanoseconds"),
    (clock, {"offset": 1, "offset_ns": 1}, r"clock\.offset_ns: given twice"),
    (clock, {"skew_ppb": "fast"}, r"clock\.skew_ppb: expected a whole number"),
    (clock, {"wander_period": "1500 ms"}, r"clock\.wander_period: must be whole seconds"),
    (clock, {"steps": [{"at": "1 s"}]}, r"clock\.steps\[0\]: by is missing"),
    (clock, {"steps": [{"at": 0, "by": 1}]}, r"clock\.steps\[0\]\.at: a step must come after"),
    (clock, {"steps": {"at": 1}}, r"clock\.steps: expected a list"),
    (clock, {"steps": [{"at": 2, "by": 1}, {"at": 1, "by": 1}]}, r"clock\.steps: must be in order"),
    (clock, 7, "clock: expected a table"),
    (link, {"loss": 1.5}, r"link\.loss: expected a share from 0 to 1"),
    (link, {"loss": {"model": "fog"}}, r"link\.loss\.model: unknown 'fog'"),
    (link, {"correlation": 1}, r"link\.correlation: must lie in 0\.\.1, below 1"),
    (link, {"outages": [{"start": "1 s", "length": 0}]}, r"link\.outages\[0\]\.length: must be"),
    (link, {"rate": 5}, r"link\.rate: unknown setting; known are delay, correlation"),
    (link, {"duplicate": True}, r"link\.duplicate: expected a share from 0 to 1"),
    (link, {"fifo": 1}, r"link\.fifo: expected true or false"),
    (delay, {"model": "gauss"}, r"delay\.model: unknown 'gauss'; use one of constant, uniform"),
    (delay, {"delay": 5}, r"delay: write a table with model = one of constant"),
    (delay, {"model": "uniform", "low": "5 ms", "high": "2 ms"}, r"delay\.low: must lie in 0"),
    (delay, {"model": "exponential", "mean": "2 ms"}, r"delay: min is missing"),
    (delay, {"model": "pareto", "min": 5, "shape": "steep"}, r"delay\.shape: expected a number"),
    (delay, {"model": "lognormal", "median": 5, "sigma": 9.0}, r"delay\.sigma: must lie in 0\.\.5"),
    (delay, {"model": "recorded", "trace": "mars"}, r"delay\.trace: unknown recording 'mars'"),
    (scenario, sources(), r"scenario\.sources: there must be at least one"),
    (scenario, sources(source(), source()), r"scenario\.sources: two are called 's0'"),
    (scenario, sources(source(pool=3)), r"scenario\.sources\[0\]\.pool: unknown setting; known"),
    (scenario, sources(source(connections=0)), r"sources\[0\]\.connections: must lie in"),
    (scenario, sources(source(restarts=["1 parsec"])), r"restarts\[0\]: unknown time unit"),
    (scenario, sources(source(sync={"attempts": 0})), r"sources\[0\]\.sync: sync.attempts must be"),
    (scenario, sources(source(workload={"model": "tidal"})), r"workload\.model: unknown 'tidal'"),
    (scenario, sources(source(on="-1 s")), "on: must not be negative"),
    (scenario, sources(source(on="2 s", off="2 s")), "off: must come after on"),
    (scenario, sources(source(on="3 s")), r"sources\[0\].on: must come before the end"),
    (scenario, sources(source(promise_first="T")), "promise_first"),
    (scenario, sources(source(promise_first=["x" * 201])), "promise_first"),
    (scenario, sources(source(promise_first=[7])), "promise_first"),
    (abstracted, {"hysterese": 1}, r"sources\[0\]\.abstract\[0\]\.hysterese: unknown setting"),
    (abstracted, {"bands": "LOW"}, r"sources\[0\]\.abstract\[0\]\.bands: expected a list"),
    (abstracted, {"bands": ["LOW", None, "HIGH"]}, "each a text or a number, found None"),
    (abstracted, {"gap": "-1 s"}, r"sources\[0\]\.abstract: gap: must not be negative"),
    (scenario, {"duration": 0}, r"scenario\.duration: must be positive"),
    (scenario, {"seed": -1}, r"scenario\.seed: must not be negative"),
    (scenario, {"seed": None}, r"scenario\.seed: expected a whole number, found None"),
]  # fmt: skip


@pytest.mark.parametrize(("read", "given", "message"), WRONG)
def test_a_wrong_setting_is_named(read: Callable[[Any], Any], given: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read(given)


def test_right_settings_are_read_with_their_units() -> None:
    read = clock({"offset": "-1.5 ms", "steps": [{"at": "30 s", "by": "5 ms"}]})
    assert read == ClockSettings(offset_ns=-1_500_000, steps=(Step(30 * SECOND, 5_000_000),))
    assert parse_loss(0.25, "loss") == Bernoulli(0.25)
    law = delay({"model": "exponential", "min": "1 ms", "mean_ns": 5 * MS})
    assert law == Exponential(1 * MS, 5 * MS)
