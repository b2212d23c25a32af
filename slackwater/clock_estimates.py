"""Offsets of clocks, their bounds, and how to declare them."""

from __future__ import annotations

from typing import Any

from slackwater.engine.apps.report.numbers import plain
from slackwater.engine.apps.validate.clock_reports import clock_reports
from slackwater.engine.log.arrival_log import LogReader
from slackwater.inputs import Input, Source, opened
from slackwater.translate_options import translate_options


@translate_options
def clocks(source: Source | Input) -> list[dict[str, Any]]:
    """Each clock that stamped events: how far it is off, and how well that is known.

    By its syncs, or by arrivals less stamps: an event arrives after it happened, so the least
    difference is the largest offset. That the clock is slow and not the way long, it cannot tell.

    Args:
        source: what ``read`` gave, or takes.

    Returns:
        per clock ``site name sources events known_by`` (``syncs arrivals nothing``), ``offset_ns``
        (to be added to its times), ``low_ns``, ``high_ns``, ``skew_ppb``, ``steps``,
        ``resolution_ns``, ``jitter_ns``, ``syncs``, ``last_sync_ns``, ``age_ns``, ``declared_ns``
        (the largest bound of its events), ``lag_ns`` (how much later than that allows each event
        came at least), ``clock`` (how to declare it), and ``at_ns`` with
        ``series_ns``, its offset over time; None where it is unknown.

    >>> events = {"source": ["a"] * 5, "ts": [0, 10, 20, 30, 40], "arrival": [5, 16, 25, 35, 45]}
    >>> [(each["known_by"], each["high_ns"]) for each in clocks(events)]
    [('arrivals', 5)]

    Raises:
        UserError: the input is at fault.
    """
    with opened(source) as data:
        found = clock_reports(LogReader(data.log), arrival_given=data.arrival_given)
    return [plain(each) for each in found]
