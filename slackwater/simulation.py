"""The simulator, for scenarios: devices with clocks behind links, and the truth about them."""

from __future__ import annotations

from slackwater.edge_agent.abstraction.settings import AbstractSettings
from slackwater.edge_agent.messages import StreamSchema
from slackwater.edge_agent.packing import Codes, MaskedColumn
from slackwater.edge_agent.settings_file import line_numbers, line_of
from slackwater.simulator.clocks import ClockSettings
from slackwater.simulator.delays import Constant, Exponential, Lognormal, Pareto, TwoPeak, Uniform
from slackwater.simulator.digest import FrameDigest
from slackwater.simulator.links import LinkSettings, Outage
from slackwater.simulator.losses import Bernoulli, GilbertElliott
from slackwater.simulator.recorded import DelaySettings, RecordedSettings, data_directory
from slackwater.simulator.run import LOG, MANIFEST, TRUTH, simulate_to
from slackwater.simulator.scenario import START_NS, GatewayPlace, Scenario, SourceSettings
from slackwater.simulator.scenario_file.building import FileScenario
from slackwater.simulator.scenario_file.building import build as build_from_tables
from slackwater.simulator.scenario_file.long_runs import run_time_hints
from slackwater.simulator.scenario_file.recording import RecordedStream
from slackwater.simulator.scenario_file.schema import schema as scenario_file_schema
from slackwater.simulator.seeds import Seeds
from slackwater.simulator.true_intervals import Made, made_streams, with_intervals
from slackwater.simulator.truth import TRUTH_PREFIX
from slackwater.simulator.workload import Batch, Span

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
    "MaskedColumn",
    "Outage",
    "Pareto",
    "RecordedSettings",
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
    "run_time_hints",
    "scenario_file_schema",
    "simulate_to",
    "with_intervals",
]
