"""The simulator, for scenarios: devices with clocks behind links, and what is true of them."""

from __future__ import annotations

from edge_agent.abstraction.settings import AbstractSettings
from edge_agent.messages import StreamSchema
from edge_agent.packing import Codes, Masked
from edge_agent.settings_file import line_numbers, line_of
from simulator.clocks import ClockSettings
from simulator.delays import Constant, Exponential, Lognormal, Pareto, TwoPeak, Uniform
from simulator.digest import FrameDigest
from simulator.links import LinkSettings, Outage
from simulator.losses import Bernoulli, GilbertElliott
from simulator.recorded import DelaySettings, Recorded, data_directory
from simulator.run import LOG, MANIFEST, TRUTH, simulate_to
from simulator.scenario import START_NS, GatewayPlace, Scenario, SourceSettings
from simulator.scenario_file.building import FileScenario
from simulator.scenario_file.building import build as build_from_tables
from simulator.scenario_file.long_runs import told_of as told_of_long_runs
from simulator.scenario_file.recording import RecordedStream
from simulator.scenario_file.schema import schema as scenario_file_schema
from simulator.seeds import Seeds
from simulator.true_intervals import Made, made_streams, with_intervals
from simulator.truth import TRUTH_PREFIX
from simulator.workload import Batch, Span

__all__ = [
    "LOG",
    "MANIFEST",
    "START_NS",
    "TRUTH",
    "TRUTH_PREFIX",
    "AbstractSettings",
    "Batch",
    "Bernoulli",
    "ClockSettings",
    "Codes",
    "Constant",
    "DelaySettings",
    "Exponential",
    "FileScenario",
    "FrameDigest",
    "GatewayPlace",
    "GilbertElliott",
    "LinkSettings",
    "Lognormal",
    "Made",
    "Masked",
    "Outage",
    "Pareto",
    "Recorded",
    "RecordedStream",
    "Scenario",
    "Seeds",
    "SourceSettings",
    "Span",
    "StreamSchema",
    "TwoPeak",
    "Uniform",
    "build_from_tables",
    "data_directory",
    "line_numbers",
    "line_of",
    "made_streams",
    "scenario_file_schema",
    "simulate_to",
    "told_of_long_runs",
    "with_intervals",
]
