"""Arrival logs, for scenarios that make one from a recording, frame by frame."""

from __future__ import annotations

from slackwater.edge_agent import records
from slackwater.edge_agent.records import DEFAULT_SITE, Kind
from slackwater.engine.core.frame import ATTR_PREFIX, FIXED_TYPES, STRING, Frame
from slackwater.engine.log.arrival_log import LogReader, LogWriter

__all__ = [
    "ATTR_PREFIX",
    "DEFAULT_SITE",
    "FIXED_TYPES",
    "STRING",
    "Frame",
    "Kind",
    "LogReader",
    "LogWriter",
    "records",
]
