"""For authors of scenarios: the contract with ``slackwater run``, and the parts of a score.

``RunnableScenario`` is the contract (``engine.scenario`` has the layout of a run's folder);
``slackwater.run`` takes such an object. ``slackwater.simulation`` makes a log from devices,
``slackwater.log`` from a recording, and ``slackwater.measures`` measures orders.
"""

from __future__ import annotations

from slackwater.edge_agent.errors import did_you_mean
from slackwater.edge_agent.units import NS_PER
from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.core.clocks.choice import read_clock
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.units import number, parse_duration, percent
from slackwater.engine.hosts.options import read_tables
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.output.export import read_results
from slackwater.engine.query import query as parse_query
from slackwater.engine.query.analysis.cascade import StatementError, parse_queries, statement_names
from slackwater.engine.query.plan import Plan, statement_plan
from slackwater.engine.query.reference_tables import NO_TABLES, Tables
from slackwater.engine.query.results_as_events import check_attributes, sources_of, time_columns
from slackwater.engine.scenario import (
    Bar,
    Chart,
    Claim,
    Pass,
    RunnableScenario,
    Score,
    Series,
    Table,
    Tile,
    Timeline,
    Unit,
)

__all__ = [
    "NO_TABLES",
    "NS_PER",
    "Bar",
    "Chart",
    "Claim",
    "Guards",
    "Pass",
    "Plan",
    "RunnableScenario",
    "Score",
    "Series",
    "StatementError",
    "Table",
    "Tables",
    "Tile",
    "Timeline",
    "Unit",
    "UserError",
    "check_attributes",
    "did_you_mean",
    "number",
    "parse_barrier",
    "parse_duration",
    "parse_order",
    "parse_queries",
    "parse_query",
    "percent",
    "read_clock",
    "read_results",
    "read_tables",
    "sources_of",
    "statement_names",
    "statement_plan",
    "time_columns",
]
