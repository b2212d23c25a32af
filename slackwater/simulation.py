"""The simulator, for scenarios: devices with clocks behind links, and what is true of them."""

from __future__ import annotations

from edge_agent.abstraction.settings import AbstractSettings
from edge_agent.columns import Codes, Masked
from edge_agent.messages import StreamSchema
from simulator.clocks import ClockSettings
from simulator.delays import Constant, Exponential, Lognormal, Pareto, TwoPeak, Uniform
from simulator.digest import FrameDigest
from simulator.links import LinkSettings
from simulator.losses import Bernoulli, GilbertElliott
from simulator.recorded import DelaySettings, Recorded, data_directory
from simulator.run import LOG, MANIFEST, TRUTH, simulate_to
from simulator.scenario import START_NS, GatewayPlace, Scenario, SourceSettings
from simulator.seeds import Seeds
from simulator.workload import Batch, Span

__all__ = [
    "LOG",
    "MANIFEST",
    "START_NS",
    "TRUTH",
    "AbstractSettings",
    "Batch",
    "Bernoulli",
    "ClockSettings",
    "Codes",
    "Constant",
    "DelaySettings",
    "Exponential",
    "FrameDigest",
    "GatewayPlace",
    "GilbertElliott",
    "LinkSettings",
    "Lognormal",
    "Masked",
    "Pareto",
    "Recorded",
    "Scenario",
    "Seeds",
    "SourceSettings",
    "Span",
    "StreamSchema",
    "TwoPeak",
    "Uniform",
    "data_directory",
    "simulate_to",
]
